"""Two saved runs compared, by the real commands: a kernel whose source changes stands for an upgrade."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck.errors import UsageError
from jaxcheck.execution.saved import SavedRun
from tests.harness import Done, Project, by_id, clean_environment

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.slow]

KERNELS = """
import warnings
import jax.numpy as jnp
import numpy as np

SCALE = {scale}

def third(x):
    {before}
    return {{"y": x / 3 * SCALE, "same": x + 1}}

def third_reference(x):
    return {{"y": x / 3, "same": x + 1}}

def unchecked(x):
    return x * SCALE

def picky(x):
    if x.shape != (2,):
        raise ValueError("wants two elements{message}")
    return x
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 0}}}
recipes:
  third:
    kernel: "kernels:third"
    reference: "kernels:third_reference"
    cases: {plain: {args: {x: [1.0, 2.0, 4.0]}}}
  unchecked: {kernel: "kernels:unchecked", cases: {plain: {args: {x: [1.0, 2.0]}}}}
  picky:
    kernel: "kernels:picky"
    cases:
      fits: {args: {x: [1.0, 2.0]}}
      shape: {args: {x: [1.0]}, raises: {type: ValueError, match: "two elements"}}
"""


def write(project: Project, scale: str = "1.0", before: str = "pass", message: str = "") -> None:
    project.write("kernels.py", KERNELS.format(scale=scale, before=before, message=message))


@pytest.fixture(scope="module")
def blessed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run is saved in `A`, blessed; tests have copies of it."""
    project = Project(tmp_path_factory.mktemp("blessed"))
    write(project)
    project.write("recipes.yaml", REGISTRY)
    project.bless("--all")
    done = project.jaxcheck("run", "--save", "A")
    assert done.code == 0, done
    return project


@pytest.fixture
def saved(blessed: Project, tmp_path: Path) -> Project:
    shutil.copytree(blessed.folder, tmp_path / "project")
    return Project(tmp_path / "project")


def compare(project: Project, *args: str, **changes: str) -> tuple[Done, dict[str, Any]]:
    """Changes the kernels, saves that run as `B`, and compares."""
    write(project, **changes)
    project.jaxcheck("run", "--save", "B")
    report = project.folder / "compared.json"
    report.unlink(missing_ok=True)
    done = project.jaxcheck("compare", "A", "B", "-o", str(report), *args)
    return done, json.loads(report.read_text()) if report.exists() else {}


def test_nothing_moved(saved: Project) -> None:
    done, report = compare(saved)
    assert done.code == 0, done
    assert report["verdict"] == "pass"
    assert {result["verdict"] for result in report["results"]} == {"unchanged"}
    assert report["from"]["environment"]["jax"] == report["to"]["environment"]["jax"]
    assert done.out.splitlines()[-1].startswith("pass: 8 checks compared in ")


def test_drift_within_tolerance_passes_and_is_reported(saved: Project) -> None:
    done, report = compare(saved, scale="(1 + 2**-22)")
    assert done.code == 0, done
    result = by_id(report)["third::plain[jit]"]
    assert (result["verdict"], result["status"], result["drifted"]) == ("drifted", "pass", True)
    (leaf,) = [leaf for leaf in result["leaves"] if leaf["path"] == "['y']"]
    assert leaf["verdict"] == "drifted"
    assert 0 < leaf["violation_ratio"] < 1
    assert leaf["worst"]["truth"] == pytest.approx(leaf["worst"]["golden"], rel=1e-6)


