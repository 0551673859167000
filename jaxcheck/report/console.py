"""A run as a person reads it in a terminal: failures first, the verdict last. A pure function of the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxcheck.errors import Exit
from jaxcheck.report import words
from jaxcheck.report.failures import STYLES, failure_block, first_line, headline
from jaxcheck.report.indent import Indented
from jaxcheck.report.lines import latency_lines
from jaxcheck.report.safe import line
from jaxcheck.results import FAILURES, CheckResult, LeafResult, Run, Status

BLOCKS_SHOWN = 20
ITEMS_SHOWN = 10
UNBLESSED = (Status.MISSING, Status.STALE)


def render(run: Run, verbosity: int = 0) -> RenderableType:
    """What to print. `verbosity` -1: failures in a line each; 0: a row for each recipe; 1: every check and leaf.

    All text from registries and kernels is shown literally: no markup, no control characters, no end.
    """
    failed = [result for result in run.results if result.status in FAILURES]
    if verbosity < 0:
        return Group(*map(first_line, failed), *_latencies(run), _totals(run))
    sections = [
        _latencies(run),
        _failures(failed, verbosity),
        _checks(run) if verbosity else _recipes(run),
        _warnings(run),
        _notes(run),
        _unblessed(run),
        _damaged(run),
        _environment(run),
        _skipped(run),
        _not_verified(run),
    ]
    parts = (list(section) for section in sections)
    return Group(*(Group(*part, Text()) for part in parts if part), _totals(run))


def _latencies(run: Run) -> Iterator[RenderableType]:
    """A table of plain lines, as `jaxcheck bench` prints it."""
    for text in latency_lines(run.results):
        yield Text(text, no_wrap=True, overflow="ignore")


def _failures(failed: list[CheckResult], verbosity: int) -> Iterator[RenderableType]:
    """A check that only waits for `bless` has no block: its recipe is named once, further down."""
    telling = [result for result in failed if result.status not in UNBLESSED or result.findings]
    shown = len(telling) if verbosity > 0 else BLOCKS_SHOWN
    for number, result in enumerate(telling[:shown]):
        if number:
            yield Text()
        yield failure_block(result, verbosity)
    if telling[shown:]:
        yield Text()
        yield from (first_line(result) for result in telling[shown:])


def _table(*columns: str, numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _recipes(run: Run) -> Iterator[RenderableType]:
    if not run.results:
        return
    table = _table("recipe", "result", numbers=("checks", "drifted", "time"))
    by_recipe: dict[str, list[CheckResult]] = {}
    for result in run.results:
        by_recipe.setdefault(result.recipe, []).append(result)
    for recipe, results in by_recipe.items():
        drifted = sum(result.drifted for result in results)
        seconds = sum(result.seconds for result in results)
        counts = (f"{len(results):,}", f"{drifted:,}" if drifted else "", words.seconds(seconds))
        table.add_row(Text(line(recipe)), _outcome(results), *counts)
    yield table


def _outcome(results: list[CheckResult]) -> Text:
    """`pass, drift 0.12 of tolerance`: the worst status colours it, the furthest leaf measures it."""
    statuses = {result.status for result in results}
    style = next((STYLES[status] for status in _worst_first() if status in statuses), "")
    extent = _extent(results)
    return Text.assemble((words.status_counts(results), style), f", {extent}" if extent else "")


def _extent(results: list[CheckResult]) -> str:
    return words.extent([leaf for result in results for leaf in _measured(result)])


def _worst_first() -> Iterable[Status]:
    return sorted(Status, key=lambda status: (status not in FAILURES, status is Status.PASS))


def _measured(result: CheckResult) -> list[LeafResult]:
    """The leaves against the golden; and those against another mode or a reference that are beyond tolerance."""
    others = [leaf for leaves in result.against.values() for leaf in leaves if leaf.reason]
    return [*result.leaves, *others]


def _checks(run: Run) -> Iterator[RenderableType]:
    """Every check, and under it every leaf against its golden."""
    for result in run.results:
        compiling = "" if result.compile_seconds is None else f", compiling {words.seconds(result.compile_seconds)}"
        moved = _extent([result])
        times = f" ({words.seconds(result.seconds)}{compiling})"
        yield Text.assemble(headline(result), f" {moved}" if moved else "", (times, "dim"))
        if result.status is Status.PASS and result.error:
            yield Indented(Text(f"raised as expected: {line(result.error)}"))
        yield from (Indented(*_leaf_lines(leaf)) for leaf in result.leaves)
        for other, leaves in result.against.items():
            yield Indented(Text(f"against {other}: {words.extent(leaves)}"))


def _leaf_lines(leaf: LeafResult) -> Iterator[Text]:
    name = Text.assemble((line(leaf.path), "bold"), f" {line(words.array_type(leaf))}: ")
    if not leaf.moved:
        yield name + Text("bit-equal")
        return
    if leaf.worst is None and leaf.reason:
        yield name + Text(line(leaf.reason))
        return
    numbers = f"max abs {words.measure(leaf.max_abs)}, max rel {words.measure(leaf.max_rel)}"
    share = f"{leaf.bit_equal:,} of {leaf.out_of} bit-equal"
    yield name + Text(words.extent([leaf]))
    yield Text(f"  {numbers}, max ULP {words.ulps(leaf.max_ulp)}, {share}", style="dim")
    yield Text(f"  {line(words.tolerance(leaf))}", style="dim")


def _warnings(run: Run) -> Iterator[RenderableType]:
    """Each text once, deprecations first: they say what the next upgrade will break."""
    seen: dict[tuple[str, str], list[str]] = {}
    for result in run.results:
        for warning in result.warnings:
            seen.setdefault((warning.category, warning.message), []).append(f"{warning.file}:{warning.line}")
    if not seen:
        return
    yield Text("warnings from kernels", style="bold")
    ordered = sorted(seen.items(), key=lambda item: "Deprecat" not in item[0][0])
    for (category, message), places in ordered[:ITEMS_SHOWN]:
        times = f", {len(places):,} times" if len(places) > 1 else ""
        yield Indented(
            Text.assemble((line(category), "yellow"), f": {line(message)} ", (f"({line(places[0])}{times})", "dim"))
        )
    yield from _and_more(len(ordered), "warning")


def _notes(run: Run) -> Iterator[RenderableType]:
    """Of checks that have no block of their own above."""
    told: dict[str, list[str]] = {}
    for result in run.results:
        if result.status not in FAILURES:
            for note in result.notes:
                told.setdefault(note, []).append(result.id)
    if not told:
        return
    yield Text("notes", style="bold")
    for note, ids in list(told.items())[:ITEMS_SHOWN]:
        yield Indented(Text.assemble(line(note), (f" ({_first_and_count(ids)})", "dim")))
    yield from _and_more(len(told), "note")


def _unblessed(run: Run) -> Iterator[RenderableType]:
    waiting = [result for result in run.results if result.status in UNBLESSED]
    if not waiting:
        return
    yield Text("waiting for bless", style="bold")
    for (status, recipe, reason), ids in _grouped(waiting).items():
        checks = words.count(len(ids), "check")
        yield Indented(Text.assemble((status, "yellow"), f" {line(recipe)} ({checks}): {line(reason)}"))
    names = dict.fromkeys(shlex.quote(line(result.recipe)) for result in waiting)
    command = Text.assemble("jaxcheck bless ", " ".join(names), style="cyan")
    command.no_wrap, command.overflow = True, "ignore"
    yield Indented(command)


def _grouped(results: Iterable[CheckResult]) -> dict[tuple[str, str, str], list[str]]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        groups.setdefault((result.status.value, result.recipe, result.reason), []).append(result.id)
    return groups


def _damaged(run: Run) -> Iterator[RenderableType]:
    if run.damaged_goldens:
        yield Text("damaged goldens", style="bold red")
        yield from (Indented(Text(line(text))) for text in run.damaged_goldens)


def _environment(run: Run) -> Iterator[RenderableType]:
    if run.environment is None:
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in {**words.environment_facts(run.environment), **words.node_facts(run)}.items():
        grid.add_row(name, Text(line(value)))
    if run.programs is not None and (run.programs.hits or run.programs.misses or run.programs.off):
        grid.add_row("programs", Text(line(words.programs(run.programs))))
    yield Text("environment", style="bold")
    yield Indented(grid)


def _skipped(run: Run) -> Iterator[RenderableType]:
    skipped = [result for result in run.results if result.status is Status.SKIP]
    if not skipped:
        return
    yield Text("skipped", style="bold")
    groups = list(_grouped(skipped).items())
    for (_, recipe, reason), ids in groups[:ITEMS_SHOWN]:
        yield Indented(Text(f"{line(recipe)} ({words.count(len(ids), 'check')}): {line(reason or 'no reason given')}"))
    yield from _and_more(len(groups), "recipe")


def _not_verified(run: Run) -> Iterator[RenderableType]:
    """`not verified: gpu, tpu (not available here)`."""
    backends: dict[str, list[str]] = {}
    for backend, reason in run.not_verified.items():
        backends.setdefault(reason, []).append(backend)
    if backends:
        told = "; ".join(f"{line(', '.join(names))} ({line(reason)})" for reason, names in backends.items())
        yield Text.assemble(("not verified: ", "yellow"), told)


def _and_more(total: int, what: str) -> Iterator[RenderableType]:
    if total > ITEMS_SHOWN:
        yield Indented(Text(f"and {words.count(total - ITEMS_SHOWN, what)} more"))


def _first_and_count(ids: list[str]) -> str:
    more = f" and {len(ids) - 1:,} more" if len(ids) > 1 else ""
    return line(ids[0]) + more


def _totals(run: Run) -> Text:
    failed = run.damaged_goldens or any(result.status in FAILURES for result in run.results)
    passed = run.exit_code() is Exit.PASSED
    style = "bold green" if passed else "bold red" if failed else "bold yellow"
    return Text(words.totals_line(run), style=style)
