from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.kernels import scan as kernels

pytestmark = pytest.mark.needs_jax

XS = np.float32([1, 2, 3])


def cell(length: int = 5, batch: int = 2, scale: float = 1.0):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "params": {"input": normal(3, 4), "hidden": 0.5 * normal(4, 4), "bias": normal(4)},
        "init": {"hidden": np.zeros((batch, 4), np.float32), "steps": np.int32(0)},
        "xs": np.float32(scale) * normal(length, batch, 3),
    }


def doubles(tree):
    import jax

    return jax.tree.map(lambda x: np.float64(x) if x.dtype.kind == "f" else x, tree)


def test_the_guide_counts_one_three_six(call):
    carry, outputs = call(kernels.cumulative_sum, init=0.0, xs=XS)
    assert carry == 6
    assert outputs.tolist() == [1, 3, 6]
    assert (carry.shape, outputs.shape) == ((), (3,))


@pytest.mark.parametrize(
    ("init", "xs"),
    [
        (np.float32(7), np.zeros(0, np.float32)),
        (np.float32(0.5), np.ones(1, np.float32)),
        (np.float32(0), np.arange(1000, dtype=np.float32)),
        (np.zeros(3, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)),
        (np.float32(0), np.float32([16777215, 1, -16777216])),
        (np.float32(0), np.float32([1, np.nan, 3])),
        (np.int32(0), np.int32([1, 2, 3])),
        (ml_dtypes.bfloat16(0), XS.astype(ml_dtypes.bfloat16)),
    ],
    ids=["empty", "single", "long", "asymmetric", "boundary", "nan", "integers", "bfloat16"],
)
def test_total_is_that_of_a_python_loop(call, agree, init, xs):
    found = call(kernels.cumulative_sum, init=init, xs=xs)
    arguments = {
        name: x if x.dtype.kind == "i" else np.asarray(x, np.float64) for name, x in {"init": init, "xs": xs}.items()
    }
    assert {each.dtype for each in found} == {xs.dtype}
    agree(found, kernels.cumulative_sum_reference(**arguments), 0, 0)
    kernels.carry_is_last_output({"init": init, "xs": xs}, found)


@pytest.mark.parametrize(
    ("init", "xs", "message"),
    [
        (np.int32(0), XS, r"int32.*float32"),
        (ml_dtypes.bfloat16(0), XS, r"bfloat16.*float32"),
        (np.float32(0), np.ones((3, 2), np.float32), "shapes do not match"),
    ],
)
def test_carry_that_does_not_last_raises(call, init, xs, message):
    with pytest.raises(TypeError, match=rf"(?s)carry input and carry output must have equal types.*{message}"):
        call(kernels.cumulative_sum, init=init, xs=xs)


@pytest.mark.parametrize(
    "arguments",
    [cell(), cell(length=0), cell(length=1, batch=1), cell(length=200), cell(scale=100.0)],
    ids=["standard", "empty", "single", "long", "saturated"],
)
def test_cell_is_that_of_a_python_loop(call, agree, arguments):
    found = call(kernels.recurrent_cell, **arguments)
    agree(found, kernels.recurrent_cell_reference(**doubles(arguments)))
    kernels.cell_keeps_its_state(arguments, found)


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (np.zeros((1, 4), np.float32), "shapes do not match"),
        (np.zeros((2, 4), ml_dtypes.bfloat16), "bfloat16.*float32"),
    ],
    ids=["shape", "dtype"],
)
def test_cell_state_that_does_not_last_raises(call, hidden, message):
    arguments = cell()
    arguments["init"]["hidden"] = hidden
    with pytest.raises(TypeError, match=rf"(?s)carry input and carry output must have equal types.*{message}"):
        call(kernels.recurrent_cell, **arguments)


def test_wrong_features_raise(call):
    arguments = {**cell(), "xs": np.ones((5, 2, 7), np.float32)}
    with pytest.raises(TypeError, match=r"contracting dimensions to have the same shape, got .7,. and .3,."):
        call(kernels.recurrent_cell, **arguments)


@pytest.mark.parametrize(
    ("carry", "outputs", "message"),
    [
        (6.0, [1.0, 3.0, 5.0], "the carry is 6.0, the last output 5.0"),
        (np.nan, [1.0, 3.0, 6.0], "the carry is nan"),
        (3.0, [1.0, 3.0], "outputs have shape"),
    ],
)
def test_carry_property_fails(carry, outputs, message):
    with pytest.raises(AssertionError, match=message):
        kernels.carry_is_last_output({"init": 0.0, "xs": XS}, (np.float32(carry), np.float32(outputs)))


def test_carry_of_an_empty_sequence_must_be_the_first():
    nothing = np.zeros(0, np.float32)
    with pytest.raises(AssertionError, match=r"the carry is 1\.0, the last output 7\.0"):
        kernels.carry_is_last_output({"init": np.float32(7), "xs": nothing}, (np.float32(1), nothing))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found["carry"].update(steps=np.int32(4)), "4 steps counted over a sequence of 5"),
        (lambda found: found["carry"].update(hidden=0 * found["carry"]["hidden"]), "the last output"),
        (lambda found: found.update(outputs=found["outputs"][:4]), "4 outputs for a sequence of 5"),
        (lambda found: found["outputs"].__setitem__((0, 0, 0), 1.5), "tanh gave values up to 1.5"),
    ],
)
def test_cell_property_fails(change, message):
    arguments = cell()
    found = kernels.recurrent_cell_reference(**doubles(arguments))
    kernels.cell_keeps_its_state(arguments, found)
    change(found)
    with pytest.raises(AssertionError, match=message):
        kernels.cell_keeps_its_state(arguments, found)
