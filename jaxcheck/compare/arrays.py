"""Statistics of how far one array moved from another, of any size: block by block, in flat memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array, Buffers, Distances, is_integer, ruler_for
from jaxcheck.results import Statistics, Worst

# Elements at a time: the temporaries of a block stay in the processor's cache, and few calls serve many elements.
BLOCK = 65536
# Bounds of the violation ratio between the classes of the histogram; up to the one of 1 an element is within.
BOUNDS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
LABELS = ("0", "<=1e-3", "<=1e-2", "<=1e-1", "<=1", "<=10", "<=100", ">100")


def compare_arrays(golden: Array, actual: Array, *, rtol: float, atol: float, block: int = BLOCK) -> Statistics:
    """How far `actual` moved from `golden`: of one shape and dtype, contiguous or not, memory-mapped or not.

    Dtypes: bool, integers, float16 to float64, complex64, complex128, and those of ml_dtypes (bfloat16, float8,
    float6, float4, int4 and smaller). `block` is the number of elements taken at a time; no result depends on it.

    An element is within tolerance if |actual - golden| <= atol + rtol * |golden|, computed in float64 (differences
    of integers exactly). A NaN agrees with any NaN and an infinity with itself, of complex numbers in each
    component; where one meets anything else the element counts as `nonfinite` and `mismatched`, makes the
    violation ratio infinite, and stays out of `max_abs`, `max_rel` and `max_ulp`. `worst` is the first such
    element, else the first of those with the largest ratio, and None if every ratio is 0. `max_rel` takes
    0 against 0 as 0, and anything else against a golden 0 as infinite.

    Raises ValueError for unequal shapes or dtypes, a negative or non-finite tolerance, or a block below 1;
    TypeError for a dtype that is not a number.
    """
    _refuse_the_incomparable(golden, actual)
    if not (0 <= rtol < math.inf and 0 <= atol < math.inf and block >= 1):
        raise ValueError(f"rtol={rtol}, atol={atol}, block={block}: tolerances are finite and >= 0, blocks >= 1")
    judge = _Judge(golden.dtype, rtol, atol)
    total = _Tally()
    with np.errstate(all="ignore"):
        for start, golden_block, actual_block in _blocks(golden, actual, block):
            total = total.followed_by(judge.tally(golden_block, actual_block, total.ratio), start)
        return _statistics(golden, actual, total, rtol, atol)


def _refuse_the_incomparable(golden: Array, actual: Array) -> None:
    if golden.dtype != actual.dtype:
        raise ValueError(f"arrays of dtype {golden.dtype} and {actual.dtype} cannot be compared")
    if golden.shape != actual.shape:
        raise ValueError(f"arrays of shape {golden.shape} and {actual.shape} cannot be compared")


def _blocks(golden: Array, actual: Array, block: int) -> Iterator[tuple[int, Array, Array]]:
    """Pairs of one-dimensional pieces in C order and native byte order, and where they start."""
    flat_golden, flat_actual = _flat(golden), _flat(actual)
    native = golden.dtype.newbyteorder("=")
    for start in range(0, golden.size, block):
        piece = slice(start, start + block)
        yield start, flat_golden[piece].astype(native, copy=False), flat_actual[piece].astype(native, copy=False)


def _flat(array: Array) -> Any:
    """The elements in C order, sliceable; a non-contiguous array is copied by the slice, never whole."""
    plain = np.asarray(array)
    return plain.reshape(-1) if plain.flags.c_contiguous else plain.flat


@dataclass(frozen=True)
class _Tally:
    """What is known of the elements seen so far; `above` counts the ratios above each of BOUNDS."""

    bit_equal: int = 0
    nonfinite: int = 0
    above: tuple[int, ...] = (0,) * len(BOUNDS)
    ratio: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int = 0
    worst: int | None = None

    def followed_by(self, later: _Tally, start: int) -> _Tally:
        """The tally of both; `later` counts its elements from position `start`."""
        worse = self.nonfinite == 0 and (later.nonfinite > 0 or later.ratio > self.ratio)
        return _Tally(
            bit_equal=self.bit_equal + later.bit_equal,
            nonfinite=self.nonfinite + later.nonfinite,
            above=tuple(mine + its for mine, its in zip(self.above, later.above, strict=True)),
            ratio=max(self.ratio, later.ratio),
            max_abs=max(self.max_abs, later.max_abs),
            max_rel=max(self.max_rel, later.max_rel),
            max_ulp=max(self.max_ulp, later.max_ulp),
            worst=start + later.worst if worse and later.worst is not None else self.worst,
        )


class _Judge:
    """Tallies block after block of one dtype under one tolerance."""

    def __init__(self, dtype: np.dtype[Any], rtol: float, atol: float) -> None:
        self._ruler = ruler_for(dtype)
        self._rtol = rtol
        self._atol = atol
        self._buffers = Buffers()

    def tally(self, golden: Array, actual: Array, record: float) -> _Tally:
        """Of one block. Its worst position is looked for only where it can break the `record` ratio."""
        bit_equal = self._ruler.count_bit_equal(golden, actual)
        if bit_equal == golden.size:
            return _Tally(bit_equal=bit_equal)
        found = self._ruler.measure(golden, actual)
        # 0/0 leaves a NaN in both quotients. It says "did not move", and no maximum or count below sees it.
        ratio = self._violation_ratio(found)
        relative = np.divide(found.delta, found.magnitude, out=found.magnitude)
        largest = _largest(ratio)
        nonfinite = int(np.count_nonzero(found.disagree))
        worst = None
        if nonfinite or largest > record:
            worst = int(np.argmax(found.disagree if nonfinite else ratio == largest))
        return _Tally(
            bit_equal=bit_equal,
            nonfinite=nonfinite,
            above=tuple(self._count_above(bound, ratio) if largest > bound else 0 for bound in BOUNDS),
            ratio=largest,
            max_abs=found.max_abs,
            max_rel=_largest(relative),
            max_ulp=found.max_ulp,
            worst=worst,
        )

    def _violation_ratio(self, found: Distances) -> Array:
        ratio = np.multiply(found.magnitude, self._rtol, out=self._buffers.get("ratio", np.float64, found.delta.size))
        ratio += self._atol * found.scale
        return np.divide(found.delta, ratio, out=ratio)

    def _count_above(self, bound: float, ratio: Array) -> int:
        above = self._buffers.get("above", np.bool, ratio.size)
        return int(np.count_nonzero(np.greater(ratio, bound, out=above)))


def _largest(values: Array) -> float:
    """The maximum of those that are not NaN; 0 if there are none."""
    largest = float(np.fmax.reduce(values))
    return 0.0 if math.isnan(largest) else largest


def _statistics(golden: Array, actual: Array, total: _Tally, rtol: float, atol: float) -> Statistics:
    return Statistics(
        size=golden.size,
        bit_equal=total.bit_equal,
        mismatched=total.above[BOUNDS.index(1.0)] + total.nonfinite,
        nonfinite=total.nonfinite,
        violation_ratio=math.inf if total.nonfinite else total.ratio,
        max_abs=total.max_abs,
        max_rel=total.max_rel,
        max_ulp=total.max_ulp,
        worst=None if total.worst is None else _worst(golden, actual, total.worst, rtol, atol),
        histogram=_histogram(golden.size, total),
    )


def _histogram(size: int, total: _Tally) -> dict[str, int]:
    at_least = (size - total.nonfinite, *total.above, 0)
    counts = (more - fewer for more, fewer in pairwise(at_least))
    return {**dict(zip(LABELS, counts, strict=True)), "nonfinite": total.nonfinite}


def _worst(golden: Array, actual: Array, position: int, rtol: float, atol: float) -> Worst:
    index = tuple(int(i) for i in np.unravel_index(position, golden.shape))
    magnitude = float(np.abs(golden[index].astype(np.complex128)))
    return Worst(
        index=index,
        golden=_json_scalar(golden[index]),
        actual=_json_scalar(actual[index]),
        allowed=atol + rtol * magnitude if math.isfinite(magnitude) else 0.0,
    )


def _json_scalar(value: Any) -> bool | int | float | str:
    """As JSON can say it: text for complex numbers (`1+2j`) and for what is not finite (`nan`, `inf`, `-inf`)."""
    if value.dtype.kind == "b":
        return bool(value)
    if is_integer(value.dtype):
        return int(value)
    if value.dtype.kind == "c":
        return str(value).strip("()")
    number = float(value)
    return number if math.isfinite(number) else str(number)
