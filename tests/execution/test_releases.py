"""What really moved between public releases, by the real command, against goldens that jax 0.11.2 made.

The goldens in `goldens-0.11.2/` were blessed under jax 0.11.2; each supported version runs against them and must say
what is true of it: on 0.12.0.1 `lgamma` near its roots is improved, on 0.10.2 `exp(x * nan)` under jit is wrong.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from pathlib import Path

import pytest
from packaging.version import Version

from tests.harness import Project, by_id

pytestmark = pytest.mark.needs_jax

HERE = Path(__file__).parent
JAX = Version(importlib.metadata.version("jax"))
KERNELS = """
import jax
import jax.numpy as jnp

def lgamma(x):
    return jax.lax.lgamma(x)

def poisoned(x):
    return jnp.exp(x * jnp.nan)

def ordinary(x):
    return {"tanh": jnp.tanh(x), "log1p": jnp.log1p(jnp.abs(x)), "matmul": x @ x.T}
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-9}}}
recipes:
  lgamma: {kernel: "kernels:lgamma", cases: {near-one: {args: {x: [1.0000542, 1.00002, 0.9999]}}}}
  poisoned:
    kernel: "kernels:poisoned"
    cases: {nan: {args: {x: {$linspace: {start: 0, stop: 1, num: 64}}}, nonfinite: allow}}
  ordinary:
    kernel: "kernels:ordinary"
    config: {default_matmul_precision: highest}
    cases: {one: {args: {x: {$normal: {shape: [4, 8], seed: 1}}}}}
"""


@pytest.fixture
def released(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    shutil.copytree(HERE / "goldens-0.11.2", project.folder / "goldens")
    return project


def test_lgamma_near_its_roots(released: Project) -> None:
    done, report = released.run("lgamma")
    for mode in ("eager", "jit"):
        result = by_id(report)[f"lgamma::near-one[{mode}]"]
        (leaf,) = result["leaves"]
        errors = leaf["error_to_truth"]
        assert errors["golden"] == pytest.approx(1.6e-2, rel=0.1), "0.11.2 is wrong by more than one per cent"
        if Version("0.12") > JAX:
            assert (result["status"], leaf["verdict"]) == ("pass", "unchanged")
            assert errors["actual"] == errors["golden"]
        else:
            assert (result["status"], leaf["verdict"]) == ("fail", "improved")
            assert errors["actual"] < 1e-6
            assert "jaxcheck bless lgamma::near-one" in result["hint"]
            assert "improved: error to truth 0.016 -> " in result["reason"]
    assert done.code == (0 if Version("0.12") > JAX else 1)


def test_exp_of_nan_under_jit(released: Project) -> None:
    _, report = released.run("poisoned")
    assert by_id(report)["poisoned::nan[eager]"]["status"] == "pass"
    jit = by_id(report)["poisoned::nan[jit]"]
    if Version("0.11") > JAX:
        assert jit["status"] == "fail"
        kinds = {finding["kind"] for finding in jit["findings"]}
        assert kinds == {"golden", "modes"}
        assert jit["leaves"][0]["nonfinite"] > 0
        assert jit["leaves"][0]["verdict"] == "regressed"
    else:
        assert jit["status"] == "pass"


def test_exp_of_nan_under_jit_is_not_even_the_same_at_every_call(released: Project) -> None:
    """What 0.10.2 gives is memory that it never wrote: the non-finite mask is wrong, and `--repeat` names the rest."""
    _, report = released.run("poisoned", "--repeat", "3")
    results = by_id(report)
    assert (results["poisoned::nan[eager]"]["status"], results["poisoned::nan[eager]"]["findings"]) == ("pass", [])
    jit = results["poisoned::nan[jit]"]
    if Version("0.11") > JAX:
        assert jit["status"] == "fail"
        assert {finding["kind"] for finding in jit["findings"]} == {"golden", "modes", "determinism"}
        assert "disagree in NaN or infinity" in jit["leaves"][0]["reason"]
        (unsteady,) = [finding["message"] for finding in jit["findings"] if finding["kind"] == "determinism"]
        assert re.fullmatch(r"call [23] of 3 differs from call 1: \. \d+ of 64 elements", unsteady)
        assert unsteady in jit["reason"]
    else:
        assert (jit["status"], jit["findings"]) == ("pass", [])


def test_what_did_not_move_raises_no_alarm(released: Project) -> None:
    done, report = released.run("ordinary")
    assert done.code == 0, done
    for result in report["results"]:
        for leaf in result["leaves"]:
            assert leaf["verdict"] in ("unchanged", "drifted")
            assert leaf["floors"] is not None
            assert leaf["floors"] < 4
