"""Blessing: which cases may become goldens, decided by a pure function, and the one place that makes them so."""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import importlib.metadata
import os
import platform
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from jaxcheck.errors import GoldenError
from jaxcheck.execution.candidates import cast_to
from jaxcheck.execution.conduct import file_digest
from jaxcheck.execution.truth import Known
from jaxcheck.goldens.golden import Blessing, GoldenCase
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import GRADIENT, Recipe, Registry
from jaxcheck.registry.select import Selection, selected_recipes, wants_case
from jaxcheck.registry.tolerance import is_digest
from jaxcheck.results import CheckResult, Run, Status

Action = Literal["bless", "drop", "keep", "refuse"]
ACTIONS: tuple[Action, ...] = get_args(Action)
# Brakes in the order in which they are told; each is released by `--allow NAME`.
BRAKES: Mapping[str, str] = {
    "error": "a mode raised an exception that the recipe does not expect",
    "crash": "a mode killed its worker",
    "timeout": "a mode ran out of time",
    "modes": "the modes disagree with one another",
    "property": "a property does not hold",
    "reference": "the outputs differ from the reference",
    "nonfinite": "a non-finite value is new, or not allowed",
    "mutation": "the kernel changes its arguments",
    "config": "the kernel changes its process",
    "determinism": "the kernel gives other bits at every call",
    "keys": "a PRNG key is used twice",
    "gradient": "the gradient is wrong",
    "traces": "the kernel is traced more often than it may be",
    "sharding": "an output is not sharded as the recipe says",
    "processes": "several processes give different outputs",
    "deprecation": "the kernel uses what a later release removes",
    "backend": "the golden was made on another backend",
    "truth": "the reference and the kernel in float64 contradict one another",
    "conditioning": "an output moves far for no reason",
}


@dataclass(frozen=True)
class CaseFacts:
    """What a run found out about one case, as far as a blessing asks for it; `digest` is of the candidate's content."""

    recipe: str
    case: str
    statuses: frozenset[Status]
    brakes: Mapping[str, str]
    differs: bool
    candidate: bool
    orphan: bool = False
    digest: str = ""


@dataclass(frozen=True)
class Decision:
    """What becomes of a case, and why; `override` is the option that would have let it pass."""

    action: Action
    reason: str
    override: str = ""


def decide(facts: CaseFacts, *, everything: bool, allowed: Collection[str]) -> Decision:
    """The policy: only what fails, is missing or stale (or everything), and no brake that nobody released."""
    if facts.orphan:
        return Decision("drop", "the registry no longer has this case")
    held = [brake for brake in BRAKES if brake in facts.brakes and brake not in allowed]
    if not (facts.differs or everything):
        if facts.statuses <= {Status.PASS, Status.SKIP}:
            return Decision("keep", "passes already")
        first = held[0] if held else next(iter(facts.brakes), "error")
        return Decision("refuse", f"it fails for another reason than its golden: {facts.brakes.get(first, first)}")
    if facts.statuses == {Status.SKIP}:
        return Decision("keep", "was skipped")
    if held:
        brake = held[0]
        return Decision("refuse", f"{BRAKES[brake]}: {facts.brakes[brake]}", f"--allow {brake}")
    if not facts.candidate:
        return Decision("refuse", "the mode that is its contract gave nothing to bless")
    return Decision("bless", "")


def facts_of(run: Run, candidates: GoldenStore, goldens: GoldenStore, backend: str) -> list[CaseFacts]:
    """One entry for each case of the run, in its order."""
    cases: dict[tuple[str, str], list[CheckResult]] = {}
    for result in run.results:
        cases.setdefault((result.recipe, result.case), []).append(result)
    held = {recipe: _held(candidates, recipe) for recipe, _ in cases}
    foreign = {recipe: foreign_backend(goldens, recipe, backend) for recipe, _ in cases}
    return [
        CaseFacts(
            recipe=recipe,
            case=case,
            statuses=frozenset(result.status for result in results),
            brakes=_brakes(results, foreign[recipe]),
            differs=any(_differs(result) for result in results),
            candidate=case in held[recipe],
            orphan=any(finding.kind == "orphan" for result in results for finding in result.findings),
            digest=held[recipe].get(case, ""),
        )
        for (recipe, case), results in cases.items()
    ]


