"""Reports as Markdown, for step summaries and pull requests: a pure function of the run or the gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from jaxcheck.report import words
from jaxcheck.report.gate import Row, next_commands, rows, verdict_line
from jaxcheck.report.safe import last_lines, line
from jaxcheck.results import FAILURES, CheckResult, LeafResult, Run
from jaxcheck.results.gate import Gate, Side

ROWS_SHOWN = 200
MOST_BYTES = 1_000_000  # GitHub takes a step summary of at most 1 MiB, and none at all of a longer one
CUT = "\n\n**Cut here**: the report is longer than what a step summary may be. The JSON report has all of it.\n"
FENCE = "````"  # of a code block, of which no line begins with it
BLOCKS_SHOWN, BLOCK_LINES = 10, 12
_BAR = re.compile(r"(\\*)\|")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:-])")


def markdown(run: Run) -> str:
    """The report; cut at MOST_BYTES, with a word about it."""
    return cut("\n".join(_gate(run) if isinstance(run, Gate) else _run(run)) + "\n", MOST_BYTES)


def cut(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, of whole lines and whole code blocks."""
    data = text.encode()
    if len(data) <= most:
        return text
    lines = data[: most - len(CUT.encode())].decode(errors="ignore").split("\n")[:-1]
    fences = [number for number, one in enumerate(lines) if one.startswith(FENCE)]
    if len(fences) % 2:
        lines = lines[: fences[-1]]
    return "\n".join(lines) + CUT


def plain(text: str) -> str:
    """Text from registries and kernels, shown as it is: one line, nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", line(text))


def code(text: str) -> str:
    """The same in a fixed pitch; neither a backtick nor a bar in a table can end it."""
    return f"`{_BAR.sub(_escaped_bar, line(text).replace('`', chr(39)))}`" if text else ""


def _escaped_bar(found: re.Match[str]) -> str:
    """GitHub takes backslashes in pairs before it looks for bars, also in code: their number has to be odd."""
    before = found[1]
    return before + "\\" * (1 + len(before) % 2) + "|"


def table(header: Sequence[str], body: Iterable[Sequence[str]]) -> Iterator[str]:
    """Cells are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield "|" + " --- |" * len(header)
    yield from (f"| {' | '.join(cells)} |" for cells in body)


def _gate(gate: Gate) -> Iterator[str]:
    yield f"## {plain(gate.from_.label)} → {plain(gate.to.label)}: {gate.verdict}"
    yield f"\n{plain(verdict_line(gate))}\n"
    for concern in gate.concerns:
        said = " *(allowed)*" if concern.allowed else ""
        yield f"- **{concern.verdict}**: {plain(concern.message)}{said}"
    moved = rows(gate)
    if moved:
        yield "\n### What moved\n"
        header = ("check", "leaf", "verdict", "before", "after", "truth", "cause", "since")
        yield from table(header, (_cells(row) for row in moved[:ROWS_SHOWN]))
        if moved[ROWS_SHOWN:]:
            yield f"\nand {words.count(len(moved) - ROWS_SHOWN, 'leaf', 'leaves')} more"
    yield from _because(moved)
    yield from _told("Not compared, broken or unstable", _without_values(gate))
    differ = [f"{code(p.name)} {plain(p.before or 'none')} → {plain(p.after or 'none')}" for p in gate.packages]
    yield from _told("Packages that differ", differ)
    yield from _told("The places differ too", [plain(text) for text in gate.settings])
    yield "\n### Environments\n"
    yield from table(("", "before", "after"), _sides(gate.from_, gate.to))
    yield from _told("Next", [code(command) for command in next_commands(gate)])
    yield from (f"\n{plain(remark)}" for remark in gate.remarks)


def _cells(row: Row) -> tuple[str, ...]:
    leaf, worst = row.leaf, row.leaf.worst
    values = (worst.golden, worst.actual, worst.truth) if worst else (None, None, None)
    numbers = ["" if value is None else plain(words.element(value, leaf.dtype)) for value in values]
    name = code(f"{row.recipe}::{row.case}[{','.join(row.modes)}]")
    verdict = f"{leaf.verdict or ''} ({plain(words.extent([leaf]))})"
    return name, code(leaf.path), verdict, *numbers, leaf.cause or "", plain(leaf.since or "")


def _because(moved: Sequence[Row]) -> Iterator[str]:
    texts = dict.fromkeys(f"**{r.leaf.cause}**: {plain(r.leaf.because)}" for r in moved if r.leaf.because)
    yield from _told("Causes", list(texts)[:20])


