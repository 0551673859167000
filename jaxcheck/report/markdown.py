"""Reports as Markdown, for step summaries and pull requests: a pure function of the run or the gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from jaxcheck.report import words
from jaxcheck.report.gate import Row, next_commands, rows, verdict_line
from jaxcheck.report.safe import line
from jaxcheck.results import FAILURES, CheckResult, Gate, LeafResult, Run, Side

ROWS_SHOWN = 200
MOST_BYTES = 1_000_000  # GitHub takes a step summary of at most 1 MiB, and none at all of a longer one
CUT = "\n\n**Cut here**: the report is longer than what a step summary may be. The JSON report has all of it.\n"
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:-])")


def markdown(run: Run) -> str:
    """The report; cut at MOST_BYTES, with a word about it."""
    text = "\n".join(_gate(run) if isinstance(run, Gate) else _run(run)) + "\n"
    data = text.encode()
    if len(data) <= MOST_BYTES:
        return text
    return data[: MOST_BYTES - len(CUT)].decode(errors="ignore").rpartition("\n")[0] + CUT


def plain(text: str) -> str:
    """Text from registries and kernels, shown as it is: one line, nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", line(text))


def code(text: str) -> str:
    """The same in a fixed pitch; a backtick cannot end it."""
    return f"`{line(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`" if text else ""


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
    yield from _told("Damaged goldens", [plain(text) for text in run.damaged_goldens])
    yield "\n### Recipes\n"
    recipes: dict[str, list[CheckResult]] = {}
    for result in run.results:
        recipes.setdefault(result.recipe, []).append(result)
    yield from table(("recipe", "result", "checks"), (_recipe(*item) for item in recipes.items()))
    if run.environment:
        yield "\n### Environment\n"
        facts = words.environment_facts(run.environment).items()
        yield from table(("", ""), ((plain(name), plain(value)) for name, value in facts))
    unverified = [f"{plain(name)}: {plain(why)}" for name, why in run.not_verified.items()]
    yield from _told("Backends not verified", unverified)


def _failure(result: CheckResult) -> tuple[str, ...]:
    return code(result.id), result.status.value, plain(result.reason)


def _recipe(name: str, results: Sequence[CheckResult]) -> tuple[str, ...]:
    leaves: list[LeafResult] = [leaf for result in results for leaf in result.leaves]
    moved = words.extent(leaves)
    told = words.status_counts(results) + (f", {plain(moved)}" if moved else "")
    return code(name), told, f"{len(results):,}"