def _held(candidates: GoldenStore, recipe: str) -> dict[str, str]:
    """{case: digest of its content}"""
    golden = candidates.load(recipe)
    if golden is None:
        return {}
    with golden:
        return {case: golden.summary(case).digest for case in golden.cases}


def foreign_backend(goldens: GoldenStore, recipe: str, backend: str) -> str:
    """Says so where the golden in use was blessed on another backend; its numbers are not this one's to replace."""
    try:
        golden = goldens.load(recipe, backend)
    except GoldenError:
        return ""
    if golden is None:
        return ""
    with golden:
        made = {str(golden.summary(case).blessing.environment.get("backend", backend)) for case in golden.cases}
    other = sorted(made - {backend})
    return f"it is of {', '.join(other)}, this is {backend} (--for-backend writes a golden of its own)" if other else ""


def _differs(result: CheckResult) -> bool:
    kinds = {finding.kind for finding in result.findings}
    return result.status in (Status.MISSING, Status.STALE) or "golden" in kinds


def _brakes(results: Sequence[CheckResult], foreign: str) -> dict[str, str]:
    """{brake: what was found}, from statuses and findings of every mode."""
    found: dict[str, str] = {}
    for result in results:
        golden_only = {finding.kind for finding in result.findings} == {"golden"}
        if result.status in (Status.ERROR, Status.CRASH, Status.TIMEOUT) and not golden_only:
            found.setdefault(result.status.value, f"{result.mode}: {result.reason}")
        for finding in result.findings:
            if finding.kind in BRAKES:
                found.setdefault(finding.kind, f"{result.mode}: {finding.message}")
        new = next((leaf for leaf in result.leaves if leaf.nonfinite), None)
        if new is not None and new.worst is not None:
            moved = f"{new.worst.golden} -> {new.worst.actual} at {list(new.worst.index)}"
            found.setdefault("nonfinite", f"{result.mode}: {new.path}: {moved}")
    if foreign:
        found["backend"] = foreign
    return found


def promote(
    run: Run,
    decisions: Sequence[tuple[CaseFacts, Decision]],
    candidates: GoldenStore,
    goldens: GoldenStore,
    blessing: Blessing,
    backend: str | None,
    known: Mapping[tuple[str, str], Known],
    recipes: Mapping[str, Recipe],
) -> tuple[list[Path], list[tuple[CaseFacts, Decision]]]:
    """Makes the candidates' bytes the goldens of the blessed cases, one atomic write a recipe: the files written, and
    the decisions, with those refused whose candidate another process took meanwhile.

    Of leaves that the recipe stores as digests, an excerpt.

    `backend` is given where the golden is to be that backend's own (`recipe@gpu.npz`); `known` is what they are to
    hold beside the numbers: truths and noise floors.
    """
    written, taken = [], set[str]()
    for name in dict.fromkeys(facts.recipe for facts, _ in decisions):
        chosen: dict[Action, list[CaseFacts]] = {action: [] for action in ACTIONS}
        for facts, decision in decisions:
            if facts.recipe == name:
                chosen[decision.action].append(facts)
        if not chosen["bless"] and not chosen["drop"]:
            continue
        target = _target_backend(goldens, name, run, backend)
        beside = [(facts, known.get((name, facts.case), Known())) for facts in chosen["bless"]]
        dropped = [facts.case for facts in chosen["drop"]]
        try:
            if _promote_recipe(name, recipes.get(name), beside, dropped, candidates, goldens, blessing, target):
                written.append(goldens.path(name, target))
        except _TakenAway:
            taken.add(name)
    return written, [(facts, _unless_taken(decision, facts.recipe in taken)) for facts, decision in decisions]


