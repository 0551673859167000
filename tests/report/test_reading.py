"""Reports read again: each as what it is, and anything else refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxcheck.errors import UsageError
from jaxcheck.report.formats import console, named, write_report
from jaxcheck.report.reading import Report, read_report, read_run
from jaxcheck.results.bisection import Bisection
from jaxcheck.results.diagnosis import Diagnosis, DiagnosisVerdict
from tests.report import sample
from tests.report.test_gate import check, gate

BISECTION = Bisection(jaxcheck="0.1.0", package="jax", predicate="moved", good="1", bad="2")
DIAGNOSIS = Diagnosis(
    jaxcheck="0.1.0",
    recipe="r",
    case="c",
    mode="jit",
    against="golden",
    verdict=DiagnosisVerdict(kind="none", sentence="nothing diverges"),
)


@pytest.mark.parametrize(
    "report",
    [sample.every_status(), gate(check("jit", "unchanged")), BISECTION, DIAGNOSIS],
    ids=["run", "gate", "bisection", "diagnosis"],
)
def test_each_comes_back_as_what_it_was(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(report, path)
    found = read_report(path)
    assert type(found) is type(report)
    assert found == report
    assert named(found, "console") == console(report)


def test_searches_have_fewer_formats() -> None:
    with pytest.raises(UsageError, match="no format 'html' for this report; valid: console, json"):
        named(BISECTION, "html")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a JSON report"),
        ("[1, 2]", "is JSON, but not a report of jaxcheck"),
        ('{"a": 1}', "is JSON, but not a report of jaxcheck"),
        ("[" * 100_000, "is not a JSON report"),
        ('{"schema": 2, "jaxcheck": "9", "results": []}', "is not a report that this jaxcheck reads: schema: "),
        ('{"results": [{}]}', "is not a report that this jaxcheck reads: jaxcheck: "),
    ],
)
def test_what_is_no_report_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_report(path)
    assert told in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_report(tmp_path / "none.json")


def test_only_a_run_can_be_a_part_of_one(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    write_report(gate(check("jit", "unchanged")), path)
    with pytest.raises(UsageError, match="the report of a gate, not of a run"):
        read_run(path)
