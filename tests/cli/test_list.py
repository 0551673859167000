"""`jaxcheck list --protocol`, as the real command prints it."""

from __future__ import annotations

import re

import pytest

from jaxcheck.registry.protocol import PROTOCOL
from tests.harness import REPOSITORY, Project

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  whole:
    kernel: "kernels:f"
    tags: [good]
    cases:
      ordinary: {args: {x: [1.0, 2.0]}}
      lone: {args: {x: [1.0]}}
      nothing: {args: {x: {$zeros: [3]}}}
      far: {args: {x: [1.0, .inf]}, nonfinite: allow}
      crooked: {args: {x: [1.0, -1.0]}}
      matrix: {args: {x: [[1.0, 2.0], [3.0, 4.0]]}, raises: {type: TypeError, match: "shape"}}
  part: {kernel: "kernels:g", cases: {standard: {args: {x: [1.0, 2.0]}}}}
  made: {kernel: "kernels:h", inputs: "kernels:cases", cases: {zeros: {nonfinite: allow}}}
"""


@pytest.fixture
def listed(project: Project) -> Project:
    project.write("recipes.yaml", REGISTRY)
    return project


def rows(out: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in out.splitlines()[:-1]}


def test_protocol(listed: Project) -> None:
    done = listed.jaxcheck("list", "--protocol")
    assert (done.code, done.err) == (0, "")
    found = rows(done.out)
    assert found["recipe"] == ["standard", "single", "zeros", "boundary", "asymmetric", "invalid-shape"]
    assert found["whole"] == ["x"] * 6
    assert found["part"] == ["x", "-", "-", "-", "-", "-"]
    assert found["made"] == ["?", "?", "x", "?", "?", "?", "unknown", "(inputs:)"]
    assert done.out.splitlines()[-1] == (
        "1 of 3 recipes have all 6 kinds of cases; 1 cannot be known from the registry (inputs:)"
    )


def test_protocol_of_a_selection(listed: Project) -> None:
    done = listed.jaxcheck("list", "--protocol", "--tag", "good")
    assert rows(done.out).keys() == {"recipe", "whole"}
    assert done.out.splitlines()[-1] == "1 of 1 recipes have all 6 kinds of cases"


def test_protocol_of_nothing_is_not_green(listed: Project) -> None:
    done = listed.jaxcheck("list", "--protocol", "part", "-k", "no-such-case")
    assert done.code == 5
    assert "no recipe is selected" in done.err


def test_protocol_and_ids_exclude_each_other(listed: Project) -> None:
    done = listed.jaxcheck("list", "--protocol", "--ids")
    assert done.code == 2
    assert "--ids and --protocol exclude each other" in done.err


def test_every_shipped_recipe_has_a_line(project: Project) -> None:
    ids = project.jaxcheck("list", "--ids", "--shipped").out.split()
    done = project.jaxcheck("list", "--protocol", "--shipped")
    assert list(rows(done.out))[1:] == list(dict.fromkeys(identity.partition("::")[0] for identity in ids))
    assert rows(done.out)["cumulative-sum"] == ["x"] * 6


def test_the_docs_name_every_kind_and_every_synonym() -> None:
    text = (REPOSITORY / "docs" / "running.md").read_text()
    for kind, synonyms in PROTOCOL.items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{kind}` |")]
        assert set(re.findall(r"`([a-z-]+)`", row.split("|")[2])) == synonyms
