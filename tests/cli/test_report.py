"""`jaxcheck report`, and a run in shards: four parts put together are the run that was never divided."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Done, Project

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}, modes: [eager]}
recipes:
  cube: {kernel: "kernels:cube", cases: {a: {args: {x: [1.0, 2.0]}}, b: {args: {x: 2.0}}}, tags: [fast]}
  twice: {kernel: "kernels:twice", cases: {a: {args: {x: 1.5}}}}
  half: {kernel: "kernels:half", cases: {a: {args: {x: 3.0}}}}
  add: {kernel: "kernels:add", cases: {a: {args: {x: 1.0}}}}
"""
KERNELS = """
def cube(x): return x**3
def twice(x): return x * 2
def half(x): return x / 2
def add(x): return x + 1
"""
COUNT = 4
EMPTY = 2  # by their names none of the recipes is in this part
TIMES = {"started", "seconds", "trace_seconds", "compile_seconds"}


@dataclass(frozen=True)
class Runs:
    """A registry whose recipe `half` has moved since it was blessed; run whole, and in four parts."""

    project: Project
    whole: tuple[Done, dict[str, Any]]
    parts: tuple[Done, ...]

    @property
    def files(self) -> list[str]:
        return [f"part-{index}.json" for index in range(1, COUNT + 1)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    project = Project(tmp_path_factory.mktemp("shards"))
    project.write("recipes.yaml", REGISTRY)
    project.write("kernels.py", KERNELS)
    project.bless()
    project.write("kernels.py", KERNELS.replace("x / 2", "x / 2.5"))
    whole = project.run("-o", "whole.html", "-o", "whole.xml", "-o", "whole.md")
    parts = tuple(
        project.jaxcheck("run", "--shard", f"{index}/{COUNT}", "-o", f"part-{index}.json")
        for index in range(1, COUNT + 1)
    )
    return Runs(project, whole, parts)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if name not in {*TIMES, "command", "programs"}}
    return [without_times(one) for one in value] if isinstance(value, list) else value


@pytest.mark.needs_jax
@pytest.mark.slow
class TestRuns:
    def test_four_parts_are_the_whole(self, runs: Runs) -> None:
        done = runs.project.jaxcheck("report", *reversed(runs.files), "-o", "merged.json")
        assert done.code == 1, done
        assert done.out == ""
        merged = json.loads((runs.project.folder / "merged.json").read_text())
        assert without_times(merged) == without_times(runs.whole[1])
        assert [result["recipe"] for result in merged["results"]] == ["cube", "cube", "twice", "half", "add"]

    def test_each_part_ends_as_its_own_checks_do(self, runs: Runs) -> None:
        codes = [done.code for done in runs.parts]
        assert codes[EMPTY - 1] == 5
        assert sorted(codes) == [0, 0, 1, 5]
        part = json.loads((runs.project.folder / "part-1.json").read_text())
        assert part["shard"]["index"] == 1
        assert part["shard"]["plan"] == {"cube": 4, "twice": 3, "half": 1, "add": 4}
        assert part["registry_digest"] == runs.whole[1]["registry_digest"]

    def test_a_missing_and_a_repeated_part_are_named(self, runs: Runs) -> None:
        done = runs.project.jaxcheck("report", "part-1.json", "part-4.json", "--format", "html")
        assert done.code == 2
        assert "the run is not whole, shards are missing: 2/4, 3/4" in done.err
        assert done.out == ""
        (runs.project.folder / "again.json").write_bytes((runs.project.folder / "part-1.json").read_bytes())
        done = runs.project.jaxcheck("report", *runs.files, "again.json")
        assert done.code == 2
        assert "shard 1/4 is there twice: part-1.json and again.json" in done.err

    def test_files_are_written_on_the_way_and_later_alike(self, runs: Runs) -> None:
        folder = runs.project.folder
        for name in ("html", "xml", "md"):
            done = runs.project.jaxcheck("report", "report.json", "-o", f"later.{name}")
            assert done.code == 1, done
            assert (folder / f"later.{name}").read_text() == (folder / f"whole.{name}").read_text()
        assert ET.parse(folder / "whole.xml").getroot().attrib["failures"] == "1"
        page = (folder / "whole.html").read_text()
        assert "half::a[eager]" in page

    def test_what_moved_has_a_sample_and_a_place_and_what_did_not_has_none(self, runs: Runs) -> None:
        by_recipe = {result["recipe"]: result for result in runs.whole[1]["results"]}
        assert by_recipe["half"]["leaves"][0]["sample"]["golden"] == [1.5]
        assert by_recipe["half"]["position"].startswith("recipes.yaml:7:")
        assert by_recipe["add"]["leaves"][0]["sample"] is None

    def test_the_terminals_report_is_that_of_the_run(self, runs: Runs) -> None:
        done = runs.project.jaxcheck("report", "report.json")
        assert done.out == runs.whole[0].out
        assert runs.project.jaxcheck("report", "report.json", "-q").out.count("\n") == 2

    def test_annotations_on_stdout(self, runs: Runs) -> None:
        done = runs.project.jaxcheck("report", "report.json", "--format", "github")
        assert done.out.startswith("::error file=recipes.yaml,line=7,title=fail%3A half%3A%3Aa[eager]::")

    def test_durations_share_out_otherwise(self, runs: Runs) -> None:
        done = runs.project.jaxcheck(
            "run", "--shard", f"{EMPTY}/{COUNT}", "--durations", "report.json", "-o", "even.json"
        )
        plan = json.loads((runs.project.folder / "even.json").read_text())["shard"]["plan"]
        assert sorted(plan.values()) == [1, 2, 3, 4]
        assert done.code in (0, 1), done


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "--shard", "5/4"), "--shard 5/4: that is no part of a run"),
        (("run", "--durations", "run.json"), "--shard 1/4 --durations RUN.json"),
        (("run", "--shard", "1/2", "--save", "x"), "--save keeps whole runs"),
        (("run", "--shard", "1/2", "--durations", "none.json"), "none.json cannot be read"),
        (("run", "-o", "x.pdf"), "valid: .json, .md, .xml, .html"),
        (("gate", "--to", "jax==0.12.0.1", "-o", "x.pdf"), "valid: .json, .md, .xml, .html"),
        (("report", "none.json"), "none.json cannot be read"),
        (("report", "recipes.yaml"), "recipes.yaml is not a JSON report"),
        (("report", "none.json", "none.json"), "none.json cannot be read"),
    ],
)
def test_wrong_usage(project: Project, args: tuple[str, ...], told: str) -> None:
    project.write("recipes.yaml", REGISTRY)
    done = project.jaxcheck(*args)
    assert done.code == 2
    assert told in done.err
    assert [path.name for path in project.folder.iterdir() if path.suffix not in (".yaml",)] == []


def test_report_starts_nothing_heavy(project: Project) -> None:
    """Neither JAX nor NumPy to show an earlier run."""
    from tests.cli.test_startup import loaded_by
    from tests.report import sample

    path = Path(project.folder / "run.json")
    path.write_text(sample.run_of(sample.check("a", "b", "jit", "pass")).to_json())
    for more in ([], ["--format", "html"], ["--format", "junit"]):
        assert not loaded_by(project, "report", "run.json", *more) & {"jax", "jaxlib", "optax", "kernels", "numpy"}
