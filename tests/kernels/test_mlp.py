from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import mlp as kernels

pytestmark = pytest.mark.needs_jax

SIZES = {"inputs": 64, "hidden": 32, "outputs": 8}


def key(seed=0):
    import jax

    return jax.random.key(seed)


def params():
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {"hidden": {"w": normal(3, 5), "b": normal(5)}, "output": {"w": normal(5, 2), "b": normal(2)}}


def doubles(tree):
    import jax

    return jax.tree.map(np.float64, tree)


def test_initial_weights_are_scaled_and_independent(call):
    found = call(kernels.initialise, tuple(SIZES), key=key(), **SIZES)
    assert found["hidden"]["w"].shape == (64, 32)
    assert found["output"]["w"].shape == (32, 8)
    kernels.weights_are_scaled({}, found)
    kernels.layers_are_independent({}, found)


def test_another_key_gives_other_weights(call):
    first, second = (call(kernels.initialise, tuple(SIZES), key=key(seed), **SIZES) for seed in (0, 1))
    assert not np.any(first["hidden"]["w"] == second["hidden"]["w"])


def test_size_of_zero_raises(call):
    with pytest.raises(ValueError, match="layer sizes must be positive, got 64, 0, 8"):
        call(kernels.initialise, tuple(SIZES), key=key(), **{**SIZES, "hidden": 0})


def test_what_is_not_a_key_raises(call):
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        call(kernels.initialise, tuple(SIZES), key=1.5, **SIZES)


@pytest.mark.parametrize("shape", [(4, 3), (3,), (1, 3), (0, 3)], ids=["batch", "single", "batch-of-one", "empty"])
def test_forward_is_that_of_the_formula(call, agree, shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    agree(call(kernels.forward, params=params(), x=x), kernels.forward_reference(doubles(params()), np.float64(x)))


def test_units_at_or_below_zero_are_silent(call):
    quiet = {"hidden": {"w": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)},
             "output": {"w": np.ones((2, 1), np.float32), "b": np.float32([0.5])}}  # fmt: skip
    found = call(kernels.forward, params=quiet, x=np.float32([[0, 0], [-1, -2], [1, -2]]))
    assert found.ravel().tolist() == [0.5, 0.5, 1.5]


def test_wrong_features_raise(call):
    with pytest.raises(TypeError, match=r"contracting dimensions to have the same shape, got .5,. and .3,."):
        call(kernels.forward, params=params(), x=np.ones((4, 5), np.float32))


@pytest.mark.parametrize("count", [6, 1])
def test_single_objects_agree_with_their_batch(call, agree, count):
    batch = np.random.default_rng(1).standard_normal((count, 3)).astype(np.float32)
    found = call(kernels.single_and_batch, params=params(), batch=batch)
    agree(found, kernels.single_and_batch_reference(doubles(params()), np.float64(batch)))
    kernels.single_agrees_with_batch({}, found)


def initial(**changes):
    rng = np.random.default_rng(0)
    layers = {
        "hidden": {"w": rng.standard_normal((64, 32)) * np.sqrt(2 / 64), "b": np.zeros(32)},
        "output": {"w": rng.standard_normal((32, 8)) * np.sqrt(2 / 32), "b": np.zeros(8)},
    }
    layers["hidden"] |= changes
    return layers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": np.ones(32)}, "biases of hidden"),
        ({"w": 1.5 * initial()["hidden"]["w"]}, "weights of hidden have the deviation"),
        ({"w": 0.5 + initial()["hidden"]["w"]}, "weights of hidden have the mean"),
    ],
)
def test_scale_property_fails(changes, message):
    kernels.weights_are_scaled({}, initial())
    with pytest.raises(AssertionError, match=message):
        kernels.weights_are_scaled({}, initial(**changes))


def test_independence_property_fails():
    same = np.random.default_rng(0).standard_normal(256)
    repeated = {
        "hidden": {"w": same.reshape(64, 4) * np.sqrt(2 / 64)},
        "output": {"w": same.reshape(32, 8) * np.sqrt(2 / 32)},
    }
    with pytest.raises(AssertionError, match="both layers were drawn from the same key"):
        kernels.layers_are_independent({}, repeated)


@pytest.mark.parametrize(("single", "message"), [([[1.0, 2.5]], "differ by 0.5"), ([1.0, 2.0], "gives shape")])
def test_agreement_property_fails(single, message):
    with pytest.raises(AssertionError, match=message):
        kernels.single_agrees_with_batch({}, {"batch": np.float32([[1, 2]]), "single": np.float32(single)})
