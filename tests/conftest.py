"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.harness import Project

# How long an example takes is the machine's affair: speed is measured by scripts/bench.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take a minute or more each")
    parser.addoption(
        "--kills", type=int, default=2, help="how often commands are killed at random times (a night: 1000)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes a minute or more: give --long"))
    first = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in first)  # begun last, a long file would keep one process at work alone


def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: most tests wait for a process of their own, which does not use one all the time."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project in a temporary folder."""
    return Project(tmp_path)
