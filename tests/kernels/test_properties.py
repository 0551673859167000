from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.kernels import properties

pytestmark = pytest.mark.needs_jax


def test_finite_outputs_pass_whatever_their_dtype():
    import jax

    properties.all_finite({}, {"w": np.float32([1]), "n": np.int32(1), "key": jax.random.key(0), "none": None})


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_finite_property_names_the_leaf_and_the_place(dtype, value):
    with pytest.raises(AssertionError, match=r"leaf \['w'\]\[0\]: 1 of 2 not finite, first at \[\[1\]\]"):
        properties.all_finite({}, {"w": [np.array([1, value], dtype)]})


def test_finite_property_names_the_root():
    with pytest.raises(AssertionError, match=r"leaf \.: 1 of 1 not finite"):
        properties.all_finite({}, np.float32(np.nan))
