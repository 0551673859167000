"""Blocks screened in float32 against the same blocks measured in float64: not one statistic may differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.compare import arrays, threads
from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.screening import judge_for
from jaxcheck.compare.tally import BOUNDS, ExactJudge, Tally
from jaxcheck.results import Statistics

ENDS = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e-45, 1.2e-38, 1e-20, 1e20]
TOLERANCES = st.sampled_from([0.0, 1e-30, 1e-12, 2e-6, 1e-3, 0.25, 1.0, 1e20, 1e38])


def exactly(golden: Any, actual: Any, rtol: float, atol: float) -> Statistics:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "judge_for", ExactJudge)
        return compare_arrays(golden, actual, rtol=rtol, atol=atol)


@st.composite
def pairs(draw: Callable[..., Any]) -> tuple[Any, Any]:
    """Many elements, of which most moved by a little: as in an array whose blocks seldom hold a new maximum."""
    size = draw(st.integers(1, 60))
    scale = 10.0 ** draw(st.integers(-40, 38))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        golden = (rng.standard_normal(size) * scale).astype(np.float32)
    kind = draw(st.sampled_from(["ulps", "relative", "absolute"]))
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "ulps":
            steps = rng.integers(-4, 5, size).astype(np.int32)
            actual = (golden.view(np.int32) + steps).view(np.float32)
        elif kind == "relative":
            actual = (golden * (1 + 1e-5 * rng.standard_normal(size))).astype(np.float32)
        else:
            actual = (golden + 1e-6 * scale * rng.standard_normal(size)).astype(np.float32)
    for array in (golden, actual):
        for place in draw(st.lists(st.integers(0, size - 1), max_size=3)):
            array[place] = draw(st.sampled_from(ENDS))
    shared = draw(st.lists(st.integers(0, size - 1), max_size=20))
    actual[shared] = golden[shared]
    return golden, actual


@given(pair=pairs(), rtol=TOLERANCES, atol=TOLERANCES, block=st.integers(1, 9))
def test_screened_blocks_have_the_statistics_of_exact_ones(
    pair: tuple[Any, Any], rtol: float, atol: float, block: int
) -> None:
    golden, actual = pair
    assert compare_arrays(golden, actual, rtol=rtol, atol=atol, block=block) == exactly(golden, actual, rtol, atol)


@pytest.mark.parametrize(("rtol", "atol"), [(1e-5, 1e-6), (1e-5, 0.0), (0.0, 1e-6), (3e-7, 1e-3)])
def test_ratios_at_the_bounds_of_the_histogram_fall_on_the_side_that_float64_says(rtol: float, atol: float) -> None:
    rng = np.random.default_rng(7)
    golden = rng.standard_normal(20_000).astype(np.float32)
    bound = rng.choice(BOUNDS[1:], golden.size)
    nearly = 1 + rng.integers(-3, 4, golden.size) * 2.0**-24
    actual = (golden + bound * nearly * (atol + rtol * np.abs(golden, dtype=np.float64))).astype(np.float32)
    found = compare_arrays(golden, actual, rtol=rtol, atol=atol, block=50)
    assert found == exactly(golden, actual, rtol, atol)
    assert sum(found.histogram.values()) == golden.size


def test_the_first_of_equally_bad_elements_is_the_worst_across_blocks() -> None:
    golden = np.ones(1000, np.float32)
    actual = golden.copy()
    actual[[301, 302, 777]] += np.float32(0.5)
    found = compare_arrays(golden, actual, rtol=1e-3, atol=1e-3, block=10)
    assert found.worst is not None
    assert (found.worst.index, found.mismatched) == ((301,), 3)


def test_nonfinite_numbers_that_agree_cost_no_exact_block() -> None:
    """Masked attention: half of the elements are -inf on both sides."""
    rng = np.random.default_rng(0)
    golden = rng.standard_normal(4096).astype(np.float32)
    actual = golden * np.float32(1 + 1e-6)
    golden[::2] = actual[::2] = -math.inf
    golden[1::64] = actual[1::64] = math.nan
    judge = judge_for(golden.dtype, 1e-5, 1e-6)
    with np.errstate(all="ignore"):
        first = judge.tally(golden, actual, Tally())
        again = judge.tally(golden, actual, Tally(ratio=9.0, max_rel=9.0, max_abs=9.0, max_ulp=99))
    assert first.ratio > 0
    assert again.ratio == 0  # screened: nothing in it could change what was known
    assert (again.bit_equal, again.above) == (first.bit_equal, first.above)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_result_depends_on_the_threads(dtype: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    golden = (rng.standard_normal(1000) * 1000).astype(dtype)
    actual = golden.copy()
    actual[rng.integers(0, 1000, 300)] += 1
    expected = compare_arrays(golden, actual, rtol=1e-3, atol=0.5, block=7)
    monkeypatch.setattr(threads, "ELEMENTS_A_THREAD", 1000 // count)
    monkeypatch.setattr(threads, "cores", lambda: 4)
    assert len(list(threads.stretches(golden.size, 7))) == count
    assert compare_arrays(golden, actual, rtol=1e-3, atol=0.5, block=7) == expected


def test_arrays_that_are_not_contiguous_are_shared_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = np.arange(6000, dtype=np.float32).reshape(60, 100).T
    actual = golden * np.float32(1.25)
    expected = compare_arrays(golden, actual, rtol=1.0, atol=0.0)
    monkeypatch.setattr(threads, "ELEMENTS_A_THREAD", 1000)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    assert compare_arrays(golden, actual, rtol=1.0, atol=0.0, block=64) == expected
