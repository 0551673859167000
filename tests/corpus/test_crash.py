"""A kernel that kills its process, on one release, and takes nothing else with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus.conftest import BEFORE_0_11, PATIENCE, corpus_project
from tests.harness import by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.timeout(1500)]


def test_a_reduction_that_segfaults_costs_one_check(tmp_path: Path) -> None:
    project = corpus_project(tmp_path, "crash.yaml")
    blessed = project.jaxcheck("bless", "--no-truth", "--backend", "cpu", "-j", "1", "--reason", "x", timeout=PATIENCE)
    assert blessed.code == (1 if BEFORE_0_11 else 0), blessed
    done = project.jaxcheck("run", "--backend", "cpu", "-j", "1", "--output", "report.json", timeout=PATIENCE)
    report = json.loads((tmp_path / "report.json").read_text())
    found = statuses(report)
    assert len(found) == 6, "the report is complete"
    healthy = {check: status for check, status in found.items() if not check.startswith("rank7")}
    assert set(healthy.values()) == {"pass"}
    if not BEFORE_0_11:
        assert set(found.values()) == {"pass"}
        assert done.code == 0
        return
    assert done.code == 1
    result = by_id(report)["rank7::singleton[jit]"]
    # On some processors the same reduction never ends.
    assert result["status"] in ("crash", "timeout")
    assert result["status"] == "timeout" or "signal 11 (SIGSEGV)" in result["reason"]
    assert found["rank7::singleton[eager]"] == "missing", "a mode killed its worker, so nothing was blessed"
    assert "refused rank7::singleton: a mode killed its worker" in blessed.err or "ran out of time" in blessed.err
