from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import value_and_grad as kernels

pytestmark = pytest.mark.needs_jax


def guide(**changes):
    """The guide's four objects, parameters at zero."""
    return {
        "params": {"w": np.zeros(2, np.float32), "b": np.float32(0)},
        "features": np.float32([[1, 0], [0, 1], [1, 1], [-1, 1]]),
        "targets": np.float32([2, -1, 1, -3]),
        "learning_rate": 0.1,
    } | changes


def reference(arguments):
    import jax

    return kernels.sgd_step_reference(**jax.tree.map(np.float64, arguments))


def test_the_guide_starts_at_three_and_three_quarters(call, agree):
    found = call(kernels.sgd_step, **guide())
    assert found["loss"] == 3.75
    assert found["loss_after"] < 3.75
    agree(found["gradients"], {"w": np.float64([-3, 1.5]), "b": np.float64(0.5)})
    agree(found["params"], {"w": np.float64([0.3, -0.15]), "b": np.float64(-0.05)})
    agree(found, reference(guide()))


def test_default_learning_rate_is_the_guides(call):
    arguments = guide()
    del arguments["learning_rate"]
    found = call(kernels.sgd_step, **arguments)
    assert found["loss_after"] == call(kernels.sgd_step, **guide())["loss_after"]


@pytest.mark.parametrize(
    "arguments",
    [
        guide(),
        guide(features=np.float32([[1, 2]]), targets=np.float32([3])),
        guide(features=np.zeros((4, 2), np.float32), targets=np.zeros(4, np.float32)),
        guide(params={"w": np.float32([2, -1]), "b": np.float32(0.5)}, targets=np.float32([2.5, -0.5, 1.5, -2.5])),
    ],
    ids=["standard", "single", "zeros", "minimum"],
)
def test_step_is_that_of_the_formula(call, agree, arguments):
    found = call(kernels.sgd_step, **arguments)
    agree(found, reference(arguments))
    kernels.gradients_mirror_parameters(arguments, found)
    kernels.loss_decreases(arguments, found)


def test_formula_agrees_with_finite_differences():
    arguments = {name: guide()[name] for name in ("features", "targets")}
    params = {"w": np.array([0.3, -0.7]), "b": 0.2}
    _, gradients = kernels.linear_gradients(params, **arguments)
    for name, index in (("w", 0), ("w", 1), ("b", ())):
        ends = []
        for sign in (1, -1):
            moved = {"w": params["w"].copy(), "b": np.array(params["b"])}
            moved[name][index] += sign * 1e-6
            ends.append(kernels.linear_gradients(moved, **arguments)[0])
        assert np.asarray(gradients[name])[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"features": np.ones((4, 3), np.float32)}, TypeError, "contracting dimensions to have the same shape"),
        ({"targets": np.ones(3, np.float32)}, ValueError, r"targets \(n,\), not \(4, 2\) and \(3,\)"),
        ({"targets": np.ones((4, 1), np.float32)}, ValueError, r"targets \(n,\), not \(4, 2\) and \(4, 1\)"),
        ({"features": np.ones(2, np.float32)}, ValueError, r"features \(n, d\)"),
        (
            {"features": np.zeros((0, 2), np.float32), "targets": np.zeros(0, np.float32)},
            ValueError,
            "an empty batch has no mean loss",
        ),
        (
            {"params": {"w": np.int32([0, 0]), "b": np.int32(0)}},
            TypeError,
            "grad requires real- or complex-valued inputs",
        ),
        ({"params": {"w": np.zeros(2, np.float32)}}, KeyError, "b"),
    ],
)
def test_wrong_argument_raises(call, changes, error, message):
    with pytest.raises(error, match=message):
        call(kernels.sgd_step, **guide(**changes))


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        ("gradients", {"w": np.zeros(2, np.float32)}, "gradients has the structure"),
        ("gradients", {"w": np.zeros(3, np.float32), "b": np.float32(0)}, r"gradients\['w'\] is float32\[3\]"),
        ("params", {"w": np.zeros(2, np.float64), "b": np.float32(0)}, r"params\['w'\] is float64\[2\]"),
    ],
)
def test_contract_property_fails(part, wrong, message):
    found = {"gradients": guide()["params"], "params": guide()["params"]}
    kernels.gradients_mirror_parameters(guide(), found)
    with pytest.raises(AssertionError, match=message):
        kernels.gradients_mirror_parameters(guide(), {**found, part: wrong})


@pytest.mark.parametrize(
    ("gradient", "after", "message"),
    [(1.0, 3.75, "the loss went from 3.75 to 3.75"), (1.0, 4.0, "3.75 to 4.0"), (0.0, 3.0, "the gradient is zero")],
)
def test_loss_property_fails(gradient, after, message):
    found = {"loss": np.float32(3.75), "loss_after": np.float32(after), "gradients": {"w": np.float32([gradient])}}
    with pytest.raises(AssertionError, match=message):
        kernels.loss_decreases(guide(), found)
