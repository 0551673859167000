from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Done, Project

Diagnosed = tuple[Done, dict[str, Any]]
Diagnose = Callable[..., Diagnosed]


@pytest.fixture
def diagnose(project: Project) -> Diagnose:
    """`jaxcheck diagnose` and its JSON report ({} where it wrote none)."""

    def run(*args: str, timeout: float = 110, **environment: str) -> Diagnosed:
        report = Path(project.folder, "diagnosis.json")
        report.unlink(missing_ok=True)
        done = project.jaxcheck("diagnose", *args, "--output", str(report), timeout=timeout, **environment)
        return done, json.loads(report.read_text()) if report.exists() else {}

    return run
