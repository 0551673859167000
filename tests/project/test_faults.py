"""What the shipped recipes notice, by `scripts/lib/faults.py` in brief: seeded faults, and what means nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import REPOSITORY, Done, clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.timeout(900)]

SEEDED = REPOSITORY / "scripts" / "seeded"


def faults(folder: Path, *arguments: str) -> tuple[Done, dict[str, Any]]:
    """The script as a process of its own, and what it measured ({} where it wrote nothing)."""
    output = folder / "faults.json"
    command = [sys.executable, REPOSITORY / "scripts/lib/faults.py", *arguments, "--json", output]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=800, check=False
    )
    found = json.loads(output.read_text()) if output.exists() else {}
    return Done(done.returncode, done.stdout, done.stderr), found


def seeded(folder: Path, faults: str = "", rewrites: str = "") -> Path:
    """A folder with these lists in place of the real ones."""
    (folder / "faults.yaml").write_text(faults or "{}\n")
    (folder / "rewrites.yaml").write_text(rewrites or "{}\n")
    return folder


def fault(**changed: Any) -> str:
    """A fault that is caught, with some of it changed."""
    block = {
        "class": "wrong sign",
        "module": "value_and_grad",
        "recipes": ["train-step"],
        "old": "p - learning_rate * g",
        "new": "p + learning_rate * g",
    }
    return json.dumps({"seeded": {**block, **changed}})


@pytest.mark.long
def test_faults_are_caught_and_rewrites_are_not(tmp_path: Path) -> None:
    done, found = faults(tmp_path, "faults", "rewrites", "--brief")
    assert done.code == 0, done
    rows = found["rows"]
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("fault", "rewrite")}
    assert len(kinds["fault"]) >= 50
    assert all(row["caught"] or row["survives"] for row in kinds["fault"])
    assert len(kinds["rewrite"]) >= 5
    assert all(row["moved"] and not row["alarms"] for row in kinds["rewrite"])


@pytest.mark.long
def test_other_compiler_options_raise_no_alarm(tmp_path: Path) -> None:
    done, found = faults(tmp_path, "knobs", "--brief")
    assert done.code == 0, done
    (row,) = found["rows"]
    assert row["alarms"] == []
    assert row["moved"] >= 20
    assert row["checks"] >= 200


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"old": "p - rate * g"}, "what it changes occurs 0 times in value_and_grad.py, not once"),
        ({"old": "learning_rate"}, "times in value_and_grad.py, not once"),
        ({"recipes": ["no-such-recipe"]}, "seeded: there is no recipe no-such-recipe"),
        ({"new": "p -"}, "SyntaxError"),
    ],
)
def test_a_fault_that_does_not_apply_is_an_error(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    done, found = faults(tmp_path, "faults", "--seeded", str(seeded(tmp_path, fault(**changed))))
    assert done.code == 1, done
    assert says in done.err
    assert found == {}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"new": "p + (-learning_rate) * g"}, "seeded: nothing notices it, and `survives` does not say why"),
        ({"survives": "it is equivalent"}, "seeded: is noticed by now (golden"),
        ({"new": "p - rates * g"}, "seeded: did not run: seeded--train-step"),
    ],
)
def test_a_list_that_is_not_true_is_an_error(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    done, found = faults(tmp_path, "faults", "--brief", "--seeded", str(seeded(tmp_path, fault(**changed))))
    assert done.code == 1, done
    assert says in done.err
    assert len(found["rows"]) == 1


def test_a_rewrite_that_means_something_is_a_false_alarm(tmp_path: Path) -> None:
    done, _ = faults(tmp_path, "rewrites", "--brief", "--seeded", str(seeded(tmp_path, rewrites=fault())))
    assert done.code == 1, done
    assert "seeded: false alarm: seeded--train-step::standard[jit] fail" in done.err


def test_survivors_are_named_in_the_docs_with_the_reason() -> None:
    listed = yaml.safe_load((SEEDED / "faults.yaml").read_text())
    survivors = {name: block["survives"] for name, block in listed.items() if "survives" in block}
    text = (REPOSITORY / "docs/sensitivity.md").read_text()
    assert len(survivors) <= 0.05 * len(listed)
    for name, reason in survivors.items():
        assert f"| {name} |" in text
        assert reason in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:] in listed]
    assert len(rows) == len(survivors), "the docs name a fault that is caught"