def test_away_from_the_truth_is_regressed_and_blocks(saved: Project) -> None:
    done, report = compare(saved, "--allow", "improved,warnings", scale="1.001")
    assert done.code == 1, done
    assert report["verdict"] == "block"
    results = by_id(report)
    third = results["third::plain[eager]"]
    assert third["verdict"] == "regressed"
    (leaf,) = [leaf for leaf in third["leaves"] if leaf["path"] == "['y']"]
    assert leaf["error_to_truth"]["golden"] < 1e-7
    assert leaf["error_to_truth"]["actual"] == pytest.approx(1e-3, rel=1e-3)
    assert results["unchecked::plain[jit]"]["verdict"] == "regressed"  # by its float64 shadow
    assert results["picky::fits[jit]"]["verdict"] == "unchanged"
    assert "regressed" in done.out
    assert "jaxcheck bisect" not in done.out  # jax is the same on both sides


def test_nearer_to_the_truth_is_improved_and_asks_for_a_review(project: Project) -> None:
    write(project, scale="1.001")
    project.write("recipes.yaml", REGISTRY)
    assert project.jaxcheck("bless", "third", "--reason", "wrong on purpose", "--allow", "reference").code == 0
    project.jaxcheck("run", "third", "--save", "A")
    write(project)
    project.jaxcheck("run", "third", "--save", "B")
    done = project.jaxcheck("compare", "A", "B")
    assert done.code == 1, done
    assert "review: 2 checks compared, 2 improved" in done.out
    assert "jaxcheck bless third::plain" in done.out
    assert project.jaxcheck("compare", "A", "B", "--allow", "improved").code == 0


def test_an_exception_is_broken_and_one_from_before_is_said_apart(saved: Project) -> None:
    done, report = compare(saved, before="raise RuntimeError('gone')")
    assert done.code == 1, done
    result = by_id(report)["third::plain[jit]"]
    assert (result["verdict"], result["status"]) == ("broken", "error")
    assert "RuntimeError: gone" in result["reason"]
    assert [concern["kind"] for concern in report["concerns"]] == ["broken"]

    both = saved.jaxcheck("compare", "B", "B", "-o", "both.json")
    assert both.code == 0, both
    result = by_id(json.loads((saved.folder / "both.json").read_text()))["third::plain[jit]"]
    assert (result["verdict"], result["status"]) == ("broken", "skip")
    assert result["reason"].startswith("broken before: ")

    mended = saved.jaxcheck("compare", "B", "A", "-o", "mended.json")
    assert mended.code == 1
    result = by_id(json.loads((saved.folder / "mended.json").read_text()))["third::plain[jit]"]
    assert result["verdict"] == "improved"
    assert result["reason"].endswith("; now it gives values")


def test_a_new_warning_asks_for_a_review(saved: Project) -> None:
    text = "warnings.warn('third is going away', DeprecationWarning)"
    done, report = compare(saved, before=text)
    assert (done.code, report["verdict"]) == (1, "review"), done
    (concern,) = report["concerns"]
    assert concern["kind"] == "warnings"
    assert "DeprecationWarning: third is going away" in concern["message"]
    assert "kernels.py:9" in concern["message"]
    assert saved.jaxcheck("compare", "A", "B", "--allow", "warnings").code == 0


def test_another_message_of_an_expected_error_asks_for_a_review(saved: Project) -> None:
    done, report = compare(saved, message=" at least")
    assert (done.code, report["verdict"]) == (1, "review"), done
    result = by_id(report)["picky::shape[eager]"]
    assert result["verdict"] == "unchanged"
    assert result["details"] == [
        "the error was 'ValueError: wants two elements', it is 'ValueError: wants two elements at least'"
    ]


def test_a_change_of_dtype_is_told(saved: Project) -> None:
    _, report = compare(saved, scale="1j")
    result = by_id(report)["unchecked::plain[jit]"]
    assert result["verdict"] == "regressed"  # i times the truth is further from it than the truth
    assert "dtype is complex64, the baseline has float32" in result["reason"]


