"""NumPy in float64 against XLA in float64, over every operation that is done by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from jaxcheck.worker import hosted, internals  # noqa: E402
from jaxcheck.worker.interpreter import Plain  # noqa: E402
from jaxcheck.worker.shadow import lifted, widened_parameters  # noqa: E402

pytestmark = pytest.mark.needs_jax

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 1e-3, 2.5, -3.0, 40.0, -200.0, 1e30]
A = np.asarray(SPECIAL, np.float32)
B = np.asarray([*SPECIAL[4:], *SPECIAL[:4]], np.float32)
GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1.5
OTHERS: dict[str, list[tuple[Callable[..., Any], list[Any]]]] = {
    "broadcast_in_dim": [(lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (1, 2)), [GRID[:, 0]])],
    "concatenate": [(lambda x, y: lax.concatenate([x, y], 1), [GRID, GRID])],
    "convert_element_type": [
        (lambda x: lax.convert_element_type(x, jnp.bfloat16), [A]),
        (lambda x: lax.convert_element_type(x, jnp.float32), [np.arange(5)]),
    ],
    "copy": [(lambda x: lax.copy_p.bind(x), [A])],
    "cumsum": [(lambda x: lax.cumsum(x, 1, reverse=True), [GRID]), (lambda x: lax.cumsum(x, 2), [GRID])],
    "dot_general": [
        (lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), [GRID[0], GRID[0].T]),
        (lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (2,)))), [GRID, GRID.transpose(1, 2, 0)]),
        (lambda x, y: lax.dot_general(x, y, (((1, 2), (1, 2)), ((), ()))), [GRID, GRID]),
        (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), [np.zeros((0, 2), np.float32)] * 2),
    ],
    "dynamic_slice": [(lambda x, i: lax.dynamic_slice(x, (i, i, i), (1, 2, 3)), [GRID, np.int32(9)])],
    "dynamic_update_slice": [
        (lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i, i)), [GRID, GRID[:1, :2, :2] * 9, np.int32(1)]),
        (lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i, i)), [GRID, GRID[:1, :2, :2] * 9, np.int32(-1)]),
    ],
    "integer_pow": [(lambda x: lax.integer_pow(x, 3), [A]), (lambda x: lax.integer_pow(x, -2), [A])],
    "reduce_max": [(lambda x: lax.reduce_max_p.bind(x, axes=(0, 2), out_sharding=None), [GRID])],
    "reduce_min": [(lambda x: jnp.min(x), [A])],
    "reduce_sum": [(lambda x: jnp.sum(x, (0, 2)), [GRID]), (lambda x: jnp.sum(x), [A[:0]])],
    "reshape": [(lambda x: x.reshape(4, 6), [GRID])],
    "rev": [(lambda x: lax.rev(x, (0, 2)), [GRID])],
    "select_n": [(lambda c, x, y: lax.select_n(c, x, y), [A > 0, A, B]), (lambda c: lax.select(c, A, B), [np.True_])],
    "slice": [(lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 2)), [GRID]), (lambda x: x[1:], [A])],
    "squeeze": [(lambda x: lax.squeeze(x, (1,)), [GRID[:, :1]])],
    "transpose": [(lambda x: lax.transpose(x, (2, 0, 1)), [GRID])],
}


def operands(name: str) -> list[np.ndarray]:
    ufunc = hosted.UFUNCS[name]
    return [A, B] if isinstance(ufunc, np.ufunc) and ufunc.nin == 2 else [A]


CASES = [
    *(pytest.param(name, getattr(lax, name), operands(name), id=name) for name in hosted.UFUNCS if hasattr(lax, name)),
    *(
        pytest.param(name, function, given, id=f"{name}-{number}")
        for name, each in OTHERS.items()
        for number, (function, given) in enumerate(each)
    ),
]


def captured(name: str, function: Callable[..., Any], given: list[Any]) -> tuple[Any, list[Any]]:
    """The equation of that primitive, and what it is given."""
    found: list[tuple[Any, list[Any]]] = []

    def look(number: int, equation: Any, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        if equation.primitive.name == name:
            found.append((equation, inputs))
        return outputs

    Plain(look).evaluate(jax.make_jaxpr(function)(*given), given)
    return found[0]


@pytest.mark.parametrize(("name", "function", "given"), CASES)
def test_numpy_gives_what_xla_gives(name: str, function: Callable[..., Any], given: list[Any]) -> None:
    equation, inputs = captured(name, function, given)
    values = list(map(lifted, inputs))
    mine = hosted.by_numpy(equation, values)
    assert mine is not None
    with jax.enable_x64(True):
        (theirs,) = internals.bind(equation, values, widened_parameters(equation.params))
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(np.asarray(mine, float), np.asarray(theirs, float), rtol=1e-14, atol=1e-300)


def test_what_is_not_the_same_is_left_to_xla() -> None:
    with jax.enable_x64(True):
        for function, given in (
            (lax.add, [A.astype(np.float64)] * 2),  # nothing is wider
            (lambda x: lax.convert_element_type(x, np.int32), [A]),  # saturates
            (lax.mul, [A.astype(np.complex64)] * 2),
        ):
            (equation,) = jax.make_jaxpr(function)(*given).jaxpr.eqns
            assert hosted.by_numpy(equation, given) is None
