"""The ladder, as a table: each rung says what it compared and what it found, fed with the stored values below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from jaxcheck.diagnose import knobs as knobbing
from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry, Window
from jaxcheck.diagnose.scopes import GRADIENTS
from jaxcheck.diagnose.trace import WEIGHT, excess
from jaxcheck.execution.run import not_verified
from jaxcheck.gate.causes import settings_apart
from jaxcheck.gate.programs import Program
from jaxcheck.gate.streams import fingerprints_of, streams_apart
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import DERIVED_MODES
from jaxcheck.results import DiagnosedKnob, DiagnosedStep, DiagnosisKind, DiagnosisVerdict, Environment, Status

PACKAGES = ("jax", "jaxlib", "optax", "numpy")
SIGNATURE = "exact: signature"
PARTICULAR = ("forward", "loss", GRADIENTS, "update")  # stages that have a rung whether or not the kernel has them
NOTABLE = 1e-4  # a relative error that is worth a word where no tolerance says what is
PLACES = frozenset({"Python", "platform", "CPU", "CPU features", "device", "devices", "backend"})  # not to be put back
SAME = "one environment, one program at a time"

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


# --- environment ---------------------------------------------------------------------------------------------------


def environment(inquiry: Inquiry) -> Iterator[Row]:
    rung = "environment"
    before, now = inquiry.environments
    if inquiry.question.against != "golden" and not inquiry.question.of_versions:
        place = f"jax {now.jax}, jaxlib {now.jaxlib}, {now.backend}" if now else "this one"
        yield ok(rung, f"one environment: {place}")
        return
    if before is None or now is None:
        yield skipped(rung, f"{inquiry.ends.before.label} does not say where it was made")
        return
    packages = [
        f"{name} {was} -> {new}" for name in PACKAGES if (was := getattr(before, name)) != (new := getattr(now, name))
    ]
    apart = settings_apart(before, now)
    said = packages + [f"{name} {was} -> {new}" for name, (was, new) in apart.items()]
    if not said:
        yield ok(rung, f"the same as {inquiry.ends.before.label}'s: jax {now.jax}, {now.backend}, {now.cpu}")
        return
    found = sentences.listed(said, 8)
    restored = [name for name in apart if name not in PLACES]
    if inquiry.question.against == "golden" and restored and inquiry.ends.diverges:
        vanishes = _with_settings_of(inquiry, before, restored)
        if vanishes:
            named = sentences.listed(f"{name} {apart[name][0]} -> {apart[name][1]}" for name in restored)
            words = f"{named}: with that put back the outputs are the golden's again"
            yield Row(
                rung, "differs", f"{found}; with the golden's settings it vanishes", told(rung, "environment", words)
            )
            return
    yield Row(rung, "differs", found)


def _with_settings_of(inquiry: Inquiry, before: Environment, names: list[str]) -> bool:
    """Whether the divergence is gone in a process that is set as the golden's was."""
    needs, config = inquiry.needs, {}
    options = {
        "matmul precision": ("jax_default_matmul_precision", before.matmul_precision),
        "PRNG": ("jax_default_prng_impl", before.prng_impl or None),
        "threefry partitionable": ("jax_threefry_partitionable", before.threefry_partitionable),
    }
    config = dict([options[name] for name in names if name in options])
    config |= {
        name.removeprefix("jax.config."): before.config[name.removeprefix("jax.config.")]
        for name in names
        if name.removeprefix("jax.config.") in before.config
    }
    if "x64" in names:
        needs = replace(needs, x64=before.x64)
    if "XLA flags" in names:
        needs = replace(needs, env=tuple(sorted({**dict(needs.env), knobbing.FLAGS: before.xla_flags}.items())))
    if "cores" in names:
        needs = replace(needs, cores=before.cpu_count or None)
    return inquiry.diverges_under(needs, config, "settings") is False


# --- data, keys, signature -----------------------------------------------------------------------------------------


