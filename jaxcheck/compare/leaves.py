"""A leaf against the one it should equal: by which comparator, under which tolerance, and in one line why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.distances import Array
from jaxcheck.results import LeafResult, Statistics, ToleranceUsed, Worst

NONFINITE = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}


class Tolerance(Protocol):
    """What a comparator may allow, and who said so."""

    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...
    @property
    def source(self) -> str: ...


class Signature(Protocol):
    """What must be equal before values are looked at."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def weak_type(self) -> bool: ...


@dataclass(frozen=True)
class Judgement:
    """What a comparator says of two arrays; `reason` is None where they are equal enough."""

    statistics: Statistics
    tolerance: ToleranceUsed
    reason: str | None


Comparator = Callable[[Array, Array, Tolerance, str], Judgement]


def compare_leaf(
    path: str,
    dtype_name: str,
    golden: Array,
    actual: Array,
    tolerance: Tolerance,
    comparator: str = "allclose",
    *,
    against: str = "golden",
) -> LeafResult:
    """The leaf at `path` compared with its golden: arrays of one shape and dtype (see `signature_difference`).

    `dtype_name` is JAX's name of the dtype, `against` what `golden` is called in the reason (`eager`, `reference`).
    Raises ValueError for an unknown comparator, and what `compare_arrays` raises.
    """
    if comparator not in COMPARATORS:
        raise ValueError(f"{path}: no comparator {comparator!r}; valid: {', '.join(COMPARATORS)}")
    judgement = COMPARATORS[comparator](golden, actual, tolerance, against)
    return LeafResult(
        path=path,
        dtype=dtype_name,
        shape=golden.shape,
        tolerance=judgement.tolerance,
        reason=judgement.reason,
        **dict(judgement.statistics),
    )


def allclose(golden: Array, actual: Array, tolerance: Tolerance, against: str) -> Judgement:
    """Every element within atol + rtol * |golden|."""
    statistics = compare_arrays(golden, actual, rtol=tolerance.rtol, atol=tolerance.atol)
    used = ToleranceUsed(rtol=tolerance.rtol, atol=tolerance.atol, source=tolerance.source)
    return Judgement(statistics, used, _reason(statistics, used, golden.dtype, against))


def exact(golden: Array, actual: Array, tolerance: Tolerance, against: str) -> Judgement:
    """Every bit, whatever the tolerance: the sign of a zero and the payload of a NaN count too."""
    used = ToleranceUsed(rtol=0.0, atol=0.0, source="comparator: exact")
    statistics = compare_arrays(golden, actual, rtol=0.0, atol=0.0)
    reason = _reason(statistics, used, golden.dtype, against)
    other_bits = statistics.size - statistics.bit_equal
    if reason is None and other_bits:
        reason = f"{other_bits:,} of {statistics.size:,} have other bits: the sign of a zero, or another NaN"
    return Judgement(statistics, used, reason)


COMPARATORS: dict[str, Comparator] = {"allclose": allclose, "exact": exact}


def signature_difference(golden: Signature, actual: Signature, *, against: str = "golden") -> str | None:
    """In words, how dtype, shape and weak type differ; None where they are equal."""
    differences = []
    if str(golden.dtype) != str(actual.dtype):
        differences.append(f"dtype is {actual.dtype}, {against} has {golden.dtype}")
    if tuple(golden.shape) != tuple(actual.shape):
        differences.append(f"shape is {list(actual.shape)}, {against} has {list(golden.shape)}")
    if bool(golden.weak_type) != bool(actual.weak_type):
        weak = "is weakly typed, {} is not" if actual.weak_type else "is not weakly typed, {} is"
        differences.append(weak.format(against))
    return "; ".join(differences) or None


def _reason(statistics: Statistics, tolerance: ToleranceUsed, dtype: Any, against: str) -> str | None:
    worst = statistics.worst
    if statistics.mismatched == 0 or worst is None:
        return None
    if statistics.nonfinite:
        return _nonfinite_reason(statistics, worst, dtype, against)
    beyond = "beyond tolerance" if tolerance.rtol or tolerance.atol else "differ"
    factor = f" {times(statistics.violation_ratio)}" if worst.allowed else ""
    allowed = f", allowed {worst.allowed:.2g}" if tolerance.rtol or tolerance.atol else ""
    values = f"{_text(worst.actual, dtype)} was {_text(worst.golden, dtype)}"
    count = f"{statistics.mismatched:,} of {statistics.size:,} {beyond}"
    return f"{count}, worst{factor}{_at(worst)}: {values}{allowed}"


def _nonfinite_reason(statistics: Statistics, worst: Worst, dtype: Any, against: str) -> str:
    where = f"{_text(worst.actual, dtype)}{_at(worst)} where {against} has {_text(worst.golden, dtype)}"
    if statistics.mismatched == 1:
        return where
    others = statistics.mismatched - statistics.nonfinite
    finite = f", {others:,} more beyond tolerance" if others else ""
    return f"{where}; {statistics.nonfinite:,} of {statistics.size:,} disagree in NaN or infinity{finite}"


def _at(worst: Worst) -> str:
    return f" at {list(worst.index)}" if worst.index else ""


def _text(value: bool | int | float | str, dtype: Any) -> str:
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
