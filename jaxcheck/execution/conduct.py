"""One recipe with one session: prepare, run every case in every mode, judge, and make candidates of what differs."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from jaxcheck.errors import GoldenError, UsageError
from jaxcheck.execution.candidates import candidate_case, replace_candidates
from jaxcheck.execution.judge import GoldenView, Outcome, bless_command, judge_case
from jaxcheck.execution.latency import distribution
from jaxcheck.execution.process import Death
from jaxcheck.execution.saved import SavedCase, Saving, saved_case
from jaxcheck.execution.session import DidNotStart, Session
from jaxcheck.execution.together import checked
from jaxcheck.goldens.exchange import read_tree, take_tree
from jaxcheck.goldens.golden import Golden, GoldenCase
from jaxcheck.goldens.replacing import cannot_write
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Position, Recipe, Registry
from jaxcheck.registry.select import ANY_CASE, Selection, check_id, unmatched_cases, wants
from jaxcheck.results import CheckResult, Environment, Finding, Latency, Status

TIMED_MODES = ("eager", "jit", "disable_jit")
CANDIDATE_STATUSES = frozenset({Status.FAIL, Status.MISSING, Status.STALE})
NO_CANDIDATE = "no candidate is kept"


@dataclass(frozen=True)
class Assignment:
    """What every recipe of a run is conducted with.

    `all_modes` and `keep_all` (candidates also for what passes) are for a blessing; `report` is called from several
    threads, once a check. For the gate, `saving` takes what is produced, `inputs` holds those of an earlier run, for
    cases that no golden has, and `everywhere` runs recipes with `gate: always` whatever their `when:` says.
    """

    registry: Registry
    selection: Selection
    goldens: GoldenStore
    candidates: GoldenStore
    scratch: Path
    judges: Executor
    timeout: float | None = None
    repeat: int = 1
    latency: int = 0
    all_modes: bool = False
    keep_all: bool = False
    saving: Saving | None = None
    inputs: GoldenStore | None = None
    everywhere: bool = False
    report: Callable[[CheckResult], None] = lambda result: None


@dataclass
class RecipeRun:
    """The state of one recipe while it is conducted."""

    work: Assignment
    recipe: Recipe
    session: Session
    golden: Golden | None = None
    unreadable: GoldenError | None = None
    damaged: list[str] = field(default_factory=list)
    generation: int = -1
    preparation: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    @property
    def environment(self) -> Environment:
        assert self.session.environment is not None
        return self.session.environment

    @property
    def folder(self) -> Path:
        """Where the session's worker puts arrays: one folder for all recipes, since what was read is gone."""
        folder = self.work.scratch / f"{id(self.session):x}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        return folder

    def limits(self, case: str | None = None) -> tuple[float, int | None]:
        """The seconds and, where they are limited, the bytes that a request may take."""
        said = self.recipe.case(case) if case else self.recipe
        return said.timeout if self.work.timeout is None else self.work.timeout, said.memory


@dataclass(frozen=True)
class Conducted:
    """What came of one recipe; `golden` is the digest of the golden that it was compared with, if there was one."""

    results: tuple[CheckResult, ...]
    sources: Mapping[str, str]
    damaged: tuple[str, ...] = ()
    golden: str = ""


def conduct(work: Assignment, recipe: Recipe, session: Session) -> Conducted:
    """Every selected check of the recipe. A dead worker costs one check; a broken import all of this recipe's."""
    try:
        session.start()
    except DidNotStart as error:
        if session.environment is None:
            raise
        return Conducted(
            tuple(without_worker(work, recipe, Status.CRASH, str(error))), {}
        )  # it did before, and may again
    run = RecipeRun(work, recipe, session)
    _open_golden(run)
    try:
        results = _skipped(run) or _refused(run) or _cases(run)
    finally:
        session.tidy()
        if run.golden is not None:
            run.golden.close()
    sources = {path: file_digest(path) for path in run.sources}
    return Conducted(tuple(results), sources, tuple(run.damaged), run.golden.digest if run.golden else "")


