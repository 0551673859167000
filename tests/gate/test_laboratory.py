"""The log of a bisection: what is kept, what is used again, and what is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.saved import SavedRun, Saving
from jaxcheck.gate import laboratory as lab
from jaxcheck.gate.environments import Installation, Wanted
from jaxcheck.gate.gate import Conduct, Project
from jaxcheck.gate.laboratory import KEPT, Axis, Entry, Laboratory, Log
from jaxcheck.gate.releases import Row
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult, Run

SEARCH = {"package": "ruler", "good": "1.0"}
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 0, atol: 0}}}
recipes: {f: {kernel: "kernels:f", cases: {a: {args: {x: 1.0}}}}}
"""
AXIS = Axis("ruler", "1.0", "2.0")


def saved(log: Log, name: str, **more: object) -> SavedRun:
    """A saved run with one check."""
    result = CheckResult.model_validate(
        {"id": "f::a[jit]", "recipe": "f", "case": "a", "mode": "jit", "status": "error"}
    )
    saving = Saving(log.runs / name)
    return saving.finish(Run.model_validate({"jaxcheck": "1", "results": (result,), **more}))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Three runs that were had, and one release that cannot be."""
    made = Log(tmp_path / "bisect", SEARCH)
    assert made.prepare(restart=False) == ""
    made.set_row(Row(("1.0", "1.5", "2.0"), ("1.7",)))
    for version, attempt in (("1.0", "baseline"), ("1.0", "first"), ("2.0", "first")):
        saved(made, f"{version}-{attempt}")
        made.add(Entry(version=version, attempt=attempt, folder=f"{version}-{attempt}"))
    made.add(Entry(version="1.5", attempt="first", skip="no wheel"))
    return made


def reopened(log: Log, restart: bool = False) -> tuple[Log, str]:
    log.close()
    other = Log(log.file.parent, SEARCH)
    try:
        return other, other.prepare(restart)
    finally:
        other.close()


def test_what_was_had_is_used_again(log: Log) -> None:
    again, told = reopened(log)
    assert "4 runs are there (--restart forgets them)" in told
    assert again.record == log.record
    assert again.reused == {("1.0", "baseline"), ("1.0", "first"), ("2.0", "first"), ("1.5", "first")}
    assert again.record.versions == ("1.0", "1.5", "2.0")
    assert again.find("1.5", "first") == Entry(version="1.5", attempt="first", skip="no wheel")
    assert again.find("1.5", "again") is None


def test_two_at_once_are_refused_and_nothing_is_left_of_a_killed_run(log: Log) -> None:
    (log.runs / ".2.0-again-x7").mkdir()
    with pytest.raises(UsageError) as raised:
        Log(log.file.parent, SEARCH).prepare(restart=True)
    assert "another jaxcheck is at this very search" in str(raised.value)
    assert log.file.exists()
    assert "4 runs are there" in reopened(log)[1]
    assert not (log.runs / ".2.0-again-x7").exists()


def test_restart_forgets_all_of_it(log: Log) -> None:
    again, told = reopened(log, restart=True)
    assert told == ""
    assert again.record.entries == ()
    assert not log.file.exists()
    assert list(log.runs.iterdir()) == []


def test_another_search_has_another_log(log: Log) -> None:
    other = Log(log.file.parent, {**SEARCH, "good": "1.1"})
    assert other.prepare(restart=False) == ""
    assert other.key != log.key
    assert other.record.entries == ()
    assert log.file.exists()


def test_a_run_that_is_damaged_is_made_again(log: Log) -> None:
    (log.runs / "2.0-first/run.json").write_text("{}")
    again, told = reopened(log)
    assert "3 runs are there" in told
    assert again.find("2.0", "first") is None
    assert again.find("1.0", "first") is not None


def test_without_the_baseline_nothing_is_used(log: Log) -> None:
    (log.runs / "1.0-baseline/manifest.json").unlink()
    again, told = reopened(log)
    assert told == ""
    assert again.record.entries == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2, "search": {}}'])
def test_a_log_that_cannot_be_read_is_started_over(log: Log, text: str) -> None:
    log.file.write_text(text)
    again, told = reopened(log)
    assert told == f"{log.file} cannot be read: starting over"
    assert again.record.entries == ()


def test_kernels_that_changed_start_over(log: Log, tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text("one")
    saved(log, "1.5-again", sources={str(source): lab.file_digest(str(source))})
    log.add(Entry(version="1.5", attempt="again", folder="1.5-again"))
    assert "5 runs are there" in reopened(log)[1]
    source.write_text("other")
    again, told = reopened(log)
    assert told == "the kernels' sources changed since the last search: starting over"
    assert again.record.entries == ()


def test_only_the_last_searches_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        made = Log(tmp_path / "bisect", {"number": number})
        made.prepare(restart=False)
        made.set_row(Row((str(number), "9")))
        os.utime(made.file, (number, number))
    kept = {json.loads(file.read_text())["search"]["number"] for file in (tmp_path / "bisect").glob("*.json")}
    assert kept == set(range(3, KEPT + 3))
    assert len([place for place in (tmp_path / "bisect").iterdir() if place.is_dir()]) == KEPT


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as raised:
        Log(tmp_path / "file", SEARCH).prepare(restart=False)
    assert "cannot write to" in str(raised.value)
    assert raised.value.hint == "--state FOLDER"


def test_requirements_about_the_package_itself_are_refused() -> None:
    with pytest.raises(UsageError) as raised:
        Axis("Ruler", "1.0", "2.0", others=("alpha==1", "ruler>=1"))
    assert "'ruler>=1' is about Ruler" in str(raised.value)
    assert Axis("ruler", "1.0", "2.0", "3.13", ("alpha==1",)).wanted("1.5") == Wanted(
        ("alpha==1", "ruler==1.5"), "3.13"
    )


class Bench:
    """A laboratory whose environments and runs are make-believe; `missing` are versions that cannot be had, and why."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: dict[str, str]) -> None:
        (tmp_path / "recipes.yaml").write_text(REGISTRY)
        self.missing, self.ran, self.installed = missing, list[str](), list[str]()
        monkeypatch.setattr(lab, "provide", self.provide)
        monkeypatch.setattr(lab, "run_in", self.run_in)
        self.log = Log(tmp_path / "bisect", SEARCH)
        self.log.prepare(restart=False)
        registry = load_registry(tmp_path / "recipes.yaml")
        project = Project(registry, GoldenStore(tmp_path / "goldens"), tmp_path / "bisect")
        self.laboratory = Laboratory(project, Selection(), AXIS, Conduct(), tmp_path / "cache", self.log, False)

    def provide(self, wanted: Wanted, cache: Path, say: object, *, refresh: bool) -> Installation:
        version = wanted.requirements[-1].partition("==")[2]
        if version in self.missing:
            raise Unavailable(f"ruler=={version} cannot be installed: {self.missing[version]}", hint="try")
        self.installed.append(version)
        return Installation(version, "/python", {"ruler": version, "follower": version}, None, True, "3.12.1")

    def run_in(
        self, project: object, selection: object, installed: Installation, name: str, *_: object, inputs: object
    ):
        self.ran.append(name)
        assert (inputs is None) == name.endswith("-baseline")
        return saved(self.log, name)


