"""How outputs are held to a reference, and which words of an exception are shown."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.execution.comparison import in_common, ulps_to
from jaxcheck.execution.judge import telling_line


@pytest.mark.parametrize(
    ("reference", "outputs", "common"),
    [
        (np.float64(2), np.float32(2.7), "float64"),
        (np.int64(2), np.float32(2.7), "float64"),
        (np.bool_(True), np.int32(5), "int64"),
        (np.int64(5), np.uint8(5), "int64"),
        (np.uint64(2**64 - 1), np.uint32(1), "uint64"),
        (np.int64(2), ml_dtypes.bfloat16(2.5), "float64"),
        (np.int64(7), ml_dtypes.int4(7), "int64"),
        (np.float64(2), np.complex64(2 + 1j), "complex128"),
        (np.complex128(2 + 1j), np.float32(2), "complex128"),
    ],
)
def test_a_reference_and_outputs_meet_in_a_dtype_that_holds_both(reference: Any, outputs: Any, common: str) -> None:
    """Cast to the reference's own dtype, 2.7 would agree with a reference of 2, and 2+1j with one of 2.0."""
    expected, actual = in_common(np.asarray(reference), np.asarray(outputs))
    assert expected.dtype == actual.dtype == common
    assert expected == reference
    assert actual == outputs


def test_ulps_to_a_wider_reference_are_those_of_the_outputs() -> None:
    one = np.float32(1)
    assert ulps_to(np.array([1.0]), np.array([np.nextafter(one, np.float32(2))])) == 1
    assert ulps_to(np.array([1 + 2.0**-30]), np.array([one])) == 0
    assert ulps_to(np.array([410.0]), np.array([414.0]).astype(ml_dtypes.bfloat16)) == 2


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("", ""),
        ("one line", "one line"),
        ("first line\nmore of it", "first line"),
        ("it failed: Traceback (most recent call last):\n  File ...\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("only announced:", "only announced:"),
    ],
)
def test_the_line_that_tells_is_shown(message: str, shown: str) -> None:
    assert telling_line(message).endswith(shown)
    assert "\n" not in telling_line(message)
