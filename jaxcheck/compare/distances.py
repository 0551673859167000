"""What lies between two blocks of numbers: differences, magnitudes, ULPs, and where NaN and infinity disagree."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# A power of two that keeps twice the largest float64 finite; what it flushes to zero is lost beside such numbers.
SHRINK = 2.0**-600


@dataclass(frozen=True)
class Distances:
    """Of the elements of two blocks of one length; every number here is finite but `max_abs`, which may overflow.

    `delta` is |actual - golden| and `magnitude` is |golden|, both in float64 and times `scale`. `disagree` marks
    where a NaN or an infinity meets something else: there, as where they agree, `delta` is 0. The arrays are the
    ruler's own and hold until it measures again.
    """

    delta: Array
    magnitude: Array
    max_abs: float
    max_ulp: int
    disagree: Array | bool = False
    scale: float | Array = 1.0


class Ruler(Protocol):
    """Measures block after block of one dtype, in native byte order."""

    def count_bit_equal(self, golden: Array, actual: Array) -> int: ...

    def measure(self, golden: Array, actual: Array) -> Distances: ...


def ruler_for(dtype: np.dtype[Any]) -> Ruler:
    """Raises TypeError for a dtype that is not a number of bool, NumPy up to complex128, or ml_dtypes."""
    if is_integer(dtype):
        return _IntegerRuler()
    if is_extended(dtype):
        supported = dtype.name.startswith(("float", "bfloat"))
    else:
        supported = (dtype.kind == "f" and dtype.itemsize <= 8) or (dtype.kind == "c" and dtype.itemsize <= 16)
    if not supported:
        raise TypeError(
            f"cannot compare arrays of dtype {dtype}: valid are bool, integers, floats and complex numbers of up to "
            "64 bits a component, and the dtypes of ml_dtypes (view stored words as their dtype first)"
        )
    return _FloatRuler()


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether differences are exact: booleans, integers, and those of ml_dtypes (int4, uint2, ...)."""
    if is_extended(dtype):
        return dtype.name.startswith(("int", "uint"))
    return dtype.kind in "bui"


def is_extended(dtype: np.dtype[Any]) -> bool:
    """Whether another package gave NumPy the dtype: ml_dtypes, which need not be imported to find out."""
    return dtype.isbuiltin == 2


