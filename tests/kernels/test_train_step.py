from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import train_step as kernels

pytestmark = pytest.mark.needs_jax


def guide(**changes):
    """The guide's three objects, parameters at zero."""
    return {
        "params": {"w": np.zeros(2, np.float32), "b": np.float32(0)},
        "features": np.float32([[1, 0], [0, 1], [1, 1]]),
        "targets": np.float32([2, -1, 1]),
    } | changes


def doubles(tree):
    import jax

    return jax.tree.map(np.float64, tree)


def test_the_guide_starts_at_two(call, agree):
    params, loss = call(kernels.train_step, **guide())
    assert loss == 2
    agree(params, {"w": np.float64([0.2, 0]), "b": np.float64(2 / 15)})


@pytest.mark.parametrize(
    "arguments",
    [
        guide(),
        guide(features=np.float32([[1, 2]]), targets=np.float32([3])),
        guide(features=np.zeros((3, 2), np.float32), targets=np.zeros(3, np.float32)),
        guide(params={"w": np.float32([2, -1]), "b": np.float32(0.5)}, targets=np.float32([2.5, -0.5, 1.5])),
    ],
    ids=["standard", "single", "zeros", "minimum"],
)
def test_step_is_that_of_the_formula(call, agree, arguments):
    found = call(kernels.train_step, **arguments)
    agree(found, kernels.train_step_reference(**doubles(arguments)))
    kernels.parameters_keep_their_contract(arguments, found)
    kernels.step_lowers_the_loss(arguments, found)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"features": np.ones((3, 4), np.float32)}, TypeError, "contracting dimensions to have the same shape"),
        ({"targets": np.ones(4, np.float32)}, ValueError, r"targets \(n,\), not \(3, 2\) and \(4,\)"),
        ({"targets": np.ones((3, 1), np.float32)}, ValueError, r"targets \(n,\), not \(3, 2\) and \(3, 1\)"),
    ],
)
def test_wrong_batch_raises(call, changes, error, message):
    with pytest.raises(error, match=message):
        call(kernels.train_step, **guide(**changes))


@pytest.mark.parametrize("max_norm", [0.0, 1.0, 100.0])
def test_clipped_step_is_that_of_the_formula(call, agree, max_norm):
    found = call(kernels.clipped_train_step, ("max_norm",), **guide(max_norm=max_norm))
    agree(found, kernels.clipped_train_step_reference(**doubles(guide()), max_norm=max_norm))
    kernels.update_is_clipped(guide(max_norm=max_norm), found)
    kernels.step_lowers_the_loss(guide(), found)


def test_zero_gradient_is_clipped_to_itself(call):
    nothing = guide(features=np.zeros((3, 2), np.float32), targets=np.zeros(3, np.float32), max_norm=1.0)
    params, loss = call(kernels.clipped_train_step, ("max_norm",), **nothing)
    assert (params["w"].tolist(), float(params["b"]), float(loss)) == ([0, 0], 0, 0)


def test_forgotten_static_argument_raises_only_under_jit(call, agree):
    import jax

    if call.mode == "jit":
        with pytest.raises(jax.errors.TracerBoolConversionError, match="Attempted boolean conversion of traced array"):
            call(kernels.clipped_train_step, **guide(max_norm=1.0))
    else:
        found = call(kernels.clipped_train_step, **guide(max_norm=1.0))
        agree(found, kernels.clipped_train_step_reference(**doubles(guide()), max_norm=1.0))


@pytest.mark.parametrize("case", ["standard", "single", "zeros", "saturated", "asymmetric"])
def test_network_step_is_that_of_written_out_backpropagation(call, agree, case):
    arguments = kernels.mlp_inputs()[case]
    found = call(kernels.mlp_train_step, **arguments)
    agree(found, kernels.mlp_train_step_reference(**doubles(arguments)))
    kernels.parameters_keep_their_contract(arguments, found)


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        ("wrong-targets", ValueError, r"predictions have shape \(8, 2\), targets \(8, 1\)"),
        ("wrong-features", TypeError, "contracting dimensions to have the same shape"),
    ],
)
def test_network_refuses_a_wrong_batch(call, case, error, message):
    with pytest.raises(error, match=message):
        call(kernels.mlp_train_step, **kernels.mlp_inputs()[case])


def test_factory_gives_float32_and_the_same_every_time():
    import jax

    first, second = jax.tree.leaves(kernels.mlp_inputs()), jax.tree.leaves(kernels.mlp_inputs())
    assert {leaf.dtype.name for leaf in first} == {"float32"}
    assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("params", "loss", "message"),
    [
        ({"w": np.zeros(2, np.float32)}, np.float32(2), "params has the structure"),
        ({"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)}, np.float32(2), r"params\['b'\] is float32\[1\]"),
        (guide()["params"], np.zeros(3, np.float32), r"the loss has shape \(3,\)"),
    ],
)
def test_contract_property_fails(params, loss, message):
    with pytest.raises(AssertionError, match=message):
        kernels.parameters_keep_their_contract(guide(), (params, loss))


@pytest.mark.parametrize("params", [guide()["params"], {"w": np.float32([-0.2, 0]), "b": np.float32(-0.13)}])
def test_loss_property_fails(params):
    with pytest.raises(AssertionError, match=r"the loss went from 2\.0 to"):
        kernels.step_lowers_the_loss(guide(), (params, np.float32(2)))


def test_loss_property_fails_at_a_minimum_that_is_misreported():
    params = {"w": np.float32([2, -1]), "b": np.float32(0.5)}
    arguments = guide(params=params, targets=np.float32([2.5, -0.5, 1.5]))
    with pytest.raises(AssertionError, match=r"the loss went from -1\.0 to 0\.0"):
        kernels.step_lowers_the_loss(arguments, (params, np.float32(-1)))


def test_clip_property_fails():
    params, loss = kernels.train_step_reference(**doubles(guide()))
    with pytest.raises(AssertionError, match=r"the step is 0\.24.* long, allowed 0\.1"):
        kernels.update_is_clipped(guide(max_norm=1.0), (params, loss))
