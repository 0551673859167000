"""The compiled call against the plain one, and where inside of it they come apart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jaxcheck.diagnose import knobs as knobbing
from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.compiled import step_of_fusion
from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, verdict
from jaxcheck.report.words import number
from jaxcheck.results.diagnosis import DiagnosedFusion, DiagnosisKind, DiagnosisVerdict


def jit_against_eager(inquiry: Inquiry) -> Iterator[Row]:
    rung, ends = "jit against eager", inquiry.ends
    missing = next((mode for mode in ("eager", "jit") if mode not in ends.now.outputs), None)
    if missing:
        yield skipped(rung, f"{missing} gives no outputs: {ends.now.raised.get(missing, 'it was not run')}")
    elif inquiry.apart is None:
        yield ok(rung, "the same bits")
    else:
        side, words = inquiry.apart
        found = words if side is ends.now else f"not here any more, but in {side.label}: {words}"
        told = partial(_compiled, inquiry, rung) if _only_compiled(inquiry) else None
        yield Row(rung, "differs", found, told)


def _only_compiled(inquiry: Inquiry) -> bool:
    """Whether it is the compiled call that diverges, and not the plain one."""
    if {inquiry.mode, inquiry.question.against} == {"eager", "jit"}:
        return True
    return inquiry.mode == "jit" and not _eager_diverges(inquiry)


def _eager_diverges(inquiry: Inquiry) -> bool:
    """Whether the plain call is as far from what it is held against."""
    ends = inquiry.ends
    if inquiry.question.of_versions:
        result = ends.results.get("eager")
        return result is None or any(leaf.moved for leaf in result.leaves)
    expected, actual = ends.before.outputs.get("eager"), ends.now.outputs.get("eager")
    if inquiry.question.against == "golden" and expected is not None and actual is not None:
        still = inquiry.still(expected, actual)
        return isinstance(still, str) or still[0]
    return True


def _compiled(inquiry: Inquiry, rung: str) -> DiagnosisVerdict:
    """Every equation agrees, and the compiled function does not: what was read in it, and what the knobs say of it."""
    trace, named = inquiry.walked, knobbing.class_of(inquiry.knobs)
    found = inquiry.compiled if _not_read(inquiry) == "" else ""
    kind: DiagnosisKind = "fusion" if named in ("fusion", "FMA contraction") else "mode"
    if named:
        why = f", by {named}: {sentences.cures(inquiry.knobs)}"
    else:
        why = " (no knob makes it vanish)" if inquiry.knobs else " (the knobs were not tried)"
    grown = next(iter(trace.amplifiers), None)
    tail = f"; {sentences.where(grown)} grows it {number(grown.amplification)} times" if grown else ""
    known = "The equations are the same" if trace.reason or trace.origin else "Every equation agrees by itself"
    sentence = f"{known}; the difference arises inside the compiled function"
    if isinstance(found, DiagnosedFusion):
        told = f"{sentence}, {sentences.inside(found)}{why}; {sentences.readings(found)}{tail}"
        return verdict(rung, kind, told, step_of_fusion(found))
    return verdict(rung, kind, f"{sentence}{why}{tail}", grown)


def inside(inquiry: Inquiry) -> Iterator[Row]:
    """Intermediate values read out of the compiled program."""
    rung = "inside the compiled function"
    reason = _not_read(inquiry)
    if reason:
        yield skipped(rung, reason)
        return
    found = inquiry.compiled
    if isinstance(found, str):
        yield skipped(rung, found)
        return
    yield Row(rung, "differs", f"{sentences.inside(found)}; {sentences.readings(found)}")


def _not_read(inquiry: Inquiry) -> str:
    """Why there is nothing to look for in the compiled function."""
    if inquiry.apart is None:
        return "the compiled and the plain call do not differ here"
    if not _only_compiled(inquiry):
        return "it is not the compiled call alone that diverges"
    if inquiry.question.of_versions and inquiry.walked.origin is not None:
        return "an equation differs by itself, with equal inputs"
    return ""
