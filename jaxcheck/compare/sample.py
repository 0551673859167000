"""Where and how an array moved, in few numbers: what a report can draw without the arrays."""

from __future__ import annotations

import math

import numpy as np

from jaxcheck.compare.arrays import BLOCK
from jaxcheck.compare.distances import Array, is_extended
from jaxcheck.compare.subject import Tolerance, ratios, wide
from jaxcheck.results import Sample

BINS, ROWS, COLUMNS = 64, 20, 20
PAIRS = 64
# A picture shows no more digits, and a report should not hold them.
RATIO_DIGITS, VALUE_DIGITS = 3, 6


def sample_of(golden: Array, actual: Array, tolerance: Tolerance, worst: tuple[int, ...] | None = None) -> Sample:
    """A sample of two arrays of one shape and dtype, each a number. They are read block by block.

    `worst` is an element that is to be among the values.
    """
    zero = tolerance.rtol == tolerance.atol == 0
    theirs, mine = _values(golden, actual, worst)
    return Sample(
        measure="difference" if zero else "violation ratio",
        by_position=_by_position(golden, actual, tolerance, difference=zero),
        golden=theirs,
        actual=mine,
    )


def _by_position(
    golden: Array, actual: Array, tolerance: Tolerance, *, difference: bool
) -> tuple[tuple[float, ...], ...]:
    """The largest measure in each bin; nothing for an array of one element, which has no positions."""
    if golden.size < 2:
        return ()
    rows, columns = _as_matrix(golden.shape)
    down, across = (1, min(columns, BINS)) if rows == 1 else (min(rows, ROWS), min(columns, COLUMNS))
    largest = np.zeros(down * across)
    flat_golden, flat_actual = golden.reshape(-1), actual.reshape(-1)
    for start in range(0, golden.size, BLOCK):
        theirs, mine = (wide(flat[start : start + BLOCK]) for flat in (flat_golden, flat_actual))
        at = np.arange(start, start + theirs.size)
        bins = (at // columns * down // rows) * across + at % columns * across // columns
        np.maximum.at(largest, bins, _differences(theirs, mine) if difference else ratios(theirs, mine, tolerance))
    return tuple(tuple(map(_rounded, row)) for row in largest.reshape(down, across).tolist())


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of an array with its leading axes flattened; an array along one axis is one row."""
    long = [length for length in shape if length > 1]
    return math.prod(long[:-1]), long[-1]


def _differences(golden: Array, actual: Array) -> Array:
    """|actual - golden|, infinite where a NaN or an infinity meets something else."""
    with np.errstate(all="ignore"):
        same = (golden == actual) | (np.isnan(golden) & np.isnan(actual))
        delta = np.abs(actual - golden)
    found: Array = np.where(same, 0.0, np.where(np.isfinite(delta), delta, np.inf))
    return found


def _rounded(value: float, digits: int = RATIO_DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _values(golden: Array, actual: Array, worst: tuple[int, ...] | None) -> list[tuple[float, ...]]:
    """The values of some elements, of both; of complex numbers none."""
    if not is_extended(golden.dtype) and golden.dtype.kind == "c":
        return [(), ()]
    chosen = np.unique(np.linspace(0, golden.size - 1, min(golden.size, PAIRS)).astype(np.int64))
    if worst is not None:
        position = int(np.ravel_multi_index(worst, golden.shape)) if worst else 0
        chosen = np.union1d(chosen[: PAIRS - 1], [position])
    picked = [array.reshape(-1)[chosen].astype(np.float64) for array in (golden, actual)]
    finite = np.isfinite(picked[0]) & np.isfinite(picked[1])
    return [tuple(_rounded(value, VALUE_DIGITS) for value in values[finite].tolist()) for values in picked]
