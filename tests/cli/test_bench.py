"""`bench` and `run --latency`: a distribution, never a single time."""

from __future__ import annotations

import pytest

from tests.harness import Project, by_id

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  slow: {kernel: "kernels:slow", cases: {one: {args: {x: 1.0}}}}
  fails: {kernel: "kernels:fails", cases: {one: {args: {x: 1.0}}}}
"""
KERNELS = """
import time
import jax
import numpy as np

def wait(x):
    time.sleep(0.02)
    return x

def slow(x):
    return jax.pure_callback(wait, jax.ShapeDtypeStruct((), np.float32), x)

def fails(x):
    raise RuntimeError("no sensor")
"""


@pytest.fixture
def timed(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    return project


def test_the_value_is_waited_for(timed: Project) -> None:
    """The call returns at once; the value is there after 20 ms."""
    _, report = timed.run("slow", "--latency", "8")
    for mode in ("eager", "jit"):
        latency = by_id(report)[f"slow::one[{mode}]"]["latency"]
        assert latency["samples"] == 8
        assert 0.02 <= latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"] < 2
        assert {"load", "cores", "governor"} <= latency["conditions"].keys()
    assert by_id(report)["slow::one[jit]"]["compile_seconds"] > 0
    shown = timed.jaxcheck("report", "report.json").out
    assert "slow::one[eager]  " in shown
    assert "conditions of the last: load" in shown


def test_bench_prints_distributions_and_what_could_not_be_timed(timed: Project) -> None:
    done = timed.jaxcheck("bench", "--samples", "5")
    assert done.code == 1
    header, *rows = done.out.splitlines()
    assert header.split() == ["check", "compiling", "min", "p50", "p90", "p99", "spread", "samples"]
    assert [row.split()[0] for row in rows[:2]] == ["slow::one[eager]", "slow::one[jit]"]
    assert "conditions of the last: load" in done.out
    assert "fails::one[eager]: not timed: RuntimeError: no sensor" in done.err
    assert timed.jaxcheck("bench", "slow", "--samples", "5").code == 0
    assert timed.jaxcheck("bench", "fails").code == 5


def test_a_kernel_that_dies_while_it_is_timed_is_told(timed: Project) -> None:
    """Its check had passed by then."""
    timed.write(
        "mortal.py",
        "import os\nleft = [5]\n\ndef dies(x):\n    left[0] -= 1\n    return x if left[0] else os._exit(3)\n",
    )
    registry = REGISTRY + '  dies: {kernel: "mortal:dies", modes: [eager], cases: {one: {args: {x: 1.0}}}}\n'
    timed.write("recipes.yaml", registry)
    timed.bless("dies")
    done = timed.jaxcheck("bench", "slow", "dies", "--samples", "5")
    assert done.code == 1, done
    assert "dies::one[eager]: not timed: the worker exited with status 3" in done.err
    _, report = timed.run("dies", "--latency", "5")
    assert by_id(report)["dies::one[eager]"]["notes"] == [
        "not timed: the worker exited with status 3 in the middle of the check"
    ]


def test_runs_without_the_option_time_nothing(timed: Project) -> None:
    _, report = timed.run("slow")
    assert by_id(report)["slow::one[eager]"]["latency"] is None
