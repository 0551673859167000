from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import debug_nans as kernels

pytestmark = pytest.mark.needs_jax


@pytest.fixture
def watched():
    import jax

    with jax.debug_nans(True):
        yield


@pytest.mark.parametrize(
    ("kernel", "x", "operation"),
    [
        (kernels.logarithm, [1, -1], "log"),
        (kernels.logarithm, -1, "log"),
        (kernels.share_of_total, [0, 0, 0], "div"),
        (kernels.masked_root_gradient, [0, 4], ""),
    ],
)
@pytest.mark.usefixtures("watched")
def test_nan_is_caught_where_it_arises(call, kernel, x, operation):
    with pytest.raises(FloatingPointError, match=rf"invalid value \(nan\) encountered in {operation}"):
        call(kernel, x=np.float32(x))


@pytest.mark.usefixtures("watched")
def test_infinity_is_not_a_nan(call):
    assert call(kernels.logarithm, x=np.zeros(3, np.float32)).tolist() == [-np.inf] * 3


@pytest.mark.parametrize("kernel", [kernels.logarithm, kernels.share_of_total])
@pytest.mark.usefixtures("watched")
def test_valid_arguments_pass(call, agree, kernel):
    x = np.float32([1, 2, 5])
    reference = getattr(kernels, f"{kernel.__name__}_reference")
    agree(call(kernel, x=x), reference(np.float64(x)))


def test_nan_is_handed_on_where_nobody_looks(call, agree):
    x = np.float32([1, -1, 0, np.nan, np.inf])
    agree(call(kernels.logarithm, x=x), kernels.logarithm_reference(np.float64(x)))
    assert np.isnan(call(kernels.masked_root_gradient, x=np.zeros(1, np.float32))).all()


@pytest.mark.parametrize("x", [[0.5, 1, 10], 3, [0, 0], [-1, -1e30], [1e-6, 1e-7, 3e38]])
@pytest.mark.usefixtures("watched")
def test_safe_logarithm_is_finite(call, agree, x):
    found = call(kernels.safe_logarithm, x=np.float32(x))
    assert np.isfinite(found).all()
    agree(found, kernels.safe_logarithm_reference(np.float64(np.float32(x))))


@pytest.mark.parametrize("x", [[1, 4, -1, 0], [2], [0, 0], [1e-30, 1e30, -1e-30]])
@pytest.mark.usefixtures("watched")
def test_safe_gradient_is_that_of_the_formula(call, agree, x):
    x = np.float32(x)
    found = call(kernels.safe_root_gradient, x=x)
    agree(found, kernels.safe_root_gradient_reference(np.float64(x)))
    kernels.masked_elements_have_no_gradient({"x": x}, found)


@pytest.mark.parametrize("gradient", [[0.5, np.nan], [0.5, 0.1], [0.0, 0.0], [-0.5, 0.0], [0.5, -0.1]])
def test_gradient_property_fails(gradient):
    with pytest.raises(AssertionError, match="gradient"):
        kernels.masked_elements_have_no_gradient({"x": np.float32([1, 0])}, np.float32(gradient))
