"""Blocks of float32, screened in float32: float64 is asked only about the elements and blocks that it could decide.

A quotient of differences computed in float32 is wrong by at most 4 roundings of 2^-24, since none of them underflows.
What it leaves in doubt (a maximum that may be greater than any before, an element at a bound of the histogram, a
number that is not finite) goes to the exact judge, so that every statistic is the exact judge's. In an array of
many blocks that is rare: of n blocks about log n hold a new maximum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array, Buffers, max_ulp
from jaxcheck.compare.tally import BOUNDS, ExactJudge, Judge, Tally, largest

DOUBT = 2.0**-21  # relative: more than these roundings and that of the bound that they are held against
WIDE = 2.0**100  # tolerances between its inverse and itself neither underflow nor overflow in float32
LEAST = 2.0**-100  # a quotient below may have underflowed
STERBENZ = 0.5  # up to this relative difference, the difference of two floats is exact
FLOATS = ("delta", "magnitude", "relative")
ULPS = 2.0**24  # of a float32, in 1: no fewer than there are in its own size


def judge_for(dtype: np.dtype[Any], rtol: float, atol: float) -> Judge:
    """The judge of blocks of one dtype, in native byte order; TypeError as `ruler_for`."""
    exact = ExactJudge(dtype, rtol, atol)
    if dtype != np.float32 or not all(value == 0 or 1 / WIDE < value < WIDE for value in (rtol, atol)):
        return exact
    if rtol and atol and not 1 / WIDE < atol / rtol < WIDE:
        return exact
    return _Screening(exact, rtol, atol)


class _Screening:
    """`quotient` is |actual - golden| / (|golden| + atol / rtol): the violation ratio in units of rtol, whose sums
    cannot underflow. Where rtol is 0 it is |actual - golden|, in units of atol."""

    def __init__(self, exact: ExactJudge, rtol: float, atol: float) -> None:
        self._exact = exact
        self._unit = rtol or atol
        self._offset = np.float32(atol / rtol) if rtol else None
        self._surely_below = [np.float32(bound * self._unit * (1 - DOUBT)) for bound in BOUNDS]
        self._surely_above = [np.float32(bound * self._unit * (1 + DOUBT)) for bound in BOUNDS]
        self._buffers = Buffers()

    def tally(self, golden: Array, actual: Array, before: Tally) -> Tally:
        same = np.equal(golden.view(np.int32), actual.view(np.int32), self._buffers.get("same", np.bool, golden.size))
        bit_equal = int(np.count_nonzero(same))
        if bit_equal == golden.size:
            return Tally(bit_equal=bit_equal)
        delta, magnitude, relative = (self._buffers.get(name, np.float32, golden.size) for name in FLOATS)
        np.abs(np.subtract(actual, golden, delta), delta)
        max_abs = float(np.maximum.reduce(delta))
        if math.isnan(max_abs) and self._cleared(delta, same):
            max_abs = float(np.maximum.reduce(delta))
        np.divide(delta, np.abs(golden, magnitude), relative)
        max_rel = float(np.maximum.reduce(relative))
        moved = golden.size - bit_equal
        if math.isnan(max_rel):  # 0/0: two zeros need not have the same bits
            max_rel, moved = largest(relative), self._count(np.greater, delta, 0)
        exact_abs = max_rel < STERBENZ
        quotient = self._quotient(delta, magnitude, relative)
        most = largest(quotient)
        in_doubt = (
            not math.isfinite(max_abs)
            or _may_exceed(max_rel, before.max_rel)
            or _may_exceed(self._ratio(most), before.ratio)
            or (most < LEAST and max_abs > 0)
            or (not exact_abs and _may_exceed(max_abs, before.max_abs))
        )
        if in_doubt:
            return self._exact.tally(golden, actual, before)
        return Tally(
            bit_equal=bit_equal,
            above=(moved, *(self._above(place, golden, actual, quotient, most) for place in range(1, len(BOUNDS)))),
            max_abs=max_abs if exact_abs else 0.0,
            max_ulp=0 if _most_ulps(max_rel) <= before.max_ulp else max_ulp(golden, actual, self._buffers),
        )

    def _cleared(self, delta: Array, same: Array) -> bool:
        """Whether NaN and infinity only meet their own bits; then they do not differ."""
        finite = np.isfinite(delta, self._buffers.get("finite", np.bool, delta.size))
        if not np.logical_or(finite, same, same).all():
            return False
        words = delta.view(np.int32)
        np.multiply(words, finite, words)  # of a word, in one pass without a branch
        return True

    def _quotient(self, delta: Array, magnitude: Array, relative: Array) -> Array:
        """The last of them is overwritten, unless it is what is asked for."""
        if self._offset is None:
            return delta
        if self._offset == 0:
            return relative
        return np.divide(delta, np.add(magnitude, self._offset, out=magnitude), out=relative)

    def _ratio(self, quotient: float) -> float:
        return quotient / self._unit if self._unit else math.inf if quotient else 0.0

    def _above(self, place: int, golden: Array, actual: Array, quotient: Array, most: float) -> int:
        """How many ratios are above that bound."""
        if most <= self._surely_below[place]:
            return 0
        surely = self._count(np.greater, quotient, self._surely_above[place])
        if surely == self._count(np.greater, quotient, self._surely_below[place]):
            return surely
        doubtful = (quotient > self._surely_below[place]) & (quotient <= self._surely_above[place])
        return surely + self._exact.tally(golden[doubtful], actual[doubtful], Tally()).above[place]

    def _count(self, compare: np.ufunc, one: Array, other: Any) -> int:
        return int(np.count_nonzero(compare(one, other, self._buffers.get("found", np.bool, one.size))))


def _may_exceed(screened: float, record: float) -> bool:
    return screened * (1 + DOUBT) > record


def _most_ulps(max_rel: float) -> float:
    """An upper bound of the ULPs between floats of one sign; none is known where they may have other signs."""
    return max_rel * (1 + 2 * max_rel) * (1 + DOUBT) * ULPS + 1 if max_rel < STERBENZ else math.inf
