"""One failed check as a block that a person reads in ten seconds: what, where, by how much, and what to type next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxcheck.report import words
from jaxcheck.report.indent import Indented
from jaxcheck.report.safe import last_lines, line
from jaxcheck.results import CheckResult, LeafResult, Status

LEAVES_SHOWN = 3
OUTPUT_LINES = 8
TRACEBACK_LINES = 12
NO_LIMIT = 1000
ENDED_BADLY = frozenset({Status.CRASH, Status.TIMEOUT, Status.ERROR})
STYLES = {
    Status.PASS: "green",
    **dict.fromkeys((Status.SKIP, Status.MISSING, Status.STALE), "yellow"),
    **dict.fromkeys((Status.FAIL, Status.ERROR, Status.CRASH, Status.TIMEOUT), "bold red"),
}


def headline(result: CheckResult) -> Text:
    """`FAIL recipe::case[mode]`."""
    return Text.assemble((result.status.upper(), STYLES[result.status]), " ", (line(result.id), "bold"))


def first_line(result: CheckResult) -> Text:
    """Status, id and reason, cut where the terminal ends."""
    text = Text.assemble(headline(result), ": ", line(result.reason))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def failure_block(result: CheckResult, verbosity: int = 0) -> RenderableType:
    """All that is known of a failed check, the most telling first; from `verbosity` 1 on nothing is left out."""
    return Group(headline(result), Indented(*_parts(result, verbosity)))


@dataclass(frozen=True)
class _Comparison:
    """What the outputs were compared with, in words, and the leaves that are not equal enough."""

    title: str
    theirs: str
    mine: str
    leaves: Sequence[LeafResult]


def _comparisons(result: CheckResult) -> list[_Comparison]:
    golden = f"differs from the golden{f' ({line(result.golden)})' if result.golden else ''}"
    found = [
        _Comparison(f"{line(result.mode)} disagrees with {other}", other, line(result.mode), leaves)
        for other, leaves in result.against.items()
        if other != "reference"  # modes that disagree are the diagnosis, so they come first
    ]
    found.append(_Comparison(golden, "golden", "actual", result.leaves))
    found.append(_Comparison("differs from the reference", "reference", "actual", result.against.get("reference", ())))
    apart = [_Comparison(c.title, c.theirs, c.mine, [leaf for leaf in c.leaves if leaf.reason]) for c in found]
    return [comparison for comparison in apart if comparison.leaves]


def _parts(result: CheckResult, verbosity: int) -> Iterator[RenderableType]:
    comparisons = _comparisons(result)
    yield from (Text(line(note), style="yellow") for note in result.notes)
    yield from (Text(line(message)) for message in _messages(result, comparisons))
    for comparison in comparisons:
        yield from _comparison_block(comparison, verbosity)
    if result.error and result.error.strip() != result.reason.strip():
        yield from _output("traceback", result.error, TRACEBACK_LINES, verbosity)
    if result.status in ENDED_BADLY or verbosity > 0:
        yield from _output("stderr", result.stderr, OUTPUT_LINES, verbosity)
        yield from _output("stdout", result.stdout, OUTPUT_LINES, verbosity)
    if result.hint:
        yield Text.assemble(("hint: ", "cyan"), line(result.hint))


def _messages(result: CheckResult, comparisons: Iterable[_Comparison]) -> list[str]:
    """The findings that no block of numbers tells, or the reason where there is neither."""
    told = tuple(str(leaf.reason) for comparison in comparisons for leaf in comparison.leaves)
    untold = [finding.message for finding in result.findings if not finding.message.endswith(told)]
    return untold if untold or told else [result.reason] * bool(result.reason)


def _comparison_block(comparison: _Comparison, verbosity: int) -> Iterator[RenderableType]:
    yield Text(comparison.title, style="red")
    furthest_first = sorted(comparison.leaves, key=lambda leaf: -leaf.violation_ratio)
    shown = NO_LIMIT if verbosity > 0 else LEAVES_SHOWN
    for leaf in furthest_first[:shown]:
        yield Indented(*_leaf_block(leaf, comparison))
    hidden = furthest_first[shown:]
    if hidden:
        names = line(", ".join(leaf.path for leaf in hidden), 100)
        yield Indented(Text(f"and {words.count(len(hidden), 'more leaf', 'more leaves')} (-v shows them): {names}"))


def _leaf_block(leaf: LeafResult, comparison: _Comparison) -> Iterator[RenderableType]:
    """Golden above actual, so that the first digit that differs meets the eye."""
    yield Text.assemble((line(leaf.path), "bold"), f" {line(words.array_type(leaf))}: ", line(_how_far(leaf)))
    worst = leaf.worst
    if worst is None:
        return
    numbers = Table.grid(padding=(0, 2))
    numbers.add_column(justify="right", style="dim", min_width=len("tolerance"))
    numbers.add_column(overflow="fold")
    numbers.add_column(justify="right", style="dim")
    numbers.add_column(overflow="fold")
    theirs, mine = (Text(line(words.element(value, leaf.dtype))) for value in (worst.golden, worst.actual))
    numbers.add_row(Text(comparison.theirs), theirs, "max abs", words.measure(leaf.max_abs))
    numbers.add_row(Text(comparison.mine), mine, "max rel", words.measure(leaf.max_rel))
    numbers.add_row("allowed", words.measure(worst.allowed), "max ULP", words.ulps(leaf.max_ulp))
    yield Indented(numbers, Text.assemble(("tolerance  ", "dim"), line(words.tolerance(leaf))))


def _how_far(leaf: LeafResult) -> str:
    """`12.3 x tolerance, 3 of 24 beyond, worst at [1, 2]`, or the comparator's own words."""
    if leaf.worst is None or leaf.nonfinite or not leaf.mismatched:
        return str(leaf.reason)
    at = f", worst at {list(leaf.worst.index)}" if leaf.worst.index else ""
    if leaf.violation_ratio >= words.INFINITE:
        return words.extent([leaf]) + at
    return f"{words.extent([leaf])}, {leaf.mismatched:,} of {leaf.seen:,} beyond{at}"


def _output(name: str, text: str, limit: int, verbosity: int) -> Iterator[RenderableType]:
    lines = last_lines(text, NO_LIMIT)
    tail = lines if verbosity > 0 else lines[-limit:]
    if not tail:
        return
    part = f" (the last {len(tail):,} of {len(lines):,} lines; -v shows more)" if len(tail) < len(lines) else ""
    yield Text(name + part, style="dim")
    yield from (Indented(Text(one)) for one in tail)
