"""Who moved an output: a pure decision from what was measured and from what differs between the two sides.

Two controls come first: the exported program must give the ordinary bits where it was made. Then the old program runs
on the new runtime. Bits of before: the program is another (JAX, or a package). Bits of now: the runtime is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jaxcheck.results import CauseKind

# Distributions that are the compiler or the runtime below a program, whatever their version is called.
RUNTIME = ("jaxlib", "jax-cuda", "jax-rocm", "jax-metal", "libtpu")
# Settings that a program is traced under; all others are the runtime's.
TRACED = frozenset({"x64", "matmul precision", "PRNG", "threefry partitionable", "backend"})
CONFIG = "jax.config."
INCIDENTAL = frozenset({"Python", "platform"})  # blamed only where nothing else differs

Ends = Literal["old", "new", "both", "neither"]


@dataclass(frozen=True)
class Measured:
    """One comparison of bits; None where it could not be made, for a reason."""

    equal: bool | None
    reason: str = ""


@dataclass(frozen=True)
class Replayed:
    """Whose bits the old program gave on the new runtime; None where it could not run there, for a reason."""

    gives: Ends | None
    reason: str = ""


@dataclass(frozen=True)
class Facts:
    """What is known of one output that moved.

    `differs`: whether the traced programs do (None: not known), and `packages` whose lines made the equations that do.
    `changes` are the packages with another version ("-": not there), `settings` the other differences between the
    two places, and `sources` the user's own files that are not the same. `unstable`: the baseline does not repeat
    itself. `raises`: the candidate gives no outputs.
    """

    control_old: Measured
    control_new: Measured
    replayed: Replayed
    differs: bool | None = None
    packages: frozenset[str] = frozenset()
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    unstable: bool = False
    raises: bool = False
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cause:
    """`package` names the package where that is the kind; `because` is one sentence; `details` are lines to show."""

    kind: CauseKind
    because: str
    package: str | None = None
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suspect:
    """Something that differs between the two sides, and in words."""

    kind: CauseKind
    words: str
    package: str | None = None


def decide(facts: Facts) -> Cause:
    """The cause of one move."""
    if facts.unstable:
        return _unstable(facts)
    suspects = [*_program_suspects(facts), *_runtime_suspects(facts)]
    suspects = list({(suspect.kind, suspect.words): suspect for suspect in suspects}.values())
    incidental = [_setting(name, pair) for name, pair in facts.settings.items() if name in INCIDENTAL]
    suspects = suspects or incidental
    if len(suspects) == 1 or (suspects and {suspect.kind for suspect in suspects} in ({"environment"}, {"xla"})):
        return _only(facts, suspects)
    if not suspects:
        return _undetermined(facts, "nothing differs between the two sides that could have moved it")
    return _by_controls(facts)


def _unstable(facts: Facts) -> Cause:
    """The baseline's bits mean nothing; what the old program gives on the new runtime still does."""
    if facts.control_new.equal and facts.replayed.gives in ("new", "both"):
        runtime = _runtime_suspects(facts)
        words = (
            "the baseline does not repeat itself, and the old program is right on the new runtime: it gives its bits"
        )
        return _chosen(facts, runtime, words, "nothing of the runtime is known to differ")
    failed = _failed(facts, old=False)
    why = failed or "the old program does not give the candidate's bits on the new runtime"
    return _undetermined(facts, f"the baseline does not repeat itself, and {why}")


def _only(facts: Facts, suspects: list[Suspect]) -> Cause:
    """Nothing of another kind differs: it is the cause by elimination, and the controls may say that this fits."""
    kind, package = suspects[0].kind, suspects[0].package
    words = _and([suspect.words for suspect in suspects])
    if kind == "package" and facts.differs is False and facts.replayed.gives not in ("old", "both"):
        return _undetermined(facts, f"{words} is all that differs, and the program is the same with both")
    because = f"nothing else differs: {words}"
    side = {"jax": "old", "package": "old", "xla": "new", "environment": "new"}.get(kind)
    if facts.control_old.equal and facts.control_new.equal and facts.replayed.gives == side:
        because += f"; the old program gives the {side} bits on the new runtime"
    return Cause(kind, because, package, facts.details)


