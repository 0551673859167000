"""`jaxcheck bless` and `jaxcheck reject`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.cli.options import Project
    from jaxcheck.execution.bless import CaseFacts, Decision
    from jaxcheck.execution.session import Spare
    from jaxcheck.execution.tightening import Tightening
    from jaxcheck.execution.truth import Known
    from jaxcheck.goldens.store import GoldenStore
    from jaxcheck.registry.select import Selection
    from jaxcheck.results import Environment, Run


class Workers(NamedTuple):
    """How a blessing gets its workers. `compiled` is the folder of compiled programs, or why there is none; the worker
    that ran the kernels is left in `spare` for their truth."""

    backend: str | None
    jobs: int | None
    compiled: Path | str
    spare: Spare | None = None


Reason = Annotated[str | None, typer.Option("--reason", envvar="JAXCHECK_REASON", help="Why; kept in the golden.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", help="Releases a brake: modes, property, reference, nonfinite, error, … (see refusals)."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Write goldens although CI is set.")]
Who = Annotated[str | None, typer.Option("--who", envvar="JAXCHECK_WHO", help="Else git's user.name.")]
WithTruth = Annotated[
    bool, typer.Option("--truth/--no-truth", help="Store the float64 truth and the noise floor beside the numbers.")
]


def bless(
    names: opt.Names = None,
    reason: Reason = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what passes: new bits replace the old ones.")] = False,
    allow: Allow = None,
    yes: Yes = False,
    for_backend: Annotated[
        bool, typer.Option("--for-backend", help="Write a golden of this backend's own (NAME@gpu.npz).")
    ] = False,
    truth: WithTruth = True,
    derive_tolerance: Annotated[
        bool, typer.Option("--derive-tolerance", help="Propose tolerances of 8 noise floors, and record the floors.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="With --derive-tolerance: put them in the registry's files.")
    ] = False,
    who: Who = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    backend: opt.Backend = None,
    jobs: opt.Jobs = None,
    timeout: opt.Timeout = None,
    no_cache: opt.NoCache = False,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Make what a run produced the new goldens: what fails, is missing or is stale, never in passing.

    Takes the candidates of the last run where nothing changed since, and runs otherwise. Refuses where the modes
    disagree, a property or the reference does not hold, or a non-finite value is new; each refusal names its override.

    Example: `jaxcheck bless newton-sqrt --reason "new stopping rule"`.
    """
    from jaxcheck.cli.run import early_workers
    from jaxcheck.execution.bless import blessing_of, decide, facts_of, held_back, promote

    allowed = brakes_released(allow)
    stop_without_reason(reason, yes)
    stop_without_floors(derive_tolerance, write, truth)
    with early_workers(backend, jobs, keeps=truth) as spare:
        project = opt.open_project(registry, goldens, state, shipped)
        project.state.prepare()
        selection = opt.selection_of(names, tag, k)
        workers = Workers(backend, jobs, opt.compiled_programs("--no-cache" if no_cache else ""), spare)
        run = run_for_blessing(project, selection, workers, timeout, everything)
        assert run.environment is not None
        candidates = candidates_of(project)
        here = run.environment.backend
        if for_backend:
            allowed |= {"backend"}
        facts = facts_of(run, candidates, project.goldens, here)
        decisions = [(fact, decide(fact, everything=everything, allowed=allowed)) for fact in facts]
        known = truth_of(project, decisions, workers) if truth else {}
    decisions = held_back(decisions, known, allowed)
    blessing = blessing_of(reason or "", who, Path(project.registry.root))
    own = here if for_backend else None
    measured, refused = None, list[str]()
    if derive_tolerance:
        measured = tolerances_of(project, decisions, known, run.environment, blessing.when)
        known, refused = kept_with_goldens(project, known, measured, write)
    recipes = project.registry.recipes
    written, decisions = promote(run, decisions, candidates, project.goldens, blessing, own, known, recipes)
    code = tell(run, decisions, written)
    raise typer.Exit(code if measured is None else max(code, tell_derived(measured, refused)))


