"""Report files: formats by suffix, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxcheck.errors import UsageError
from jaxcheck.report.formats import FORMATS, check_suffix, write_report
from jaxcheck.results import Run
from tests.report import sample


def test_json_holds_all_of_the_run(tmp_path: Path) -> None:
    run = sample.every_status()
    path = tmp_path / "made" / "on the way" / "report.json"
    write_report(run, path)
    assert Run.from_json(path.read_bytes()) == run
    said = json.loads(path.read_text())
    assert said["schema"] == 1
    assert said["totals"] == {
        "pass": 3, "fail": 2, "error": 1, "crash": 1, "timeout": 1, "missing": 2, "stale": 1, "skip": 1
    }  # fmt: skip
    assert said["results"][1]["leaves"][0]["worst"]["index"] == [1, 2]


def test_infinities_are_numbers_in_json() -> None:
    text = FORMATS["json"](sample.run_of(sample.check("a", "b", "jit", "fail", leaves=(sample.not_a_number(),))))
    assert "Infinity" not in text
    assert "NaN" not in json.dumps(json.loads(text)["results"][0]["leaves"][0]["violation_ratio"])


def test_untrusted_text_survives_json() -> None:
    run = sample.run_of(sample.check(sample.EVIL, sample.EVIL, "jit", "fail", reason=sample.EVIL))
    assert Run.from_json(FORMATS["json"](run)) == run


@pytest.mark.parametrize("name", ["report.JSON", "report.json"])
def test_the_suffix_may_be_in_capitals(name: str) -> None:
    assert check_suffix(Path(name)) == "json"


@pytest.mark.parametrize(("name", "has"), [("report.pdf", "the suffix '.pdf'"), ("report", "no suffix")])
def test_an_unknown_suffix_is_refused_with_the_valid_ones(name: str, has: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        write_report(sample.run_of(), tmp_path / name)
    assert f"{name} has {has}, which is not a report format; valid: .json" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.mkdir()
    with pytest.raises(UsageError, match=r"cannot write the report .*report\.json"):
        write_report(sample.run_of(), target)
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_an_old_report_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(sample.run_of(), path)
    write_report(sample.every_status(), path)
    assert Run.from_json(path.read_bytes()) == sample.every_status()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]
