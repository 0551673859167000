"""Registry files that are right, and files that are wrong with every fault that they must give.

A wrong file ends in lines `# expect LINE:COLUMN: message (hint)`, in the order of the report.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jaxcheck.errors import RegistryError
from jaxcheck.registry import yaml_source
from jaxcheck.registry.load import load_registry

EXAMPLES = Path(__file__).parent / "examples"
GOOD = sorted((EXAMPLES / "good").glob("*.yaml"))
BAD = sorted((EXAMPLES / "bad").glob("*.yaml"))
EMPTY = ["1:1: is empty (a registry begins with version: 1)"]  # an empty file has no room for its own expectation


def expected_faults(path: Path) -> list[str]:
    marked = [line for line in path.read_text("utf-8").splitlines() if line.startswith("# expect ")]
    return [line.removeprefix("# expect ") for line in marked] or EMPTY


def faults_of(path: Path) -> list[str]:
    with pytest.raises(RegistryError) as caught:
        load_registry(path)
    return [str(fault).removeprefix(f"{path.name}:") for fault in caught.value.faults]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_right_file_has_recipes_and_no_fault(path: Path) -> None:
    registry = load_registry(path)

    assert bool(registry.recipes) == (path.stem != "nothing")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_wrong_file_gives_exactly_its_faults(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)

    assert faults_of(path) == expected_faults(path)


@pytest.mark.parametrize("path", [p for p in BAD if not p.stem.startswith("syntax")], ids=lambda path: path.stem)
def test_the_parser_in_python_finds_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels of PyYAML without libyaml exist; only the words about syntax differ."""
    monkeypatch.setattr(yaml_source, "LOADER", yaml.SafeLoader)
    monkeypatch.chdir(path.parent)

    assert faults_of(path) == expected_faults(path)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_the_parser_in_python_reads_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_libyaml = load_registry(path)
    monkeypatch.setattr(yaml_source, "LOADER", yaml.SafeLoader)
    without = load_registry(path)

    assert repr(without) == repr(with_libyaml)
    assert [dict(recipe.where) for recipe in without.recipes.values()] == [
        dict(recipe.where) for recipe in with_libyaml.recipes.values()
    ]
