"""Small kernels of the kinds that people reported, in a project of their own, run by the real command."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tests.harness import Done, Project, by_id

PATIENCE = 500  # seconds: of one command, on a machine that is busy
HERE = Path(__file__).resolve().parent
JAX = Version(importlib.metadata.version("jax"))
BEFORE_0_11 = Version("0.11") > JAX
FROM_0_12 = Version("0.12") <= JAX


def corpus_project(folder: Path, registry: str) -> Project:
    """The kernels, and one registry as `recipes.yaml`."""
    shutil.copytree(HERE / "kernels", folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "registries" / registry, folder / "recipes.yaml")
    return Project(folder)


@dataclass(frozen=True)
class Batch:
    """All recipes of `values.yaml`: blessed, blessed again by releasing every brake, and then run."""

    project: Project
    blessed: Done
    insisted: Done
    run: Done
    report: dict[str, Any]

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return by_id(self.report)

    def leaf(self, check: str, path: str = ".") -> dict[str, Any]:
        """Of a check, one leaf as it was compared with the golden."""
        return next(leaf for leaf in self.results[check]["leaves"] if leaf["path"] == path)

    def against(self, check: str, other: str, path: str = ".") -> dict[str, Any]:
        """Of a check, one leaf as it was compared with another mode or with the reference."""
        return next(leaf for leaf in self.results[check]["against"][other] if leaf["path"] == path)

    def messages(self, check: str) -> list[str]:
        return [finding["message"] for finding in self.results[check]["findings"]]

    def refusals(self) -> dict[str, str]:
        """{recipe::case: why} of the first blessing."""
        return dict(re.findall(r"^refused (\S+::\S+): (.*)$", self.blessed.err, re.MULTILINE))


@pytest.fixture(scope="session")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    project = corpus_project(tmp_path_factory.mktemp("corpus"), "values.yaml")

    def command(*args: str) -> Done:
        return project.jaxcheck(*args, "--backend", "cpu", timeout=PATIENCE)

    blessed = command("bless", "--no-truth", "--reason", "first")
    held = re.findall(r"to insist: jaxcheck bless (\S+)", blessed.err)
    brakes = [word for brake in ("modes", "reference", "nonfinite") for word in ("--allow", brake)]
    insisted = command("bless", "--no-truth", *held, *brakes, "--reason", "to see what a run says of it")
    done = command("run", "--output", "report.json")
    return Batch(project, blessed, insisted, done, json.loads((project.folder / "report.json").read_text()))