class Buffers:
    """Arrays used again for every block: fresh ones of that size cost more in page faults than in arithmetic."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def get(self, name: str, dtype: Any, length: int) -> Array:
        """An array to write to. A name stands for one dtype."""
        array = self._arrays.get(name)
        if array is None or array.size < length:
            array = self._arrays[name] = np.empty(length, dtype)
        return array if array.size == length else array[:length]


class _IntegerRuler:
    """Exact: a difference is taken in the unsigned type of the same width, where it cannot wrap."""

    def __init__(self) -> None:
        self._buffers = Buffers()

    def count_bit_equal(self, golden: Array, actual: Array) -> int:
        return _count_equal_words(golden, actual, self._buffers)

    def measure(self, golden: Array, actual: Array) -> Distances:
        golden, actual = _as_builtin_integers(golden), _as_builtin_integers(actual)
        gaps = _gaps(golden, actual, self._buffers)
        delta = self._buffers.get("delta", np.float64, golden.size)
        magnitude = self._buffers.get("magnitude", np.float64, golden.size)
        np.copyto(delta, gaps)
        np.copyto(magnitude, golden)
        largest = int(gaps.max())
        return Distances(delta, np.abs(magnitude, out=magnitude), max_abs=float(largest), max_ulp=largest)


class _FloatRuler:
    """Real and complex: float64 differences; of a complex number the modulus, which does not overflow midway."""

    def __init__(self) -> None:
        self._buffers = Buffers()

    def count_bit_equal(self, golden: Array, actual: Array) -> int:
        return _count_equal_words(golden, actual, self._buffers)

    def measure(self, golden: Array, actual: Array) -> Distances:
        """A first pass takes all to be finite, and the rare blocks that are not are measured again."""
        disagree: Array | bool = False
        scale: Array | None = None
        delta, magnitude = self._widen(golden, actual)
        if not _all_finite(delta, magnitude, golden):
            golden, actual, disagree = _without_nonfinite(golden, actual)
            delta, magnitude = self._widen(golden, actual)
        max_abs = float(delta.max())
        if not _all_finite(delta, magnitude, golden):
            scale = np.where(np.isfinite(delta) & np.isfinite(magnitude), 1.0, SHRINK)
            delta, magnitude = self._widen(golden, actual, scale)
        most_ulps = max_ulp(_parts(golden), _parts(actual), self._buffers)
        return Distances(delta, magnitude, max_abs, most_ulps, disagree, 1.0 if scale is None else scale)

    def _widen(self, golden: Array, actual: Array, scale: Array | None = None) -> tuple[Array, Array]:
        """|actual - golden| and |golden|, of both times `scale`."""
        wide = np.complex128 if golden.dtype.kind == "c" else np.float64
        wide_golden = self._buffers.get("golden", wide, golden.size)
        wide_actual = self._buffers.get("actual", wide, golden.size)
        np.copyto(wide_golden, golden)
        np.copyto(wide_actual, actual)
        if scale is not None:
            wide_golden *= scale
            wide_actual *= scale
        wide_actual -= wide_golden
        delta = np.abs(wide_actual, out=self._buffers.get("delta", np.float64, golden.size))
        magnitude = np.abs(wide_golden, out=self._buffers.get("magnitude", np.float64, golden.size))
        return delta, magnitude


def _all_finite(delta: Array, magnitude: Array, golden: Array) -> bool:
    """The modulus of a finite complex number can overflow by itself; all else shows in the differences."""
    return math.isfinite(delta.max()) and (golden.dtype.kind != "c" or math.isfinite(magnitude.max()))


def _without_nonfinite(golden: Array, actual: Array) -> tuple[Array, Array, Array]:
    """Copies with a 1 in place of every NaN, infinity and partner of one, and where such partners disagree.

    Complex numbers component by component, so that NaN+1j is still compared with NaN+2j by its other component;
    where one component disagrees both are replaced.
    """
    golden_parts, actual_parts = _parts(golden.copy()), _parts(actual.copy())
    wide_golden, wide_actual = golden_parts.astype(np.float64), actual_parts.astype(np.float64)
    replaced = ~(np.isfinite(wide_golden) & np.isfinite(wide_actual))
    agree = (wide_golden == wide_actual) | (np.isnan(wide_golden) & np.isnan(wide_actual))
    disagree = (replaced & ~agree).reshape(golden.size, -1).any(axis=1)
    replaced |= np.repeat(disagree, golden_parts.size // golden.size)
    golden_parts[replaced] = 1
    actual_parts[replaced] = 1
    return golden_parts.view(golden.dtype), actual_parts.view(golden.dtype), disagree


def _parts(array: Array) -> Array:
    """Real and imaginary parts in turn, as a view; a real array as it is."""
    return array.view(f"f{array.itemsize // 2}") if array.dtype.kind == "c" else array


def _as_builtin_integers(array: Array) -> Array:
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if is_extended(array.dtype):
        return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)
    return array


def _count_equal_words(golden: Array, actual: Array, buffers: Buffers) -> int:
    words = np.uint64 if golden.itemsize > 8 else f"u{golden.itemsize}"
    golden_words, actual_words = golden.view(words), actual.view(words)
    equal = buffers.get("equal", np.bool, golden_words.size)
    np.equal(golden_words, actual_words, out=equal)
    if equal.size > golden.size:
        equal = np.logical_and(equal[::2], equal[1::2])
    return int(np.count_nonzero(equal))


def _gaps(golden: Array, actual: Array, buffers: Buffers) -> Array:
    """|actual - golden| of integers, in the unsigned type of their width: high - low fits it."""
    unsigned = f"u{golden.itemsize}"
    high = np.maximum(golden, actual, out=buffers.get("high", golden.dtype, golden.size)).view(unsigned)
    low = np.minimum(golden, actual, out=buffers.get("low", golden.dtype, golden.size)).view(unsigned)
    gaps: Array = np.subtract(high, low, out=high)
    return gaps


def max_ulp(golden: Array, actual: Array, buffers: Buffers) -> int:
    """The most representable values that one has to step over from golden to actual; both finite and real."""
    if golden.itemsize == 1:
        ranks = _byte_ranks(golden.dtype)
        return int(_gaps(ranks[golden.view(np.uint8)], ranks[actual.view(np.uint8)], buffers).max())
    golden_words, actual_words = golden.view(f"i{golden.itemsize}"), actual.view(f"i{golden.itemsize}")
    scratch = buffers.get("scratch", golden_words.dtype, golden.size)
    if np.bitwise_xor(golden_words, actual_words, out=scratch).min() >= 0:  # equal signs: the words cannot wrap
        np.subtract(actual_words, golden_words, out=scratch)
        return max(int(scratch.max()), -int(scratch.min()))
    golden_ordinals = _ordinals(golden_words, buffers.get("golden ordinals", scratch.dtype, golden.size), scratch)
    actual_ordinals = _ordinals(actual_words, buffers.get("actual ordinals", scratch.dtype, golden.size), scratch)
    return int(_gaps(golden_ordinals, actual_ordinals, buffers).max())


def _ordinals(words: Array, out: Array, scratch: Array) -> Array:
    """Integers in the order of the floats that the words hold, consecutive for neighbours, 0 for both zeros.

    A float is a sign bit and a magnitude: the ordinal is the magnitude with that sign (-m = (m ^ -1) - -1).
    """
    sign = np.right_shift(words, 8 * words.itemsize - 1, out=scratch)
    np.bitwise_and(words, np.iinfo(words.dtype).max, out=out)
    np.bitwise_xor(out, sign, out=out)
    return np.subtract(out, sign, out=out)


@functools.cache
def _byte_ranks(dtype: np.dtype[Any]) -> Array:
    """Ordinals of the 256 words of a one-byte float, whose formats differ in width, sign, zeros and NaNs."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    ranks: Array = np.searchsorted(np.unique(values), values).astype(np.int16)
    return ranks


def ulp_distances(golden: Array, actual: Array) -> Array:
    """Representable values from golden to actual, of every element; 0 where either is NaN or infinite.

    Of real numbers and integers, in any shape and layout.
    """
    native = golden.dtype.newbyteorder("=")
    flat_golden, flat_actual = (np.ascontiguousarray(array, native).reshape(-1) for array in (golden, actual))
    if is_integer(golden.dtype):
        integers = _as_builtin_integers(flat_golden), _as_builtin_integers(flat_actual)
        return _gaps(*integers, Buffers()).reshape(golden.shape)
    finite = np.isfinite(flat_golden.astype(np.float64)) & np.isfinite(flat_actual.astype(np.float64))
    counts = _gaps(_all_ordinals(flat_golden), _all_ordinals(flat_actual), Buffers())
    return np.where(finite, counts, 0).reshape(golden.shape)


def _all_ordinals(values: Array) -> Array:
    if values.itemsize == 1:
        return _byte_ranks(values.dtype)[values.view(np.uint8)]
    words = values.view(f"i{values.itemsize}")
    return _ordinals(words, np.empty_like(words), np.empty_like(words))
