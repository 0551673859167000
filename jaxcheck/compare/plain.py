"""Element by element: `allclose` and `exact`, with their words, and the statistics of any other ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.subject import Judgement, Subject
from jaxcheck.compare.tally import BOUNDS, LABELS
from jaxcheck.results import Statistics, ToleranceUsed, Worst

NONFINITE = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}


def allclose(subject: Subject) -> Judgement:
    """Every element within atol + rtol * |golden|."""
    used = subject.used()
    statistics = subject.statistics(rtol=used.rtol, atol=used.atol)
    return Judgement(statistics, used, _reason(statistics, used, subject.golden.dtype, subject.against))


def exact(subject: Subject) -> Judgement:
    """Every bit, whatever the tolerance: the sign of a zero and the payload of a NaN count too."""
    used = ToleranceUsed(rtol=0.0, atol=0.0, source="comparator: exact")
    statistics = subject.statistics(rtol=0.0, atol=0.0)
    reason = _reason(statistics, used, subject.golden.dtype, subject.against)
    other_bits = statistics.seen - statistics.bit_equal
    if reason is None and other_bits:
        reason = f"{other_bits:,} of {statistics.out_of} have other bits: the sign of a zero, or another NaN"
    return Judgement(statistics, used, reason)


def by_ratio(subject: Subject, ratio: Array, used: ToleranceUsed, reason: str | None) -> Judgement:
    """The judgement of a comparator with measures of its own: `ratio` is measure / allowance of every element.

    `max_abs`, `max_rel` and `max_ulp` stay those of the elements. Where a NaN or an infinity meets something else,
    that is the reason, whatever the measures say.
    """
    moved = subject.statistics(rtol=0.0, atol=0.0)
    if moved.nonfinite:
        return Judgement(moved, used, _reason(moved, used, subject.golden.dtype, subject.against))
    statistics = moved.model_copy(
        update={
            "mismatched": int(np.count_nonzero(ratio > 1)),
            "violation_ratio": float(ratio.max(initial=0.0)),
            "worst": None,
            "histogram": _histogram(ratio),
        }
    )
    # Through the model once more: it is what knows how to say infinity in JSON.
    return Judgement(Statistics.model_validate(statistics.model_dump()), used, reason)


def _histogram(ratio: Array) -> dict[str, int]:
    classes = np.searchsorted(BOUNDS, ratio.reshape(-1), side="left")
    counts = np.bincount(classes, minlength=len(LABELS))
    return {**dict(zip(LABELS, map(int, counts), strict=True)), "nonfinite": 0}


def _reason(statistics: Statistics, tolerance: ToleranceUsed, dtype: Any, against: str) -> str | None:
    worst = statistics.worst
    if statistics.mismatched == 0 or worst is None:
        return None
    if statistics.nonfinite:
        return _nonfinite_reason(statistics, worst, dtype, against)
    beyond = "beyond tolerance" if tolerance.rtol or tolerance.atol else "differ"
    factor = f" {times(statistics.violation_ratio)}" if worst.allowed else ""
    allowed = f", allowed {worst.allowed:.2g}" if tolerance.rtol or tolerance.atol else ""
    values = f"{text_of(worst.actual, dtype)} was {text_of(worst.golden, dtype)}"
    count = f"{statistics.mismatched:,} of {statistics.out_of} {beyond}"
    return f"{count}, worst{factor}{at(worst.index)}: {values}{allowed}"


def _nonfinite_reason(statistics: Statistics, worst: Worst, dtype: Any, against: str) -> str:
    where = f"{text_of(worst.actual, dtype)}{at(worst.index)} where {against} has {text_of(worst.golden, dtype)}"
    if statistics.mismatched == 1:
        return where
    others = statistics.mismatched - statistics.nonfinite
    finite = f", {others:,} more beyond tolerance" if others else ""
    return f"{where}; {statistics.nonfinite:,} of {statistics.out_of} disagree in NaN or infinity{finite}"


def at(index: tuple[int, ...]) -> str:
    return f" at {list(index)}" if index else ""


def text_of(value: bool | int | float | str, dtype: Any) -> str:
    """With as few digits as tell the value from its neighbours in its own dtype."""
    if isinstance(value, str):
        return NONFINITE.get(value, value)
    return str(dtype.type(value)) if isinstance(value, float) else str(value)


def times(ratio: float) -> str:
    """`12.3 x`; what is above 1 never reads as 1."""
    digits = 3
    while digits < 17 and float(f"{ratio:.{digits}g}") <= 1 < ratio:
        digits += 1
    return f"{ratio:.{digits}g} x"
