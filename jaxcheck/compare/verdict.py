"""Is the number right, not only unchanged: distance to the truth, and the verdict that follows from it."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Verdict = Literal["unchanged", "drifted", "improved", "regressed", "changed"]
BLOCK = 1 << 16


def verdict(*, unchanged: bool, within: bool, golden_error: float | None, actual_error: float | None) -> Verdict:
    """What became of a leaf. `unchanged`: bit for bit; `within`: inside its tolerance; errors are to the truth, None
    where nobody knows it.

    Beyond the tolerance, nearer to the truth is `improved` and further away `regressed`; where both are as far, or the
    truth is not known, it has `changed`.
    """
    if unchanged:
        return "unchanged"
    if within:
        return "drifted"
    if golden_error is None or actual_error is None or golden_error == actual_error:
        return "changed"
    return "improved" if actual_error < golden_error else "regressed"


def error_to_truth(array: Array, truth: Array) -> float:
    """max |array - truth| relative to max |truth|; shapes are equal, `truth` is float64 or complex128.

    NaN must meet NaN and an infinity its like: else the error is infinite. A truth of zeros is compared absolutely.
    """
    values, exact = array.reshape(-1), truth.reshape(-1)
    worst, scale = 0.0, 0.0
    for start in range(0, exact.size, BLOCK):
        want = exact[start : start + BLOCK]
        got = values[start : start + BLOCK].astype(want.dtype)
        with np.errstate(all="ignore"):
            furthest = float(np.abs(got - want).max())
        if not math.isfinite(furthest):
            finite = np.isfinite(want)
            if not np.array_equal(finite, np.isfinite(got)) or not _same(got[~finite], want[~finite]):
                return math.inf
            got, want = got[finite], want[finite]
            furthest = float(np.abs(got - want).max(initial=0.0))
        worst = max(worst, furthest)
        scale = max(scale, float(np.abs(want).max(initial=0.0)))
    return worst / scale if scale else worst


def extent(array: Array) -> tuple[float, float]:
    """(min, max) of |value| over the finite elements; (inf, 0) where there are none."""
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    values, least, most = array.reshape(-1), math.inf, 0.0
    for start in range(0, array.size, BLOCK):
        sizes = np.abs(values[start : start + BLOCK].astype(wide))
        if not math.isfinite(sizes.max()):
            sizes = sizes[np.isfinite(sizes)]
        least = min(least, float(sizes.min(initial=math.inf)))
        most = max(most, float(sizes.max(initial=0.0)))
    return least, most


def _same(got: Array, want: Array) -> bool:
    """Non-finite values of one kind: complex numbers by their parts."""
    if want.dtype.kind == "c":
        return _same(got.real, want.real) and _same(got.imag, want.imag)
    return bool(np.array_equal(got, want, equal_nan=True))