def brakes_released(allow: list[str] | None) -> set[str]:
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.bless import BRAKES

    for name in allow or ():
        if name not in BRAKES:
            raise UsageError(f"--allow {name}: no such brake", hint=f"brakes: {', '.join(BRAKES)}")
    return set(allow or ())


def stop_in_ci(yes: bool) -> None:
    """Goldens are not changed by a CI job in passing."""
    from jaxcheck.errors import BlessRefused

    if os.environ.get("CI") and not yes:
        raise BlessRefused("CI is set: goldens are not written here", hint="do it on your machine, or give --yes")


def stop_without_reason(
    reason: str | None, yes: bool, what: str = "a blessing", command: str = "jaxcheck bless …"
) -> None:
    """Goldens are changed by somebody, for a reason."""
    from jaxcheck.errors import UsageError

    stop_in_ci(yes)
    if not (reason or "").strip():
        raise UsageError(f"{what} needs a reason", hint=f'{command} --reason "why the numbers moved"')


def stop_without_floors(derive: bool, write: bool, truth: bool) -> None:
    """A tolerance is derived from the noise floor that a blessing measures with the truth."""
    from jaxcheck.errors import UsageError

    if write and not derive:
        raise UsageError("--write says what becomes of derived tolerances", hint="add --derive-tolerance")
    if derive and not truth:
        raise UsageError("--derive-tolerance needs the noise floor, which --no-truth leaves out", hint="drop one")


def tolerances_of(
    project: Project,
    decisions: list[tuple[CaseFacts, Decision]],
    known: dict[tuple[str, str], Known],
    environment: Environment,
    when: str,
) -> Tightening:
    """What the noise floors say of the tolerances of the recipes that are blessed."""
    from jaxcheck.execution.tightening import tightening

    return tightening(project.registry, decisions, known, candidates_of(project), project.goldens, environment, when)


def kept_with_goldens(
    project: Project, known: dict[tuple[str, str], Known], measured: Tightening, write: bool
) -> tuple[dict[tuple[str, str], Known], list[str]]:
    """(what goldens are to hold, what could not be written). The registry goes first: where it cannot be written,
    nothing is blessed."""
    from jaxcheck.execution import tightening

    if not write:
        return tightening.recorded(known, measured, None), []
    registry, refused = tightening.write(project.registry, measured)
    return tightening.recorded(known, measured, registry), refused


def tell_derived(measured: Tightening, refused: list[str]) -> int:
    """The proposal, and what of it could not be written."""
    from jaxcheck.errors import Exit
    from jaxcheck.report.derived import derived_lines
    from jaxcheck.report.lines import plain_text

    for line in derived_lines(measured):
        print(line)
    if not measured.proposals:
        print("no case was blessed, so that nothing was derived: --all blesses what passes as well", file=sys.stderr)
    for why in refused:
        print(plain_text(f"not written: {why}: paste it from above"), file=sys.stderr)
    return int(Exit.FAILED if refused else Exit.PASSED)


def candidates_of(project: Project) -> GoldenStore:
    from jaxcheck.goldens.store import GoldenStore

    return GoldenStore(project.state.candidates)


def run_for_blessing(
    project: Project,
    selection: Selection,
    workers: Workers,
    timeout: float | None,
    everything: bool,
) -> Run:
    """The last run where it is fresh, so that the bytes that were looked at are blessed; else a new one."""
    from jaxcheck.cli.run import progress
    from jaxcheck.errors import NothingVerified
    from jaxcheck.execution.bless import as_it_left_them, fresh_run
    from jaxcheck.execution.run import Options, execute

    if not everything:
        fresh = fresh_run(project.state.last_run(), project.registry, selection, workers.backend)
        if fresh is not None and as_it_left_them(fresh, candidates_of(project), project.goldens):
            print("blessing the candidates of the last run (nothing has changed since)", file=sys.stderr)
            return fresh
    with progress(project.registry, selection) as report:
        asked = Options(
            backend=workers.backend,
            jobs=workers.jobs,
            timeout=timeout,
            all_modes=True,
            keep_all=everything,
            compiled=workers.compiled,
            command=" ".join(sys.argv[1:]),
            report=report,
        )
        run = execute(project.registry, selection, project.goldens, project.state, asked, workers.spare)
    project.state.save(run)
    if run.interrupted:
        raise KeyboardInterrupt
    if not run.results or run.environment is None:
        raise NothingVerified("nothing is selected", hint="jaxcheck list")
    return run


