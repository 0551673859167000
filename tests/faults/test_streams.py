"""Standard streams that are closed, full or cut off, and a worker that does not listen."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from jaxcheck.execution.process import Death, Launch, Needs, WorkerProcess
from tests.harness import Project, clean_environment

REGISTRY = """
version: 1
recipes: {double: {kernel: "kernels:double", tolerance: {rtol: 0, atol: 0}, cases: {s: {args: {x: [1.0]}}}}}
"""


@pytest.fixture
def listed(project: Project) -> Project:
    project.write("recipes.yaml", REGISTRY)
    project.write("kernels.py", "def double(x):\n    return 2 * x\n")
    return project


def shell(project: Project, line: str) -> tuple[int, str]:
    """The line with the command as "$@", and what it said on stderr."""
    done = subprocess.run(
        ["bash", "-c", line, "bash", *project.command()],
        cwd=project.folder,
        env=clean_environment(),
        text=True,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ('"$@" list', 0, "double"),
        ('"$@" list > /dev/full', 2, "error: the output: No space left on device\n  try: free some space: df -h\n"),
        ('"$@" schema > /dev/full', 2, "No space left on device"),
        ('"$@" list >&-', 0, ""),
        ('"$@" list 2>&- <&-', 0, "double"),
        ('"$@" list nothing 2>&-', 2, ""),
        ('set -o pipefail; "$@" list --shipped --ids | head -n 1 > /dev/null', 0, ""),
    ],
)
def test_streams_of_any_kind(listed: Project, line: str, code: int, said: str) -> None:
    found, shown = shell(listed, line)
    assert found == code, shown
    assert said in shown
    assert "Traceback" not in shown
    assert "Exception ignored" not in shown


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_a_run_without_any_stream_and_one_that_nobody_reads_keep_their_exit_codes(listed: Project) -> None:
    assert shell(listed, '"$@" bless --no-truth --reason t <&- >&- 2>&-') == (0, "")
    assert shell(listed, 'set -o pipefail; "$@" run --mode eager --goldens nowhere | true')[0] == 1


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_a_worker_that_is_stopped_is_late_however_long_the_message() -> None:
    worker = WorkerProcess(Launch(), Needs())
    os.kill(worker._process.pid, signal.SIGSTOP)
    try:
        reply = worker.request({"op": "prepare", "recipe": "x" * 1_000_000}, timeout=0.5)
    finally:
        worker.kill()
        worker.close()
    assert isinstance(reply, Death)
    assert reply.kind == "timeout"


def test_a_limit_on_open_files_is_told(listed: Project, tmp_path: Path) -> None:
    found, shown = shell(listed, 'ulimit -n 12; "$@" run')
    assert found in (2, 4), shown
    assert "Too many open files" in shown
    assert "Traceback" not in shown
