"""A gate: two environments, two controlled runs, what moved between them, and who moved it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jaxcheck
from jaxcheck.errors import NothingVerified, UsageError
from jaxcheck.execution.process import Launch
from jaxcheck.execution.run import Options, execute, launch_for
from jaxcheck.execution.saved import SavedRun, Saving
from jaxcheck.execution.state import State
from jaxcheck.gate.causes import Differing, Half, find_causes
from jaxcheck.gate.comparison import MOVED, compare, differences
from jaxcheck.gate.concerns import concerns_of, settings
from jaxcheck.gate.environments import Installation, changes
from jaxcheck.gate.environments.requests import parse_request
from jaxcheck.gate.explained import explained, moved_check
from jaxcheck.gate.isolation import isolate
from jaxcheck.gate.streams import fingerprints_of, streams_apart
from jaxcheck.gate.turns import ROUNDS, TIMED_MODES, take_turns, timed
from jaxcheck.gate.verdict import whole_verdict
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import COMPARED, CheckResult, Run, totals
from jaxcheck.results.gate import Gate, PackageChange, Side

BEFORE, AFTER, CONTROL, ALONE = "before", "after", "control", "alone"


@dataclass(frozen=True)
class Project:
    """What is gated: recipes with their goldens, and the folder that the runs are kept in."""

    registry: Registry
    goldens: GoldenStore
    folder: Path


@dataclass(frozen=True)
class Conduct:
    """How the runs are made; equal on both sides."""

    backend: str | None = None
    jobs: int | None = None
    timeout: float | None = None
    repeat: int = 1
    latency: int = 0
    command: str = ""
    say: Callable[[str], None] = lambda text: None
    report: Callable[[CheckResult], None] = lambda result: None


@dataclass(frozen=True)
class Ran:
    """One side: where it ran, and what it left."""

    installation: Installation
    saved: SavedRun

    def side(self) -> Side:
        here = self.installation.elsewhere is None
        return side_of(self.installation.label, self.saved, self.installation.python if here else "")


def run_in(
    project: Project,
    selection: Selection,
    installation: Installation,
    name: str,
    conduct: Conduct,
    inputs: SavedRun | None = None,
) -> SavedRun:
    """A run in an environment, saved under `name`; KeyboardInterrupt where it was interrupted."""
    state = State(project.folder / "state")
    state.prepare()
    saving = Saving(project.folder / name)
    try:
        options = Options(
            backend=conduct.backend,
            jobs=conduct.jobs,
            timeout=conduct.timeout,
            repeat=conduct.repeat,
            python=installation.python,
            elsewhere=installation.elsewhere,
            saving=saving,
            inputs=inputs,
            gate=True,
            command=conduct.command,
            report=conduct.report,
        )
        run = execute(project.registry, selection, project.goldens, state, options)
        if run.interrupted:
            raise KeyboardInterrupt
        if run.damaged_goldens:
            raise UsageError("damaged goldens: " + "; ".join(run.damaged_goldens), hint="jaxcheck check")
        if not run.results:
            raise NothingVerified("nothing is selected", hint="jaxcheck list")
        return saving.finish(run)
    finally:
        saving.abandon()


def gate(
    project: Project,
    selection: Selection,
    before: Installation,
    after: Installation,
    asked: Sequence[str],
    conduct: Conduct,
    allowed: Collection[str],
    alone: Callable[[str], Installation] | None = None,
) -> Gate:
    """Runs the baseline, the candidate, and what moved once more in the baseline; then compares.

    Inputs are those of the goldens, or of the baseline's run. `asked` are the requirements that were to be changed;
    `alone`, where causes are to be confirmed, gives the baseline with one of them alone.
    """
    clock = time.monotonic()
    conduct.say(f"baseline: {before.label}")
    old = Ran(before, run_in(project, selection, before, BEFORE, conduct))
    conduct.say(f"candidate: {after.label}")
    new = Ran(after, run_in(project, selection, after, AFTER, conduct, inputs=old.saved))
    results = compare(old.saved, new.saved, {})
    if unstable := control(project, before, results, old.saved, conduct):
        results = compare(old.saved, new.saved, unstable)
    packages = changes(before, after, asked)
    results, streams = with_causes(project, results, old, new, packages, conduct)
    remarks = [*before.remarks, *(text for text in after.remarks if text not in before.remarks)]
    if alone is not None:
        results, more = isolated(project, results, old, new, asked, alone, conduct)
        remarks += more
    if conduct.latency:
        results = time_in_turns(project, before, after, results, conduct)
    gated = build(old.saved, new.saved, (old.side(), new.side()), results, packages, allowed)
    found = {"settings": (*gated.settings, *streams), "remarks": (*gated.remarks, *remarks)}
    return gated.model_copy(
        update={**found, "seconds": time.monotonic() - clock, "command": conduct.command},
    )


def control(
    project: Project, before: Installation, results: Sequence[CheckResult], old: SavedRun, conduct: Conduct
) -> dict[str, str]:
    """{check: how} of those that the baseline itself does not repeat: what moved is run there once more.

    A check that gave the same bits on both sides needs no control.
    """
    moved = tuple(result.id for result in results if result.verdict in MOVED or result.verdict == "broken")
    if not moved:
        return {}
    conduct.say(f"control: {len(moved)} checks again in {before.label}")
    quiet = replace(conduct, report=lambda result: None)
    again = run_in(project, Selection(last_failed_ids=moved), before, CONTROL, quiet, inputs=old)
    return differences(old, again, moved)


def with_causes(
    project: Project,
    results: Sequence[CheckResult],
    old: Ran,
    new: Ran,
    packages: Sequence[PackageChange],
    conduct: Conduct,
) -> tuple[list[CheckResult], list[str]]:
    """The results with the cause of every move: programs of both sides, run on both; and which random streams moved."""
    moved = [one for result in results if (one := moved_check(result)) is not None]
    if not moved:
        return list(results), []
    conduct.say(f"causes: {len(moved)} checks, each program on both runtimes")
    state = State(project.folder / "state")

    def launch(installation: Installation) -> Launch:
        launched = launch_for(project.registry, conduct.backend, state, installation.python)
        return replace(launched, cache=False, elsewhere=installation.elsewhere)

    halves = [Half(one.installation.label, one.saved, launch(one.installation)) for one in (old, new)]
    versions = {one.name: (one.before or "-", one.after or "-") for one in packages if one.name != "python"}
    differing = Differing.between(old.saved, new.saved, versions)
    with state.scratch() as scratch:
        causes = find_causes(project.registry, moved, halves[0], halves[1], differing, scratch, conduct.timeout)
    streams = streams_apart(*(fingerprints_of(launch(one.installation)) for one in (old, new)))
    return [explained(result, causes) for result in results], [streams] if streams else []


def isolated(
    project: Project,
    results: Sequence[CheckResult],
    old: Ran,
    new: Ran,
    asked: Sequence[str],
    alone: Callable[[str], Installation],
    conduct: Conduct,
) -> tuple[list[CheckResult], list[str]]:
    """The results with causes confirmed by runs with one of the asked packages alone, and remarks."""

    def run(requirement: str, checks: tuple[str, ...]) -> SavedRun:
        conduct.say(f"isolation: {len(checks)} checks with only {requirement}")
        chosen = Selection(last_failed_ids=checks)
        return run_in(project, chosen, alone(requirement), ALONE, conduct, inputs=old.saved)

    requirements = {parse_request(text).name: text for text in asked}
    return isolate(results, new.saved, requirements, run)


def time_in_turns(
    project: Project, before: Installation, after: Installation, results: Sequence[CheckResult], conduct: Conduct
) -> list[CheckResult]:
    """The results with latency and compile time of both sides, for checks that gave values on both."""
    ids = tuple(result.id for result in results if result.verdict in COMPARED and result.mode in TIMED_MODES)
    if not ids:
        return list(results)
    conduct.say(f"latency: {len(ids)} checks, {ROUNDS} rounds in turns")
    state = State(project.folder / "state")
    options = Options(backend=conduct.backend, jobs=1, timeout=conduct.timeout, latency=conduct.latency, gate=True)

    def run(installation: Installation) -> Run:
        asked = replace(options, python=installation.python, elsewhere=installation.elsewhere)
        done = execute(project.registry, Selection(last_failed_ids=ids), project.goldens, state, asked)
        if done.interrupted:
            raise KeyboardInterrupt
        return done

    return timed(results, *take_turns(lambda: run(before), lambda: run(after)))


def side_of(label: str, saved: SavedRun, python: str = "") -> Side:
    run = saved.run
    return Side(
        label=label,
        python=python,
        folder=str(saved.folder),
        environment=run.environment,
        totals=run.totals,
        seconds=run.seconds,
    )


def build(
    old: SavedRun,
    new: SavedRun,
    sides: tuple[Side, Side],
    results: Sequence[CheckResult],
    packages: Sequence[PackageChange],
    allowed: Collection[str],
) -> Gate:
    """The gate's report, from two saved runs and what came of comparing them."""
    concerns = concerns_of(results, old, new, allowed)
    run = new.run
    said = {name: getattr(run, name) for name in Run.model_fields if name not in ("schema_", "results", "totals")}
    return Gate.model_validate(
        {
            **said,
            "schema": 1,
            "jaxcheck": jaxcheck.__version__,
            "results": tuple(results),
            "totals": totals(results),
            "verdict": whole_verdict(concerns),
            "concerns": tuple(concerns),
            "from": sides[0],
            "to": sides[1],
            "packages": tuple(packages),
            "settings": tuple(settings(old.run.environment, run.environment)),
        }
    )


def packages_of(run: Run) -> Mapping[str, str]:
    """The versions that a run knows of."""
    environment = run.environment
    if environment is None:
        return {}
    named = {name: getattr(environment, name) for name in ("jax", "jaxlib", "optax", "numpy")}
    return {name: version for name, version in {**environment.packages, **named}.items() if version}
