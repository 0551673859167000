"""The verbs that need no kernel start no JAX: neither in this process nor in another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness import Project, clean_environment

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  one: {kernel: "kernels:f", cases: {a: {args: {x: 1.0}}, b: {args: {x: 2.0}}}, tags: [fast]}
  two: {kernel: "kernels:g", inputs: "kernels:cases"}
"""

HEAVY = ("jax", "jaxlib", "optax", "kernels")
PROBE = """
import sys
sys.argv = ["jaxcheck", *sys.argv[1:]]
from jaxcheck.cli.main import entry
try:
    entry()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print("LOADED", *sorted(sys.modules), file=sys.stderr)
"""


def loaded_by(project: Project, *args: str, more: str = "") -> set[str]:
    """Modules in the process that ran `jaxcheck ARGS`."""
    project.write("recipes.yaml", REGISTRY)
    project.write("kernels.py", "import jax\n")
    done = subprocess.run(
        [sys.executable, "-c", more + PROBE, *args],
        cwd=project.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    line = next(line for line in done.stderr.splitlines() if line.startswith("LOADED"))
    assert "Traceback" not in done.stderr, done.stderr
    return set(line.split()[1:])


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("list",),
        ("list", "--ids"),
        ("list", "--protocol"),
        ("run", "--help"),
        ("check", "--help"),
    ],
)
def test_no_jax(project: Project, args: tuple[str, ...]) -> None:
    assert not loaded_by(project, *args) & set(HEAVY)


def test_this_test_can_fail(project: Project) -> None:
    """The same probe, in a process that does import jax."""
    pytest.importorskip("jax")
    assert "jax" in loaded_by(project, "list", more="import jax\n")


@pytest.mark.parametrize("package", ["numpy", "rich.console", "jaxcheck.goldens.store", "jaxcheck.execution.run"])
def test_list_loads_nothing_it_does_not_need(project: Project, package: str) -> None:
    assert package not in loaded_by(project, "list")


def test_the_parent_of_a_run_imports_no_jax(project: Project) -> None:
    """What `run` imports before it starts a worker, and what it imports afterwards."""
    loaded = loaded_by(project, "--version", more="import jaxcheck.execution.run, jaxcheck.report.console\n")
    assert "jaxcheck.execution.run" in loaded
    assert not loaded & set(HEAVY)
    assert not any(name.startswith("jaxcheck.worker") for name in loaded)
