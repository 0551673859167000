"""Outputs that are not unique are known by the equations that they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)

from jaxcheck.worker.inputs import from_registry  # noqa: E402
from jaxcheck.worker.primitives import ambiguous_outputs  # noqa: E402
from jaxcheck.worker.subject import Subject  # noqa: E402

pytestmark = pytest.mark.needs_jax


def ambiguous(kernel: Callable[..., Any]) -> dict[str, str]:
    """{key path: comparator} for a kernel of one 3x3 matrix."""
    subject = Subject(kernel, (), from_registry({"a": {"$normal": {"shape": [3, 3], "seed": 0}}}, (), "."))
    return {path: comparator for path, (_, comparator) in ambiguous_outputs(subject).items()}


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda a: jnp.linalg.eigh(a)[1], {".": "eigh"}),
        (lambda a: tuple(jnp.linalg.eigh(a)), {"[1]": "eigh"}),
        (jax.jit(lambda a: {"v": jnp.linalg.eigh(a)[1].T[:, :2], "a": a}), {"['v']": "eigh"}),
        (lambda a: tuple(jnp.linalg.svd(a)), {"[0]": "svd", "[2]": "svd"}),
        (lambda a: jnp.linalg.svd(a, compute_uv=False), {}),
        (lambda a: tuple(jnp.linalg.qr(a)), {"[0]": "qr", "[1]": "qr"}),
        (lambda a: jax.lax.top_k(a, 2), {"[1]": "topk"}),
        (jnp.argsort, {".": "topk"}),
        (jnp.argmax, {".": "topk"}),
        (lambda a: jnp.argmin(a, axis=1).astype(jnp.float32), {".": "topk"}),
        (jax.vmap(jnp.argsort), {".": "topk"}),
        (jnp.sort, {}),
        (lambda a: a[jnp.argmax(a, axis=0)], {}),
    ],
)
def test_arbitrary_outputs_are_named_with_their_comparator(kernel: Any, expected: dict[str, str]) -> None:
    assert ambiguous(kernel) == expected


def test_what_is_computed_from_them_may_be_unique() -> None:
    def projector(a: Any) -> Any:
        values, vectors = jnp.linalg.eigh(a)
        return (vectors * values) @ vectors.T

    assert ambiguous(projector) == {}


def test_a_kernel_that_cannot_be_traced_says_so() -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError):
        ambiguous(lambda a: a if a.sum() > 0 else -a)
