"""Statistics of how far one array moved from another, of any size: block by block, in flat memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array, is_integer
from jaxcheck.compare.screening import judge_for
from jaxcheck.compare.tally import BOUNDS, LABELS, Tally
from jaxcheck.compare.threads import stretches
from jaxcheck.results import Statistics, Worst

# Elements at a time: the temporaries of a block stay in the processor's cache, and few calls serve many elements.
BLOCK = 65536


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

    def tally(part: range) -> Tally:
        judge, total = judge_for(golden.dtype.newbyteorder("="), rtol, atol), Tally()
        with np.errstate(all="ignore"):  # of each thread its own
            for start, golden_block, actual_block in _blocks(golden, actual, part):
                total = total.followed_by(judge.tally(golden_block, actual_block, total), start)
        return total

    parts = stretches(golden.size, block)
    if len(parts) == 1:
        total = tally(parts[0])
    else:
        with ThreadPoolExecutor(len(parts), "compare") as threads:
            total = reduce(lambda before, later: before.followed_by(later, 0), threads.map(tally, parts))
    with np.errstate(all="ignore"):
        return _statistics(golden, actual, total, rtol, atol)


def _refuse_the_incomparable(golden: Array, actual: Array) -> None:
    if golden.dtype != actual.dtype:
        raise ValueError(f"arrays of dtype {golden.dtype} and {actual.dtype} cannot be compared")
    if golden.shape != actual.shape:
        raise ValueError(f"arrays of shape {golden.shape} and {actual.shape} cannot be compared")


def _blocks(golden: Array, actual: Array, starts: range) -> Iterator[tuple[int, Array, Array]]:
    """Pairs of one-dimensional pieces in C order and native byte order, and where they start."""
    flat_golden, flat_actual = _flat(golden), _flat(actual)
    native = golden.dtype.newbyteorder("=")
    for start in starts:
        piece = slice(start, start + starts.step)
        yield start, flat_golden[piece].astype(native, copy=False), flat_actual[piece].astype(native, copy=False)


def _flat(array: Array) -> Any:
    """The elements in C order, sliceable; a non-contiguous array is copied by the slice, never whole."""
    plain = np.asarray(array)
    return plain.reshape(-1) if plain.flags.c_contiguous else plain.flat


def _statistics(golden: Array, actual: Array, total: Tally, rtol: float, atol: float) -> Statistics:
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


def _histogram(size: int, total: Tally) -> dict[str, int]:
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
