from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import while_loop as kernels

pytestmark = pytest.mark.needs_jax

START = {"init": 1.0, "target": 2.0, "max_iterations": 20}
STATIC = ("max_iterations",)


def outputs(iterations, root, stop):
    return np.int32(iterations), np.float32(root), np.int32(stop)


def test_from_one_the_guide_needs_three_iterations(call):
    iterations, root, stop = call(kernels.newton_sqrt, STATIC, **START)
    assert iterations == 3
    assert f"{root:.7f}" == "1.4142157"
    assert stop == kernels.CONVERGED
    assert [each.dtype.name for each in (iterations, root, stop)] == ["int32", "float32", "int32"]


@pytest.mark.parametrize(
    ("init", "target", "limit", "expected"),
    [
        (1.4142135, 2.0, 20, (0, 1.4142135, kernels.CONVERGED)),
        (0.0, 0.0, 20, (0, 0.0, kernels.CONVERGED)),
        (1.0, 0.0, 20, (9, 2.0**-9, kernels.CONVERGED)),
        (0.0, 2.0, 20, (20, np.inf, kernels.LIMIT_REACHED)),
        (1e30, 2.0, 20, (20, 1e30 / 2**20, kernels.LIMIT_REACHED)),
        (-1.0, 2.0, 20, (3, -1.4142157, kernels.CONVERGED)),
        (np.nan, 2.0, 20, (0, np.nan, kernels.NOT_A_NUMBER)),
        (1.0, np.nan, 20, (0, 1.0, kernels.NOT_A_NUMBER)),
        (1.0, 2.0, 2, (2, 17 / 12, kernels.LIMIT_REACHED)),
        (1.0, 2.0, 0, (0, 1.0, kernels.LIMIT_REACHED)),
    ],
)
def test_stop_reason_is_told_apart_from_the_root(call, agree, init, target, limit, expected):
    arguments = {"init": init, "target": target, "max_iterations": limit}
    found = call(kernels.newton_sqrt, STATIC, **arguments)
    agree(found, kernels.newton_sqrt_reference(np.float64(init), np.float64(target), limit), 2e-7, 0)
    agree(found, outputs(*expected), 2e-7, 0)
    kernels.stays_within_limit(arguments, found)
    kernels.stop_reason_is_true(arguments, found)


def test_vector_stops_element_by_element(call, agree):
    arguments = {
        "init": np.float32([1, 1e30, np.nan, 1.4142135, 0]),
        "target": np.full(5, 2, np.float32),
        "max_iterations": 20,
    }
    found = call(kernels.newton_sqrt_batch, STATIC, **arguments)
    assert found[0].tolist() == [3, 20, 0, 0, 20]
    assert found[2].tolist() == [0, 1, 2, 0, 1]
    doubles = {name: np.float64(arguments[name]) for name in ("init", "target")}
    agree(found, kernels.newton_sqrt_batch_reference(**doubles, max_iterations=20), 2e-7, 0)
    kernels.stays_within_limit(arguments, found)
    kernels.stop_reason_is_true(arguments, found)


def test_empty_vector_has_empty_outputs(call, agree):
    nothing = np.zeros(0, np.float32)
    found = call(kernels.newton_sqrt_batch, STATIC, init=nothing, target=nothing, max_iterations=20)
    agree(found, kernels.newton_sqrt_batch_reference(nothing, nothing))


def test_forward_mode_gives_the_slope_of_the_root(call, agree):
    found = call(kernels.newton_sqrt_forward, STATIC, **START)
    assert found["slope"] == pytest.approx(0.5 / np.sqrt(2), rel=1e-4)
    agree(found, kernels.newton_sqrt_forward_reference(1.0, 2.0))
    kernels.slope_is_half_inverse_root({}, found)


def test_reverse_mode_is_refused(call):
    with pytest.raises(ValueError, match=r"Reverse-mode differentiation does not work for lax\.while_loop"):
        call(kernels.newton_sqrt_reverse, STATIC, **START)


def test_reverse_mode_works_through_a_loop_of_fixed_length(call, agree):
    found = call(kernels.newton_sqrt_fixed_steps, init=1.0, target=2.0)
    agree(found, kernels.newton_sqrt_fixed_steps_reference(1.0, 2.0))
    kernels.slope_is_half_inverse_root({}, found)


@pytest.mark.parametrize("init", [np.zeros((2, 2), np.float32), np.ones(1, np.float32)])
def test_anything_but_a_scalar_raises(call, init):
    with pytest.raises(TypeError, match="cond_fun must return a boolean scalar"):
        call(kernels.newton_sqrt, STATIC, **{**START, "init": init})


def test_integer_start_raises(call):
    with pytest.raises(TypeError, match=r"(?s)carry input and carry output must have equal types.*int32.*float32"):
        call(kernels.newton_sqrt, STATIC, **{**START, "init": np.int32(1)})


def test_vectors_of_unequal_length_raise(call):
    with pytest.raises(ValueError, match="vmap got inconsistent sizes"):
        call(
            kernels.newton_sqrt_batch,
            STATIC,
            init=np.ones(3, np.float32),
            target=np.ones(2, np.float32),
            max_iterations=20,
        )


def test_body_that_changes_the_structure_raises(call):
    with pytest.raises(TypeError, match=r"(?s)must have the same pytree structure.*lengths do not match"):
        call(kernels.newton_structure_changed, init=1.0)


def test_body_that_changes_the_dtype_raises(call):
    with pytest.raises(TypeError, match=r"(?s)must have equal types.*int32.*float32"):
        call(kernels.newton_dtype_changed, init=1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (outputs(21, 1.4142157, kernels.CONVERGED), r"iterations 21 leave 0\.\.20"),
        (outputs(-1, 1.4142157, kernels.CONVERGED), r"iterations -1 leave 0\.\.20"),
        (outputs(3, 1.5, kernels.LIMIT_REACHED), "limit 20 reported, but after 3 iterations"),
    ],
)
def test_limit_property_fails(wrong, message):
    with pytest.raises(AssertionError, match=message):
        kernels.stays_within_limit(START, wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (outputs(3, 1.4143, kernels.CONVERGED), "said to have converged"),
        (outputs(3, np.nan, kernels.CONVERGED), "said to have converged"),
        (outputs(20, np.nan, kernels.LIMIT_REACHED), "does not tell NaN"),
        (outputs(3, 1.4142157, kernels.NOT_A_NUMBER), "does not tell NaN"),
        (outputs(20, 1.4142135, kernels.LIMIT_REACHED), "limit reported, but"),
    ],
)
def test_stop_reason_property_fails(wrong, message):
    with pytest.raises(AssertionError, match=message):
        kernels.stop_reason_is_true(START, wrong)


def test_slope_property_fails():
    with pytest.raises(AssertionError, match=r"2 \* root \* slope is .*, expected 1"):
        kernels.slope_is_half_inverse_root({}, {"root": np.float32(1.4142135), "slope": np.float32(0.36)})
