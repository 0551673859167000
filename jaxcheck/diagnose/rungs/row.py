"""What a rung says, and the verdict that it may stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.results.diagnosis import DiagnosedStep, DiagnosisKind, DiagnosisVerdict

Told = Callable[[], DiagnosisVerdict]


@dataclass(frozen=True)
class Row:
    """What a rung found. `verdict` is made in the end, when all rungs were climbed; where it does not `decide`, it
    holds only if no other rung does."""

    rung: str
    status: Literal["ok", "differs", "skipped"]
    finding: str
    verdict: Told | None = None
    decides: bool = True


Rung = Callable[[Inquiry], Iterator[Row]]


def ok(rung: str, finding: str) -> Row:
    return Row(rung, "ok", finding)


def skipped(rung: str, finding: str) -> Row:
    return Row(rung, "skipped", finding)


def told(rung: str, kind: DiagnosisKind, sentence: str, step: DiagnosedStep | None = None, **more: Any) -> Told:
    """A verdict that is known already."""
    return lambda: verdict(rung, kind, sentence, step, **more)


def verdict(
    rung: str | None, kind: DiagnosisKind, sentence: str, step: DiagnosedStep | None = None, **more: Any
) -> DiagnosisVerdict:
    """`step` says where."""
    place: dict[str, Any] = {}
    if step is not None:
        place = {"primitive": step.primitive, "scope": step.scope, "iteration": step.iteration}
        place |= {"file": step.file or None, "line": step.line or None}
    return DiagnosisVerdict(rung=rung, kind=kind, sentence=sentence, **place, **more)
