"""The whole program, equation by equation: an origin, a flip, an amplifier, or another formula."""

from __future__ import annotations

from collections.abc import Iterator

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.diagnose.trace import WEIGHT
from jaxcheck.results.diagnosis import DiagnosedStep

NOTABLE = 1e-4  # a relative error that is worth a word where no tolerance says what is


def first_equation(inquiry: Inquiry) -> Iterator[Row]:
    rung, trace = "first equation", inquiry.walked
    if trace.reason:
        yield skipped(rung, f"no walk: {trace.reason}")
        return
    said = f"{trace.count:,} equations walked" + (f" (partial: {trace.partial})" if trace.partial else "")
    found, modes = trace.origin, inquiry.question.of_modes
    if found is not None and not modes:
        sentence = sentences.origin(found, inquiry.ends)
        words = f"{said}: {sentences.where(found)}: {sentences.local(found)}"
        yield Row(rung, "differs", words, told(rung, "origin", sentence, found))
        return
    if trace.flips and not inquiry.question.of_modes and _matters(inquiry, trace.flips[0]):
        step = trace.flips[0]
        yield Row(
            rung,
            "differs",
            f"{said}: {sentences.flip(step)}",
            told(rung, "flip", _up(sentences.flip(step)), step),
            False,
        )
        return
    if trace.amplifiers and _matters(inquiry, trace.amplifiers[0]):
        step = trace.amplifiers[0]
        words = sentences.amplifier(step)
        yield Row(rung, "differs", f"{said}: {words}", told(rung, "amplifier", _up(words), step), False)
        return
    if inquiry.question.against == "truth" and inquiry.ends.diverges:
        sentence = (
            "Every equation computes what it says, and the outputs are still not the reference's: the kernel is "
            f"another formula ({sentences.moved(inquiry.ends.leaves)})"
        )
        yield Row(rung, "differs", f"{said}: each is right by itself", told(rung, "formula", sentence), False)
        return
    yield ok(rung, f"{said}: none is wrong by itself")


def _up(text: str) -> str:
    return text[0].upper() + text[1:]


def _matters(inquiry: Inquiry, step: DiagnosedStep) -> bool:
    """Whether rounding errors that were let grow are what the outputs differ by.

    Where the truth is known, they must be a good part of the difference: else it is another formula. Where nothing is
    known but the walk, the error has to be notable.
    """
    ends, trace = inquiry.ends, inquiry.walked
    carried = max([*trace.outputs.values(), 0.0]) if trace.outputs else step.inherited
    if inquiry.question.against != "truth":
        return ends.diverges
    if not ends.leaves:
        return carried > NOTABLE
    apart = max((leaf.max_rel for leaf in ends.leaves if leaf.reason), default=0.0)
    return ends.diverges and carried * WEIGHT >= apart
