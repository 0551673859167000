"""What a run says when a kernel's numbers have moved since they were blessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.corpus.conftest import PATIENCE, corpus_project
from tests.harness import Project, by_id

pytestmark = [pytest.mark.needs_jax, pytest.mark.timeout(1500)]


def replaced(project: Project, module: str) -> None:
    (project.folder / "moving.py").write_bytes((project.folder / "kernels" / f"{module}.py").read_bytes())


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """{recipe: its result} of `moved.yaml`, with `moving_before` blessed and `moving_after` run."""
    project = corpus_project(tmp_path_factory.mktemp("moved"), "moved.yaml")
    replaced(project, "moving_before")
    blessed = project.jaxcheck("bless", "--no-truth", "--backend", "cpu", "--reason", "before", timeout=PATIENCE)
    assert blessed.code == 0, blessed
    replaced(project, "moving_after")
    project.jaxcheck("run", "--backend", "cpu", "--output", "report.json", timeout=PATIENCE)
    results = by_id(json.loads((project.folder / "report.json").read_text())).values()
    return {result["recipe"]: result for result in results}


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("slopes", ["1.0 at [0] where golden has NaN", "2 of 4 disagree in NaN or infinity"]),
        ("magnitude", ["inf at [1] where golden has 3.4028235e+38"]),
        ("frexp", ["['exponent']: 1 of 2 differ, worst at [1]: 0 was -149", "['fraction']: 1 of 2 beyond tolerance"]),
        ("tree", ["structure:", "['a'] is a tuple of 1, was a tuple of 2", "['z']: None is gone"]),
        ("key", ["dtype is key<fry>, golden has uint32", "the bits are the same"]),
        ("key-impl", ["dtype is key<urbg>, golden has key<rbg>", "the bits are the same"]),
        ("grid", ["1 of 11 differ, worst at [9]: 0.902344 was 0.898438"]),
        ("nan-bits-exact", ["2 of 2 have other bits"]),
    ],
)
def test_a_move_fails_in_words(moved: dict[str, dict[str, Any]], recipe: str, words: list[str]) -> None:
    assert moved[recipe]["status"] == "fail"
    assert [word for word in words if word not in moved[recipe]["reason"]] == [], moved[recipe]["reason"]


def test_sign_and_payload_of_a_nan_are_drift(moved: dict[str, dict[str, Any]]) -> None:
    result = moved["nan-bits"]
    assert result["status"] == "pass"
    assert result["drifted"]
    assert result["leaves"][0]["bit_equal"] == 0


def test_a_dropped_none_and_an_empty_container_are_no_difference_in_leaves(moved: dict[str, dict[str, Any]]) -> None:
    """The leaves are equal: only the structure tells."""
    (finding,) = moved["tree"]["findings"]
    assert finding["message"].startswith("differs from the golden: structure:")


def test_a_move_of_one_bfloat16_ulp_is_measured_as_one(moved: dict[str, dict[str, Any]]) -> None:
    (leaf,) = moved["grid"]["leaves"]
    assert (leaf["max_ulp"], leaf["mismatched"]) == (1, 1)
    assert leaf["max_rel"] == pytest.approx(4.3e-3, rel=0.02)


def test_both_values_are_shown_so_that_a_person_can_choose(moved: dict[str, dict[str, Any]]) -> None:
    worst = moved["magnitude"]["leaves"][0]["worst"]
    assert (worst["golden"], worst["actual"]) == (pytest.approx(3.4028235e38), "inf")
    assert "jaxcheck diff magnitude::ends" in moved["magnitude"]["hint"]
