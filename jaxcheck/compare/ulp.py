"""`ulp`: at most so many representable values apart."""

from __future__ import annotations

import numpy as np

from jaxcheck.compare.distances import Array, is_integer, ulp_distances
from jaxcheck.compare.plain import at, by_ratio, text_of
from jaxcheck.compare.subject import Judgement, Subject, wide
from jaxcheck.results import ToleranceUsed


def ulp(subject: Subject) -> Judgement:
    """At most `max_ulp` representable values of the leaf's own dtype between golden and actual.

    Near zero ULPs are as small as the number itself. Elements of less than `floor` times the largest |golden| may
    therefore differ by `max_ulp` ULPs of a number of that size (`floor: 1`: of the largest one). Of complex numbers
    the real and the imaginary part count, each by itself; of integers the difference.
    """
    maximum, floor = subject.parameters["max_ulp"], subject.parameters.get("floor", 0.0)
    source = f"comparator: ulp, max_ulp {maximum}" + (f", floor {floor:g}" if floor else "")
    used = ToleranceUsed(rtol=0.0, atol=0.0, source=source)
    counts = _counts(subject.golden, subject.actual, floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(counts == 0, 0.0, counts / np.float64(maximum))
    return by_ratio(subject, ratio, used, _reason(subject, counts, maximum))


def _counts(golden: Array, actual: Array, floor: float) -> Array:
    """ULPs between the two, of every element: those of the floor's size below the floor."""
    if golden.dtype.kind != "c":
        return _of_reals(golden, actual, floor * _largest(golden))
    least = floor * max(_largest(golden.real), _largest(golden.imag))
    found: Array = np.maximum(_of_reals(golden.real, actual.real, least), _of_reals(golden.imag, actual.imag, least))
    return found


def _largest(golden: Array) -> float:
    magnitude = np.abs(wide(golden))
    return float(magnitude.max(initial=0.0, where=np.isfinite(magnitude)))


def _of_reals(golden: Array, actual: Array, least: float) -> Array:
    counts = ulp_distances(golden, actual).astype(np.float64)
    if not least or is_integer(golden.dtype):
        return counts
    unit = float(np.spacing(np.asarray(least).astype(golden.dtype)))
    wide_golden, wide_actual = wide(golden), wide(actual)
    below = (np.abs(wide_golden) < least) & np.isfinite(wide_actual)
    with np.errstate(all="ignore"):
        found: Array = np.where(below, np.abs(wide_actual - wide_golden) / unit, counts)
    return found


def _reason(subject: Subject, counts: Array, maximum: int) -> str | None:
    beyond = int(np.count_nonzero(counts > maximum))
    if not beyond:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(counts)), counts.shape))
    golden, actual = (text_of(array[index].item(), array.dtype) for array in (subject.golden, subject.actual))
    far = f"worst {counts[index]:,.3g} ULP{at(index)}: {actual} was {golden}"
    return f"{beyond:,} of {counts.size:,} are more than {maximum} ULP apart, {far}"