class _TakenAway(Exception):
    """A candidate is not there any more, or is another."""


def _unless_taken(decision: Decision, taken: bool) -> Decision:
    if decision.action != "bless" or not taken:
        return decision
    return Decision("refuse", "its candidate went away meanwhile: another bless, reject or run took it (jaxcheck run)")


def _target_backend(goldens: GoldenStore, name: str, run: Run, backend: str | None) -> str | None:
    """Which of a recipe's files is written: the one that was in use, unless another was asked for."""
    if backend is not None or run.environment is None:
        return backend
    own = goldens.path(name, run.environment.backend)
    return run.environment.backend if own.exists() else None


def _promote_recipe(
    name: str,
    recipe: Recipe | None,
    cases: Sequence[tuple[CaseFacts, Known]],
    dropped: Sequence[str],
    candidates: GoldenStore,
    goldens: GoldenStore,
    blessing: Blessing,
    backend: str | None,
) -> bool:
    changes: dict[str, GoldenCase] = {}
    if cases:
        candidate = candidates.load(name)
        if candidate is None:
            raise _TakenAway
        with candidate:
            for facts, beside in cases:
                if facts.case not in candidate.cases or candidate.summary(facts.case).digest != facts.digest:
                    raise _TakenAway
                blessed = _blessed(candidate.case(facts.case, program=True), blessing, beside)
                changes[facts.case] = blessed.abridged(partial(is_digest, recipe)) if recipe else blessed
    try:
        changed = goldens.update(name, changes, dropped, backend)
    except GoldenError:
        if not _damaged(goldens, name, backend):
            raise
        changed = goldens.save(name, changes, backend)  # nothing of the damaged file can be kept
    forget(candidates, name, changes)
    return changed


def _damaged(goldens: GoldenStore, name: str, backend: str | None) -> bool:
    try:
        golden = goldens.load(name, backend)
        if golden is not None:
            with golden:
                for case in golden.cases:
                    golden.case(case)
    except GoldenError:
        return True
    return False


def _blessed(case: GoldenCase, blessing: Blessing, known: Known) -> GoldenCase:
    """The candidate's bytes under the blessing's name; the environment stays the one that made them."""
    made = dataclasses.replace(blessing, environment=case.blessing.environment)
    outputs, gradients = case.outputs, case.gradients
    if case.contract == "truth" and known.truth is not None:
        outputs = outputs and cast_to(known.truth, outputs)
        gradients = gradients and cast_to(known.truth, gradients, GRADIENT)
    return dataclasses.replace(
        case,
        blessing=made,
        outputs=outputs,
        gradients=gradients,
        truth=known.truth,
        tolerance=case.tolerance if known.tolerance is None else known.tolerance,
        extra={**case.extra, **known.extra},
    )


def held_back(
    decisions: Sequence[tuple[CaseFacts, Decision]], known: Mapping[tuple[str, str], Known], allowed: Collection[str]
) -> list[tuple[CaseFacts, Decision]]:
    """The decisions, with those refused whose truth or noise floor speaks against them.

    Who allows a kernel to differ from its reference has said which of the two is wrong.
    """
    released = {*allowed, "truth"} if "reference" in allowed else set(allowed)
    result = []
    for facts, decision in decisions:
        brakes = known.get((facts.recipe, facts.case), Known()).brakes
        brake = next((name for name in BRAKES if name in brakes and name not in released), None)
        if decision.action == "bless" and brake:
            decision = Decision("refuse", f"{BRAKES[brake]}: {brakes[brake]}", f"--allow {brake}")
        result.append((facts, decision))
    return result


def forget(candidates: GoldenStore, name: str, cases: Collection[str]) -> int:
    """Drops candidates; how many there were."""
    held = [case for case in _held(candidates, name) if case in cases]
    candidates.update(name, {}, remove=held)
    return len(held)


