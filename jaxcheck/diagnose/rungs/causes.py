"""Who moved it, and which way to compile makes it vanish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxcheck.diagnose import knobs as knobbing
from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import TIME_UP, Inquiry
from jaxcheck.diagnose.rungs.programs import golden_program_gives
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.registry.model import DERIVED_MODES
from jaxcheck.results.diagnosis import DiagnosedKnob, DiagnosisKind

SAME = "one environment, one program at a time"


def cause_matrix(inquiry: Inquiry) -> Iterator[Row]:
    rung, ends = "cause matrix", inquiry.ends
    if ends.gate is not None:
        leaf = next((one for one in ends.leaves if one.cause), None)
        if leaf is None:
            yield skipped(rung, "no output moved whose cause could be measured")
            return
        words = f"{leaf.package or leaf.cause}: {leaf.because}"
        known = leaf.cause != "undetermined"
        sentence = f"No single equation differs with equal inputs; who moved it is {words}"
        yield Row(rung, "differs", words, told(rung, "cause", sentence) if known else None, decides=False)
        return
    if inquiry.question.against != "golden":
        yield skipped(rung, SAME)
        return
    if inquiry.mode in DERIVED_MODES or inquiry.mode in ("vmap", "sharded"):
        yield skipped(rung, f"a golden keeps no program of mode {inquiry.mode}")
        return
    gives, why = golden_program_gives(inquiry)
    if gives == "new":
        words = "the golden's program gives the new outputs here: the runtime moved it (XLA, its settings, the machine)"
        yield Row(rung, "differs", words, told(rung, "cause", words[0].upper() + words[1:]), decides=False)
    elif gives == "old":
        yield Row(
            rung, "differs", "the golden's program gives the old outputs here: the program moved it (code or JAX)"
        )
    else:
        said = {"both": "it gives both outputs", "neither": "it gives neither the old nor the new outputs", None: why}
        yield skipped(rung, f"undetermined by the golden's program: {said[gives]}")


def knobs(inquiry: Inquiry) -> Iterator[Row]:
    rung, ends = "knobs", inquiry.ends
    if inquiry.question.against == "truth":
        yield skipped(rung, "they compare two outputs, and there is one")
        return
    if ends.expected is None or ends.actual is None:
        yield skipped(rung, "there are no two outputs to compare")
        return
    if inquiry.question.against == "golden" and golden_program_gives(inquiry)[0] == "old" and inquiry.mode != "jit":
        yield skipped(rung, "the program itself is another: how it is compiled is not the question")
        return
    if inquiry.question.of_versions and inquiry.walked.origin is not None:
        yield skipped(
            rung, "an equation differs by itself, with equal inputs: how the whole is compiled did not do that"
        )
        return
    plain = knobbing.probe(inquiry.now)
    if isinstance(plain, str):
        yield skipped(rung, f"they cannot be probed: {plain}")
        return
    here = ends.now.environment.backend if ends.now.environment else "cpu"
    for number, knob in enumerate(knobbing.for_backend(here)):
        inquiry.knobs.append(_tried(inquiry, knob, plain, number))
    cured = sentences.cures(inquiry.knobs)
    rest = [f"{one.knob}: {one.status}" for one in inquiry.knobs if one.status != "cures"]
    if not cured:
        yield ok(rung, f"none makes it vanish ({sentences.listed(rest, 8)})")
        return
    named = knobbing.class_of(inquiry.knobs)
    found = f"{cured}: {named}" + (f" ({sentences.listed(rest, 8)})" if rest else "")
    kind: DiagnosisKind = "fusion" if named in ("fusion", "FMA contraction") else "undetermined"
    sentence = f"{cured[0].upper()}{cured[1:]}: that is {named}, inside the compiled function"
    yield Row(rung, "differs", found, told(rung, kind, sentence), decides=False)


def _tried(inquiry: Inquiry, knob: knobbing.Knob, plain: Mapping[str, str], number: int) -> DiagnosedKnob:
    """One knob in a process of its own: what it does to the probes there, and then to the divergence."""
    if inquiry.late:
        return DiagnosedKnob(knob=knob.name, status="unknown", finding=TIME_UP, names=knob.names)
    inquiry.say(f"knobs: {knob.name}")
    needs = knob.needs(inquiry.needs)
    with inquiry.asker(inquiry.ends.now, f"knob-{number}", needs) as asker:

        def trial() -> bool | str:
            return inquiry.diverges_under(needs, None, f"knob-{number}", asker)

        return knobbing.try_knob(knob, plain, knobbing.probe(asker), trial)
