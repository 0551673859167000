"""Documents that are followed from an empty folder: the tutorial, line by line, and the recipes of the how-to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Project, clean_environment
from tests.project.documents import ROOT, blocks, first_missing, play, write

GATE = "7. May the upgrade go in?"
pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]


def walk(document: str, folder: Path, without: str = "") -> int:
    """Follows a document but for one section; how many blocks that were."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    environment = clean_environment(PATH=path, HOME=str(folder))
    followed = [block for block in blocks(ROOT / document) if block.section != without]
    for block in followed:
        if block.language == "console":
            play(block, folder, environment)
        else:
            write(block, folder)
    return len(followed)


@pytest.mark.slow
def test_the_tutorial_from_an_empty_folder(tmp_path: Path) -> None:
    assert walk("docs/tutorial.md", tmp_path, without=GATE) == 10


@pytest.mark.long  # it builds an environment with another release of jax
@pytest.mark.timeout(900)
def test_the_tutorial_to_its_gate(tmp_path: Path) -> None:
    assert walk("docs/tutorial.md", tmp_path) == 11


@pytest.mark.slow
def test_the_recipes_of_the_how_to_hold(project: Project) -> None:
    """A blessing holds modes, properties, keys, shardings and exceptions to what the recipes say."""
    assert walk("docs/recipes.md", project.folder) == 12
    assert "8 cases blessed, 0 kept, 0 refused; 5 golden files written" in project.bless("--no-truth").out


def test_the_python_of_the_api_runs(project: Project) -> None:
    """Its checks have no goldens here, and are `missing`: the calls are what is tested."""
    project.write("kernels.py", "def twice(x):\n    return 2 * x\n")
    project.write(
        "recipes.yaml",
        """\
        version: 1
        recipes:
          twice: {kernel: kernels:twice, tags: [seed], tolerance: {rtol: 0, atol: 0}, cases: {one: {args: {x: [1.0]}}}}
        """,
    )
    run, compare = (block.text for block in blocks(ROOT / "docs/python.md") if block.language == "python")
    given = "import numpy as np\nold = new = np.ones(3, np.float32)\n"
    done = subprocess.run(
        [sys.executable, "-c", run + given + compare],
        cwd=project.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "twice::one[jit] missing" in done.stdout


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("a\nb\n", None),
        ("a\n...\nc\n", None),
        ("a\nc\n", "c"),
        ("b\n...\na\n", "a"),
        ("...\nd 2.5 s\n", None),
        ("e ...\n", "e ..."),
        ("c\nd ... s\n", None),
        ("8 passed\n", "8 passed"),
    ],
)
def test_what_is_shown_has_to_come_out_in_its_order(shown: str, missing: str | None) -> None:
    assert first_missing(shown, "a\nb\n\nc\nd 1.25 s\n7 passed\n") == missing
