"""The sample of a leaf that moved: bounded, and with the worst in it."""

from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.compare.sample import BINS, COLUMNS, PAIRS, ROWS, sample_of
from jaxcheck.registry.model import Tolerance

HELD = Tolerance(rtol=0.0, atol=1.0, source="here")
EXACT = Tolerance(rtol=0.0, atol=0.0, source="exact: int32")


@pytest.mark.parametrize(
    ("shape", "bins"),
    [
        ((), ()),
        ((1,), ()),
        ((5,), (1, 5)),
        ((1000,), (1, BINS)),
        ((1000, 1), (1, BINS)),
        ((3, 7), (3, 7)),
        ((200, 300), (ROWS, COLUMNS)),
        ((9, 5, 11), (ROWS, 11)),
        ((300, 400, 2), (ROWS, 2)),
    ],
)
def test_bins_are_few_and_hold_the_largest(shape: tuple[int, ...], bins: tuple[int, ...]) -> None:
    golden = np.zeros(shape)
    actual = np.linspace(0.0, 7.0, golden.size or 1).reshape(shape)
    found = sample_of(golden, actual, HELD)
    assert np.shape(found.by_position) == (bins or (0,))
    if bins:
        assert np.max(found.by_position) == found.by_position[-1][-1] == 7.0
    assert len(found.golden) == len(found.actual) == min(golden.size, PAIRS)


@pytest.mark.parametrize("shape", [(411, 263), (3, 90_000), (50_000, 2), (150_001,), (70, 3, 500)])
@pytest.mark.parametrize("tolerance", [HELD, Tolerance(rtol=1e-3, atol=0.0, source="here"), EXACT])
def test_each_bin_is_the_maximum_of_its_elements(shape: tuple[int, ...], tolerance: Tolerance) -> None:
    """Against the definition, over more than one block, some of which are not finite."""
    rng = np.random.default_rng(0)
    golden, actual = rng.random(shape).round(1), rng.random(shape)
    golden.flat[::20_011] = actual.flat[::20_011] = np.nan
    actual.flat[77_003] = np.inf
    found = np.array(sample_of(golden, actual, tolerance).by_position)
    zero = tolerance.rtol == tolerance.atol == 0
    allowed = 1.0 if zero else tolerance.atol + tolerance.rtol * np.abs(golden)
    with np.errstate(all="ignore"):
        measure = np.nan_to_num(np.abs(actual - golden) / allowed, posinf=np.finfo(float).max).reshape(-1, shape[-1])
    rows, columns = (np.arange(size) for size in measure.shape)
    wanted = np.zeros_like(found)
    bins = (rows * found.shape[0] // len(rows))[:, None], (columns * found.shape[1] // len(columns))[None, :]
    np.maximum.at(wanted, bins, measure)
    np.testing.assert_allclose(found, wanted, rtol=5e-3)


def test_what_is_exact_has_differences_and_the_worst_is_among_the_values() -> None:
    golden = np.arange(1000, dtype=np.int32)
    actual = golden.copy()
    actual[777] += 5
    found = sample_of(golden, actual, EXACT, worst=(777,))
    assert found.measure == "difference"
    assert max(found.by_position[0]) == 5.0
    assert (777.0, 782.0) in zip(found.golden, found.actual, strict=True)
    assert len(found.golden) <= PAIRS


def test_what_is_no_finite_real_number_is_left_out() -> None:
    found = sample_of(np.array([1.0, np.nan, 2.0]), np.array([1.0, 2.0, np.inf]), HELD)
    assert (found.golden, found.actual) == ((1.0,), (1.0,))
    assert found.by_position[0][0] == 0.0
    assert min(found.by_position[0][1:]) > 1e300
    assert sample_of(np.array([1j, 2j]), np.array([1j, 4j]), HELD).golden == ()
    assert sample_of(np.array([1j, 2j]), np.array([1j, 4j]), HELD).by_position == ((0.0, 2.0),)


def test_extended_dtypes_have_samples() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    golden = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert sample_of(golden, golden * 2, HELD).actual == (2.0, 4.0)