def data(inquiry: Inquiry) -> Iterator[Row]:
    rung = "data"
    before, now = inquiry.ends.before.inputs, inquiry.ends.now.inputs
    if now is None or before is None:
        yield skipped(rung, "the inputs could not be stored")
        return
    if before is now:
        yield ok(rung, f"one set of inputs: {_leaves(now)}")
        return
    apart = _inputs_apart(before, now)
    if not apart:
        yield ok(rung, f"{_leaves(now)}, the same bits on both sides")
        return
    owner = inquiry.ends.before.label
    words = f"the inputs are not those of {owner}: {sentences.listed(apart)}"
    if inquiry.question.against == "golden":
        gives, _ = _golden_program_gives(inquiry)
        if gives in ("old", "both"):
            words += "; the golden's own program, at its own inputs, still gives the golden here"
        elif gives is not None:
            words += "; the golden's own program, at its own inputs, gives something else here as well"
    yield Row(rung, "differs", words, told(rung, "data", words[0].upper() + words[1:]))


def _leaves(tree: Tree) -> str:
    number = len(tree.leaves)
    return f"{number} {'array' if number == 1 else 'arrays'}"


def _inputs_apart(before: Tree, now: Tree) -> list[str]:
    old, new = before.by_path, now.by_path
    found = []
    for path in dict.fromkeys([*old, *new]):
        if path not in old or path not in new:
            found.append(f"{path} is {'new' if path not in old else 'gone'}")
        elif old[path].digest != new[path].digest:
            found.append(f"{path} ({_how(old[path], new[path])})")
    return found


def _how(old: Leaf, new: Leaf) -> str:
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return f"{old.dtype}{list(old.shape)} -> {new.dtype}{list(new.shape)}"
    number = int((old.words != new.words).sum())
    return f"{number:,} of {old.words.size:,} elements"


def keys(inquiry: Inquiry) -> Iterator[Row]:
    rung = "keys"
    if inquiry.draws is None:
        yield skipped(rung, f"the program cannot be read: {inquiry.program}")
        return
    if not inquiry.draws:
        yield skipped(rung, "the program draws no random numbers")
        return
    reused = [
        finding.message
        for result in inquiry.ends.results.values()
        for finding in result.findings
        if finding.kind == "keys"
    ]
    also = f"; but {reused[0]}" if reused else ""
    before, now = inquiry.environments
    if inquiry.question.of_versions and inquiry.ends.before.launch and inquiry.ends.now.launch:
        moved = streams_apart(*map(fingerprints_of, (inquiry.ends.before.launch, inquiry.ends.now.launch)))
        if moved:
            yield Row(rung, "differs", moved + also, told(rung, "keys", f"{moved[0].upper()}{moved[1:]}"))
            return
    elif before is not None and now is not None:
        old, new = ((one.prng_impl, one.threefry_partitionable) for one in (before, now))
        if old != new:
            words = (
                f"the PRNG is set up otherwise: {old[0]}, partitionable {old[1]} -> {new[0]}, partitionable {new[1]}"
            )
            yield Row(rung, "differs", words + also, told(rung, "keys", words[0].upper() + words[1:]), decides=False)
            return
    yield ok(rung, f"the same keys give the same bits{also}")


def signature(inquiry: Inquiry) -> Iterator[Row]:
    rung, ends = "signature", inquiry.ends
    if ends.mode in ends.now.raised:
        words = f"the kernel raises now: {ends.now.raised[ends.mode].splitlines()[0]}"
        yield Row(rung, "differs", words, told(rung, "raises", words[0].upper() + words[1:]))
        return
    result = ends.results.get(ends.mode)
    if result is not None and result.verdict == "broken":
        words = f"it is broken now: {result.reason}"
        yield Row(rung, "differs", words, told(rung, "raises", words[0].upper() + words[1:]))
        return
    if ends.structure:
        yield Row(rung, "differs", ends.structure, told(rung, "signature", ends.structure))
        return
    apart = [f"{leaf.path}: {leaf.reason}" for leaf in ends.leaves if leaf.tolerance.source == SIGNATURE]
    if apart:
        words = f"the outputs are of another kind: {sentences.listed(apart)}"
        yield Row(rung, "differs", words, told(rung, "signature", words[0].upper() + words[1:]))
    elif ends.actual is None:
        yield skipped(rung, "there are no outputs")
    else:
        number = len(ends.actual.leaves)
        yield ok(rung, f"{number} {'output' if number == 1 else 'outputs'} of the same tree, shapes and dtypes")


