"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

from tests.harness import Project

# How long an example takes is the machine's affair: speed is measured by scripts/bench.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project in a temporary folder."""
    return Project(tmp_path)
