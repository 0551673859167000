"""What the shell completes, and that every verb's help has an example."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from jaxcheck.cli.main import app
from tests.cli.test_startup import HEAVY, REGISTRY
from tests.harness import Project, clean_environment

PROBE = """
import sys
from typer.main import get_command
from jaxcheck.cli.main import app
try:
    get_command(app)(prog_name="jaxcheck")
finally:
    print("LOADED", *sorted(sys.modules), file=sys.stderr)
"""


def completed(project: Project, line: str) -> tuple[list[str], set[str]]:
    """(what fish is offered for `jaxcheck LINE`, the modules that it took)"""
    shell = {"_JAXCHECK_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    shell["_TYPER_COMPLETE_ARGS"] = f"jaxcheck {line}"
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=project.folder,
        env=clean_environment(**shell),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split(), set(done.stderr.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("run t", ["two"]),
        ("bless one::", ["one::a", "one::b"]),
        ("list one::b[", ["one::b[eager]", "one::b[jit]"]),
        ("run --tag f", ["fast"]),
        ("run --mode j", ["jit"]),
        ("run --backend g", ["gpu"]),
        ("run nowhere::", []),
    ],
)
def test_names_tags_modes_and_backends(project: Project, line: str, offered: list[str]) -> None:
    project.write("recipes.yaml", REGISTRY)
    words, loaded = completed(project, line)
    assert words == offered
    assert not loaded & {*HEAVY, "numpy", "jaxcheck.execution.run"}


def test_a_registry_with_faults_offers_nothing_and_says_nothing(project: Project) -> None:
    project.write("recipes.yaml", "version: 2\n")
    assert completed(project, "run ")[0] == []


def test_every_help_has_an_example() -> None:
    group: Any = typer.main.get_command(app)
    without = [
        name
        for name, command in group.commands.items()
        if f"`jaxcheck {name}" not in f"{command.help} {command.epilog or ''}"
    ]
    assert without == []
