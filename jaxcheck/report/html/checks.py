"""One check on the page: a line that says what became of it, and behind it all that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaxcheck.report import words
from jaxcheck.report.html.elements import Child, Markup, element
from jaxcheck.report.html.pictures import latencies, pictures
from jaxcheck.report.safe import line
from jaxcheck.results import COMPARED, CheckResult, Latency, LeafResult

SEVERITY = {
    **dict.fromkeys(("pass", "unchanged", "improved"), "good"),
    **dict.fromkeys(("missing", "stale", "unstable"), "warn"),
    **dict.fromkeys(("skip", "not compared", "drifted"), "dim"),
}
EXPANDED = frozenset({"fail", "error", "crash", "timeout", "regressed", "changed", "broken", "improved"})
SUMMARY_CHARACTERS = 300
EQUAL_SHOWN = 40
PICTURED = 200
VALUE_CHARACTERS = 120
TEXT_CHARACTERS = 2_000
TITLES = (
    "truth",
    "at",
    "allowed",
    "max abs",
    "max rel",
    "max ULP",
    "error to truth",
    "cause",
    "since",
    "tolerance",
)


@dataclass(frozen=True)
class Index:
    """Recipes and tags by number: a filter compares numbers, whatever the names hold. And the leaves, by check and
    path, that have pictures: those that moved furthest, so that a page where everything moved still opens at once."""

    recipes: dict[str, int]
    tags: dict[str, int]
    pictured: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, results: Sequence[CheckResult]) -> Index:
        recipes = dict.fromkeys(result.recipe for result in results)
        tags = dict.fromkeys(tag for result in results for tag in result.tags)
        moved = [(leaf.violation_ratio, one.id, leaf.path) for one in results for leaf in one.leaves if leaf.moved]
        furthest = sorted(moved, key=lambda leaf: -leaf[0])[:PICTURED]
        pictured = frozenset((check, path) for _, check, path in furthest)
        return cls(_numbered(recipes), _numbered(tags), pictured)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def kind_of(result: CheckResult, gated: bool) -> str:
    """What became of it, in a word: its status, or in a gate its verdict."""
    return (result.verdict or "not compared") if gated else result.status.value


def severity(kind: str) -> str:
    """The class that colours the word."""
    return SEVERITY.get(kind, "bad")


def check(result: CheckResult, index: Index, gated: bool, *, open_: bool) -> Markup:
    """`<details>`, with what the filter looks at as data."""
    kind = kind_of(result, gated)
    reason = line(result.reason, SUMMARY_CHARACTERS)
    measured = [*result.leaves, *(leaf for leaves in result.against.values() for leaf in leaves if leaf.reason)]
    head = element(
        "summary",
        element("span", kind, class_=f"status {severity(kind)}"),
        element("span", line(result.id, SUMMARY_CHARACTERS), class_="id"),
        element("span", words.extent(measured), class_="dim"),
        element("span", reason, class_="reason") if reason else None,
    )
    tags = " ".join(str(index.tags[tag]) for tag in result.tags)
    body = element("div", list(_body(result, index, gated)), class_="body")
    recipe = index.recipes[result.recipe]
    return element(
        "details",
        head,
        body,
        class_="check",
        open=open_,
        data_status=kind,
        data_recipe=recipe,
        data_tags=tags or None,
    )


def _body(result: CheckResult, index: Index, gated: bool) -> Iterator[Child]:
    told = [finding.message for finding in result.findings] or [result.reason] * bool(result.reason)
    yield _list([*result.notes, *told, *result.details])
    if result.baseline and result.baseline.reason:
        yield element("p", f"before: {result.baseline.status}: {line(result.baseline.reason, TEXT_CHARACTERS)}")
    names = ("before", "after") if gated else ("golden", "actual")
    yield _leaves("", result.leaves, names)
    yield _explained([leaf for leaf in result.leaves if leaf.moved and (result.id, leaf.path) in index.pictured])
    for other, leaves in result.against.items():
        yield _leaves(f"against {other}", leaves, (other, "actual" if other == "reference" else result.mode))
    yield _timed(result)
    for name, text in (("error", result.error), ("stderr", result.stderr), ("stdout", result.stdout)):
        if text and text.strip() and text.strip() != result.reason.strip():
            yield [element("h4", name), element("pre", text.strip("\n"), tabindex=0)]
    yield _list([f"{one.category}: {one.message} ({one.file}:{one.line})" for one in result.warnings])
    if result.hint:
        yield element("p", "Next: ", element("code", result.hint), class_="hint")
    yield element("p", " · ".join(line(text, VALUE_CHARACTERS) for text in _facts(result)), class_="dim")


def _list(items: Sequence[str]) -> Markup | None:
    return element("ul", [element("li", line(item, TEXT_CHARACTERS)) for item in items]) if items else None


def _facts(result: CheckResult) -> Iterator[str]:
    yield words.seconds(result.seconds)
    if result.compile_seconds is not None:
        times = words.count(result.compiles, "compilation") if result.compiles is not None else "compiling"
        yield f"{times}, {words.seconds(result.compile_seconds)}"
    if result.golden_status is not None:
        yield f"by its golden {result.golden_status}"
    yield from (text for text in (result.device_kind, result.golden, result.position) if text)
    yield from (f"{name} {value}" for name, value in result.conditions.items())
    if result.tags:
        yield "tags " + ", ".join(result.tags)


def _leaves(title: str, leaves: Sequence[LeafResult], names: tuple[str, str]) -> Iterator[Child]:
    """A table of all that moved, the furthest first; what is equal in one line."""
    moved = sorted((leaf for leaf in leaves if leaf.moved), key=lambda leaf: -leaf.violation_ratio)
    equal = [leaf for leaf in leaves if not leaf.moved]
    if title and leaves:
        yield element("h4", title)
    if moved:
        yield _table(moved, names)
    if equal:
        shown = ", ".join(
            line(f"{leaf.path} {words.array_type(leaf)}", VALUE_CHARACTERS) for leaf in equal[:EQUAL_SHOWN]
        )
        more = f" and {len(equal) - EQUAL_SHOWN:,} more" if equal[EQUAL_SHOWN:] else ""
        yield element("p", f"bit-equal: {shown}{more}", class_="dim")


def _explained(leaves: Sequence[LeafResult]) -> Iterator[Child]:
    """Of each leaf who moved it, and pictures."""
    for leaf in leaves:
        drawn = list(pictures(leaf))
        if leaf.because or drawn:
            yield element(
                "h4",
                line(leaf.path, VALUE_CHARACTERS),
                " ",
                element("small", line(words.array_type(leaf), VALUE_CHARACTERS)),
            )
        if leaf.because:
            yield element("p", element("b", leaf.package or leaf.cause), f": {line(leaf.because, TEXT_CHARACTERS)}")
        if drawn:
            yield element("div", drawn, class_="pictures")


def _table(leaves: Sequence[LeafResult], names: tuple[str, str]) -> Markup:
    """Columns that no leaf has anything for are left out."""
    titles = ("leaf", "moved", *names, *TITLES)
    rows = [_cells(leaf) for leaf in leaves]
    used = [column for column in range(len(titles)) if any(row[column] for row in rows)]
    head = element("thead", element("tr", [element("th", titles[column], scope="col") for column in used]))
    body = [
        element(
            "tr",
            element("th", line(row[0], VALUE_CHARACTERS), scope="row"),
            [element("td", line(row[column], VALUE_CHARACTERS), data_label=titles[column]) for column in used[1:]],
        )
        for row in rows
    ]
    table = element("table", head, element("tbody", body), class_="leaves")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Leaves that moved")


def _cells(leaf: LeafResult) -> tuple[str, ...]:
    worst, errors = leaf.worst, leaf.error_to_truth
    values = (worst.golden, worst.actual, worst.truth) if worst else (None, None, None)
    verdict = f"{leaf.verdict}: " if leaf.verdict in COMPARED and leaf.reason else ""
    return (
        f"{leaf.path} {words.array_type(leaf)}",
        verdict + words.extent([leaf]),
        *("" if value is None else words.element(value, leaf.dtype) for value in values),
        str(list(worst.index)) if worst and worst.index else "",
        words.measure(worst.allowed) if worst else "",
        words.measure(leaf.max_abs),
        words.measure(leaf.max_rel),
        words.ulps(leaf.max_ulp),
        f"{words.measure(errors.golden)} → {words.measure(errors.actual)}" if errors else "",
        leaf.package or leaf.cause or "",
        leaf.since or "",
        words.tolerance(leaf),
    )


def _timed(result: CheckResult) -> Child:
    named: list[tuple[str, Latency]] = []
    if result.baseline and result.baseline.latency:
        named.append(("before", result.baseline.latency))
    if result.latency:
        named.append(("after" if named else "", result.latency))
    if not named:
        return None
    said = ", ".join(f"{name} {value}" for name, value in named[-1][1].conditions.items())
    return [element("div", latencies(named), class_="pictures"), element("p", said, class_="dim") if said else None]
