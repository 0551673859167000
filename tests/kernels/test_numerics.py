"""Every recipe of the battery, called as its cases say and held to its references, tolerances and properties."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

from jaxcheck.kernels import numerics
from jaxcheck.kernels.numerics import derivatives, draws, linalg, networks, optimisers, ordering, reduced, reductions
from jaxcheck.kernels.numerics import special as functions
from tests.kernels.test_references import foreign_names

pytestmark = pytest.mark.needs_jax

X = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
ROW = np.array([-2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0], np.float32)
WORDS = np.array([0, 42], np.uint32)


def modules():
    return [
        importlib.import_module(f"{numerics.__name__}.{each.name}") for each in pkgutil.iter_modules(numerics.__path__)
    ]


def own_functions(module):
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    }


def normal(*shape, seed=0, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def widened(tree):
    import jax

    def widen(leaf):
        if leaf.dtype.kind == "c":
            return leaf.astype(np.complex128)
        return leaf.astype(np.float64) if leaf.dtype.kind in "fV" else leaf

    return jax.tree.map(widen, tree)


def agree_where_known(found, expected, rtol, atol):
    """The leaves that the reference has, by name."""
    for name, value in expected.items():
        if isinstance(value, dict):
            agree_where_known(found[name], value, rtol, atol)
        elif np.asarray(value).dtype.kind in "biu":
            assert np.array_equal(found[name], value), name
        else:
            wide = found[name].astype(np.complex128 if np.iscomplexobj(value) else np.float64)
            np.testing.assert_allclose(wide, value, rtol, atol, err_msg=name)


TABLE = {
    "gamma": (functions.gamma_functions, {"x": np.float32([0.1, 0.5, 3.0, 4.5, 10.0, 33.3, 100.0, 1e4])}),
    "error": (functions.error_functions, {"x": ROW}),
    "inverse-error": (functions.inverse_error_function, {"x": ROW / 2.5}),
    "exponentials": (functions.exponentials, {"x": ROW}),
    "logarithms": (functions.logarithms, {"x": np.abs(ROW)}),
    "trigonometric": (functions.trigonometric, {"x": ROW}),
    "inverse": (functions.inverse_functions, {"x": ROW / 2.5, "y": ROW[::-1].copy()}),
    "powers": (functions.powers, {"x": ROW, "y": ROW[::-1].copy()}),
    "sums": (reductions.sums_and_moments, {"x": X}),
    "cumulative": (reductions.cumulative, {"x": X}),
    "softmax": (reductions.softmax, {"x": X, "weights": np.abs(X)}),
    "masked": (reductions.masked_softmax, {"x": X, "mask": np.float32([[0], [5], [-1], [1]]) < X}),
    "layer-norm": (reductions.layer_norm, {"x": X, "gain": np.abs(X[0]) + 1, "bias": X[1]}),
    "activations": (networks.activations, {"x": ROW}),
    "attention": (networks.attention, dict(zip(("query", "key", "value"), normal(3, 1, 8, 2, 4), strict=True))),
    "convolutions": (networks.convolutions, {"x": normal(2, 2, 8, 8), "kernel": normal(3, 2, 3, 3, scale=0.25)}),
    "block": (networks.block_step, networks.block_inputs()["ordinary"]),
    "products": (linalg.products, {"a": normal(8, 8), "b": normal(8, 8, seed=1), "v": ROW}),
    "fourier": (linalg.fourier, {"x": X}),
    "cholesky": (linalg.positive_definite, linalg.positive_definite_inputs()["ordinary"]),
    "eigen": (linalg.symmetric_eigen, {"a": normal(8, 8)}),
    "factors": (linalg.orthogonal_factors, {"a": normal(8, 4)}),
    "solve": (linalg.linear_system, {"a": normal(8, 8), "b": normal(8, 4)}),
    "sorting": (ordering.sorting, {"x": np.float32([2, 1, np.nan, 2, -np.inf, 0, 1, np.inf])}),
    "scatter": (ordering.scatter, {"places": np.int32([0, 3, 3, 9, 1, 3, 0, 5]), "values": ROW}),
    "whole": (
        ordering.whole_numbers,
        {"a": np.int32([7, -7, 2**31 - 1, -(2**31), 5, 0, -1, 9]), "b": np.int32([2, 2, -3, 3, -2, 4, 7, 9])},
    ),
    "rounding": (ordering.rounding, {"x": np.float32([0.5, 1.5, -2.5, 0.1, 1.00390625, 1e5, -0.0, 8388607.5])}),
    "threefry": (draws.threefry_stream, {"words": WORDS}),
    "casts": (reduced.eight_bit_casts, {"x": np.float32([0.1, 1.0625, 449.0, 1e6, 0.0009765625, 1e-10, -0.0, -29.0])}),
    "complex": (derivatives.complex_functions, derivatives.complex_inputs()["branch-cut"]),
    "complex-gradients": (derivatives.complex_gradients, derivatives.complex_inputs()["ordinary"]),
    "kinks": (derivatives.gradients_at_kinks, {"x": np.float32([0.0, 1.0, -1.0, 2.0, 2.0, 0.5, -0.3, 1.5])}),
    "optimisers": (optimisers.simple_optimisers, {"params": ROW, "gradients": normal(3, 8)}),
    "adam": (optimisers.adam_optimisers, {"params": ROW, "gradients": normal(3, 8)}),
    "schedules": (optimisers.schedules, {"step": np.int32([0, 1, 9, 10, 50, 99, 100, 1000])}),
}  # fmt: skip


@pytest.fixture(scope="module")
def outputs():
    """Of every kernel in the table, compiled: the battery itself runs the plain calls as well."""
    import jax

    return {name: jax.tree.map(np.asarray, jax.jit(kernel)(**given)) for name, (kernel, given) in TABLE.items()}


@pytest.mark.parametrize("name", TABLE)
def test_kernel_agrees_with_its_reference(outputs, name):
    kernel, given = TABLE[name]
    reference = getattr(sys.modules[kernel.__module__], f"{kernel.__name__}_reference")
    found, expected = outputs[name], reference(**widened(given))
    if not isinstance(expected, dict):
        found, expected = {"value": found}, {"value": expected}
    agree_where_known(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_products_accumulate_wide(call, dtype):
    import jax.numpy as jnp

    x, weights = jnp.asarray(X, dtype), jnp.asarray(normal(16, 8), dtype)
    found = call(reduced.narrow_chain, x=x, weights=weights)
    expected = reduced.narrow_chain_reference(np.asarray(x, np.float64), np.asarray(weights, np.float64))
    np.testing.assert_allclose(found["wide_product"], expected["wide_product"], 1e-5, 1e-5)


def test_narrow_sum_loses_what_the_residual_finds(call):
    import jax.numpy as jnp

    found = call(reduced.narrow_residual, x=jnp.array([256.0], "bfloat16"), y=jnp.array([1.0], "bfloat16"))
    assert (float(found["total"][0]), float(found["lost"][0])) == (256.0, 1.0)


def test_tanh_network_agrees_with_backpropagation(call):
    given = {"params": {"w": normal(8, 16, scale=0.3), "v": normal(16, 4)}, "x": normal(8, 8), "targets": normal(8, 4)}
    loss, gradients = call(networks.tanh_network_gradient, **given)
    expected_loss, expected = networks.tanh_network_gradient_reference(**widened(given))
    agree_where_known({"loss": loss, **gradients}, {"loss": expected_loss, **expected}, 1e-5, 1e-6)


def test_nan_comes_through_the_plain_exponential():
    import jax.numpy as jnp

    found = reductions.poisoned_exponential(jnp.asarray(X), jnp.float32(np.nan))
    assert all(np.isnan(np.asarray(leaf)).all() for leaf in found.values())


@pytest.mark.parametrize(
    ("x", "expected"),
    [(1.0, -0.5772156649015329), (0.5, -1.9635100260214235), (10.0, 2.251752589066721), (-0.5, 0.03648997397857652)],
)
def test_digamma_is_that_of_the_tables(x, expected):
    assert functions.digamma(x) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("x", [0.0, 1e-30, -1e-7, 0.3, -0.999, 1 - 2.0**-24])
def test_erf_inv_undoes_erf(x):
    root = functions.erf_inv(x)
    assert 1 - math.erf(root) == pytest.approx(1 - x, rel=1e-9)
    assert math.erf(root) == pytest.approx(x, rel=1e-13)


def test_lgamma_reference_is_right_where_releases_were_wrong():
    found = functions.log_gamma_reference(np.float64([np.float32(1.0000542), 1.0, 2.0]))
    assert found[0] == pytest.approx(-3.130588891e-5, rel=1e-7)
    assert found[1:].tolist() == [0.0, 0.0]


def test_threefry_gives_the_published_words():
    assert draws.threefry([0, 0], 0, 0) == (0x6B200159, 0x99BA4EFE)
    full = 0xFFFFFFFF
    assert draws.threefry([full, full], full, full) == (0x1CB996FC, 0xBB002BE7)
    assert draws.threefry([0x13198A2E, 0x03707344], 0x243F6A88, 0x85A308D3) == (0xC4923A9C, 0x483DF7A0)


SAMPLERS = [
    (draws.discrete_draws, draws.discrete_draws_are_possible),
    (draws.continuous_draws, draws.continuous_draws_are_possible),
    (draws.gamma_draws, draws.gamma_draws_are_possible),
    (draws.vector_draws, draws.rotation_is_orthogonal),
]


@pytest.mark.parametrize(("kernel", "possible"), SAMPLERS, ids=[kernel.__name__ for kernel, _ in SAMPLERS])
def test_draws_are_possible_and_the_property_can_fail(kernel, possible):
    import jax

    found = jax.tree.map(np.asarray, jax.jit(kernel)(WORDS))
    possible({"words": WORDS}, found)
    for name in found:
        if name in ("bytes", "bernoulli", "normal", "multivariate", "generalized_normal"):
            continue
        if kernel is draws.continuous_draws and name not in draws.POSITIVE:
            continue
        with pytest.raises(AssertionError):
            possible({"words": WORDS}, {**found, name: found[name].astype(np.float64) * -3 - 7.5})


PROPERTIES = [
    (reductions.running_values_end_in_the_total, "cumulative", "maximum"),
    (reductions.weights_sum_to_one, "softmax", "softmax"),
    (reductions.weights_sum_to_one, "masked", "where"),
    (networks.first_step_sees_itself, "attention", "past"),
    (networks.step_is_bounded, "block", "params"),
    (linalg.energy_is_kept, "fourier", "fft"),
    (linalg.energy_is_kept, "fourier", "back"),
    (linalg.projector_projects, "eigen", "projector"),
    (linalg.projector_projects, "eigen", "values"),
    (ordering.order_sorts, "sorting", "order"),
    (ordering.order_sorts, "sorting", "sorted"),
    (ordering.scatter_keeps_the_total, "scatter", "add"),
    (ordering.quotient_and_remainder_agree, "whole", "modulo"),
    (ordering.quotient_and_remainder_agree, "whole", "truncated"),
    (draws.keys_are_distinct, "threefry", "eight"),
    (reduced.casts_are_idempotent, "casts", "float8_e5m2_back"),
    (optimisers.steps_go_downhill, "adam", "adam"),
]


@pytest.mark.parametrize(("holds", "name", "leaf"), PROPERTIES, ids=[f"{n}-{leaf}" for _, n, leaf in PROPERTIES])
def test_property_holds_and_fails_on_a_changed_leaf(outputs, holds, name, leaf):
    import jax

    given, found = TABLE[name][1], outputs[name]
    if name == "adam":  # every gradient of one sign, so that every direction is known
        given = {**given, "gradients": np.abs(given["gradients"])}
        found = {"adam": given["params"] - 0.1}
    holds(given, found)
    with pytest.raises(AssertionError):
        holds(given, {**found, leaf: jax.tree.map(spoiled, found[leaf])})


def spoiled(leaf):
    """Doubled, shifted and reversed: no sum, order, sign, range or structure survives."""
    if leaf.dtype == np.uint32:
        return np.zeros_like(leaf)
    return (3 * leaf + 2)[..., ::-1]


def test_float8_product_is_close_and_the_property_can_fail(call):
    given = {"x": X, "weights": normal(16, 8)}
    found = call(reduced.eight_bit_product, **given)
    reduced.product_is_close(given, found)
    with pytest.raises(AssertionError, match="the product is wrong by"):
        reduced.product_is_close(given, {**found, "product": 2 * found["product"] + 1})


def test_references_are_pure_numpy():
    found = {
        f"{module.__name__}:{name}": foreign_names(function)
        for module in modules()
        for name, function in own_functions(module).items()
        if name.endswith("_reference")
    }
    assert len(found) >= 35
    assert {name: names for name, names in found.items() if names} == {}


def test_every_public_name_is_unique():
    names = [name for module in modules() for name in own_functions(module) if not name.startswith("_")]
    assert sorted(set(names)) == sorted(names)


def test_import_computes_nothing_and_changes_no_setting():
    script = """
import jax
before = dict(jax.config.values)
import importlib, pkgutil
from jaxcheck.kernels import numerics
for each in pkgutil.iter_modules(numerics.__path__):
    importlib.import_module(f"{numerics.__name__}.{each.name}")
assert dict(jax.config.values) == before, "a setting changed"
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized(), "an array was made"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
