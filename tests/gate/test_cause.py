"""The whole decision table of `decide`: who moved an output, from what was measured and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jaxcheck.gate.cause import Facts, Measured, Replayed, decide

HOLDS, FAILS, ABSENT = Measured(True), Measured(False), Measured(None, "callbacks")
JAX = {"jax": ("1", "2")}
XLA = {"jaxlib": ("1", "2")}
OPTAX = {"optax": ("3", "4")}
CHEX = {"chex": ("5", "6")}
RELEASE = JAX | XLA
FLAGS = {"XLA flags": ("none", "--xla_cpu_max_isa=AVX2")}
CORES = {"cores": ("1", "2")}
PRECISION = {"matmul precision": ("none", "highest")}
OPTION = {"jax.config.jax_softmax_custom_jvp": ("default", "False")}
PYTHON = {"Python": ("3.12", "3.13")}


def facts(gives: str | None, changes: Mapping[str, Any], **more: Any) -> Facts:
    replayed = Replayed(gives, "" if gives else "of a newer JAX")  # type: ignore[arg-type]
    return Facts(**{"control_old": HOLDS, "control_new": HOLDS, "replayed": replayed, "changes": changes, **more})


TABLE: dict[str, tuple[Facts, tuple[str, str | None], str]] = {
    # --- both controls hold, jax and jaxlib moved together: whose bits does the old program give?
    "old bits": (facts("old", RELEASE), ("jax", None), "gives the old bits on the new runtime (jax 1 -> 2)"),
    "new bits": (facts("new", RELEASE), ("xla", None), "gives the new bits on the new runtime (jaxlib 1 -> 2)"),
    "neither": (facts("neither", RELEASE), ("both", None), "neither the old nor the new bits"),
    "signature": (facts("both", RELEASE), ("jax", None), "another dtype, shape, weak type or kind of NaN"),
    "Python beside": (facts("new", RELEASE, settings=PYTHON), ("xla", None), "jaxlib 1 -> 2"),
    "a plugin is the runtime": (
        facts("new", JAX | {"jax-cuda13-plugin": ("1", "2")}),
        ("xla", None),
        "jax-cuda13-plugin 1 -> 2",
    ),
    # --- a control failed: nothing is said, but which
    "old control": (facts("old", RELEASE, control_old=FAILS), ("undetermined", None), "old program on the old runtime"),
    "new control": (facts("old", RELEASE, control_new=FAILS), ("undetermined", None), "new program on the new runtime"),
    "old control absent": (facts("old", RELEASE, control_old=ABSENT), ("undetermined", None), "be run: callbacks"),
    "new control absent": (facts("new", RELEASE, control_new=ABSENT), ("undetermined", None), "be run: callbacks"),
    "not loaded": (facts(None, RELEASE), ("undetermined", None), "does not run on the new runtime: of a newer JAX"),
    # --- several packages made the program
    "frames in optax": (
        facts("old", RELEASE | OPTAX, differs=True, packages=frozenset({"optax"})),
        ("package", "optax"),
        "the equations that differ come from optax (optax 3 -> 4)",
    ),
    "frames elsewhere": (
        facts("old", RELEASE | OPTAX, differs=True, packages=frozenset({"user"})),
        ("jax", None),
        "(jax 1 -> 2)",
    ),
    "frames in optax and elsewhere": (
        facts("old", RELEASE | OPTAX, differs=True, packages=frozenset({"optax", "user"})),
        ("both", None),
        "jax 1 -> 2 and optax 3 -> 4 changed",
    ),
    "only the lowering differs": (facts("old", RELEASE | OPTAX, differs=True), ("jax", None), "(jax 1 -> 2)"),
    "equations not known": (facts("old", RELEASE | OPTAX), ("undetermined", None), "jax 1 -> 2, or optax 3 -> 4"),
    "two packages, frames in one": (
        facts("old", OPTAX | CHEX, differs=True, packages=frozenset({"optax", "user"})),
        ("package", "optax"),
        "optax 3 -> 4",
    ),
    "two packages, frames in neither": (
        facts("old", OPTAX | CHEX, differs=True, packages=frozenset({"user"})),
        ("package", None),
        "optax 3 -> 4 and chex 5 -> 6",
    ),
    "two packages, new bits": (facts("new", OPTAX | CHEX), ("undetermined", None), "nothing of the runtime"),
    "two packages, neither": (facts("neither", OPTAX | CHEX), ("undetermined", None), "nothing of the runtime differs"),
    # --- nothing else differs: no control is needed
    "only optax": (facts("old", OPTAX, differs=True), ("package", "optax"), "nothing else differs: optax 3 -> 4; the"),
    "only optax, no control": (
        facts(None, OPTAX, differs=True, control_old=ABSENT),
        ("package", "optax"),
        "nothing else differs: optax 3 -> 4",
    ),
    "only optax, not traced": (facts(None, OPTAX, control_old=ABSENT), ("package", "optax"), "nothing else differs"),
    "only optax, same program": (facts("new", OPTAX, differs=False), ("undetermined", None), "the program is the same"),
    "only jax": (facts("old", JAX), ("jax", None), "nothing else differs: jax 1 -> 2; the old program gives the old"),
    "only jaxlib": (facts("new", XLA), ("xla", None), "nothing else differs: jaxlib 1 -> 2; the old program gives the"),
    "only jaxlib, no control": (facts(None, XLA, control_old=FAILS), ("xla", None), "nothing else differs: jaxlib"),
    "only flags": (facts("new", {}, settings=FLAGS), ("environment", None), "nothing else differs: XLA flags none ->"),
    "only cores, no control": (facts(None, {}, settings=CORES), ("environment", None), "cores 1 -> 2"),
    "flags and cores": (facts("new", {}, settings=FLAGS | CORES), ("environment", None), "cores 1 -> 2"),
    "only config": (facts("old", {}, settings=OPTION), ("environment", None), "jax.config.jax_softmax_custom_jvp"),
    "only Python": (facts("new", {}, settings=PYTHON), ("environment", None), "Python 3.12 -> 3.13"),
    "nothing": (facts("new", {}), ("undetermined", None), "nothing differs between the two sides"),
    "only the kernel": (facts("old", {}, sources=("k.py",)), ("undetermined", None), "the kernel's own sources (k.py)"),
    # --- a package and a setting differ
    "jaxlib or cores": (
        facts("new", RELEASE, settings=CORES),
        ("undetermined", None),
        "jaxlib 1 -> 2, or cores 1 -> 2",
    ),
    "jaxlib the same, flags": (facts("new", JAX, settings=FLAGS), ("environment", None), "XLA flags none -> --xla"),
    "jax, flags do not trace": (facts("old", JAX, settings=FLAGS), ("jax", None), "(jax 1 -> 2)"),
    "jax or precision": (
        facts("old", JAX, settings=PRECISION, differs=True),
        ("undetermined", None),
        "jax 1 -> 2, or matmul precision none -> highest",
    ),
    "jax or the kernel": (facts("old", RELEASE, sources=("k.py",), differs=True), ("undetermined", None), "k.py"),
    # --- the baseline does not repeat itself
    "unstable, right now": (
        facts("new", RELEASE, unstable=True, control_old=FAILS),
        ("xla", None),
        "the old program is right on the new runtime",
    ),
    "unstable, other bits": (
        facts("neither", RELEASE, unstable=True),
        ("undetermined", None),
        "not give the candidate",
    ),
    "unstable, no control": (
        facts("new", RELEASE, unstable=True, control_new=FAILS),
        ("undetermined", None),
        "new program on the new runtime does not",
    ),
    "unstable, not loaded": (facts(None, RELEASE, unstable=True), ("undetermined", None), "of a newer JAX"),
    "unstable, only optax": (facts("new", OPTAX, unstable=True), ("undetermined", None), "nothing of the runtime"),
    # --- the candidate gives no outputs
    "raises, program runs": (
        facts("old", RELEASE, raises=True, control_new=ABSENT),
        ("jax", None),
        "gives the old bits on the new runtime, where the kernel now raises",
    ),
    "raises, other bits": (
        facts("neither", RELEASE, raises=True, control_new=ABSENT),
        ("undetermined", None),
        "its old program gives other bits",
    ),
    "raises, does not run": (
        facts(None, RELEASE, raises=True, control_new=ABSENT),
        ("undetermined", None),
        "newer JAX",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_decision_table(name: str) -> None:
    given, (kind, package), words = TABLE[name]
    cause = decide(given)
    assert (cause.kind, cause.package) == (kind, package), cause
    assert words in cause.because


def test_a_cause_is_one_sentence_with_the_measurements_beside_it() -> None:
    cause = decide(facts("old", RELEASE, details=("old program, new runtime: the old bits",)))
    assert "\n" not in cause.because
    assert cause.details == ("old program, new runtime: the old bits",)


@pytest.mark.parametrize("gives", ["old", "new", "both", "neither", None])
@pytest.mark.parametrize("changes", [{}, JAX, XLA, RELEASE, OPTAX, OPTAX | CHEX, RELEASE | OPTAX])
@pytest.mark.parametrize("settings", [{}, FLAGS, PRECISION, PYTHON, FLAGS | PRECISION])
def test_no_cause_is_named_that_does_not_differ(
    gives: str | None, changes: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    for unstable in (False, True):
        for old, new in [(HOLDS, HOLDS), (FAILS, HOLDS), (HOLDS, FAILS), (ABSENT, ABSENT)]:
            given = facts(
                gives, changes, settings=settings, control_old=old, control_new=new, unstable=unstable, differs=True
            )
            cause = decide(given)
            allowed = {"undetermined"} | ({"environment"} if settings else set())
            allowed |= {"jax"} if "jax" in changes else set()
            allowed |= {"xla", "both"} if "jaxlib" in changes else set()
            allowed |= {"package"} if changes.keys() & {"optax", "chex"} else set()
            allowed |= {"both"} if settings else set()
            assert cause.kind in allowed
            if cause.package is not None:
                assert cause.package in changes
