"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project in a temporary folder."""
    return Project(tmp_path)
