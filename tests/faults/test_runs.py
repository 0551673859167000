"""What kernels do to one another, and what becomes of a run that cannot start, is interrupted, or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.processes import runs, wait_for
from tests.harness import Project, by_id, clean_environment, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  before: {kernel: "kernels:double", cases: {standard: {args: {x: [1.0, 2.0]}}}}
  leaks:
    {kernel: "kernels:leaks", modes: [jit], golden: jit, cases: {one: {args: {x: [1.0]}}, two: {args: {x: [1.0, 2.0]}}}}
  changes: {kernel: "kernels:changes", cases: {standard: {args: {p: {w: [1.0]}}}}}
  waits: {kernel: "kernels:waits", modes: [eager], cases: {standard: {args: {x: [1.0]}}}}
  after: {kernel: "kernels:double", cases: {standard: {args: {x: [3.0]}}}}
"""
KERNELS = """
import os, pathlib, time

kept = []

def double(x):
    return 2 * x

def leaks(x):
    kept.append(x)
    return x + sum(kept[:-1])

def changes(p):
    w = p.pop('w')
    p['new'] = w
    return 2 * w

def waits(x):
    pathlib.Path('pid.new').write_text(str(os.getpid()))
    os.replace('pid.new', 'pid')
    time.sleep(100)
"""
HEALTHY = ("before::standard[eager]", "before::standard[jit]", "after::standard[eager]", "after::standard[jit]")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Healthy recipes around others; they, and one that changes its argument, have goldens."""
    project = Project(tmp_path_factory.mktemp("runs"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.bless("before", "after", "changes", "--allow", "mutation", "--no-truth")
    return project


def test_what_a_kernel_changes_does_not_reach_another_check(faulty: Project) -> None:
    done, report = faulty.run("before", "leaks", "changes", "after", "-j", "1")
    assert done.code == 1, done
    eager, jit = (by_id(report)[f"changes::standard[{mode}]"] for mode in ("eager", "jit"))
    assert eager["status"] == "fail"
    assert "changed its argument" in eager["reason"]
    assert jit["status"] == "pass", "jit hands the kernel a copy, and the inputs are fresh for every call"
    assert statuses(report)["leaks::one[jit]"] == "missing"
    leaked = by_id(report)["leaks::two[jit]"]
    assert leaked["status"] == "error"
    assert "UnexpectedTracerError" in leaked["reason"]
    assert "return it instead" in leaked["hint"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_an_absent_backend(faulty: Project) -> None:
    before = faulty.files()
    done = faulty.jaxcheck("run", "--backend", "gpu")
    assert done.code == 4, done
    assert "'gpu'" in done.err
    assert "Backends here: cpu" in done.err
    assert "pip install" in done.err
    assert faulty.files() == before


def test_what_was_found_is_told_though_it_cannot_be_kept(faulty: Project, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "run.json").mkdir(parents=True)
    done = faulty.jaxcheck("run", "before", "--mode", "eager", "--state", str(state))
    assert done.code == 2
    assert "1 passed" in done.out
    assert f"cannot write to {state}: Is a directory" in done.err


def waiting(project: Project, *args: str) -> tuple[subprocess.Popen[str], int]:
    """A run in the midst of the kernel that waits, and the process that this is."""
    pid = project.folder / "pid"
    pid.unlink(missing_ok=True)
    process = subprocess.Popen(
        project.command("run", "-j", "1", *args),
        cwd=project.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(pid.exists)
    return process, int(pid.read_text())


def test_an_interrupt_saves_what_was_done(faulty: Project) -> None:
    report = faulty.folder / "interrupted.json"
    process, _ = waiting(faulty, "before", "waits", "after", "--output", str(report))
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    saved = json.loads(report.read_text())
    assert saved["interrupted"] is True
    assert statuses(saved)["before::standard[eager]"] == "pass"
    assert "interrupted" in out.lower()
    assert json.loads((faulty.folder / ".jaxcheck" / "run.json").read_text())["interrupted"] is True


def test_a_killed_parent_takes_its_worker_along_and_leaves_nothing_that_the_next_run_keeps(faulty: Project) -> None:
    scratch = faulty.folder / ".jaxcheck" / "scratch"
    process, worker = waiting(faulty, "waits")
    scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (process.pid, worker)]
    assert scores[0] < scores[1], "where memory runs out, the worker is what the system kills"
    (held,) = scratch.iterdir()
    faulty.run("before", "--mode", "eager")
    assert held.is_dir(), "nobody tidies up after a run that goes on"
    process.kill()
    process.communicate()
    wait_for(lambda: not runs(worker))
    assert held.is_dir(), "there was no time to tidy up"
    faulty.run("before", "--mode", "eager")
    assert list(scratch.iterdir()) == [], "the next run does"
