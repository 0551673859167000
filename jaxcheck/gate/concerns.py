"""What a comparison of two runs amounts to: the reasons that stand against an upgrade, or ask for a look."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence

from jaxcheck.execution.judge import environment_notes
from jaxcheck.execution.saved import SavedRun
from jaxcheck.gate.turns import slower_checks
from jaxcheck.gate.verdict import concern
from jaxcheck.results import CapturedWarning, CheckResult, Environment, Status
from jaxcheck.results.gate import Concern


def concerns_of(
    results: Sequence[CheckResult], before: SavedRun, after: SavedRun, allowed: Collection[str]
) -> list[Concern]:
    """Every reason, the blocking ones first."""
    found = [
        *_by_verdict(results, allowed),
        *_loosened(results, after, allowed),
        *_warnings(before, after, allowed),
        *_errors(results, allowed),
        *_slower(results, allowed),
        *_unverified(results, allowed),
    ]
    return sorted(found, key=lambda one: one.verdict != "block")


def _by_verdict(results: Sequence[CheckResult], allowed: Collection[str]) -> Iterator[Concern]:
    words = {
        "broken": "{} broken by the upgrade",
        "regressed": "{} moved beyond tolerance, away from the truth",
        "changed": "{} moved beyond tolerance, and nothing tells which side is right",
        "improved": "{} moved beyond tolerance, nearer to the truth",
        "unstable": "{} differ from themselves in the baseline, which says nothing of the upgrade",
    }
    for kind, text in words.items():
        ids = [result.id for result in results if result.verdict == kind and not was_broken_before(result)]
        if ids:
            yield concern(kind, text.format(_checks(ids)), ids, allowed)


def was_broken_before(result: CheckResult) -> bool:
    """Broken at the baseline already, and still: no news, and not verified either."""
    return result.verdict == "broken" and result.status is Status.SKIP


def _checks(ids: Sequence[str]) -> str:
    return f"{len(ids):,} check" + ("s" if len(ids) != 1 else "")


def _loosened(results: Sequence[CheckResult], after: SavedRun, allowed: Collection[str]) -> Iterator[Concern]:
    """The ratchet: a tolerance wider than when its golden was blessed has nobody's reason."""
    for recipe in dict.fromkeys(result.recipe for result in results):
        found: dict[str, list[str]] = {}
        for case, saved in after.cases(recipe).items():
            for text in saved.loosened:
                found.setdefault(text, []).append(case)
        for text, cases in found.items():
            ids = [result.id for result in results if result.recipe == recipe and result.case in cases]
            where = f"{recipe}::{cases[0]}" if len(cases) == 1 else f"{recipe} ({len(cases)} cases)"
            mend = f'if it has a reason: jaxcheck bless {shlex.quote(recipe)} --all --reason "…"'
            yield concern("loosened", f"{where}: {text}; {mend}", ids, allowed)


def _warnings(before: SavedRun, after: SavedRun, allowed: Collection[str]) -> Iterator[Concern]:
    """Warnings that the baseline did not give, deprecations first."""
    known = {(w.category, w.message) for result in before.run.results for w in result.warnings}
    new: dict[tuple[str, str], list[tuple[str, CapturedWarning]]] = {}
    for result in after.run.results:
        for warning in result.warnings:
            if (key := (warning.category, warning.message)) not in known:
                new.setdefault(key, []).append((result.id, warning))
    for (category, message), seen in sorted(new.items(), key=lambda item: "Deprecat" not in item[0][0]):
        first = seen[0][1]
        ids = list(dict.fromkeys(check for check, _ in seen))
        text = f"{category}: {message.splitlines()[0] if message else ''} ({first.file}:{first.line})"
        yield concern("warnings", text, ids, allowed)


def _errors(results: Sequence[CheckResult], allowed: Collection[str]) -> Iterator[Concern]:
    for result in results:
        for line in result.details:
            if line.startswith("the error was"):
                yield concern("warnings", f"{result.id}: {line}", [result.id], allowed)


def _slower(results: Sequence[CheckResult], allowed: Collection[str]) -> Iterator[Concern]:
    for check, texts in slower_checks(results).items():
        yield concern("slower", f"{check}: {'; '.join(texts)}", [check], allowed)


def _unverified(results: Sequence[CheckResult], allowed: Collection[str]) -> Iterator[Concern]:
    """What the baseline verified and the candidate did not."""
    lost = [r for r in results if r.verdict is None and r.baseline and r.baseline.status is not Status.SKIP]
    if lost:
        ids = [result.id for result in lost]
        text = f"{_checks(ids)} ran before and not now: {lost[0].reason}"
        yield concern("unverified", text, ids, allowed)


def settings(before: Environment | None, after: Environment | None) -> list[str]:
    """What differs between the two places beside the packages, and could move a number by itself."""
    if before is None or after is None:
        return []
    notes = [note.replace("the golden's", "the baseline's") for note in environment_notes(before.model_dump(), after)]
    plain = {
        "device": (before.device_kind, after.device_kind),
        "devices": (before.device_count, after.device_count),
        "CPU": (before.cpu, after.cpu),
        "cores": (before.cpu_count, after.cpu_count),
        "CPU features": (before.cpu_features, after.cpu_features),
        "platform": (before.platform, after.platform),
        "XLA flags": (before.xla_flags or "none", after.xla_flags or "none"),
    }
    notes += [f"{name}: {old} -> {new}" for name, (old, new) in plain.items() if old != new]
    for name in sorted({*before.config, *after.config}):
        old, new = before.config.get(name, "default"), after.config.get(name, "default")
        if old != new:
            notes.append(f"jax.config.{name}: {old} -> {new}")
    return notes