def file_digest(path: str) -> str:
    """sha256 of a source file; empty for one that is gone."""
    try:
        status = os.stat(path)
        return _digest(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return ""


@functools.lru_cache(maxsize=4096)
def _digest(path: str, changed: int, size: int) -> str:
    """Once for all recipes that have the source in common."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _open_golden(run: RecipeRun) -> None:
    try:
        run.golden = run.work.goldens.load(run.recipe.name, run.environment.backend)
    except GoldenError as error:
        run.unreadable = error
        run.damaged.append(str(error))


def _skipped(run: RecipeRun) -> list[CheckResult]:
    if run.work.everywhere and run.recipe.gate_always:
        return []
    reason = inapplicable(run.recipe, run.environment)
    return _for_all(run, Status.SKIP, reason) if reason else []


def inapplicable(recipe: Recipe, environment: Environment) -> str | None:
    """Why `when:` keeps the recipe from this environment, or None where it applies."""
    when = recipe.when
    if when.backends and environment.backend not in when.backends:
        return f"needs backend {' or '.join(when.backends)}; this is {environment.backend}"
    if when.python and not SpecifierSet(when.python).contains(environment.python, prereleases=True):
        return f"needs Python {when.python}; this is {environment.python}"
    versions = {"jax": environment.jax, "jaxlib": environment.jaxlib, "optax": environment.optax}
    versions |= {"numpy": environment.numpy, **environment.packages}
    for package, specifier in when.packages.items():
        version = versions.get(package)
        if version is None:
            return f"needs {package} {specifier}, which is not installed"
        if not SpecifierSet(specifier).contains(version, prereleases=True):
            return f"needs {package} {specifier}; this is {version}"
    return None


def _for_all(run: RecipeRun, status: Status, reason: str, hint: str = "", **output: str) -> list[CheckResult]:
    """The same result for every selected check, where no case could be run."""
    names = run.preparation.get("cases") or run.recipe.cases or (run.golden.cases if run.golden else ())
    results = without_worker(run.work, run.recipe, status, reason, hint, list(names))
    return [result.model_copy(update=output) for result in results]


def without_worker(
    work: Assignment, recipe: Recipe, status: Status, reason: str, hint: str = "", names: list[str] | None = None
) -> list[CheckResult]:
    """One result for each selected check of a recipe that no worker could run; `*` where its cases are not known."""
    names = names or list(recipe.cases)
    results = [
        _plain_result(recipe, case, mode, status, reason, hint)
        for case in names or [ANY_CASE]
        for mode in recipe.modes
        if not names or wants(work.selection, recipe, case, mode)
    ]
    for result in results:
        work.report(result)
    return results


def _reported(run: RecipeRun, results: list[CheckResult]) -> list[CheckResult]:
    for result in results:
        run.work.report(result)
    return results


def _refused(run: RecipeRun) -> list[CheckResult]:
    """Prepares the recipe; results where it cannot be run at all."""
    death = _prepare(run)
    if death:
        stdout, stderr = run.session.output()
        return _for_all(run, Status(death.kind), death.reason, stdout=stdout, stderr=stderr)
    broken = [text for case, _, text in run.preparation["faults"] if case is None]
    if not broken:
        return []
    where = run.recipe.locate("kernel")
    return _for_all(run, Status.ERROR, f"{where}: {'; '.join(broken)}", "jaxcheck check")


def _prepare(run: RecipeRun) -> Death | None:
    """Makes the worker know the recipe (again, after a restart). One that dies over it by chance does not do so twice,
    and no check has begun."""
    death = _prepared(run)
    return _prepared(run) if death and death.kind == "crash" else death


def _prepared(run: RecipeRun) -> Death | None:
    try:
        run.session.start()
    except DidNotStart as error:  # it started before, so that this may be over with the next check
        return Death("crash", str(error))
    if run.generation == run.session.generation:
        return None
    request = {"op": "prepare", "recipe": recipe_message(run.recipe, run.work.registry.root), "alone": True}
    reply = run.session.request(request, *run.limits())
    if isinstance(reply, Death):
        return reply
    run.generation = run.session.generation
    run.preparation = reply
    run.sources = tuple(reply.get("sources", ()))
    return None


def recipe_message(recipe: Recipe, root: str) -> dict[str, Any]:
    """The recipe as the worker gets it."""
    return {
        "name": recipe.name,
        "kernel": recipe.kernel,
        "static": list(recipe.static),
        "config": {name: value for name, value in recipe.config.items() if name != "enable_x64"},
        "reference": recipe.reference,
        "properties": list(recipe.properties),
        "inputs": recipe.inputs,
        "compares_inputs": any(rule.inputs() for rule in recipe.outputs.values()),
        "options": mode_options(recipe),
        "allow_key_reuse": recipe.allow_key_reuse,
        "deprecations": recipe.deprecations,
        "traces": recipe.traces,
        "cases": {name: dict(case.args or {}) for name, case in recipe.cases.items()},
        "root": root,
    }


def mode_options(recipe: Recipe) -> dict[str, Any]:
    """{mode: what the recipe says of it}, for modes that take options."""
    said: dict[str, Any] = {"vmap": [asdict(batch) for batch in recipe.vmap]}
    if recipe.grad:
        said["grad"] = asdict(recipe.grad)
    if recipe.sharded:
        said["sharded"] = {"devices": recipe.devices, "processes": recipe.processes, **asdict(recipe.sharded)}
    return said


def _cases(run: RecipeRun) -> list[CheckResult]:
    names = run.preparation["cases"]
    unmatched = unmatched_cases(run.work.selection, run.recipe, names)
    if unmatched:
        raise UsageError(
            f"{', '.join(unmatched)}: recipe {run.recipe.name} has no such case",
            hint=f"its cases: {', '.join(names)}",
        )
    results, judged = [], []
    for name in names:
        modes = _modes(run, name)
        if modes and (faults := _argument_faults(run, name, modes)):
            results += _reported(run, faults)
        elif modes:
            view = _view(run, name)
            outcomes = [_outcome(run, name, mode, view) for mode in modes]
            judged.append((name, outcomes, run.work.judges.submit(_judge, run, name, outcomes, view)))
    changes: dict[str, GoldenCase] = {}
    made: dict[str, GoldenCase] = {}
    saved: dict[str, SavedCase] = {}
    for name, outcomes, future in judged:  # while the judges are at work, the worker is on to the next case
        view, found = future.result()
        wanted = _is_candidate(run, view, found)
        if wanted or run.work.saving:
            try:
                candidate = _candidate(run, name, view, outcomes)
            except GoldenError as error:  # the disk is full, say: what was found stays true
                candidate, found = None, [_noted(result, f"{NO_CANDIDATE}: {error}") for result in found]
            made |= {name: candidate} if candidate else {}
            changes |= {name: candidate} if candidate and wanted else {}
        results += found
        if run.work.saving:
            saved[name] = saved_case(run.recipe, outcomes, view.case, run.environment.backend)
    if run.work.saving:
        run.work.saving.keep(run.recipe, saved, made)
    try:
        replace_candidates(run.work.candidates, run.recipe.name, changes, [name for name, _, _ in judged])
    except GoldenError as error:  # what was found stays true
        results = [_noted(result, f"{NO_CANDIDATE}: {error}") for result in results]
    return results + _orphans(run, names)


def _noted(result: CheckResult, note: str) -> CheckResult:
    return result.model_copy(update={"notes": (*result.notes, note)})


def _judge(
    run: RecipeRun, name: str, outcomes: list[Outcome], view: GoldenView
) -> tuple[GoldenView, list[CheckResult]]:
    differ: list[str] = next((o.reply["inputs_differ"] for o in outcomes if o.reply.get("inputs_differ")), [])
    if differ:
        reason = f"the inputs changed since the golden was blessed: {', '.join(differ)}"
        view = GoldenView("stale", reason, bless_command(run.recipe), view.path, view.case)
    return view, _reported(run, judge_case(run.recipe, name, outcomes, view, run.environment))


def _modes(run: RecipeRun, case: str) -> list[str]:
    """The selected modes; a blessing takes all of them, since its brakes compare them."""
    selected = [mode for mode in run.recipe.modes if wants(run.work.selection, run.recipe, case, mode)]
    return list(run.recipe.modes) if selected and run.work.all_modes else selected


def _argument_faults(run: RecipeRun, name: str, modes: list[str]) -> list[CheckResult]:
    """The same error for every mode of a case whose arguments do not fit its kernel."""
    faults = [(argument, text) for case, argument, text in run.preparation["faults"] if case == name]
    reason = "; ".join(f"{_argument_position(run.recipe, name, argument)}: {text}" for argument, text in faults)
    return [_plain_result(run.recipe, name, mode, Status.ERROR, reason, "jaxcheck check") for mode in modes if reason]


def _plain_result(recipe: Recipe, case: str, mode: str, status: Status, reason: str, hint: str = "") -> CheckResult:
    """A result that no kernel had a part in."""
    return CheckResult(
        id=check_id(recipe.name, case, mode),
        recipe=recipe.name,
        case=case,
        mode=mode,
        status=status,
        reason=reason,
        hint=hint,
        position=str(recipe.case(case).position),
        tags=recipe.tags,
    )


def _argument_position(recipe: Recipe, case: str, argument: str | None) -> Position:
    keys = ("cases", case, "args", argument) if argument else ("cases", case)
    return recipe.locate(*keys)


def _view(run: RecipeRun, name: str) -> GoldenView:
    """What the golden says of this case, before anything has run."""
    command = bless_command(run.recipe)
    if run.unreadable:
        return GoldenView("damaged", str(run.unreadable), run.unreadable.hint or "")
    if run.golden is None:
        return GoldenView("missing", f"no golden {run.work.goldens.path(run.recipe.name).name}", command)
    path = str(run.golden.path)
    if name not in run.golden.cases:
        return GoldenView("missing", f"the golden has no case {name!r}", command, path)
    try:
        case = run.golden.case(name)
    except GoldenError as error:
        run.damaged.append(str(error))
        return GoldenView("damaged", str(error), error.hint or "", path)
    stale = _staleness(run.recipe, name, case)
    return GoldenView("stale" if stale else "present", stale, command if stale else "", path, case)


def _staleness(recipe: Recipe, name: str, golden: GoldenCase) -> str:
    """Why the golden is of another recipe than this, or nothing."""
    if golden.hash != recipe.case_hash(name):
        return "the recipe changed since the golden was blessed (kernel, arguments, static, config, env or devices)"
    raises = recipe.case(name).raises
    contract = "eager" if recipe.golden == "truth" else recipe.golden
    if (golden.outputs is None) == bool(raises and raises.expected_in(contract)):
        return ""
    held, wanted = ("an expected error", "values") if golden.outputs is None else ("values", "an expected error")
    return f"the golden holds {held}, the case now has {wanted}"


def _outcome(run: RecipeRun, name: str, mode: str, view: GoldenView) -> Outcome:
    """One check in the worker."""
    reply: dict[str, Any] | Death | None = _prepare(run)
    try:
        reply = reply or checked(
            run.session,
            run.recipe,
            {
                "op": "check",
                "recipe": run.recipe.name,
                "case": name,
                "mode": mode,
                "stored": _stored(run, name, view),
                "folder": str(run.folder),
                "repeat": run.work.repeat,
            },
            *run.limits(name),
        )
        stdout, stderr = run.session.output()
        if isinstance(reply, Death):
            return Outcome(mode, death=reply, stdout=stdout, stderr=stderr)
        outputs = take_tree(reply["outputs"]) if "outputs" in reply else None
        reference = read_tree(reply["reference"])[0] if "reference" in reply else None  # that of the other modes, too
        pairs = [(words, take_tree(one), take_tree(other)) for words, one, other in reply.get("pairs", ())]
        inputs = take_tree(reply["given"]) if "given" in reply else None
    except GoldenError as error:  # a full disk, a folder that somebody cleaned up
        return Outcome(mode, {"outcome": "lost", "reason": str(error)})
    timed = _latency(run, name, mode, view) if run.work.latency and reply["outcome"] == "value" else None
    if isinstance(timed, str):
        reply["notes"].append(f"not timed: {timed}")
        timed = None
    return Outcome(mode, reply, None, outputs, reference, stdout, stderr, tuple(pairs), inputs, timed)


def _latency(run: RecipeRun, name: str, mode: str, view: GoldenView) -> Latency | str | None:
    """The distribution of the calls' times, or why there is none; None for modes that are more than one call."""
    if mode not in TIMED_MODES:
        return None
    if (death := _prepare(run)) is not None:
        return death.reason
    request = {
        "op": "latency",
        "recipe": run.recipe.name,
        "case": name,
        "mode": mode,
        "stored": _stored(run, name, view),
    }
    reply = run.session.request({**request, "samples": run.work.latency}, *run.limits(name))
    run.session.output()
    if isinstance(reply, Death):
        return reply.reason
    return distribution(reply) if "samples" in reply else str(reply["reason"])


def _is_candidate(run: RecipeRun, view: GoldenView, results: list[CheckResult]) -> bool:
    """Whether the case is to wait for a blessing: it differs from its golden, or has none."""
    differs = view.state == "damaged" or any(result.status in CANDIDATE_STATUSES for result in results)
    return differs or run.work.keep_all


def _candidate(run: RecipeRun, name: str, view: GoldenView, outcomes: list[Outcome]) -> GoldenCase | None:
    """The case as a golden would hold it; None where nothing can be blessed; GoldenError where it cannot be kept."""
    if _prepare(run) is not None:
        return None
    request = {"op": "export", "recipe": run.recipe.name, "case": name, "stored": _stored(run, name, view)}
    reply = run.session.request({**request, "folder": str(run.folder)}, *run.limits(name))
    run.session.output()
    if isinstance(reply, Death):
        return None
    if "inputs" not in reply:
        raise GoldenError(str(reply["reason"]))
    return candidate_case(run.recipe, name, outcomes, reply, run.environment)


def _stored(run: RecipeRun, name: str, view: GoldenView) -> str | None:
    """The golden whose inputs are run: only where it is of this very recipe."""
    if view.state == "present":
        return view.path
    earlier = run.work.inputs.load(run.recipe.name) if run.work.inputs else None
    if earlier is None:
        return None
    with earlier:
        same = name in earlier.cases and earlier.summary(name).hash == run.recipe.case_hash(name)
        return str(earlier.path) if same else None


def _orphans(run: RecipeRun, names: list[str]) -> list[CheckResult]:
    """Cases that the golden holds and the registry no longer has: less is verified than somebody once blessed."""
    contract = run.recipe.golden if run.recipe.golden in run.recipe.modes else run.recipe.modes[0]
    held = run.golden.cases if run.golden else ()
    gone = [name for name in held if name not in names and wants(run.work.selection, run.recipe, name, contract)]
    reason = "the golden holds this case, the registry no longer has it"
    hint = bless_command(run.recipe) + " (drops it)"
    orphan = {"findings": (Finding(kind="orphan", message=reason),)}
    results = [_plain_result(run.recipe, name, contract, Status.STALE, reason, hint) for name in gone]
    return _reported(run, [result.model_copy(update=orphan) for result in results])