# --- program -------------------------------------------------------------------------------------------------------


def program(inquiry: Inquiry) -> Iterator[Row]:
    rung = "program"
    if inquiry.question.of_versions:
        yield _program_of_versions(inquiry)
    elif inquiry.question.against == "golden":
        yield _program_of_golden(inquiry)
    elif isinstance(inquiry.program, Program):
        yield ok(rung, f"one program of {len(inquiry.program.equations):,} equations")
    else:
        yield skipped(rung, f"it cannot be read: {inquiry.program}")


def _program_of_versions(inquiry: Inquiry) -> Row:
    difference = inquiry.programs
    if isinstance(difference, str):
        return skipped("program", difference)
    if not difference:
        return ok("program", "the same equations, lowered to the same operations")
    words = "; ".join(difference.lines(3))
    sentence = f"The traced program is another in {sentences.version(inquiry.ends)}: {words}"
    return Row("program", "differs", words, told("program", "program", sentence), decides=False)


def _program_of_golden(inquiry: Inquiry) -> Row:
    """The golden's own program, run here at the golden's inputs: whose outputs does it give?"""
    golden = inquiry.ends.golden
    if inquiry.mode in DERIVED_MODES or inquiry.mode in ("vmap", "sharded"):
        return skipped("program", f"a golden keeps the program of the plain call, not of {inquiry.mode}")
    gives, reason = _golden_program_gives(inquiry)
    if gives is None:
        return skipped("program", f"the golden's program tells nothing here: {reason}")
    changed = "" if golden is None or golden.hash == inquiry.recipe.case_hash(inquiry.case) else "; the recipe changed"
    if gives != "old":
        gave = {"new": "gives what the kernel gives now", "both": "gives both", "neither": "gives neither"}[gives]
        return ok("program", f"the golden's own program {gave}: the kernel's code did not move it{changed}")
    windows = [] if isinstance(inquiry.windows, str) else inquiry.windows
    apart = _windows_words(windows)
    step = _step_of(windows[0]) if windows else None
    words = "the golden's own program still gives the golden here, the kernel no longer does" + changed
    found = f"{words}{': ' + apart if apart else ''}"
    sentence = "The program is another than when the golden was blessed, and that alone moved it"
    sentence += f": at {sentences.where(step)}: {apart}" if step else ""
    return Row("program", "differs", found, told("program", "program", sentence, step), decides=False)


def _golden_program_gives(inquiry: Inquiry) -> tuple[Literal["old", "new", "both", "neither"] | None, str]:
    """Whose outputs the golden's program gives here, as far as it matters; None, and why, where it cannot be told."""
    ends, replayed = inquiry.ends, inquiry.replayed
    if isinstance(replayed, str):
        return None, replayed
    if ends.expected is None or ends.actual is None:
        return None, "there are no outputs"
    near: list[bool] = []
    for tree in (ends.expected, ends.actual):
        if len(replayed.leaves) != len(tree.leaves):
            return None, "it has another number of outputs"
        named = Tree(tree.structure, tuple(map(_named, replayed.leaves, tree.leaves)))
        still = inquiry.still(tree, named)
        near.append(not isinstance(still, str) and not still[0])
    if all(near):
        return "both", ""
    if not any(near):
        return "neither", ""
    return ("old" if near[0] else "new"), ""


