"""A run or a gate as one HTML file: no network, readable on a phone and on paper, usable by keyboard.

Without its script, which only filters, all of it is there to be read.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from jaxcheck.errors import Exit
from jaxcheck.report import words
from jaxcheck.report.gate import ORDER, next_commands, rows, verdict_line
from jaxcheck.report.html.checks import EXPANDED, Index, check, kind_of, severity
from jaxcheck.report.html.elements import Child, Markup, element, join
from jaxcheck.report.safe import line
from jaxcheck.results import FAILURES, CheckResult, Run, Status
from jaxcheck.results.gate import Gate, Side

MOST_OPEN = 10
NAME_CHARACTERS = 120
KINDS = (
    *(status.value for status in Status if status in FAILURES),
    *ORDER,
    "unchanged",
    "not compared",
    "skip",
    "pass",
)


def page(run: Run) -> str:
    """The whole file."""
    style, script = _inlined("style.css"), _inlined("script.js")
    name = "jaxcheck gate" if isinstance(run, Gate) else "jaxcheck run"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{name}: {_line(run)}"),
        element("style", style),
    )
    body = element("body", _header(run, name), _main(run), _footer(run), element("script", script))
    return "<!doctype html>\n" + element("html", head, body, lang="en").text + "\n"


def _inlined(name: str) -> Markup:
    """A file that belongs to this package."""
    return Markup(files(__package__).joinpath(name).read_text("utf-8"))


def _policy(style: Markup, script: Markup) -> str:
    """Nothing is fetched from anywhere, and no style or script runs but these two, whatever the page holds."""
    said = {"default-src": "'none'", "style-src": _hash(style), "script-src": _hash(script)}
    said |= {"base-uri": "'none'", "form-action": "'none'"}
    return "; ".join(f"{name} {value}" for name, value in said.items())


def _hash(inlined: Markup) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(inlined.text.encode()).digest()).decode()}'"


def _line(run: Run) -> str:
    return verdict_line(run) if isinstance(run, Gate) else words.totals_line(run)


def _header(run: Run, name: str) -> Markup:
    if isinstance(run, Gate):
        colour = {"pass": "good", "review": "warn", "block": "bad"}[run.verdict]
        title: Child = [element("span", name, class_="what"), f"{line(run.from_.label)} → {line(run.to.label)}"]
    else:
        colour = {Exit.PASSED: "good", Exit.FAILED: "bad", Exit.USAGE: "bad"}.get(run.exit_code(), "warn")
        title = [element("span", name, class_="what"), line(run.registry)]
    toggle = element("button", "Dark or light", type="button", id="theme", hidden=True)
    skip = element("a", "Skip to the checks", href="#checks", class_="skip")
    head = element("div", element("h1", title), toggle, class_="top")
    where = element("p", _conditions(run), class_="dim")
    return element("header", skip, head, element("p", _line(run), class_=f"verdict {colour}"), where)


def _conditions(run: Run) -> str:
    """The place in one line: the numbers above hold there and nowhere else."""
    facts = words.environment_facts(run.environment) if run.environment else {}
    told = " · ".join(line(facts[name]) for name in ("backend", "versions", "cpu") if name in facts)
    return f"after: {told}" if isinstance(run, Gate) and told else told


def _main(run: Run) -> Markup:
    index = Index.of(run.results)
    gated = isinstance(run, Gate)
    sections: list[Child] = [_gate_summary(run)] if isinstance(run, Gate) else []
    sections += [_told("Damaged goldens", run.damaged_goldens), _filter(run.results, index, gated)]
    sections.append(element("div", _recipes(run.results, index, gated), id="checks", tabindex=-1))
    sections.append(_environment(run))
    return element("main", sections)


def _told(title: str, items: Sequence[Child]) -> Markup | None:
    """A list under a heading, where there is anything."""
    if not items:
        return None
    return element(
        "section",
        element("h2", title),
        element("ul", [element("li", line(item) if isinstance(item, str) else item) for item in items]),
    )


def _gate_summary(gate: Gate) -> Markup:
    concerns = [_concern(gate, number) for number in range(len(gate.concerns))]
    packages = [
        f"{one.name} {one.before or 'none'} → {one.after or 'none'}{' (asked for)' if one.asked else ''}"
        for one in gate.packages
    ]
    causes = Counter(row.leaf.cause for row in rows(gate) if row.leaf.cause)
    return join(
        _told("Why", concerns),
        _told("Who moved it", [f"{cause}: {words.count(n, 'leaf', 'leaves')}" for cause, n in causes.most_common()]),
        _told("Packages that differ", packages),
        _told("The places differ too", gate.settings),
        _told("Next", [element("code", command) for command in next_commands(gate)]),
        _told("Remarks", gate.remarks),
    )


def _concern(gate: Gate, number: int) -> Markup:
    concern = gate.concerns[number]
    colour = {"pass": "good", "review": "warn", "block": "bad"}[concern.verdict]
    shown = ", ".join(map(line, concern.checks[:3])) + (
        f" and {len(concern.checks) - 3:,} more" if concern.checks[3:] else ""
    )
    return join(
        element("span", concern.verdict, class_=f"status {colour}"),
        f" {line(concern.message)}{' (allowed)' if concern.allowed else ''}",
        element("div", shown, class_="dim") if shown else None,
    )


def _filter(results: Sequence[CheckResult], index: Index, gated: bool) -> Markup:
    """Hidden until the script shows it: without it, it would do nothing."""
    counts = Counter(kind_of(result, gated) for result in results)
    kinds = [kind for kind in KINDS if counts[kind]]
    boxes = [
        element(
            "label",
            element("input", type="checkbox", name="status", value=kind, checked=True),
            element("span", kind, class_=f"status {severity(kind)}"),
            f" {counts[kind]:,}",
        )
        for kind in dict.fromkeys(kinds)
    ]
    words_ = element("label", "Text ", element("input", type="search", name="text", placeholder="id, reason, tag"))
    buttons = [
        element("button", "Open all", type="button", id="open"),
        element("button", "Close all", type="button", id="close"),
        element("button", "Reset", type="reset"),
    ]
    status = element("fieldset", element("legend", "Verdict" if gated else "Status"), boxes)
    row = element("div", words_, _select("recipe", index.recipes), _select("tag", index.tags), buttons, class_="row")
    count = element("p", words.count(len(results), "check"), id="count", role="status")
    return element("form", status, row, count, id="filter", hidden=True, aria_label="Which checks are shown")


def _select(name: str, numbers: Mapping[str, int]) -> Markup | None:
    if len(numbers) < 2:
        return None
    options = [element("option", line(text, NAME_CHARACTERS), value=number) for text, number in sorted(numbers.items())]
    label = name.capitalize() + " "
    return element("label", label, element("select", element("option", "all", value=""), options, name=name))


def _recipes(results: Sequence[CheckResult], index: Index, gated: bool) -> Iterator[Markup]:
    """What went wrong comes first, and is open where it is little; then what moved furthest."""
    by_recipe: dict[str, list[CheckResult]] = {}
    for result in results:
        by_recipe.setdefault(result.recipe, []).append(result)
    opened = {id(result) for result in _to_open(results, gated)}
    for recipe, its in sorted(by_recipe.items(), key=lambda item: _rank(item[1], gated)):
        counts = Counter(kind_of(result, gated) for result in its)
        told = ", ".join(f"{counts[kind]:,} {kind}" for kind in dict.fromkeys(KINDS) if counts[kind])
        head = element("h2", line(recipe, NAME_CHARACTERS), element("small", told))
        shown = [check(result, index, gated, open_=id(result) in opened) for result in its]
        yield element("section", head, shown, class_="recipe")


def _rank(results: Sequence[CheckResult], gated: bool) -> tuple[int, float]:
    """What is worst of a recipe's checks, and how far they moved: smaller comes first."""
    kinds = list(dict.fromkeys(KINDS))
    furthest = max((leaf.violation_ratio for result in results for leaf in result.leaves if leaf.moved), default=0.0)
    return min(kinds.index(kind_of(result, gated)) for result in results), -furthest


