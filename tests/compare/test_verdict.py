"""The verdict against the truth, as a table; and the distance to the truth that it rests on."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.compare.verdict import error_to_truth, extent, verdict


@pytest.mark.parametrize(
    ("unchanged", "within", "golden_error", "actual_error", "expected"),
    [
        (True, True, None, None, "unchanged"),
        (True, True, 1e-2, 1e-2, "unchanged"),
        (False, True, None, None, "drifted"),
        (False, True, 1e-2, 1e-7, "drifted"),
        (False, True, 1e-7, 1e-2, "drifted"),
        (False, False, None, None, "changed"),
        (False, False, 1e-2, None, "changed"),
        (False, False, None, 1e-7, "changed"),
        (False, False, 1e-2, 1e-7, "improved"),
        (False, False, math.inf, 1e-7, "improved"),
        (False, False, 1e-7, 1e-2, "regressed"),
        (False, False, 0.0, math.inf, "regressed"),
        (False, False, 1e-7, 1e-7, "changed"),
        (False, False, math.inf, math.inf, "changed"),
        (True, False, None, None, "unchanged"),
    ],
)
def test_verdicts(
    unchanged: bool, within: bool, golden_error: float | None, actual_error: float | None, expected: str
) -> None:
    found = verdict(unchanged=unchanged, within=within, golden_error=golden_error, actual_error=actual_error)
    assert found == expected


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_error_is_relative_to_the_scale_of_the_truth(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("jaxcheck.compare.verdict.BLOCK", block)
    truth = np.array([[100.0, 1.0], [-1.0, 0.0]])
    assert error_to_truth(truth.astype(np.float32) + np.float32(0.5), truth) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("values", "truth", "expected"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.inf, -np.inf], [np.inf, -np.inf], 0.0),
        ([np.nan, 1.0], [1.0, 1.0], math.inf),
        ([1.0, 1.0], [np.nan, 1.0], math.inf),
        ([np.inf, 1.0], [-np.inf, 1.0], math.inf),
        ([np.inf, 1.0], [np.nan, 1.0], math.inf),
        ([1e-9, 0.0], [0.0, 0.0], 1e-9),
        ([], [], 0.0),
    ],
)
def test_nonfinite_and_zero_truths(values: list[float], truth: list[float], expected: float) -> None:
    assert error_to_truth(np.array(values), np.array(truth)) == pytest.approx(expected)


def test_complex_and_low_precision() -> None:
    truth = np.array([3 + 4j, 0j])
    assert error_to_truth(truth.astype(np.complex64) + np.complex64(1j), truth) == pytest.approx(0.2)
    assert error_to_truth(np.array([complex(np.nan, 1)]), np.array([complex(np.nan, 1)])) == 0.0
    assert error_to_truth(np.array([complex(np.nan, 1)]), np.array([complex(1, np.nan)])) == math.inf
    rounded = np.array([0.1], ml_dtypes.bfloat16)
    assert error_to_truth(rounded, np.array([0.1])) == pytest.approx(abs(float(rounded[0]) - 0.1) / 0.1)


def test_the_extent_is_that_of_the_finite_elements() -> None:
    values = np.linspace(-3.0, 2.0, 200_001).astype(np.float32)
    values[[0, 150_000]] = np.nan, -np.inf
    values[100] = -7.0
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    assert extent(values) == (finite.min(), 7.0)
    assert extent(np.array([3 + 4j, 1j, complex(np.nan, 1)], np.complex64)) == (1.0, 5.0)
    assert extent(np.array([np.nan, np.inf])) == (math.inf, 0.0)
    assert extent(np.zeros(0)) == (math.inf, 0.0)