def test_nothing_is_run_or_installed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, {"1.5": "no wheel"})
    for _ in range(2):
        assert not isinstance(bench.laboratory.evidence("2.0", "first"), str)
        assert not isinstance(bench.laboratory.evidence("1.0", "first"), str)
        assert bench.laboratory.evidence("1.5", "first") == "ruler==1.5 cannot be installed: no wheel"
    assert sorted(bench.ran) == ["1.0-baseline", "1.0-first", "2.0-first"]
    assert sorted(bench.installed) == ["1.0", "2.0"]
    assert [entry.version for entry in bench.log.record.entries if entry.skip] == ["1.5"]
    (change,) = bench.laboratory.also("1.0", "2.0")
    assert (change.name, change.before, change.after) == ("follower", "1.0", "2.0")
    assert bench.laboratory.known("2.0")
    assert not bench.laboratory.known("1.7")


@pytest.mark.parametrize("why", ["Connection refused", "No space left on device", "Network is unreachable"])
def test_a_fault_of_the_machine_is_no_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    bench = Bench(tmp_path, monkeypatch, {"1.5": why})
    with pytest.raises(Unavailable) as raised:
        bench.laboratory.evidence("1.5", "first")
    assert why in str(raised.value)
    assert raised.value.hint == "try; the same command goes on from here"
    assert bench.log.find("1.5", "first") is None
    bench.missing = {}
    assert not isinstance(bench.laboratory.evidence("1.5", "first"), str)


def test_an_end_that_cannot_be_had_names_its_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, {"2.0": "no wheel"})
    bench.laboratory.end("--good", "1.0")
    with pytest.raises(Unavailable) as raised:
        bench.laboratory.end("--bad", "2.0")
    assert str(raised.value).startswith("--bad 2.0: ruler==2.0 cannot be installed")
    assert bench.ran == []
