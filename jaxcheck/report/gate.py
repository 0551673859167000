"""A gate as a person reads it in a terminal: the verdict, what moved and who moved it, then where it was run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from jaxcheck.report import words
from jaxcheck.report.indent import Indented
from jaxcheck.report.safe import line
from jaxcheck.results import COMPARED, CheckResult, LeafResult, Status
from jaxcheck.results.gate import Concern, Gate, GateVerdict, Side

STYLES: dict[GateVerdict, str] = {"pass": "bold green", "review": "bold yellow", "block": "bold red"}
VERDICT_STYLES = {"improved": "green", "regressed": "red", "changed": "red", "broken": "red", "unstable": "yellow"}
ORDER = ("broken", "regressed", "changed", "improved", "unstable", "drifted")
HEADER = ("before", "after", "truth", "cause", "since")
ROWS_SHOWN = 12
IDS_SHOWN = 3
ITEMS_SHOWN = 10


@dataclass(frozen=True)
class Row:
    """One leaf that moved, alike in the modes that are named."""

    recipe: str
    case: str
    modes: tuple[str, ...]
    leaf: LeafResult

    @property
    def rank(self) -> tuple[int, float]:
        verdict = self.leaf.verdict or "changed"
        return ORDER.index(verdict) if verdict in ORDER else len(ORDER), -self.leaf.violation_ratio


def render(gate: Gate, verbosity: int = 0) -> RenderableType:
    """What to print. `verbosity` -1: the verdict and its reasons; 0: one screen; 1: every leaf that moved."""
    sections = [_headline(gate), _concerns(gate.concerns)]
    if verbosity >= 0:
        sections += [
            _moved(gate, verbosity),
            _without_values(gate, verbosity),
            _causes(gate),
            _packages(gate),
            _settings(gate),
            _sides(gate),
        ]
    sections += [_next(gate), _remarks(gate)]
    parts = (list(section) for section in sections)
    return Group(*(Group(*part, Text()) for part in parts if part), _verdict(gate))


def _headline(gate: Gate) -> Iterator[RenderableType]:
    yield Text.assemble("gate ", (line(gate.from_.label), "bold"), " -> ", (line(gate.to.label), "bold"))


def _concerns(concerns: tuple[Concern, ...]) -> Iterator[RenderableType]:
    for concern in concerns[:ITEMS_SHOWN]:
        style = STYLES[concern.verdict]
        said = " (allowed)" if concern.allowed else ""
        yield Indented(Text.assemble((concern.verdict, style), f" {line(concern.message)}{said}"))
        if concern.checks:
            shown = ", ".join(line(check) for check in concern.checks[:IDS_SHOWN])
            more = len(concern.checks) - IDS_SHOWN
            yield Indented(Indented(Text(shown + (f" and {more:,} more" if more > 0 else ""), style="dim")))
    if len(concerns) > ITEMS_SHOWN:
        yield Indented(Text(f"and {words.count(len(concerns) - ITEMS_SHOWN, 'reason')} more"))


def rows(gate: Gate) -> list[Row]:
    """The leaves that moved, the gravest first; modes in which a leaf made the same move share a row."""
    found: dict[tuple[object, ...], Row] = {}
    for result in gate.results:
        for leaf in result.leaves:
            if not leaf.moved:
                continue
            worst = leaf.worst and (leaf.worst.index, leaf.worst.golden, leaf.worst.actual)
            key = (result.recipe, result.case, leaf.path, worst, leaf.verdict, leaf.cause)
            if key in found:
                one = found[key]
                found[key] = Row(one.recipe, one.case, (*one.modes, result.mode), one.leaf)
            else:
                found[key] = Row(result.recipe, result.case, (result.mode,), leaf)
    return sorted(found.values(), key=lambda row: row.rank)


def _moved(gate: Gate, verbosity: int) -> Iterator[RenderableType]:
    """A line that names the leaf, and under it the numbers, in columns: names are too long to be a column."""
    moved = rows(gate)
    if not moved:
        return
    shown = moved if verbosity > 0 else moved[:ROWS_SHOWN]
    cells = [HEADER, *map(_cells, shown)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    yield Text.assemble(("what moved", "bold"), f"\n  {_padded(HEADER, widths)}")
    for row, texts in zip(shown, cells[1:], strict=True):
        verdict = row.leaf.verdict or ""
        name = line(f"{row.recipe}::{row.case}[{','.join(row.modes)}] {row.leaf.path}")
        style = VERDICT_STYLES.get(verdict, "")
        yield Text.assemble(name, "  ", (verdict, style), " ", (_extent(row.leaf), "dim"))
        yield Text(f"  {_padded(texts, widths)}")
    rest = moved[len(shown) :]
    if rest:
        furthest = max(rest, key=lambda row: row.leaf.violation_ratio).leaf
        yield Text(f"and {words.count(len(rest), 'leaf', 'leaves')} more, {words.extent([furthest])} at most (-v)")


def _padded(cells: tuple[str, ...], widths: list[int]) -> str:
    """Numbers to the right, words to the left."""
    numbers = [cell.rjust(width) for cell, width in zip(cells[:3], widths, strict=False)]
    return "  ".join(
        [*numbers, *(cell.ljust(width) for cell, width in zip(cells[3:], widths[3:], strict=True))]
    ).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    leaf, worst = row.leaf, row.leaf.worst
    numbers = (worst.golden, worst.actual, worst.truth) if worst else (None, None, None)
    values = ["-" if value is None else line(words.element(value, leaf.dtype), 40) for value in numbers]
    return *values, line(leaf.package or leaf.cause or "-", 40), line(leaf.since or "-", 40)


def _extent(leaf: LeafResult) -> str:
    """How far it moved; against the truth, where that is known and it is more than drift."""
    if leaf.reason and leaf.error_to_truth:
        before, after = leaf.error_to_truth.golden, leaf.error_to_truth.actual
        return f"error {words.measure(before)} -> {words.measure(after)}"
    floors = f", {leaf.floors:.2g} floors" if leaf.floors else ""
    return words.extent([leaf]) + floors


def _without_values(gate: Gate, verbosity: int) -> Iterator[RenderableType]:
    """Checks that could not be compared, or for a reason that is not in a table of numbers."""
    for result in gate.results:
        told = result.verdict in ("broken", "unstable") or (result.verdict is None and _ran(result))
        if told:
            label = result.verdict or "not compared"
            style = VERDICT_STYLES.get(label, "yellow")
            yield Text.assemble((label, style), f" {line(result.id)}: {line(result.reason)}")
        elif result.verdict == "improved" and not result.leaves:
            yield Text.assemble(("improved", "green"), f" {line(result.id)}: {line(result.reason)}")
        if verbosity > 0:
            yield from (Indented(Text(line(detail), style="dim")) for detail in result.details)


def _ran(result: CheckResult) -> bool:
    return result.baseline is not None and result.baseline.status is not Status.SKIP


def _causes(gate: Gate) -> Iterator[RenderableType]:
    """`jax moved 12 leaves`; and each distinct explanation once."""
    moved = rows(gate)
    by_cause = Counter(row.leaf.cause for row in moved if row.leaf.cause)
    if not by_cause:
        return
    yield Text("causes", style="bold")
    for cause, number in by_cause.most_common():
        yield Indented(Text.assemble((cause, "bold"), f" moved {words.count(number, 'leaf', 'leaves')}"))
        because = Counter(row.leaf.because for row in moved if row.leaf.cause == cause and row.leaf.because)
        for text, times in because.most_common(IDS_SHOWN):
            yield Indented(Indented(Text(f"{line(text)} ({times:,} x)" if times > 1 else line(text), style="dim")))


def _packages(gate: Gate) -> Iterator[RenderableType]:
    if not gate.packages:
        return
    moved = [change for change in gate.packages if change.before and change.after]
    yield Text("packages that differ", style="bold")
    if moved:
        asked = any(change.asked for change in moved)
        told = [f"{c.name} {c.before} -> {c.after}" + ("" if c.asked or not asked else " (follows)") for c in moved]
        yield Indented(Text(line(", ".join(told))))
    for side, names in (
        ("before", [change.name for change in gate.packages if change.after is None]),
        ("after", [change.name for change in gate.packages if change.before is None]),
    ):
        if names:
            more = f" and {len(names) - ITEMS_SHOWN} more" if names[ITEMS_SHOWN:] else ""
            yield Indented(Text(line(f"only {side}: {', '.join(names[:ITEMS_SHOWN])}{more}"), style="dim"))


def _settings(gate: Gate) -> Iterator[RenderableType]:
    if gate.settings:
        yield Text("the places differ too, which can move numbers by itself", style="bold yellow")
        yield from (Indented(Text(line(text))) for text in gate.settings)


def _sides(gate: Gate) -> Iterator[RenderableType]:
    yield Text("environments", style="bold")
    for name, side in (("before", gate.from_), ("after", gate.to)):
        yield Indented(Text.assemble((f"{name}  ", "dim"), line(_side(side))))
    if gate.to.environment:
        environment = gate.to.environment
        cores = words.count(environment.cpu_count, "core")
        yield Indented(Text.assemble(("both   ", "dim"), line(f"{environment.backend}, {environment.cpu}, {cores}")))


def _side(side: Side) -> str:
    environment = side.environment
    if environment is None:
        return f"{side.label}: nothing ran"
    versions = f"jax {environment.jax}, jaxlib {environment.jaxlib}, optax {environment.optax or 'none'}"
    versions += f", numpy {environment.numpy}, Python {environment.python}"
    counts = ", ".join(f"{number:,} {status}" for status, number in side.totals.items() if number)
    return f"{versions}; against the goldens {counts}"


def _next(gate: Gate) -> Iterator[RenderableType]:
    """The commands to type next."""
    commands = next_commands(gate)
    if commands:
        yield Text("next", style="bold")
        for command in commands:
            text = Text(command, style="cyan")
            text.no_wrap, text.overflow = True, "ignore"
            yield Indented(text)


def next_commands(gate: Gate) -> list[str]:
    """What there is to do: look at what went wrong, bless what got better, allow what was seen."""
    by_verdict: dict[str, list[CheckResult]] = {}
    for result in gate.results:
        if result.verdict:
            by_verdict.setdefault(result.verdict, []).append(result)
    worse = [*by_verdict.get("regressed", ()), *by_verdict.get("changed", ())] if _ends(gate) else []
    commands = [f"jaxcheck bisect {shlex.quote(result.id)}{_ends(gate)}" for result in worse[:IDS_SHOWN]]
    unblessed = [r for r in by_verdict.get("improved", ()) if r.golden_status is not Status.PASS]
    improved = dict.fromkeys(f"{result.recipe}::{result.case}" for result in unblessed)
    if improved:
        names = " ".join(shlex.quote(name) for name in improved)
        commands.append(f'jaxcheck bless {names} --reason "…"   # after the upgrade')
    kinds = sorted({concern.kind for concern in gate.concerns if concern.verdict == "review" and not concern.allowed})
    if kinds and gate.verdict == "review":
        commands.append(f"jaxcheck gate … --allow {','.join(kinds)}   # once they were looked at")
    return commands


def _ends(gate: Gate) -> str:
    old, new = gate.from_.environment, gate.to.environment
    return f" --good {old.jax} --bad {new.jax}" if old and new and old.jax != new.jax else ""


def _remarks(gate: Gate) -> Iterator[RenderableType]:
    yield from (Text(line(text), style="dim") for text in gate.remarks)


def _verdict(gate: Gate) -> Text:
    return Text(verdict_line(gate), style=STYLES[gate.verdict])


def verdict_line(gate: Gate) -> str:
    """`review: 540 checks compared, 12 drifted, 2 improved in 61.2 s`."""
    counts: Counter[str] = Counter(result.verdict for result in gate.results if result.verdict)
    compared = sum(counts[verdict] for verdict in COMPARED)
    told = [f"{counts[verdict]:,} {verdict}" for verdict in ORDER if counts[verdict]]
    skipped = sum(result.verdict is None for result in gate.results)
    told += [f"{skipped:,} not compared"] if skipped else []
    seen = gate.verdict == "review" and gate.concerns and all(concern.allowed for concern in gate.concerns)
    allowed = " (allowed)" if seen else ""
    if not compared:
        return f"nothing was compared: {', '.join(told) or 'nothing ran'}"
    checks = words.count(compared, "check")
    return ", ".join([f"{gate.verdict}{allowed}: {checks} compared", *told]) + f" in {words.seconds(gate.seconds)}"
