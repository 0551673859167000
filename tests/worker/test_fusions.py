"""Readings out of the compiled program: contraction to FMA, uninitialised memory, and where nothing is apart."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402

from jaxcheck.worker.fusions import fusion_of, inside  # noqa: E402

pytestmark = pytest.mark.needs_jax

A, B, C, D = (jnp.asarray(row) for row in np.random.RandomState(0).randn(4, 256).astype(np.float32))


def test_a_contraction_is_found_inside_its_fusion() -> None:
    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        with jax.named_scope("cross"):
            return jnp.sin(a * d - b * c)

    found = inside(function, [A, B, C, D])
    if not found["apart"]:
        pytest.skip("this processor contracts nothing")
    first = found["first"]
    assert (first["primitive"], first["scope"], first["confirmed"], first["stable"]) == ("sub", "cross", True, True)
    assert "subtract" in first["hlo"]
    assert first["fusion"] in first["hlo"]
    assert 0 < first["error"] < 8
    assert (found["repeatable"], found["partial"]) == (True, None)


def test_nothing_is_apart_where_nothing_is_fused() -> None:
    assert inside(lambda a: jnp.sin(a), [A]) == {
        "apart": False,
        "repeatable": True,
        "first": None,
        "perturbed": 0,
        "partial": None,
    }


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="repaired in jax 0.11")
def test_uninitialised_memory_is_found_at_the_operation_that_returns_it() -> None:
    found = inside(lambda x: jnp.exp(x * jnp.nan), [jnp.ones(7)])
    assert found["first"]["primitive"] == "exp"
    assert found["first"]["error"] == float("inf")
    assert not found["repeatable"]


def test_a_budget_of_readings() -> None:
    found = inside(lambda a, b, c, d: jnp.sin(a * d - b * c) * 2 + 1, [A, B, C, D], most_probes=1)
    assert found["partial"] is not None or not found["apart"]


def test_a_fusion_is_named_by_scope_and_primitive() -> None:
    text = (
        "%fused_a (p: f32[2]) -> f32[2] {\n"
        '  ROOT %exp.1 = f32[2] exponential(%p), metadata={op_name="jit(f)/one/exp"}\n}\n\n'
        "%fused_b (p: f32[2]) -> f32[2] {\n"
        '  ROOT %exp.2 = f32[2] exponential(%p), metadata={op_name="jit(f)/two/exp"}\n}\n'
    )
    name, block = fusion_of(text, "two", "exp")
    assert name == "fused_b"
    assert "exp.2" in block
    assert "exp.1" not in block
    assert fusion_of(text, "", "sin") == ("", "")
