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
    """What a dtype can hold: its eps, its smallest normal number and its largest, as float64."""

    eps: float
    tiny: float
    largest: float

    @classmethod
    def of(cls, dtype: Any) -> Format:
        info = jnp.finfo(dtype)
        return cls(float(info.eps), float(info.tiny), float(info.max))


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


def _agree(value: Array, exact: Array, held: Format) -> Array:
    """Where both are finite, both NaN, both the same infinity, or one of them as large as the dtype allows."""
    nearly = held.largest * (1 - 8 * held.eps)
    beyond = (np.abs(exact) >= nearly) & (np.abs(value) >= nearly)
    same_sign = np.signbit(value.real) == np.signbit(exact.real)
    same: Array = (np.isfinite(value) & np.isfinite(exact)) | (np.isnan(value) & np.isnan(exact)) | (beyond & same_sign)
    return same


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
