"""What is known of the elements seen so far, and the judge that measures a block of them exactly, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jaxcheck.compare.distances import Array, Buffers, Distances, ruler_for

# Bounds of the violation ratio between the classes of the histogram; up to the one of 1 an element is within.
BOUNDS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
LABELS = ("0", "<=1e-3", "<=1e-2", "<=1e-1", "<=1", "<=10", "<=100", ">100")


@dataclass(frozen=True)
class Tally:
    """What is known of the elements seen so far; `above` counts the ratios above each of BOUNDS."""

    bit_equal: int = 0
    nonfinite: int = 0
    above: tuple[int, ...] = (0,) * len(BOUNDS)
    ratio: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int = 0
    worst: int | None = None

    def followed_by(self, later: Tally, start: int) -> Tally:
        """The tally of both; `later` counts its elements from position `start`."""
        worse = self.nonfinite == 0 and (later.nonfinite > 0 or later.ratio > self.ratio)
        return Tally(
            bit_equal=self.bit_equal + later.bit_equal,
            nonfinite=self.nonfinite + later.nonfinite,
            above=tuple(mine + its for mine, its in zip(self.above, later.above, strict=True)),
            ratio=max(self.ratio, later.ratio),
            max_abs=max(self.max_abs, later.max_abs),
            max_rel=max(self.max_rel, later.max_rel),
            max_ulp=max(self.max_ulp, later.max_ulp),
            worst=start + later.worst if worse and later.worst is not None else self.worst,
        )


class Judge(Protocol):
    """Tallies block after block of one dtype under one tolerance."""

    def tally(self, golden: Array, actual: Array, before: Tally) -> Tally:
        """Of one block, in native byte order. What cannot change `before`, to which it will be added, may be left out:
        a maximum that is no greater, a worst position that is no worse."""
        ...


class ExactJudge:
    """Of any dtype: every number of a tally is what float64 makes of the definition."""

    def __init__(self, dtype: np.dtype[Any], rtol: float, atol: float) -> None:
        self._ruler = ruler_for(dtype)
        self._rtol = rtol
        self._atol = atol
        self._buffers = Buffers()

    def tally(self, golden: Array, actual: Array, before: Tally) -> Tally:
        bit_equal = self._ruler.count_bit_equal(golden, actual)
        if bit_equal == golden.size:
            return Tally(bit_equal=bit_equal)
        found = self._ruler.measure(golden, actual)
        # 0/0 leaves a NaN in both quotients. It says "did not move", and no maximum or count below sees it.
        ratio = self._violation_ratio(found)
        relative = np.divide(found.delta, found.magnitude, out=found.magnitude)
        most = largest(ratio)
        nonfinite = int(np.count_nonzero(found.disagree))
        worst = None
        if nonfinite or most > before.ratio:
            worst = int(np.argmax(found.disagree if nonfinite else ratio == most))
        return Tally(
            bit_equal=bit_equal,
            nonfinite=nonfinite,
            above=tuple(self._count_above(bound, ratio) if most > bound else 0 for bound in BOUNDS),
            ratio=most,
            max_abs=found.max_abs,
            max_rel=largest(relative),
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


def largest(values: Array) -> float:
    """The maximum of those that are not NaN; 0 if there are none."""
    most = float(np.fmax.reduce(values))
    return 0.0 if math.isnan(most) else most