def _named(program: Leaf, output: Leaf) -> Leaf:
    """A program's outputs have neither paths nor weak types, and typed keys travel as their words."""
    if output.impl is not None:
        return replace(output, words=program.words) if program.words.shape == output.words.shape else program
    return replace(program, path=output.path, weak_type=output.weak_type)


def _windows_words(windows: list[Window]) -> str:
    """`old operations | new operations`, shortened."""
    said = [f"{_short(one.old)} | {_short(one.new)}" for one in windows]
    return "; ".join(said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else "")


def _short(operations: list[dict[str, Any]]) -> str:
    texts = [str(one["operation"]).removeprefix("stablehlo.").partition(" :")[0][:60] for one in operations[:3]]
    return (", ".join(texts) + (" …" if len(operations) > 3 else "")) or "nothing"


def _step_of(window: Window) -> DiagnosedStep:
    """The first operation that is another, as the equation that it was made of."""
    first = next(iter([*window.new, *window.old]))
    place = {name: first[name] for name in ("scope", "file", "line")}
    return DiagnosedStep(n=0, primitive=first["primitive"] or first["operation"].partition(" ")[0], **place)


# --- stages --------------------------------------------------------------------------------------------------------


def stage(name: str, inquiry: Inquiry) -> Iterator[Row]:
    """One of the user's scopes: every equation of it with the inputs that it really had."""
    trace = inquiry.walked
    if trace.reason:
        yield skipped(name, f"no walk: {trace.reason}")
        return
    total = trace.stages.get(name)
    if total is None:
        none = (
            "no reverse pass in this program" if name == GRADIENTS else f"the kernel has no jax.named_scope({name!r})"
        )
        yield skipped(name, none)
        return
    found = trace.origin_in(name)
    count = f"{total.equations:,} {'equation' if total.equations == 1 else 'equations'} with good inputs"
    if found is None:
        how = "the same outputs in both" if inquiry.question.of_versions else "none beyond its bound"
        worst = f" ({sentences.within(total.worst)})" if total.worst and total.local > 0 else ""
        yield ok(name, f"{count}, {how}{worst}")
        return
    if inquiry.question.of_modes:
        yield ok(
            name,
            f"{count}; {sentences.where(found)} is inexact by itself, alike in both modes: {sentences.local(found)}",
        )
        return
    overall = trace.origin
    heavy = overall is None or excess(found) >= excess(overall) / WEIGHT
    yield Row(
        name,
        "differs",
        f"{count}: {sentences.where(found)}: {sentences.local(found)}",
        told(name, "origin", sentences.origin(found, inquiry.ends), found),
        decides=heavy,
    )


def other_stages(inquiry: Inquiry) -> Iterator[Row]:
    """Labels that are the user's own."""
    for name in inquiry.walked.stages:
        if name and name not in PARTICULAR:
            yield from stage(name, inquiry)


# --- the same program, run otherwise -------------------------------------------------------------------------------


def jit_against_eager(inquiry: Inquiry) -> Iterator[Row]:
    rung, ends = "jit against eager", inquiry.ends
    eager, jit = (ends.now.outputs.get(mode) for mode in ("eager", "jit"))
    if eager is None or jit is None:
        missing = "eager" if eager is None else "jit"
        yield skipped(rung, f"{missing} gives no outputs: {ends.now.raised.get(missing, 'it was not run')}")
        return
    leaves = inquiry.compare(eager, jit, "eager")
    if leaves and not any(leaf.moved for leaf in leaves):
        yield ok(rung, "the same bits")
        return
    found = sentences.moved(leaves) or "another tree of outputs"
    if {inquiry.mode, inquiry.question.against} == {"eager", "jit"}:
        decides = True
    else:
        decides = inquiry.mode == "jit" and not _eager_diverges(inquiry)
    if decides:
        yield Row(rung, "differs", found, partial(_compiled, inquiry, rung))
    else:
        yield Row(rung, "differs", found)


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
    """Every equation agrees, and the compiled function does not: what the knobs say of it."""
    trace, named = inquiry.walked, knobbing.class_of(inquiry.knobs)
    step = next(iter(trace.amplifiers), None)
    cures = sentences.cures(inquiry.knobs)
    at = f"; {sentences.where(step)} grows it {sentences.number(step.amplification)} times" if step else ""
    kind: DiagnosisKind = "fusion" if named in ("fusion", "FMA contraction") else "mode"
    if named:
        why = f", by {named}: {cures}"
    else:
        why = " (no knob makes it vanish)" if inquiry.knobs else " (the knobs were not tried)"
    known = "The equations are the same" if trace.reason else "Every equation agrees by itself"
    sentence = f"{known}; the difference arises inside the compiled function{why}{at}"
    return verdict(rung, kind, sentence, step)