def truth_of(
    project: Project,
    decisions: list[tuple[CaseFacts, Decision]],
    workers: Workers,
) -> dict[tuple[str, str], Known]:
    """The truth and the noise floor of every case that is about to be blessed."""
    from jaxcheck.execution.run import launch_for
    from jaxcheck.execution.truth import gather

    chosen: dict[str, list[str]] = {}
    for facts, decision in decisions:
        if decision.action == "bless":
            chosen.setdefault(facts.recipe, []).append(facts.case)
    if not chosen:
        return {}
    launch = launch_for(project.registry, workers.backend)
    launch = replace(launch, compiled=str(workers.compiled) if isinstance(workers.compiled, Path) else None)
    with project.state.scratch() as scratch:
        return gather(project.registry, chosen, candidates_of(project), launch, scratch, workers.jobs, workers.spare)


def tell(run: Run, decisions: list[tuple[CaseFacts, Decision]], written: list[Path]) -> int:
    """Old -> new in units of the tolerance, then what was refused and how to insist; the exit code."""
    from jaxcheck.errors import Exit
    from jaxcheck.execution.bless import bless_again
    from jaxcheck.report.lines import moved_lines, plain_text

    refused = [(facts, decision) for facts, decision in decisions if decision.action == "refuse"]
    for facts, decision in decisions:
        if decision.action == "bless":
            print(plain_text(f"blessed {facts.recipe}::{facts.case}"))
            results = [r for r in run.results if (r.recipe, r.case) == (facts.recipe, facts.case)]
            for line in moved_lines(results):
                print(f"    {line}")
        elif decision.action == "drop":
            print(plain_text(f"dropped {facts.recipe}::{facts.case}: {decision.reason}"))
    for facts, decision in refused:
        print(plain_text(f"refused {facts.recipe}::{facts.case}: {decision.reason}"), file=sys.stderr)
        if decision.override:
            print(plain_text(f"  to insist: {bless_again(facts, decision.override)}"), file=sys.stderr)
    blessed = sum(decision.action == "bless" for _, decision in decisions)
    kept = sum(decision.action == "keep" for _, decision in decisions)
    print(f"{blessed} cases blessed, {kept} kept, {len(refused)} refused; {len(written)} golden files written")
    return int(Exit.FAILED if refused else Exit.PASSED)


def reject(
    names: opt.Names = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    registry: opt.RegistryFile = None,
    state: opt.StateFolder = None,
) -> None:
    """Drop candidates that the last run left: its numbers are wrong, the goldens stay.

    Example: `jaxcheck reject newton-sqrt::zeros`.
    """
    from jaxcheck.errors import GoldenError, NothingVerified
    from jaxcheck.execution.bless import forget
    from jaxcheck.registry.select import selected_recipes, wants_case

    project = opt.open_project(registry, None, state, False)
    store = candidates_of(project)
    selection = opt.selection_of(names, tag, k)
    dropped = 0
    for recipe in selected_recipes(project.registry, selection):
        try:
            golden = store.load(recipe.name)
        except GoldenError:  # unreadable: of no use, so it goes
            store.path(recipe.name).unlink()
            dropped += 1
            continue
        if golden is None:
            continue
        with golden:
            cases = [case for case in golden.cases if wants_case(selection, recipe, case)]
        dropped += forget(store, recipe.name, cases)
    if not dropped:
        raise NothingVerified("no candidate is selected: the last run left none", hint="jaxcheck run")
    print(f"{dropped} candidate{'s' if dropped != 1 else ''} dropped; the goldens are as they were")
