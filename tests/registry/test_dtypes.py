"""The table of dtypes against NumPy and ml_dtypes, and what fits into which."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.registry.dtypes import COMPLEX, DTYPES, FLOATS, INTEGERS, by_content, misfit, numpy_dtype


@pytest.mark.parametrize("name", FLOATS)
def test_the_limits_of_a_floating_dtype_are_the_real_ones(name: str) -> None:
    info, limits = ml_dtypes.finfo(numpy_dtype(name)), FLOATS[name]

    assert limits.digits == info.nmant + 1
    assert limits.largest == float(info.max)
    assert limits.smallest == float(info.smallest_subnormal)
    with np.errstate(all="ignore"):
        assert limits.infinity == bool(np.isinf(np.array(math.inf).astype(numpy_dtype(name)).astype(float)))
        assert limits.nan == bool(np.isnan(np.array(math.nan).astype(numpy_dtype(name)).astype(float)))


@pytest.mark.parametrize("name", INTEGERS)
def test_the_limits_of_an_integer_dtype_are_the_real_ones(name: str) -> None:
    info = ml_dtypes.iinfo(numpy_dtype(name))

    assert (INTEGERS[name].low, INTEGERS[name].high) == (int(info.min), int(info.max))


@pytest.mark.parametrize("name", DTYPES)
def test_every_name_is_that_of_its_dtype(name: str) -> None:
    assert numpy_dtype(name).name == name


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], "float32"),
        ([True, False], "bool"),
        ([1, -(2**31)], "int32"),
        ([1, 2.0], "float32"),
        ([2**31], "int32"),
        ([math.nan], "float32"),
    ],
)
def test_content_decides_the_dtype(values: list[object], dtype: str) -> None:
    assert by_content(values) == dtype


def test_only_wide_content_is_wide_where_that_is_allowed() -> None:
    assert by_content([2**31], wide=True) == "int64"
    assert by_content([2**31 - 1], wide=True) == "int32"
    assert by_content([2**31, 0.5], wide=True) == "float32"


@pytest.mark.parametrize("name", sorted(FLOATS.keys() - {"float64"}))
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_finite_number_fits_where_it_stays_finite_and_keeps_what_is_not_zero(name: str, value: float) -> None:
    with np.errstate(all="ignore"):
        there = float(np.array(value).astype(numpy_dtype(name)).astype(float))
    lost = not math.isfinite(there) or (there == 0) != (value == 0)
    saturated = not FLOATS[name].nan and abs(value) >= FLOATS[name].overflow
    on_the_edge = abs(value) in (FLOATS[name].overflow, FLOATS[name].smallest / 2)

    assert on_the_edge or (misfit(value, name) is not None) == (lost or saturated)


@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX])
@given(value=st.integers(-(2**70), 2**70))
def test_a_whole_number_fits_a_float_that_gives_it_back(name: str, value: int) -> None:
    with np.errstate(all="ignore"):
        there = complex(np.array(float(value)).astype(numpy_dtype(name)).astype(complex)).real
    exact = math.isfinite(there) and int(there) == value and int(float(value)) == value

    assert (misfit(value, name) is None) == exact


@pytest.mark.parametrize("name", INTEGERS)
@given(value=st.integers(-(2**70), 2**70))
def test_a_whole_number_fits_an_integer_dtype_within_its_limits(name: str, value: int) -> None:
    assert (misfit(value, name) is None) == (INTEGERS[name].low <= value <= INTEGERS[name].high)


def test_a_number_beyond_every_float_is_no_crash() -> None:
    assert misfit(10**350, "int32") == "is not between -2147483648 and 2147483647"
    assert misfit(2**1024, "float64") == "is beyond its largest number, 1.7976931e+308"
    assert misfit(2**1023, "float64") is None