def _told(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"\n### {title}\n"
        yield from (f"- {item}" for item in items)


def _without_values(gate: Gate) -> list[str]:
    return [
        f"{code(result.id)} {result.verdict or 'not compared'}: {plain(result.reason)}"
        for result in gate.results
        if result.verdict in ("broken", "unstable") or (result.verdict is None and result.baseline)
    ]


def _sides(before: Side, after: Side) -> Iterator[Sequence[str]]:
    facts = [words.environment_facts(side.environment) if side.environment else {} for side in (before, after)]
    for name in dict.fromkeys([*facts[0], *facts[1]]):
        yield plain(name), plain(facts[0].get(name, "")), plain(facts[1].get(name, ""))


def _run(run: Run) -> Iterator[str]:
    yield f"## jaxcheck: {plain(words.totals_line(run))}"
    failed = [result for result in run.results if result.status in FAILURES]
    if failed:
        yield "\n### Failures\n"
        yield from table(("check", "status", "reason"), (_failure(result) for result in failed[:ROWS_SHOWN]))
        if failed[ROWS_SHOWN:]:
            yield f"\nand {words.count(len(failed) - ROWS_SHOWN, 'check')} more"
    yield from _beyond(failed)
    yield from _blocks(failed)
    yield from _told("Next", [code(hint) for hint in dict.fromkeys(one.hint for one in failed if one.hint)][:20])
    yield from _told("Damaged goldens", [plain(text) for text in run.damaged_goldens])
    yield "\n### Recipes\n"
    recipes: dict[str, list[CheckResult]] = {}
    for result in run.results:
        recipes.setdefault(result.recipe, []).append(result)
    yield from table(("recipe", "result", "checks"), (_recipe(*item) for item in recipes.items()))
    yield from _told("Warnings from kernels", _warned(run)[:20])
    if run.environment:
        yield "\n### Environment\n"
        facts = {**words.environment_facts(run.environment), **words.node_facts(run)}.items()
        yield from table(("", ""), ((plain(name), plain(value)) for name, value in facts))
    unverified = [f"{plain(name)}: {plain(why)}" for name, why in run.not_verified.items()]
    yield from _told("Backends not verified", unverified)


def _failure(result: CheckResult) -> tuple[str, ...]:
    return code(result.id), result.status.value, plain(result.reason)


def _beyond(failed: Sequence[CheckResult]) -> Iterator[str]:
    """The worst element of each leaf beyond its tolerance, the furthest first."""
    found = [(result, leaf) for result in failed for leaf in result.leaves if leaf.reason and leaf.worst]
    if not found:
        return
    found.sort(key=lambda pair: -pair[1].violation_ratio)
    yield "\n### Beyond tolerance\n"
    header = ("check", "leaf", "how far", "at", "golden", "actual", "allowed", "tolerance")
    yield from table(header, (_numbers(*pair) for pair in found[:ROWS_SHOWN]))
    if found[ROWS_SHOWN:]:
        yield f"\nand {words.count(len(found) - ROWS_SHOWN, 'leaf', 'leaves')} more"


def _numbers(result: CheckResult, leaf: LeafResult) -> tuple[str, ...]:
    worst = leaf.worst
    assert worst
    values = (plain(words.element(value, leaf.dtype)) for value in (worst.golden, worst.actual))
    said = (plain(words.extent([leaf])), plain(str(list(worst.index))), *values, plain(words.measure(worst.allowed)))
    return code(result.id), code(leaf.path), *said, plain(words.tolerance(leaf))


def _blocks(failed: Sequence[CheckResult]) -> Iterator[str]:
    """Tracebacks, and the last words of workers that died."""
    texts = [(result, result.error or result.stderr) for result in failed]
    told = [(result, last_lines(text, BLOCK_LINES)) for result, text in texts if text.strip()]
    if not told:
        return
    yield "\n### Errors"
    for result, lines in told[:BLOCKS_SHOWN]:
        yield f"\n{code(result.id)}\n\n{FENCE}text"
        # Four blanks before it, and a line of backticks ends no block.
        yield from (f"    {one.lstrip()}" if one.lstrip().startswith(FENCE) else one for one in lines)
        yield FENCE
    if told[BLOCKS_SHOWN:]:
        yield f"\nand {words.count(len(told) - BLOCKS_SHOWN, 'error')} more"


def _warned(run: Run) -> list[str]:
    seen = {(one.category, one.message): one for result in run.results for one in result.warnings}
    return [f"{code(one.category)} {plain(one.message)} ({plain(f'{one.file}:{one.line}')})" for one in seen.values()]


def _recipe(name: str, results: Sequence[CheckResult]) -> tuple[str, ...]:
    leaves: list[LeafResult] = [leaf for result in results for leaf in result.leaves]
    moved = words.extent(leaves)
    told = words.status_counts(results) + (f", {plain(moved)}" if moved else "")
    return code(name), told, f"{len(results):,}"