def _to_open(results: Sequence[CheckResult], gated: bool) -> list[CheckResult]:
    bad = [result for result in results if kind_of(result, gated) in EXPANDED]
    return bad if len(bad) <= MOST_OPEN else []


def _environment(run: Run) -> Markup:
    """Where the numbers were made; of a gate both places beside each other."""
    sides: list[tuple[str, Mapping[str, str]]] = []
    if isinstance(run, Gate):
        sides = [("before", _facts(run.from_)), ("after", _facts(run.to))]
    elif run.environment:
        sides = [("", words.environment_facts(run.environment))]
    names = dict.fromkeys(name for _, facts in sides for name in facts)
    rows = [
        element(
            "tr",
            element("th", line(name, NAME_CHARACTERS), scope="row"),
            [element("td", line(facts.get(name, ""))) for _, facts in sides],
        )
        for name in names
    ]
    if len(sides) > 1:
        rows.insert(0, element("tr", element("td"), [element("th", label, scope="col") for label, _ in sides]))
    if not isinstance(run, Gate):
        told = [("programs", words.programs(run.programs))] if run.programs else []
        told += words.node_facts(run).items()
        told += [(f"not verified: {name}", why) for name, why in run.not_verified.items()]
        rows += [
            element("tr", element("th", line(name, NAME_CHARACTERS), scope="row"), element("td", line(why)))
            for name, why in told
        ]
    table = element("div", element("table", rows), class_="scroll", tabindex=0, role="region", aria_label="Environment")
    return element("section", element("h2", "Environment"), table)


def _facts(side: Side) -> Mapping[str, str]:
    return words.environment_facts(side.environment) if side.environment else {}


def _footer(run: Run) -> Markup:
    said = [f"jaxcheck {run.jaxcheck}", run.started, run.command and f"jaxcheck {run.command}"]
    digest = run.registry_digest and f"registry {run.registry_digest[:12]}"
    return element("footer", " · ".join(line(text) for text in (*said, digest) if text))
