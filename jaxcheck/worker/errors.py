"""The error of one value against the exact one, in eps of the output's scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Measured:
    """`error` is in eps of the scale, infinite where one is finite and the other is not; `worst` is its index."""

    error: float
    worst: tuple[int, ...] = ()


NONE = Measured(0.0)


@dataclass(frozen=True)
class Format:
    """What a dtype can hold: its eps, its smallest normal number and its largest, as float64, and whether it has
    infinities: where not (most kinds of float8), what is too large becomes NaN."""

    eps: float
    tiny: float
    largest: float
    infinities: bool = True

    @classmethod
    def of(cls, dtype: Any) -> Format:
        if dtype not in _FORMATS:
            info = jnp.finfo(dtype)
            with np.errstate(all="ignore"):
                infinities = bool(np.isinf(np.asarray(np.inf).astype(info.dtype)))
            _FORMATS[dtype] = cls(float(info.eps), float(info.tiny), float(info.max), infinities)
        return _FORMATS[dtype]


_FORMATS: dict[Any, Format] = {}


def wide(value: Any) -> Array:
    """On the host, as float64 or complex128."""
    array = np.asarray(value)
    return array.astype(np.complex128 if jnp.issubdtype(array.dtype, jnp.complexfloating) else np.float64)


def size(exact: Array) -> float:
    """The largest finite magnitude."""
    magnitudes = np.abs(exact)
    return float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))


def measured(value: Array, exact: Array, held: Format, scale: float | None) -> Measured:
    """The worst element. `scale` None: each element against its own magnitude.

    What overflows in the dtype and is not finite there agrees; below its smallest normal number it may flush to zero.
    """
    if not exact.size:
        return NONE
    with np.errstate(all="ignore"):
        distance = np.abs(value - exact)
        finite = np.isfinite(distance)
        if not finite.all():
            if _agree(value, exact, held).all():
                distance = np.where(finite, distance, 0.0)
            else:
                worst = np.unravel_index(int(np.argmin(_agree(value, exact, held))), exact.shape)
                return Measured(float("inf"), tuple(map(int, worst)))
        scales = np.abs(exact) if scale is None else np.float64(scale)
        least = held.tiny / held.eps
        relative = np.maximum(distance - held.tiny, 0.0) / np.maximum(np.where(np.isfinite(scales), scales, 1.0), least)
    flat = int(np.argmax(relative))
    worst = np.unravel_index(flat, exact.shape)
    return Measured(float(relative.reshape(-1)[flat]) / held.eps, tuple(map(int, worst)))


def conditioned(value: Array, exact: Array, moved: Array, held: Format) -> tuple[Measured, float]:
    """(the error of the element that is furthest beyond what it is allowed, how many times more than others it is).

    `moved` is how far each element of the exact result moves with its inputs' own rounding. Elements that it moves by
    half of themselves (`tan` next to a pole) give no scale for the others.
    """
    with np.errstate(all="ignore"):
        certain = np.isfinite(exact) & (moved < np.abs(exact) / 2)
        unit = max(size(exact[certain]) * held.eps, held.tiny)
        distance = np.maximum(np.abs(value - exact) - held.tiny, 0.0)
        agree = _agree(value, exact, held)
        distance = np.where(agree & ~np.isfinite(distance), 0.0, np.where(agree, distance, np.inf))
        allowed = 1 + np.where(np.isnan(moved), np.inf, moved) / unit
        excess = np.where(np.isinf(allowed), 0.0, distance / unit / allowed)
    worst = np.unravel_index(int(np.argmax(excess)), exact.shape)
    return Measured(float(distance[worst] / unit), tuple(map(int, worst))), float(allowed[worst])


def _agree(value: Array, exact: Array, held: Format) -> Array:
    """Where both are finite, both NaN, both the same infinity, or one of them as large as the dtype allows."""
    nearly = held.largest * (1 - min(8 * held.eps, 0.5))  # an eps of float8 is up to 1/4
    large = np.abs(exact) >= nearly
    beyond = large & (np.abs(value) >= nearly)
    same_sign = np.signbit(value.real) == np.signbit(exact.real)
    same: Array = (np.isfinite(value) & np.isfinite(exact)) | (np.isnan(value) & np.isnan(exact)) | (beyond & same_sign)
    return same if held.infinities else same | (large & np.isnan(value))


def distances(one: Array, other: Array) -> Array:
    """Of each element: 0 where both are the same infinity or NaN, infinite where only one is."""
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def relative(one: Array, other: Array) -> float:
    """The largest distance as a part of the largest magnitude of `other`; over elements that are finite in both."""
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
        moved = float(np.max(distance, where=np.isfinite(distance), initial=0.0))
    scale = size(other)
    return moved / scale if scale else (float("inf") if moved else 0.0)


def flushed(array: Array, held: Format) -> Array:
    """With zero in the place of subnormal numbers."""
    return np.where(np.abs(array) < held.tiny, array * 0, array)
