"""How often a diagnosis names the right equation, by `scripts/faults origins`: a sample; all of it with --long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import REPOSITORY, clean_environment

pytestmark = [pytest.mark.needs_jax, pytest.mark.slow, pytest.mark.timeout(1500)]


def origins(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the script measured; it fails where that is not as good as it has to be."""
    output = folder / "origins.json"
    command = [sys.executable, REPOSITORY / "scripts/lib/faults.py", "origins", *arguments, "--json", output]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=1400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def test_a_sample_of_faults_is_named(tmp_path: Path) -> None:
    found = origins(tmp_path, "--brief")
    assert len(found["faults"]) >= 11
    assert all(fault["right"] for fault in found["faults"])
    assert {"backward", "forward", "update"} >= {fault["stage"] for fault in found["faults"]} >= {"forward", "backward"}
    assert len(found["clean"]) >= 6
    assert {each["program"] for each in found["clean"] if each["origin"]} <= {"lgamma-near-roots::one[jit]"}
    assert not any(each["left_out"] for each in found["clean"])


@pytest.mark.long
@pytest.mark.one_version
def test_faults_are_named_and_sound_programs_are_not(tmp_path: Path) -> None:
    found = origins(tmp_path)
    assert len(found["faults"]) >= 150
    assert {fault["kind"] for fault in found["faults"]} == {"bf16", "sign", "constant", "dropped", "nan"}
    assert {fault["inside"] for fault in found["faults"]} >= {"scan", "cond", "custom rule"}
    assert {each["program"] for each in found["clean"] if each["left_out"]} == {
        "random-gamma::ordinary[jit]",
        "random-gamma::full[jit]",
    }
