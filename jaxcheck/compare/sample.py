"""Where and how an array moved, in few numbers: what a report can draw without the arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator

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
    largest = np.zeros((down, across))
    matrices = golden.reshape(rows, columns), actual.reshape(rows, columns)
    for across_rows, across_columns in _pieces(rows, columns):
        theirs, mine = (wide(matrix[across_rows, across_columns]) for matrix in matrices)
        measure = _differences(theirs, mine) if difference else _ratios(theirs, mine, tolerance)
        row_bins, row_starts = _bins(across_rows, rows, down)
        column_bins, column_starts = _bins(across_columns, columns, across)
        found = np.fmax.reduceat(np.fmax.reduceat(measure, row_starts, axis=0), column_starts, axis=1)
        np.fmax(largest[row_bins, column_bins], found, out=largest[row_bins, column_bins])
    return tuple(tuple(map(_rounded, row)) for row in largest.tolist())


def _pieces(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Some whole rows, or part of one: about BLOCK elements."""
    height, width = max(1, BLOCK // columns), min(columns, BLOCK)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            yield slice(top, min(top + height, rows)), slice(left, min(left + width, columns))


def _bins(piece: slice, length: int, count: int) -> tuple[slice, Array]:
    """The bins that a piece of an axis reaches into, of `count` along its `length`, and where in it each begins."""
    first, last = piece.start * count // length, (piece.stop - 1) * count // length
    starts = -(-np.arange(first, last + 1) * length // count)
    return slice(first, last + 1), np.maximum(starts - piece.start, 0)


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of an array with its leading axes flattened; an array along one axis is one row."""
    long = [length for length in shape if length > 1]
    return math.prod(long[:-1]), long[-1]


def _ratios(golden: Array, actual: Array, tolerance: Tolerance) -> Array:
    """As `ratios`, where all are finite in fewer steps; NaN stands for 0/0."""
    with np.errstate(all="ignore"):
        delta = np.abs(actual - golden)
        if not np.isfinite(delta.max()):
            return ratios(golden, actual, tolerance)
        allowed = np.abs(golden) * tolerance.rtol + tolerance.atol
        found: Array = np.divide(delta, allowed, out=delta)
        return found


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
