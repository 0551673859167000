"""Which release of a package moved these checks: one search for each output that moved, over runs that they share."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jaxcheck
from jaxcheck.errors import JaxcheckError, NothingVerified, Unavailable
from jaxcheck.gate.environments.installers import find_uv
from jaxcheck.gate.environments.interpreters import find_python
from jaxcheck.gate.environments.requests import parse_request
from jaxcheck.gate.gate import Conduct, Project
from jaxcheck.gate.laboratory import AGAIN, Axis, Entry, Laboratory, Log, facts
from jaxcheck.gate.releases import Row, check_ends, offer, row
from jaxcheck.gate.search import Found, Told, search
from jaxcheck.gate.standing import Aims, Evidence, Predicate, aims, tell
from jaxcheck.registry.select import Selection, selected_recipes
from jaxcheck.results import CheckResult
from jaxcheck.results.bisection import BisectAnswer, Bisection, BisectProbe, BisectTarget
from jaxcheck.results.gate import PackageChange

SAMPLES = 60  # calls that are timed in each run, where time is what is asked for
SUBFOLDER = "bisect"


@dataclass(frozen=True)
class How:
    """Where environments are kept, and what of earlier work is used."""

    cache: Path
    restart: bool = False
    refresh: bool = False


def bisect(
    project: Project, selection: Selection, axis: Axis, predicate: Predicate, conduct: Conduct, how: How
) -> Bisection:
    """Finds, for everything that moved between the ends, the first release that moved it.

    `project.folder` takes the logs and runs. Raises UsageError for what cannot be meant, Unavailable for an end that
    cannot be had, and NothingVerified where nothing is selected or can be compared. A release between that cannot be
    had or run is skipped.
    """
    clock, started = time.monotonic(), datetime.datetime.now(datetime.UTC)
    check_ends(axis.good, axis.bad)
    if not selected_recipes(project.registry, selection):
        raise NothingVerified("nothing is selected", hint="jaxcheck list")
    conduct = replace(conduct, latency=SAMPLES if predicate == "slower" else 0)
    with contextlib.closing(Log(project.folder, facts(project, selection, axis, conduct))) as log:
        if told := log.prepare(how.restart):
            conduct.say(told)
        releases = _releases(axis, log, conduct)
        axis = replace(axis, good=releases.versions[0], bad=releases.versions[-1])
        laboratory = Laboratory(project, selection, axis, conduct, how.cache, log, how.refresh)
        try:
            found = _search_all(laboratory, releases, predicate)
        except KeyboardInterrupt:
            conduct.say(f"stopped: {AGAIN}")
            raise
    return found.model_copy(
        update={
            "command": conduct.command,
            "started": started.isoformat(timespec="seconds"),
            "seconds": time.monotonic() - clock,
            "registry": project.registry.path,
        }
    )


def _search_all(laboratory: Laboratory, releases: Row, predicate: Predicate) -> Bisection:
    asked, compared = _ends(laboratory, predicate)
    searched = _Searched(laboratory, releases.versions)
    for target in asked.targets:
        searched.look_for(target)
    answers = (*searched.answers, *_unstable(asked, laboratory.axis))
    report = _report(laboratory, releases, predicate, answers, asked.remarks)
    return report.model_copy(update={"compared": compared})


def _report(
    laboratory: Laboratory,
    releases: Row,
    predicate: Predicate,
    answers: tuple[BisectAnswer, ...],
    remarks: Sequence[str],
) -> Bisection:
    axis = laboratory.axis
    return Bisection(
        jaxcheck=jaxcheck.__version__,
        package=axis.package,
        predicate=predicate,
        good=axis.good,
        bad=axis.bad,
        python=next((entry.python for entry in laboratory.order if entry.python), ""),
        requirements=axis.others,
        releases=releases.versions,
        not_offered=releases.not_offered,
        answers=answers,
        probes=tuple(_probe(laboratory, entry, answers) for entry in laboratory.order),
        remarks=tuple(remarks),
    )


def _releases(axis: Axis, log: Log, conduct: Conduct) -> Row:
    """Those of the log where one goes on: what the index offers now must not change the search."""
    if log.record.versions:
        return Row(log.record.versions, log.record.not_offered)
    python = sys.executable if axis.python is None else find_python(axis.python, find_uv()).path
    label = axis.python or ".".join(sys.version.split(".")[:2])
    conduct.say(f"asking for the releases of {axis.package}")
    found = row(offer(axis.package, python, label), axis.good, axis.bad, axis.pre)
    log.set_row(found)
    between = len(found.versions) - 2
    conduct.say(f"{len(found.versions)} releases: {axis.good}, {axis.bad} and {between or 'none'} between")
    return found


def _ends(laboratory: Laboratory, predicate: Predicate) -> tuple[Aims, int]:
    """Both ends run, and what differs between them; of how many checks."""
    axis = laboratory.axis
    laboratory.end("--good", axis.good)
    laboratory.end("--bad", axis.bad)
    itself = laboratory.itself()
    good, bad = _end(laboratory, "--good", axis.good), _end(laboratory, "--bad", axis.bad)
    if all(result.verdict is None for result in bad.compared.values()):
        reasons = "; ".join(dict.fromkeys(result.reason for result in bad.compared.values()))
        raise NothingVerified(f"no check ran at both ends: {reasons}", hint="`gate: always` in a recipe runs it anyway")
    return aims(predicate, itself, good, bad), sum(result.verdict is not None for result in bad.compared.values())


def _end(laboratory: Laboratory, option: str, version: str) -> Evidence:
    run = laboratory.evidence(version, "first")
    if isinstance(run, str):
        raise Unavailable(f"{option} {version}: {run}", hint="another version, or --restart to try it again")
    return run


class _Searched:
    """The searches so far: each goes by all the runs that the others had made."""

    def __init__(self, laboratory: Laboratory, versions: Sequence[str]) -> None:
        self._laboratory, self._versions = laboratory, versions
        self.answers: list[BisectAnswer] = []

    def look_for(self, target: BisectTarget) -> None:
        versions = self._versions

        def probe(index: int, *, fresh: bool = False) -> Told:
            run = self._laboratory.evidence(versions[index], "again" if fresh else "first")
            return Told("skip", run) if isinstance(run, str) else tell(target, run)

        def known(index: int) -> bool:
            return self._laboratory.known(versions[index])

        self.answers.append(self._answer(target, search(len(versions), probe, known)))

    def _answer(self, target: BisectTarget, found: Found) -> BisectAnswer:
        last_good, first_bad = self._versions[found.last_good], self._versions[found.first_bad]
        return BisectAnswer(
            **target.model_dump(),
            state="found" if found.state == "found" else "range" if found.state == "range" else "unstable",
            last_good=last_good,
            first_bad=first_bad,
            skipped=tuple(self._versions[index] for index in found.skipped),
            reason=found.reason,
            also=self._laboratory.also(last_good, first_bad),
        )


def _unstable(asked: Aims, axis: Axis) -> list[BisectAnswer]:
    return [
        BisectAnswer(**aim.model_dump(), state="unstable", last_good=axis.good, first_bad=axis.bad, reason=why)
        for aim, why in asked.unstable
    ]


def _probe(laboratory: Laboratory, entry: Entry, answers: Sequence[BisectAnswer]) -> BisectProbe:
    run = None if entry.attempt == "baseline" else laboratory.evidence(entry.version, entry.attempt)
    told = () if run is None or isinstance(run, str) else tuple(tell(answer, run) for answer in answers)
    skips = tuple(dict.fromkeys(one.reason for one in told if one.outcome == "skip"))
    return BisectProbe(
        version=entry.version,
        attempt=entry.attempt,
        outcomes=tuple(one.outcome for one in told),
        reason=entry.skip or "; ".join(skips),
        seconds=entry.seconds,
        folder=str(laboratory.log.runs / entry.folder) if entry.folder else "",
        reused=(entry.version, entry.attempt) in laboratory.log.reused,
    )


def find_since(
    project: Project,
    results: Sequence[CheckResult],
    packages: Iterable[PackageChange],
    others: Sequence[str],
    conduct: Conduct,
    how: How,
    python: str | None = None,
) -> tuple[list[CheckResult], list[str]]:
    """A gate's results with `since` in every leaf that moved, and remarks on what could not be told.

    Each package that was asked for is searched alone, the others being as in the baseline (`others`: what the baseline
    asks for). What only several of them together move has no `since`.
    """
    moved = tuple(result.id for result in results if any(leaf.moved for leaf in result.leaves))
    remarks: list[str] = []
    since: dict[tuple[str, str], list[str]] = {}
    for change in packages:
        if not (moved and change.asked and change.before and change.after):
            continue
        kept = tuple(text for text in others if not _is_about(text, change.name))
        try:
            axis = Axis(change.name, change.before, change.after, python, kept)
            found = bisect(project, Selection(last_failed_ids=moved), axis, "moved", conduct, how)
        except JaxcheckError as error:
            remarks.append(f"since when {change.name} moved it is not known: {error}")
            continue
        remarks += found.remarks
        for answer in found.answers:
            if answer.kind == "moved" and (text := since_text(found.package, answer)):
                since.setdefault((answer.check, answer.path), []).append(text)
    return [_with_since(result, since) for result in results], remarks


def _is_about(text: str, package: str) -> bool:
    return parse_request(text).name == package


def since_text(package: str, answer: BisectAnswer) -> str:
    """`jax 0.12.0`; `jax 0.11.1 to 0.12.0` where the releases between can tell nothing; nothing where unstable."""
    if answer.state == "found":
        return f"{package} {answer.first_bad}"
    return f"{package} {answer.skipped[0]} to {answer.first_bad}" if answer.state == "range" else ""


def _with_since(result: CheckResult, since: Mapping[tuple[str, str], Sequence[str]]) -> CheckResult:
    leaves = tuple(
        leaf.model_copy(update={"since": ", ".join(since[result.id, leaf.path])})
        if (result.id, leaf.path) in since and leaf.moved
        else leaf
        for leaf in result.leaves
    )
    return result.model_copy(update={"leaves": leaves})