def blessing_of(reason: str, who: str | None, folder: Path) -> Blessing:
    """Who blesses, when, at which commit."""
    import jaxcheck

    return Blessing(
        reason=reason,
        who=who or _git(folder, "config", "user.name") or getpass.getuser(),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=_commit(folder),
        jaxcheck=jaxcheck.__version__,
        environment={},
    )


def _commit(folder: Path) -> str:
    commit = _git(folder, "rev-parse", "HEAD")
    dirty = _git(folder, "status", "--porcelain", "--untracked-files=no") if commit else ""
    return f"{commit}-dirty" if dirty else commit


def _git(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def fresh_run(run: Run | None, registry: Registry, selection: Selection, backend: str | None) -> Run | None:
    """The last run, cut to the selection, where blessing it means blessing what was seen; None where to run again.

    It must be of this registry, of the same sources below its folder, the same packages and backend, and hold every
    selected case in every mode.
    """
    if run is None or run.backend != backend or changed_since(run, registry):
        return None
    recipes = selected_recipes(registry, selection)
    done: dict[str, dict[str, set[str]]] = {}
    for result in run.results:
        done.setdefault(result.recipe, {}).setdefault(result.case, set()).add(result.mode)
    for recipe in recipes:
        cases = done.get(recipe.name, {})
        known = [modes for case, modes in cases.items() if case in recipe.cases or recipe.inputs]
        complete = [set(recipe.modes) <= modes for modes in known]
        if not cases or not all(complete) or not set(recipe.cases) <= set(cases):
            return None
    return selected_results(run, registry, selection)


def as_it_left_them(run: Run, candidates: GoldenStore, goldens: GoldenStore) -> bool:
    """Whether every candidate that the run left is still there, none blessed or rejected since; and whether what passed
    was compared with the goldens that are here now, none replaced, removed or of another folder."""
    if run.environment is None:
        return False
    backend = run.environment.backend
    facts = facts_of(run, candidates, goldens, backend)
    recipes = {fact.recipe for fact in facts}
    same = {name for name in recipes if run.golden_digests.get(name) == _digest_in_use(goldens, name, backend)}
    return bool(facts) and all(fact.candidate or fact.orphan if fact.differs else fact.recipe in same for fact in facts)


def _digest_in_use(goldens: GoldenStore, recipe: str, backend: str) -> str | None:
    """As a run says it; None of a golden that is damaged."""
    try:
        golden = goldens.load(recipe, backend)
    except GoldenError:
        return None
    if golden is None:
        return ""
    with golden:
        return golden.digest


def selected_results(run: Run, registry: Registry, selection: Selection) -> Run:
    """The run, cut to the selected cases."""
    recipes = {recipe.name: recipe for recipe in selected_recipes(registry, selection)}
    chosen = [
        result
        for result in run.results
        if (recipe := recipes.get(result.recipe)) is not None and wants_case(selection, recipe, result.case)
    ]
    return run.model_copy(update={"results": tuple(chosen)})


def changed_since(run: Run, registry: Registry) -> str:
    """Why blessing what this run left may not be blessing what the kernels give now; empty where nothing changed."""
    if run.interrupted:
        return "it was interrupted"
    if run.registry_digest != registry.digest:
        return "the registry changed since"
    other = [path for path, digest in run.sources.items() if file_digest(path) != digest]
    if other:
        return f"{', '.join(os.path.basename(path) for path in other)} changed since"
    return "" if _same_packages(run) else "it was run with other packages"


def _same_packages(run: Run) -> bool:
    """Of all that the run says it had."""
    environment = run.environment
    if environment is None or environment.python != platform.python_version():
        return False
    had: dict[str, str | None] = {**environment.packages, "jax": environment.jax, "jaxlib": environment.jaxlib}
    had |= {"optax": environment.optax, "numpy": environment.numpy}
    return all(_version(name) == version for name, version in had.items())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def bless_again(facts: CaseFacts, override: str) -> str:
    """The command that would bless a refused case."""
    return f'jaxcheck bless {shlex.quote(f"{facts.recipe}::{facts.case}")} {override} --reason "…"'
