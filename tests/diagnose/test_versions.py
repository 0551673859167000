"""Between real releases: the equation whose operation is another, with its scope and its line."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from tests.diagnose.conftest import Diagnose
from tests.harness import Project

pytestmark = [
    pytest.mark.needs_jax,
    pytest.mark.one_version,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.metadata.version("jax") != "0.11.2", reason="the other side is the default environment, 0.11.2"
    ),
]

KERNELS = """
    import jax
    import jax.numpy as jnp

    def network(w, x):
        with jax.named_scope("forward"):
            h = jax.scipy.special.gammaln(w * x)
        with jax.named_scope("loss"):
            return jnp.mean(h * h)

    def step(w, x):
        value, gradient = jax.value_and_grad(network)(w, x)
        with jax.named_scope("update"):
            return w - 0.1 * gradient, value
"""
REGISTRY = """
    version: 1
    defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-7}}}
    recipes:
      step:
        kernel: kernels:step
        cases: {near: {args: {w: [1.0, 1.0, 1.0, 1.0], x: [-2.4570248, -2.747683, 2.9, 0.8]}}}
"""


def test_lgamma_between_0_11_2_and_0_12_0_1(
    project: Project, diagnose: Diagnose, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    cache = os.environ.get("JAXCHECK_CACHE") or str(tmp_path_factory.mktemp("cache"))
    repro = project.folder / "repro"
    args = ("step::near", "--against", "jax==0.12.0.1", "--save-repro", str(repro))
    done, report = diagnose(*args, timeout=800, JAXCHECK_CACHE=cache)
    assert done.code == 1, done
    verdict = report["verdict"]
    assert (verdict["rung"], verdict["kind"], verdict["primitive"]) == ("forward", "origin", "lgamma"), verdict
    assert "forward" in verdict["scope"]
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "gammaln" in text)
    assert (Path(verdict["file"]).name, verdict["line"]) == ("kernels.py", line)
    assert "computes differently in jax 0.12.0.1, with equal inputs" in verdict["sentence"]
    assert "the new value is nearer to the truth" in verdict["sentence"]
    rungs = {rung["rung"]: rung["status"] for rung in report["ladder"]}
    assert (rungs["environment"], rungs["data"], rungs["program"]) == ("differs", "ok", "differs")
    assert rungs["update"] == "ok", "what only carries the difference on is right with good inputs"
    assert (report["before"]["jax"], report["environment"]["jax"]) == ("0.11.2", "0.12.0.1")
    assert Path(report["repro"]).exists()
