"""JUnit XML, as CI systems read it: a test case for each check, of a run or of a gate.

The form is that of Jenkins' junit-10.xsd, of which every reader knows a part: properties, then test cases with
`failure`, `error` or `skipped`, and what a kernel printed in `system-out` and `system-err`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from jaxcheck.errors import Exit
from jaxcheck.report import words
from jaxcheck.report.gate import verdict_line
from jaxcheck.report.safe import last_lines, line
from jaxcheck.results import CheckResult, LeafResult, Run, Status
from jaxcheck.results.gate import Gate

TAGS = {
    Status.FAIL: "failure",
    Status.MISSING: "failure",
    Status.STALE: "failure",
    Status.ERROR: "error",
    Status.CRASH: "error",
    Status.TIMEOUT: "error",
    Status.SKIP: "skipped",
}
GATE_FAILURES = frozenset({"regressed", "changed", "broken", "unstable"})
OUTPUT_LINES = 200
# XML 1.0 has no way to hold these, not even escaped; texts have them as visible escapes by then.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run) -> str:
    """The report. What no check tells (a run cut short, a verdict by other reasons) is a test case of its own."""
    suite = ET.Element("testsuite")
    _properties(suite, run)
    for result in run.results:
        _case(suite, result, isinstance(run, Gate))
    _verdict(suite, run)
    cases = suite.findall("testcase")
    counts = {
        "name": "jaxcheck gate" if isinstance(run, Gate) else "jaxcheck run",
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    time = f"{run.seconds:.3f}"
    skipped = str(sum(case.find("skipped") is not None for case in cases))
    _set(suite, **counts, skipped=skipped, time=time, **({"timestamp": run.started[:19]} if run.started else {}))
    suites = ET.Element("testsuites")
    _set(suites, **counts, time=time)
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode")


def _set(element: ET.Element, **attributes: str) -> None:
    for name, value in attributes.items():
        element.set(name, _ILLEGAL.sub("", value))


def _add(parent: ET.Element, tag: str, text: Sequence[str] = (), **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag)
    _set(element, **attributes)
    if text:
        element.text = _ILLEGAL.sub("", "\n".join(text))
    return element


def _properties(suite: ET.Element, run: Run) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in _facts(run):
        _add(properties, "property", name=line(name), value=line(value))


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "jaxcheck", run.jaxcheck
    yield "registry", run.registry
    yield "command", run.command
    if isinstance(run, Gate):
        yield "verdict", run.verdict
        for label, side in (("before", run.from_), ("after", run.to)):
            yield label, side.label
            if side.environment:
                facts = words.environment_facts(side.environment)
                yield from ((f"{label}: {name}", value) for name, value in facts.items())
    elif run.environment:
        yield from {**words.environment_facts(run.environment), **words.node_facts(run)}.items()
    yield from ((f"not verified: {backend}", why) for backend, why in run.not_verified.items())


def _case(suite: ET.Element, result: CheckResult, gated: bool) -> None:
    name = f"{line(result.case)}[{line(result.mode)}]"
    case = _add(suite, "testcase", classname=line(result.recipe), name=name, time=f"{result.seconds:.3f}")
    tag, kind = _ending(result, gated)
    if tag == "skipped":
        _add(case, tag, message=line(result.reason or "no reason given"))
    elif tag:
        _add(case, tag, list(_details(result)), message=line(result.reason or kind), type=kind)
    out = [*(() if tag else _moves(result.leaves)), *last_lines(result.stdout, OUTPUT_LINES)]
    for name, lines in (("system-out", out), ("system-err", last_lines(result.stderr, OUTPUT_LINES))):
        if lines:
            _add(case, name, lines)


def _ending(result: CheckResult, gated: bool) -> tuple[str, str]:
    """(element, its type) of a check; no element where it passed."""
    if not gated:
        return TAGS.get(result.status, ""), result.status.value
    if result.verdict is None:
        return "skipped", "not compared"
    return ("failure" if result.verdict in GATE_FAILURES else ""), result.verdict


def _details(result: CheckResult) -> Iterator[str]:
    """What a person needs who sees nothing but this."""
    yield line(result.id) + (f" ({line(result.position)})" if result.position else "")
    yield from (line(note) for note in result.notes)
    yield from (line(finding.message) for finding in result.findings)
    yield from _moves(result.leaves)
    yield from (f"{other}: {text}" for other, leaves in result.against.items() for text in _moves(leaves))
    if result.error:
        yield from last_lines(result.error, OUTPUT_LINES)
    if result.hint:
        yield f"hint: {line(result.hint)}"


def _moves(leaves: Sequence[LeafResult]) -> Iterator[str]:
    """A line for each leaf that moved."""
    for leaf in leaves:
        if not leaf.moved:
            continue
        text = f"{leaf.path} {words.array_type(leaf)}: {words.extent([leaf])}"
        if leaf.worst:
            old, new = (words.element(value, leaf.dtype) for value in (leaf.worst.golden, leaf.worst.actual))
            text += f", worst at {list(leaf.worst.index)}: {old} -> {new}, allowed {words.measure(leaf.worst.allowed)}"
        cause = f"; cause: {leaf.cause}" if leaf.cause else ""
        yield line(f"{text}; {words.tolerance(leaf)}{cause}")


def _verdict(suite: ET.Element, run: Run) -> None:
    """A test case that fails where the command did, though no check tells it."""
    if isinstance(run, Gate):
        case = _add(suite, "testcase", classname="jaxcheck", name="gate verdict", time="0.000")
        if run.exit_code() is not Exit.PASSED:
            told = [line(f"{concern.verdict}: {concern.message}") for concern in run.concerns if not concern.allowed]
            _add(case, "failure", told, message=line(verdict_line(run)), type=run.verdict)
        return
    code = run.exit_code()
    if code not in (Exit.PASSED, Exit.FAILED):
        case = _add(suite, "testcase", classname="jaxcheck", name="run", time="0.000")
        told = [line(text) for text in run.damaged_goldens]
        _add(case, "error", told, message=line(words.totals_line(run)), type=code.name.lower())
