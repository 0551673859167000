"""Fixtures of the fault suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.scenes import Zygote
from tests.harness import Project

KERNELS = "SHIFT = {shift}\n\ndef double(x):\n    return 2 * x\n\ndef shifted(x):\n    return x + SHIFT\n"
HEAD = "version: 1\ndefaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}, modes: [eager]}\nrecipes:\n"
RECIPES = {"first": "shifted", "second": "shifted", "third": "double", "gone": "double"}


def registry(*names: str) -> str:
    lines = (f"  {name}: {{kernel: kernels:{RECIPES[name]}, cases: {{s: {{args: {{x: [1.0]}}}}}}}}\n" for name in names)
    return HEAD + "".join(lines)


@pytest.fixture(scope="session")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two recipes that moved since they were blessed (twice), one that did not, and the golden of one that left."""
    project = Project(tmp_path_factory.mktemp("moved"))
    project.write("recipes.yaml", registry(*RECIPES))
    for shift in (0, 1):
        project.write("kernels.py", KERNELS.format(shift=shift))
        project.bless("--no-truth")
    project.write("kernels.py", KERNELS.format(shift=2))
    project.write("recipes.yaml", registry("first", "second", "third"))
    assert project.jaxcheck("run", "-j", "1").code == 1
    return project


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = Zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.end()
