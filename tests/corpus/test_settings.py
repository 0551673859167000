"""Settings of JAX that move numbers are named before the numbers; inputs that cannot be given are refused up front."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conftest import PATIENCE, corpus_project
from tests.harness import Project, by_id

pytestmark = [pytest.mark.needs_jax, pytest.mark.timeout(1500)]

STREAMS = """
version: 1
defaults: {modes: [eager], tolerance: {rtol: 1e-6, atol: 1e-6}}
recipes:
  draws: {kernel: "kernels.prng_stream:draws", cases: {seed42: {args: {seed: 42}}}}
  key: {kernel: "kernels.key_outputs:advance", cases: {seed7: {args: {seed: 7}}}}
  product: {kernel: "kernels.canary:product", inputs: "kernels.canary:matrices"}
"""


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose random draws were blessed under the default settings."""
    project = corpus_project(tmp_path_factory.mktemp("streams"), "values.yaml")
    project.write("recipes.yaml", STREAMS)
    blessed = project.jaxcheck("bless", "--no-truth", "--backend", "cpu", "--reason", "default", timeout=PATIENCE)
    assert blessed.code == 0, blessed
    return project


def results_under(project: Project, **settings: str) -> dict[str, dict[str, Any]]:
    project.jaxcheck("run", "--backend", "cpu", "--output", "report.json", timeout=PATIENCE, **settings)
    return by_id(json.loads((project.folder / "report.json").read_text()))


def test_another_stream_is_said_first(streams: Project) -> None:
    found = results_under(streams, JAX_THREEFRY_PARTITIONABLE="0")
    said = "PRNG configuration differs from the golden's: threefry_partitionable True -> False"
    for check in ("draws::seed42[eager]", "key::seed7[eager]"):
        assert found[check]["status"] == "fail"
        assert found[check]["reason"].startswith(said)
    assert found["product::waves[eager]"]["status"] == "pass", "no draw, no move"


def test_another_implementation_is_said_first(streams: Project) -> None:
    result = results_under(streams, JAX_DEFAULT_PRNG_IMPL="rbg")["key::seed7[eager]"]
    assert result["reason"].startswith("PRNG configuration differs from the golden's: prng_impl threefry2x32 -> rbg")
    assert "dtype is key<rbg>, golden has key<fry>" in result["reason"]


def test_x64_is_said_first(streams: Project) -> None:
    result = results_under(streams, JAX_ENABLE_X64="1")["draws::seed42[eager]"]
    assert result["status"] == "fail"
    assert result["reason"].startswith("x64 differs from the golden's: False -> True")
    assert "dtype is float64, golden has float32" in result["reason"]


def test_the_same_settings_pass(streams: Project) -> None:
    assert {result["status"] for result in results_under(streams).values()} == {"pass"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("4294967301", "4294967301 does not fit int32"),
        ("[4294967301, 7]", "4294967301 does not fit int32"),
        ("{$python: 4294967296}", "4294967296 does not fit int32"),
        ("{$array: {value: [.nan], dtype: int32}}", "nan does not fit int32"),
        ("{$array: {value: [-1], dtype: uint8}}", "-1 does not fit uint8"),
        ("{$array: {value: [2.5], dtype: int32}}", "2.5 does not fit int32"),
        ("1e39", "does not fit float32"),
        ("text", "'text' is no array"),
    ],
)
def test_a_value_that_would_lose_something_is_a_fault_of_the_registry(tmp_path: Path, value: str, says: str) -> None:
    project = corpus_project(tmp_path, "values.yaml")
    recipe = f'{{kernel: "kernels.integers:same", cases: {{one: {{args: {{x: {value}}}}}}}}}'
    project.write("recipes.yaml", f"version: 1\nrecipes:\n  r: {recipe}\n")
    done = project.jaxcheck("check", "--static")
    assert done.code == 2
    assert says in done.err
    assert "recipes.yaml:3:" in done.err


def test_a_value_that_nothing_would_be_held_to_is_a_fault(tmp_path: Path) -> None:
    """The error is expected where the golden is made, a value elsewhere."""
    project = corpus_project(tmp_path, "values.yaml")
    case = "{args: {xs: [1.0, 2.0]}, raises: {type: TypeError, modes: [eager]}}"
    recipe = f'{{kernel: "kernels.scan_contract:bad_tree", modes: [eager, disable_jit], cases: {{two: {case}}}}}'
    project.write(
        "recipes.yaml", f"version: 1\ndefaults: {{tolerance: {{rtol: 0, atol: 0}}}}\nrecipes:\n  r: {recipe}\n"
    )
    done = project.jaxcheck("check", "--static")
    assert done.code == 2
    assert "raises in mode eager, which makes the golden, but not in disable_jit" in done.err
