"""Whether the comparison is fair: the same environment, inputs, random streams and signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jaxcheck.diagnose import knobs as knobbing
from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.rungs.programs import golden_program_gives
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.gate.causes import settings_apart
from jaxcheck.gate.streams import fingerprints_of, streams_apart
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.results import Environment

PACKAGES = ("jax", "jaxlib", "optax", "numpy")
SIGNATURE = "exact: signature"
PLACES = frozenset({"Python", "platform", "CPU", "CPU features", "device", "devices", "backend"})  # not to be put back


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
        gives, _ = golden_program_gives(inquiry)
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
