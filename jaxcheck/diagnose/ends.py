"""What is held against what: the two ends of a diagnosis, each with its outputs, its inputs and its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jaxcheck.errors import NothingVerified, UsageError
from jaxcheck.execution.comparison import Comparison
from jaxcheck.execution.process import Launch
from jaxcheck.execution.run import launch_for
from jaxcheck.execution.saved import SavedRun
from jaxcheck.execution.state import State
from jaxcheck.execution.verdicts import judged
from jaxcheck.gate.environments import Installation, Wanted, provide
from jaxcheck.gate.gate import AFTER, BEFORE, Conduct, Project, gate, run_in
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Tree
from jaxcheck.registry.model import GRADIENT, MODES, Recipe
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult, Environment, LeafResult, Status
from jaxcheck.results.gate import Gate

WORDS = ("golden", "jit", "eager", "truth")
OTHER = {"eager": "jit", "jit": "eager"}
BROKEN = (Status.CRASH, Status.TIMEOUT)


@dataclass(frozen=True)
class Question:
    """What is asked: a case, a mode (None: the first that diverges), and what it is held against: one of WORDS, or a
    requirement."""

    project: Project
    recipe: str
    case: str
    mode: str | None
    against: str
    conduct: Conduct
    cache: Path

    @property
    def of_versions(self) -> bool:
        return self.against not in WORDS

    @property
    def of_modes(self) -> bool:
        return self.against in OTHER


@dataclass(frozen=True)
class End:
    """One side: what it is called, where it was, and what it was given and gave (`outputs` by mode)."""

    label: str
    environment: Environment | None
    inputs: Tree | None
    outputs: Mapping[str, Tree]
    launch: Launch | None = None
    stored: Path | None = None
    raised: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ends:
    """Both sides in the mode that is examined, and their leaves compared. `diverges` where that is worth a ladder."""

    question: Question
    recipe: Recipe
    mode: str
    before: End
    now: End
    leaves: tuple[LeafResult, ...]
    diverges: bool
    results: Mapping[str, CheckResult]
    golden: GoldenCase | None = None
    golden_path: Path | None = None
    gate: Gate | None = None
    structure: str = ""

    @property
    def expected(self) -> Tree | None:
        return self.before.outputs.get(OTHER_SIDE.get(self.question.against, self.mode))

    @property
    def actual(self) -> Tree | None:
        return self.now.outputs.get(self.mode)


OTHER_SIDE = {"eager": "eager", "jit": "jit"}  # which of the other end's modes is meant, where that is not the same


def ends_of(question: Question) -> Ends:
    """Runs what is to be compared. NothingVerified where it cannot be run; UsageError where it cannot be meant."""
    return _of_versions(question) if question.of_versions else _of_here(question)


def narrowed(question: Question, modes: tuple[str, ...]) -> Question:
    """The question with its recipe alone in the registry, and with the modes that have to be run."""
    registry = question.project.registry
    recipe = registry.recipes[question.recipe]
    if question.mode is not None and question.mode not in MODES:
        raise UsageError(f"no mode {question.mode!r}", hint=f"modes: {', '.join(MODES)}")
    if question.mode in ("vmap", "grad", "sharded") and question.mode not in recipe.modes:
        raise UsageError(f"{recipe.name} is not run in mode {question.mode}", hint=f"modes: {', '.join(recipe.modes)}")
    if question.mode == GRADIENT and question.of_modes:
        raise UsageError("gradients are not compared with another mode", hint="--against golden, or truth")
    if question.of_modes and question.mode == question.against:
        raise UsageError(f"{question.mode} is not held against itself", hint=f"--mode {OTHER[question.against]}")
    wanted = dict.fromkeys([*recipe.modes, *modes, *([question.mode] if question.mode else [])])
    alone = replace(recipe, modes=tuple(mode for mode in MODES if mode in wanted))
    project = replace(question.project, registry=replace(registry, recipes={recipe.name: alone}))
    return replace(question, project=project)


def _of_here(question: Question) -> Ends:
    """One environment: against the golden, the other mode, or the truth."""
    own = question.project.registry.recipes[question.recipe].modes
    question = narrowed(question, ("eager", "jit"))
    recipe = question.project.registry.recipes[question.recipe]
    installation = provide(Wanted(), question.cache, question.conduct.say)
    selection = Selection(names=(f"{recipe.name}::{question.case}",))
    saved = run_in(question.project, selection, installation, "now", question.conduct)
    now = end_of(question, saved, "now", installation)
    results = {result.mode: result for result in saved.run.results}
    golden, path = _golden(question, now)
    _check_examinable(question, results, now)
    shared = _Shared(question, recipe, own, now, results, golden, path)
    if question.against == "golden":
        return _against_golden(shared)
    if question.against == "truth":
        mode = question.mode or own[0]
        before = replace(now, label="the truth", outputs={})
        return shared.ends(mode, before, *against_truth(shared, mode))
    mode = question.mode or OTHER[question.against]
    leaves, structure = compared(shared, now.outputs.get(question.against), now.outputs.get(mode), question.against)
    before = replace(now, label=question.against)
    return shared.ends(mode, before, leaves, structure, _moved(leaves) or bool(structure))


@dataclass(frozen=True)
class _Shared:
    """What all comparisons in one environment have in common. `own` are the modes that the recipe itself asks for: in
    another one its kernel may raise, and nobody minds."""

    question: Question
    recipe: Recipe
    own: tuple[str, ...]
    now: End
    results: Mapping[str, CheckResult]
    golden: GoldenCase | None
    path: Path | None

    def ends(self, mode: str, before: End, leaves: tuple[LeafResult, ...], structure: str, diverges: bool) -> Ends:
        return Ends(
            question=self.question,
            recipe=self.recipe,
            mode=mode,
            before=before,
            now=self.now,
            leaves=leaves,
            diverges=diverges,
            results=self.results,
            golden=self.golden,
            golden_path=self.path,
            structure=structure,
        )


def _golden(question: Question, now: End) -> tuple[GoldenCase | None, Path | None]:
    backend = now.environment.backend if now.environment else "cpu"
    golden = question.project.goldens.load(question.recipe, backend)
    if golden is None:
        return None, None
    with golden:
        if question.case not in golden.cases:
            return None, None
        return golden.case(question.case), golden.path


def _against_golden(shared: _Shared) -> Ends:
    golden, question = shared.golden, shared.question
    name = f"{question.recipe}::{question.case}"
    if golden is None:
        raise UsageError(
            f"{name} has no golden to be held against",
            hint=f'jaxcheck bless {name} --reason "…"; or --against truth, jit or jax==VERSION',
        )
    outputs = {mode: golden.outputs for mode in shared.recipe.modes if golden.outputs and mode != GRADIENT}
    if golden.gradients is not None:
        outputs[GRADIENT] = golden.gradients.under(GRADIENT)
    before = End("the golden", environment_from(golden.blessing.environment), golden.inputs, outputs)
    chosen = [question.mode] if question.mode else [mode for mode in shared.own if mode in outputs]
    found = [_golden_mode(shared, before, mode) for mode in chosen]
    if not found:
        raise NothingVerified(f"the golden of {name} holds no outputs", hint=f"jaxcheck show {name}")
    return next((one for one in found if one.diverges), found[0])


def _golden_mode(shared: _Shared, before: End, mode: str) -> Ends:
    """Drift within tolerance is worth a ladder where the mode is asked for, or is the one that was blessed."""
    golden = shared.golden
    assert golden is not None
    if mode in shared.now.raised:
        return shared.ends(mode, before, (), "", True)
    actual, expected = shared.now.outputs.get(mode), before.outputs.get(mode)
    leaves, structure = compared(shared, expected, actual, "golden")
    if (
        expected is not None
        and actual is not None
        and not structure
        and all(leaf.path in expected.by_path for leaf in leaves)
    ):
        leaves = judged(leaves, golden, expected, actual, shared.recipe)
    by_bits = golden.contract == mode or (shared.question.mode == mode and golden.contract != "truth")
    beyond = any(leaf.reason for leaf in leaves)
    return shared.ends(mode, before, leaves, structure, bool(structure) or beyond or (by_bits and _moved(leaves)))


def against_truth(shared: _Shared, mode: str) -> tuple[tuple[LeafResult, ...], str, bool]:
    """The leaves held against the truth that the golden or the reference knows; what is beyond its tolerance diverges.

    Without either only the walk can tell.
    """
    result, actual = shared.results.get(mode), shared.now.outputs.get(mode)
    leaves = result.against.get("reference", ()) if result else ()
    truth = shared.golden.truth if shared.golden else None
    if not leaves and truth is not None and actual is not None:
        comparison = Comparison(shared.recipe, _backend(shared.now), shared.now.inputs)
        leaves = comparison.with_reference(_known(truth, actual), actual)[1]
    return leaves, "", any(leaf.reason for leaf in leaves)


def _known(truth: Tree, actual: Tree) -> Tree:
    """The truth of leaves that the outputs have."""
    kept = tuple(leaf for leaf in truth.leaves if leaf.path in actual.by_path)
    return Tree({"dict": {leaf.path: "*" for leaf in kept}}, kept)


def compared(
    shared: _Shared, expected: Tree | None, actual: Tree | None, against: str
) -> tuple[tuple[LeafResult, ...], str]:
    """(leaves, what is wrong with the tree as such)."""
    if expected is None or actual is None:
        return (), f"{'the other side' if expected is None else 'this side'} gives no outputs"
    comparison = Comparison(shared.recipe, _backend(shared.now), shared.now.inputs)
    findings, leaves = comparison.trees("golden", expected, actual, "differs", against)
    structure = "; ".join(finding.message for finding in findings) if not leaves else ""
    return leaves, structure


def _backend(end: End) -> str:
    return end.environment.backend if end.environment else "cpu"


def _moved(leaves: tuple[LeafResult, ...]) -> bool:
    return any(leaf.moved for leaf in leaves)


def _check_examinable(question: Question, results: Mapping[str, CheckResult], now: End) -> None:
    """NothingVerified where no mode gave anything, and none raised an error that could be told."""
    name = f"{question.recipe}::{question.case}"
    asked = [one for mode, one in results.items() if question.mode in (None, mode)]
    if (question.mode is None and (now.outputs or now.raised)) or question.mode in {*now.outputs, *now.raised}:
        return
    reason = next((result.reason for result in asked if result.reason), "it gave no outputs")
    broken = any(result.status in BROKEN for result in asked)
    hint = f"jaxcheck run {name} -v" if broken else "jaxcheck check"
    raise NothingVerified(f"{name} cannot be examined: {reason}", hint=hint)


def end_of(question: Question, saved: SavedRun, label: str, installation: Installation) -> End:
    """A side from its saved run."""
    held = saved.cases(question.recipe).get(question.case)
    golden = saved.golden(question.recipe)
    inputs, stored = None, None
    if golden is not None:
        with golden:
            if question.case in golden.cases:
                inputs, stored = golden.case(question.case).inputs, golden.path
    outputs = {
        mode: tree.under(GRADIENT) if mode == GRADIENT else tree
        for mode, tree in (held.outputs if held else {}).items()
    }
    state = State(question.project.folder / "state")
    launch = launch_for(question.project.registry, question.conduct.backend, state, installation.python)
    return End(
        label=label,
        environment=saved.run.environment,
        inputs=inputs,
        outputs=outputs,
        launch=replace(launch, cache=False),
        stored=stored,
        raised=held.raised if held else {},
    )


def environment_from(blessed: Mapping[str, Any]) -> Environment | None:
    """The environment that a golden was blessed in, as far as it tells; None where that is not enough."""
    try:
        return Environment.model_validate(blessed)
    except ValidationError:
        return None


def _of_versions(question: Question) -> Ends:
    """Two environments: this one, and this one with the requirement."""
    own = question.project.registry.recipes[question.recipe].modes
    question = narrowed(question, ("eager", "jit"))
    project, conduct = question.project, question.conduct
    before = provide(Wanted(), question.cache, conduct.say)
    after = provide(Wanted((question.against,)), question.cache, conduct.say)
    recipe = project.registry.recipes[question.recipe]
    selection = Selection(names=(f"{recipe.name}::{question.case}",))
    gated = gate(project, selection, before, after, (question.against,), conduct, ())
    old, new = (SavedRun.open(project.folder / name) for name in (BEFORE, AFTER))
    sides = (end_of(question, old, before.label, before), end_of(question, new, question.against, after))
    results = {result.mode: result for result in gated.results}
    _check_examinable(question, results, sides[1])
    moved = [mode for mode in own if mode in results and _moved(results[mode].leaves)]
    broken = [mode for mode in own if mode in results and results[mode].verdict == "broken"]
    mode = question.mode or next(iter([*moved, *broken, *own]))
    leaves = results[mode].leaves if mode in results else ()
    return Ends(
        question=question,
        recipe=recipe,
        mode=mode,
        before=sides[0],
        now=sides[1],
        leaves=leaves,
        diverges=_moved(leaves) or (mode in results and results[mode].verdict == "broken"),
        results=results,
        gate=gated,
    )