def _by_controls(facts: Facts) -> Cause:
    failed = _failed(facts, old=True)
    if failed:
        return _undetermined(facts, failed)
    program, runtime = _program_suspects(facts), _runtime_suspects(facts)
    if facts.replayed.gives == "both":
        return _program(
            facts, "the old program gives the same bits, and another dtype, shape, weak type or kind of NaN"
        )
    if facts.replayed.gives == "old":
        words = "the old program gives the old bits on the new runtime"
        return _program(facts, words + (", where the kernel now raises" if facts.raises else ""))
    if facts.raises:
        return _undetermined(facts, "the kernel raises now, and its old program gives other bits on the new runtime")
    if facts.replayed.gives == "new":
        words = "the old program gives the new bits on the new runtime"
        return _chosen(facts, runtime, words, "nothing of the runtime is known to differ")
    if program and runtime:
        words = (
            "the old program gives neither the old nor the new bits on the new runtime: both program and runtime moved"
        )
        return Cause("both", words, None, facts.details)
    missing = "the runtime" if program else "the program"
    words = f"the old program gives neither the old nor the new bits, though nothing of {missing} differs"
    return _undetermined(facts, words)


def _program(facts: Facts, words: str) -> Cause:
    """The program is another: who made it so?"""
    suspects = _program_suspects(facts)
    hit = {suspect.package for suspect in suspects if suspect.package in facts.packages}
    others = [suspect for suspect in suspects if suspect.package is None]
    if hit and (facts.packages <= hit or not others):
        named = [suspect for suspect in suspects if suspect.package in hit]
        return _chosen(
            facts, named, f"{words}, and the equations that differ come from {_and(sorted(map(str, hit)))}", ""
        )
    if hit:
        text = f"{words}; the equations that differ come from {_and(sorted(facts.packages))}"
        changed = _and([s.words for s in suspects if s.package in hit or s.kind == "jax"])
        return Cause("both", f"{text}, and {changed} changed", None, facts.details)
    if facts.differs is not None and others:
        suspects = others  # packages that made none of the equations that differ are out of it
    return _chosen(facts, suspects, words, "nothing that makes the program differs")


def _chosen(facts: Facts, suspects: list[Suspect], words: str, none: str) -> Cause:
    """The one suspect; several packages are still the cause `package`, anything else is not decided."""
    if not suspects:
        return _undetermined(facts, f"{words}, but {none}")
    if len(suspects) == 1:
        return Cause(suspects[0].kind, f"{words} ({suspects[0].words})", suspects[0].package, facts.details)
    kinds = {suspect.kind for suspect in suspects}
    if len(kinds) == 1:
        return Cause(suspects[0].kind, f"{words} ({_and([s.words for s in suspects])})", None, facts.details)
    either = ", or ".join(suspect.words for suspect in suspects)
    return _undetermined(facts, f"{words}: that is {either}; moved one at a time they tell")


def _undetermined(facts: Facts, because: str) -> Cause:
    return Cause("undetermined", because, None, facts.details)


def _failed(facts: Facts, old: bool) -> str:
    """Which control failed first, in words; nothing where all hold."""
    if old and facts.control_old.equal is not True:
        return _control("the old program on the old runtime", facts.control_old)
    if facts.replayed.gives is None:
        return f"the old program does not run on the new runtime: {facts.replayed.reason}"
    if not facts.raises and facts.control_new.equal is not True:
        return _control("the new program on the new runtime", facts.control_new)
    return ""


def _control(what: str, measured: Measured) -> str:
    if measured.equal is None:
        return f"the control, {what}, could not be run: {measured.reason}"
    return f"the control failed: {what} does not give the ordinary bits"


def _program_suspects(facts: Facts) -> list[Suspect]:
    """What differs and takes part in tracing, differentiating and lowering."""
    found = [_package(name, pair) for name, pair in facts.changes.items() if not is_runtime(name)]
    found += [_setting(n, pair) for n, pair in facts.settings.items() if n in TRACED or n.startswith(CONFIG)]
    if facts.sources:
        found.append(Suspect("undetermined", f"the kernel's own sources ({_and(facts.sources)})"))
    return found


def _runtime_suspects(facts: Facts) -> list[Suspect]:
    """What differs and takes part in compiling and running."""
    found = [_package(name, pair) for name, pair in facts.changes.items() if is_runtime(name)]
    names = [n for n in facts.settings if n not in TRACED and n not in INCIDENTAL]
    return found + [_setting(name, facts.settings[name]) for name in names]


def _package(name: str, pair: tuple[str, str]) -> Suspect:
    words = f"{name} {pair[0]} -> {pair[1]}"
    if is_runtime(name):
        return Suspect("xla", words)
    return Suspect("jax", words) if name == "jax" else Suspect("package", words, name)


def _setting(name: str, pair: tuple[str, str]) -> Suspect:
    return Suspect("environment", f"{name} {pair[0]} -> {pair[1]}")


def is_runtime(package: str) -> bool:
    return package.startswith(RUNTIME)


def _and(names: list[str] | tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
