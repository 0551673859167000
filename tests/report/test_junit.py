"""JUnit XML: elements, attributes and order as in Jenkins' junit-10.xsd; and no green that is none."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from jaxcheck.report.junit import junit
from jaxcheck.results import Run
from jaxcheck.results.gate import Concern
from tests.report import sample
from tests.report.test_gate import check as gated
from tests.report.test_gate import gate
from tests.report.test_gate import leaf as moved

COUNTS = {"tests", "failures", "errors", "time"}
# Element: (attributes that it must have, those that it may have, children in this order).
SCHEMA: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": ({"name"}, COUNTS | {"name"}, ["testsuite"]),
    "testsuite": (
        {"name"},
        COUNTS | {"name", "skipped", "timestamp"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, {"name", "value"}, []),
    "testcase": (
        {"name"},
        {"name", "classname", "time"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "skipped": (set(), {"type", "message"}, []),
    "error": (set(), {"type", "message"}, []),
    "failure": (set(), {"type", "message"}, []),
    "system-out": (set(), set(), []),
    "system-err": (set(), set(), []),
}


def valid(run: Run) -> ET.Element:
    """The one suite of the report, all of which keeps to the schema."""
    root = ET.fromstring(junit(run))
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, children = SCHEMA[element.tag]
        assert must <= set(element.attrib) <= may, element.tag
        order = [children.index(child.tag) for child in element]
        assert order == sorted(order), element.tag
        if element.tag == "testcase":
            assert sum(child.tag in ("skipped", "error", "failure") for child in element) <= 1
        for name in COUNTS & set(element.attrib):
            assert re.fullmatch(r"\d+(\.\d{3})?", element.attrib[name])
    (suite,) = root
    cases = suite.findall("testcase")
    for name, tag in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
        assert int(suite.attrib[name]) == sum(case.find(tag) is not None for case in cases)
    assert int(suite.attrib["tests"]) == len(cases)
    assert suite.attrib["tests"] == root.attrib["tests"]
    return suite


def ends(suite: ET.Element) -> dict[str, str]:
    """{classname/name: how it ended}."""
    found = {}
    for case in suite.findall("testcase"):
        ended = [f"{child.tag} {child.get('type', '')}".strip() for child in case if child.tag in SCHEMA["testcase"][2]]
        found[f"{case.attrib['classname']}/{case.attrib['name']}"] = ended[0] if ended else "passed"
    return found


def test_every_status_has_its_element() -> None:
    suite = valid(sample.every_status())
    assert ends(suite) == {
        "newton-sqrt/standard[eager]": "passed",
        "newton-sqrt/standard[jit]": "failure fail",
        "lgamma/roots[eager]": "system-out",
        "lgamma/roots[jit]": "system-out",
        "mlp/standard[jit]": "failure fail",
        "cross/standard[eager]": "error error",
        "rank7/standard[jit]": "error crash",
        "endless/standard[jit]": "error timeout",
        "new/standard[eager]": "failure missing",
        "new/standard[jit]": "failure missing",
        "old one/standard[jit]": "failure stale",
        "gpu-only/standard[jit]": "skipped",
    }
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "wants backend gpu, this is cpu"
    properties = {one.attrib["name"]: one.attrib["value"] for one in suite.iter("property")}
    assert properties["versions"].startswith("jax 0.11.2, jaxlib 0.11.1")
    assert properties["not verified: gpu"] == "not available here"


def test_a_failure_says_what_moved_and_what_to_type() -> None:
    failure = valid(sample.run_of(sample.failed())).find("testcase/failure")
    assert failure is not None
    text = failure.text or ""
    assert (
        "worst at [1, 2]: 0.1234111 -> 0.1234567, allowed 2.25e-06; rtol 2e-06 atol 2e-06 (recipes.yaml:12:5)" in text
    )
    assert "the kernel changed its argument x" in text
    assert text.endswith("hint: jaxcheck diff newton-sqrt::standard")


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (sample.run_of(), "nothing_verified"),
        (sample.run_of(sample.check("a", "b", "jit", "skip")), "nothing_verified"),
        (sample.run_of(sample.check("a", "b", "jit", "pass"), interrupted=True), "interrupted"),
        (sample.run_of(sample.check("a", "b", "jit", "pass"), damaged_goldens=("a.npz: truncated",)), "usage"),
    ],
)
def test_what_no_check_tells_is_an_error_of_its_own(run: Run, kind: str) -> None:
    assert ends(valid(run))["jaxcheck/run"] == f"error {kind}"


def test_a_gate_has_verdicts() -> None:
    verdicts = ("unchanged", "drifted", "improved", "regressed", "changed", "broken", "unstable", None)
    results = [gated(f"m{number}", verdict, moved("changed")) for number, verdict in enumerate(verdicts)]
    concern = Concern(kind="loosened", verdict="block", message="wider than blessed")
    suite = valid(gate(*results, verdict="block", concerns=(concern,)))
    counts = Counter(ends(suite).values())
    assert counts["system-out"] == 3
    assert {kind.removeprefix("failure ") for kind in counts if kind.startswith("failure")} == {
        "regressed", "changed", "broken", "unstable", "block"
    }  # fmt: skip
    assert counts["skipped"] == 1
    failure = suite.find("testcase[@name='gate verdict']/failure")
    assert failure is not None
    assert failure.text == "block: wider than blessed"


def test_a_gate_that_passed_is_green() -> None:
    assert set(ends(valid(gate(gated("jit", "unchanged"), verdict="pass"))).values()) == {"passed"}
