"""A script of one equation, with its inputs: what can be sent to somebody who has neither the kernel nor jaxcheck."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.trace import Trace
from jaxcheck.errors import UsageError
from jaxcheck.results.diagnosis import DiagnosedStep, DiagnosisVerdict


def save_repro(inquiry: Inquiry, trace: Trace, verdict: DiagnosisVerdict, folder: Path | None) -> tuple[str, str]:
    """(the script's path, a remark where there is none)."""
    if folder is None:
        return "", ""
    step = _step_of(trace, verdict)
    if step is None:
        return "", "--save-repro: no equation is to blame by itself, so there is nothing to write"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}", hint="--save-repro FOLDER") from error
    end = inquiry.ends.before if inquiry.question.of_versions else inquiry.ends.now
    asker = inquiry.before if inquiry.question.of_versions else inquiry.now
    stored = str(end.stored) if end.stored else None
    request: dict[str, Any] = {"mode": inquiry.mode, "stored": stored, "n": step.n, "folder": str(folder.resolve())}
    reply = asker.of_case("repro", inquiry.case, **request)
    if "script" not in reply:
        return "", f"--save-repro: the equation could not be written out: {reply.get('reason', 'no answer')}"
    return str(reply["script"]), ""


def _step_of(trace: Trace, verdict: DiagnosisVerdict) -> DiagnosedStep | None:
    """The step that the verdict names."""
    if verdict.kind in ("fusion", "mode"):  # right by itself: a script of it would show nothing
        return None
    found = (step for step in trace.telling() if step.primitive == verdict.primitive and step.scope == verdict.scope)
    return next((step for step in found if step.iteration == verdict.iteration), None)