def test_a_loosened_tolerance_blocks_until_it_is_blessed(saved: Project) -> None:
    saved.write("recipes.yaml", REGISTRY.replace("rtol: 1e-6", "rtol: 1e-2"))
    saved.jaxcheck("run", "--save", "A")
    done, report = compare(saved)
    assert (done.code, report["verdict"]) == (1, "block"), done
    assert {concern["kind"] for concern in report["concerns"]} == {"loosened"}
    messages = [concern["message"] for concern in report["concerns"]]
    assert all("rtol 1e-06 -> 0.01" in message for message in messages)
    assert messages[0].startswith("third::plain: the tolerance of ['same'] was loosened")
    assert messages[0].endswith('jaxcheck bless third --all --reason "…"')
    saved.bless("--all")
    saved.jaxcheck("run", "--save", "A")
    done, report = compare(saved)
    assert (done.code, report["verdict"]) == (0, "pass"), done


def test_runs_of_different_registries_are_not_compared(saved: Project) -> None:
    saved.write("recipes.yaml", REGISTRY + "\n# changed\n")
    done, _ = compare(saved)
    assert done.code == 2
    assert "are runs of different registries" in done.err


def test_a_kind_that_blocks_cannot_be_allowed(saved: Project) -> None:
    done = saved.jaxcheck("compare", "A", "A", "--allow", "regressed")
    assert (done.code, done.out) == (2, "")
    assert "regressed blocks, and cannot be allowed" in done.err


def test_a_part_that_was_altered_is_not_believed(saved: Project) -> None:
    outputs = saved.folder / "A" / "outputs" / "third.npz"
    data = bytearray(outputs.read_bytes())
    data[len(data) // 2] ^= 1
    outputs.write_bytes(data)
    done = saved.jaxcheck("compare", "A", "A")
    assert done.code == 2
    assert "the saved run A is damaged: outputs/third.npz: it does not match the digest" in done.err
    assert "jaxcheck run --save A" in done.err


def test_what_is_no_saved_run(saved: Project) -> None:
    (saved.folder / "empty").mkdir()
    for folder, why in (("nowhere", "no such folder"), ("empty", "it has no manifest.json")):
        done = saved.jaxcheck("compare", "A", folder)
        assert done.code == 2
        assert why in done.err
    manifest = saved.folder / "A" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 9'))
    done = saved.jaxcheck("compare", "A", "A")
    assert done.code == 2
    assert "schema 9; this jaxcheck reads schema 1" in done.err


def test_nothing_is_overwritten_but_a_saved_run(saved: Project) -> None:
    saved.write("mine/notes.txt", "mine")
    done = saved.jaxcheck("run", "--save", "mine")
    assert done.code == 2
    assert "mine exists and is not a saved run" in done.err
    assert saved.folder.joinpath("mine/notes.txt").read_text() == "mine"
    assert saved.jaxcheck("run", "--save", "A").code == 0  # a saved run may be replaced


def test_a_saved_run_holds_what_was_produced(saved: Project) -> None:
    run = SavedRun.open(saved.folder / "A")
    case = run.cases("third")["plain"]
    for mode in ("eager", "jit"):
        leaf = case.outputs[mode].by_path["['y']"]
        np.testing.assert_array_equal(leaf.array(), np.float32([1, 2, 4]) / np.float32(3))
    assert case.truth is not None
    np.testing.assert_array_equal(case.truth.by_path["['y']"].array(), np.array([1, 2, 4]) / 3)
    assert run.cases("picky")["shape"].raised["jit"] == "ValueError: wants two elements"
    golden = run.golden("third")
    assert golden is not None
    with golden:
        assert golden.program("plain")
    with pytest.raises(UsageError, match="is not a saved run"):
        SavedRun.open(saved.folder)


def test_a_run_that_is_killed_leaves_no_saved_run(saved: Project) -> None:
    """Killed at a random moment: the folder is the old saved run, or is not there."""
    for moment in (0.3, 0.9, 1.5):
        process = subprocess.Popen(
            saved.command("run", "--save", "K"),
            cwd=saved.folder,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        folder = Path(saved.folder / "K")
        assert not folder.exists() or SavedRun.open(folder).run.results
