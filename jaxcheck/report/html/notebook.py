"""A run as a fragment of HTML, for the output cell of a notebook: no script, no style sheet, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxcheck.report import words
from jaxcheck.report.html.checks import Index, check
from jaxcheck.report.html.elements import Markup, element
from jaxcheck.report.safe import line
from jaxcheck.results import FAILURES, CheckResult, Run

MOST_CHECKS = 20
NAME_CHARACTERS = 120


def fragment(run: Run) -> str:
    """The totals, a row for each recipe, and every failed check (the first 20) behind a line that opens."""
    failed = [result for result in run.results if result.status in FAILURES]
    index = Index.of(failed)
    rest = len(failed) - MOST_CHECKS
    return element(
        "div",
        element("p", element("strong", words.totals_line(run))),
        element("table", element("thead", _row("th", ("recipe", "result", "checks", "drifted"))), _rows(run.results)),
        [check(result, index, False, open_=False) for result in failed[:MOST_CHECKS]],
        element("p", f"and {words.count(rest, 'more failed check')}") if rest > 0 else None,
        element("p", element("small", _environment(run))),
        class_="jaxcheck",
    ).text


def _rows(results: Sequence[CheckResult]) -> Iterator[Markup]:
    by_recipe: dict[str, list[CheckResult]] = {}
    for result in results:
        by_recipe.setdefault(result.recipe, []).append(result)
    for recipe, its in by_recipe.items():
        drifted = sum(result.drifted for result in its)
        cells = (
            line(recipe, NAME_CHARACTERS),
            words.status_counts(its),
            f"{len(its):,}",
            f"{drifted:,}" * bool(drifted),
        )
        yield _row("td", cells)


def _row(tag: str, cells: Sequence[str]) -> Markup:
    return element("tr", [element(tag, cell) for cell in cells])


def _environment(run: Run) -> str:
    facts = words.environment_facts(run.environment) if run.environment else {}
    told = [f"{name} {value}" for name, value in facts.items()]
    told += [f"not verified: {name} ({why})" for name, why in run.not_verified.items()]
    return line(" · ".join(told), 1_000)
