"""GitHub's annotations: workflow commands, of which a step shows ten of a kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxcheck.report import words
from jaxcheck.report.gate import verdict_line
from jaxcheck.report.safe import line
from jaxcheck.results import FAILURES, CheckResult, Run, Status
from jaxcheck.results.gate import Gate

SHOWN = 10
GRAVEST = (Status.CRASH, Status.TIMEOUT, Status.ERROR, Status.FAIL, Status.STALE, Status.MISSING)
Level = Literal["error", "warning", "notice"]
_POSITION = re.compile(r"(?P<file>.+):(?P<line>\d+):\d+", re.DOTALL)


@dataclass(frozen=True)
class Annotation:
    """One of them; `position` is FILE:LINE:COLUMN, or nothing."""

    title: str
    message: str
    position: str = ""

    def command(self, level: Level) -> str:
        found = _POSITION.fullmatch(self.position)
        place = f"file={_property(found['file'])},line={found['line']}," if found else ""
        return f"::{level} {place}title={_property(self.title)}::{_data(self.message)}"


def annotation_lines(run: Run) -> Iterator[str]:
    """The gravest first; the last of a kind says how many there are more. Of a gate one for each concern."""
    errors, warnings, notices = _of_gate(run) if isinstance(run, Gate) else _of_run(run)
    title = "jaxcheck gate" if isinstance(run, Gate) else "jaxcheck"
    yield from _some("error", errors, title)
    yield from _some("warning", warnings, title)
    yield from _some("notice", notices, title)


def _some(level: Level, told: Sequence[Annotation], title: str) -> Iterator[str]:
    shown = told if len(told) <= SHOWN else told[: SHOWN - 1]
    yield from (annotation.command(level) for annotation in shown)
    if len(told) > len(shown):
        yield Annotation(title, f"and {len(told) - len(shown):,} more").command(level)


Kinds = tuple[list[Annotation], list[Annotation], list[Annotation]]


def _of_gate(gate: Gate) -> Kinds:
    found: dict[str, list[Annotation]] = {"block": [], "review": [], "pass": []}
    for concern in gate.concerns:
        if not concern.allowed:
            checks = f" ({', '.join(concern.checks[:3])})" if concern.checks else ""
            found[concern.verdict].append(Annotation(f"jaxcheck gate: {concern.kind}", concern.message + checks))
    verdict = [] if gate.concerns else [Annotation("jaxcheck gate", verdict_line(gate))]
    return found["block"], found["review"], verdict


def _of_run(run: Run) -> Kinds:
    failed = sorted((result for result in run.results if result.status in FAILURES), key=_gravity)
    errors = [Annotation("jaxcheck: damaged golden", text) for text in run.damaged_goldens]
    errors += [Annotation(f"{one.status}: {one.id}", one.reason or one.status, one.position) for one in failed]
    totals = Annotation("jaxcheck", words.totals_line(run))
    verified = words.verified_anything(run) and not run.interrupted
    return errors, ([] if verified else [totals]) + _warnings(run), [totals] if verified else []


def _gravity(result: CheckResult) -> tuple[int, float]:
    return GRAVEST.index(result.status), -max((leaf.violation_ratio for leaf in result.leaves), default=0.0)


def _warnings(run: Run) -> list[Annotation]:
    """Each warning of a kernel once, where it was raised; deprecations first."""
    seen = {(one.category, one.message): one for result in run.results for one in result.warnings}
    ordered = sorted(seen.values(), key=lambda one: "Deprecat" not in one.category)
    return [Annotation(one.category, one.message, f"{one.file}:{one.line}:1") for one in ordered]


def _data(text: str) -> str:
    return line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
