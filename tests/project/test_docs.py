"""README and docs name exactly what the code has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from jaxcheck.cli.main import app
from jaxcheck.errors import Exit
from jaxcheck.execution.bless import BRAKES
from jaxcheck.registry.comparators import ComparatorBlock
from jaxcheck.registry.model import COMPARATORS, MODES
from jaxcheck.registry.operators import OPERATORS
from jaxcheck.registry.schema import CaseBlock, DefaultsBlock, RecipeBlock, RegistryBlock, WhenBlock
from jaxcheck.registry.values import check_value
from jaxcheck.results import Status
from tests.harness import Project

ROOT = Path(__file__).resolve().parents[2]
README, REGISTRY, GOLDENS, RUNNING = (
    (ROOT / name).read_text() for name in ("README.md", "docs/registry.md", "docs/goldens.md", "docs/running.md")
)


def section(text: str, heading: str) -> str:
    """From a heading to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", _without_blocks(text), re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading!r}"
    return found[1]


def _without_blocks(text: str) -> str:
    """Comments in code blocks look like headings."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def first_column(text: str) -> list[str]:
    """The words in backquotes in the first column of the tables of a text, or plain numbers."""
    rows = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row) or re.findall(r"^\d+$", row)]


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def test_the_reference_is_what_scripts_docs_makes() -> None:
    made = [sys.executable, str(ROOT / "scripts/lib/reference.py"), "--check"]
    done = subprocess.run(
        made, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_reference_has_every_command_option_and_key() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    for name, command in commands().items():
        described = section(text, f"`jaxcheck {name}`")
        options = [parameter for parameter in command.params if parameter.opts[0].startswith("-")]
        assert all(f"`{opt}`" in described for parameter in options for opt in parameter.opts), name
    keys = (ROOT / "docs/reference/registry.md").read_text()
    for block in (RegistryBlock, DefaultsBlock, RecipeBlock, CaseBlock, WhenBlock):
        assert {f"`{key}`" for key in block.model_fields} <= set(re.findall(r"`[^`]+`", keys))


def test_quick_start_is_two_commands_and_nothing_else() -> None:
    quick = README.partition("## Quick start\n")[2].partition("\n## ")[0]
    assert "\n```sh\nscripts/jaxcheck run\nscripts/test\n```\n" in quick
    assert quick.count("```") == 2


def test_every_command_is_described() -> None:
    described = {word.removeprefix("jaxcheck ") for word in first_column(section(RUNNING, "Commands"))}
    assert described == set(commands())
    summary = {word.removeprefix("jaxcheck ") for word in first_column(section(README, "Commands and options"))}
    assert summary - set(map(str, Exit.__members__.values())) >= set(commands())


def test_every_command_named_anywhere_exists() -> None:
    texts = [path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]]
    named = {word for text in texts for word in re.findall(r"`(?:scripts/)?jaxcheck ([a-z]+)\b", text)}
    assert named <= set(commands())


def test_every_option_of_run_is_described() -> None:
    described = set(re.findall(r"`(--?[a-z-]+)", section(RUNNING, "Options of `run`") + section(RUNNING, "Selection")))
    described |= {option for word in re.findall(r"`(-[a-zA-Z]), `(-{2}[a-z-]+)", RUNNING) for option in word}
    known = [set(parameter.opts) for parameter in commands()["run"].params if parameter.opts[0].startswith("-")]
    assert [opts for opts in known if not opts & described] == []
    assert described <= set().union(*known) | {"-vv"}


def test_every_variable_is_described() -> None:
    described = set(re.findall(r"JAXCHECK_[A-Z_]+", section(RUNNING, "Options of `run`")))
    assert described == {parameter.envvar for parameter in commands()["run"].params if parameter.envvar}


@pytest.mark.parametrize("text", [section(README, "Commands and options"), section(RUNNING, "Exit codes")])
def test_every_exit_code_is_described(text: str) -> None:
    assert {int(word) for word in first_column(text) if word.isdigit()} == set(map(int, Exit))


def test_every_status_is_described() -> None:
    assert first_column(section(RUNNING, "Statuses")) == [status.value for status in Status]


def test_every_brake_is_described() -> None:
    assert first_column(section(GOLDENS, "Blessing")) == ["--allow", *BRAKES]


def test_every_operator_is_described() -> None:
    described = first_column(section(REGISTRY, "Argument values"))
    assert sorted(described) == sorted([*OPERATORS, "$python", "$tuple", "$list"])


@pytest.mark.parametrize("name", OPERATORS)
def test_every_parameter_of_an_operator_is_described(name: str) -> None:
    row = next(line for line in section(REGISTRY, "Argument values").splitlines() if f"`{name}`" in line)
    assert set(OPERATORS[name].parameters) <= set(re.findall(r"`([a-z]+)`", row))


@pytest.mark.parametrize(
    ("heading", "block"), [("The file", RegistryBlock), ("A recipe", RecipeBlock), ("A case", CaseBlock)]
)
def test_every_key_of_the_registry_is_described(heading: str, block: type[Any]) -> None:
    assert sorted(first_column(section(REGISTRY, heading))) == sorted(block.model_fields)


@pytest.mark.parametrize("name", COMPARATORS)
def test_every_parameter_of_a_comparator_is_described(name: str) -> None:
    block = ComparatorBlock.model_fields[name].annotation.__args__[0]  # type: ignore[union-attr]  # Block | None
    row = next(line for line in section(REGISTRY, "Single leaves").splitlines() if line.startswith(f"| `{name}`"))
    assert set(block.model_fields) <= set(re.findall(r"`([a-z_]+)`", row))


def test_defaults_and_conditions_are_described() -> None:
    assert {f"`{name}`" for name in DefaultsBlock.model_fields} <= set(
        re.findall(r"`[a-z]+`", section(REGISTRY, "The file"))
    )
    for name in WhenBlock.model_fields:
        assert f"`{name}" in section(REGISTRY, "A recipe")


def test_modes_and_comparators_are_described() -> None:
    assert first_column(section(REGISTRY, "Modes")) == list(MODES)
    assert first_column(section(REGISTRY, "Single leaves")) == list(COMPARATORS)


def test_shapes_and_seeds_are_as_described(tmp_path: Path) -> None:
    for value in ({"$zeros": 3}, {"$zeros": [2, 2]}, {"$arange": 4}, {"$arange": {"stop": 4}}, {"$python": 1.0}):
        problems = check_value(value, ("x",), root=tmp_path)
        assert bool(problems) == (value == {"$arange": 4}), (value, problems)


def test_the_example_of_the_registry_is_one(project: Project) -> None:
    example = re.search(r"^```yaml\n(.*?)^```$", REGISTRY, re.MULTILINE | re.DOTALL)
    assert example
    project.write("recipes.yaml", example[1])
    project.write("recipes/none.yaml", "version: 1\n")
    done = project.jaxcheck("check", "--static")
    assert done.code == 0, done