def of_mode(name: str, inquiry: Inquiry) -> Iterator[Row]:
    """A mode that the recipe may have: its own check, which holds it against the single call."""
    result = inquiry.ends.results.get(name)
    if result is None or name not in inquiry.recipe.modes:
        yield skipped(name, f"the recipe is not run in mode {name}")
        return
    if result.status is Status.SKIP:
        yield skipped(name, result.reason)
        return
    faults = [finding.message for finding in result.findings if finding.kind in ("modes", "sharding")]
    if not faults:
        yield ok(name, "agrees with the plain call")
        return
    words = sentences.listed(faults, 2)
    mine = inquiry.mode == name
    yield Row(name, "differs", words, told(name, "mode", f"Only {name} differs: {words}") if mine else None)


def backend(inquiry: Inquiry) -> Iterator[Row]:
    rung = "backend"
    before, now = inquiry.environments
    if before is not None and now is not None and before.backend != now.backend:
        words = f"the golden was made on {before.backend}, this is {now.backend}"
        yield Row(rung, "differs", words, told(rung, "environment", words[0].upper() + words[1:]), decides=False)
        return
    others = [name for name, why in not_verified(now, []).items() if why.startswith("present")]
    here = now.backend if now else "this backend"
    yield skipped(rung, f"only {here} was run" + (f"; also here: {', '.join(others)}" if others else ""))


# --- causes, knobs, equations --------------------------------------------------------------------------------------


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
    gives, why = _golden_program_gives(inquiry)
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
    if inquiry.question.against == "golden" and _golden_program_gives(inquiry)[0] == "old" and inquiry.mode != "jit":
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
        up = "the time that was given (--time) is up"
        return DiagnosedKnob(knob=knob.name, status="unknown", finding=up, names=knob.names)
    inquiry.say(f"knobs: {knob.name}")
    needs = knob.needs(inquiry.needs)
    with inquiry.asker(inquiry.ends.now, f"knob-{number}", needs) as asker:

        def trial() -> bool | str:
            return inquiry.diverges_under(needs, None, f"knob-{number}", asker)

        return knobbing.try_knob(knob, plain, knobbing.probe(asker), trial)


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


# The ladder. The first four say whether the comparison is fair; only a rung that fails with good inputs decides.
RUNGS: tuple[tuple[str, Rung], ...] = (
    ("environment", environment),
    ("data", data),
    ("keys", keys),
    ("signature", signature),
    ("program", program),
    ("forward", partial(stage, "forward")),
    ("loss", partial(stage, "loss")),
    (GRADIENTS, partial(stage, GRADIENTS)),
    ("update", partial(stage, "update")),
    ("other scopes", other_stages),
    ("jit against eager", jit_against_eager),
    ("vmap", partial(of_mode, "vmap")),
    ("sharded", partial(of_mode, "sharded")),
    ("backend", backend),
    ("cause matrix", cause_matrix),
    ("knobs", knobs),
    ("first equation", first_equation),
)
FAIR = 4  # rungs that are climbed even where nothing diverges: whether the comparison is fair
