"""What a leaf's comparison says in words, and the comparators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.compare.leaves import COMPARATORS, compare_leaf, signature_difference
from jaxcheck.compare.plain import times
from jaxcheck.registry import model
from jaxcheck.results import LeafResult


@dataclass(frozen=True)
class Tolerance:
    rtol: float = 0.0
    atol: float = 0.0
    source: str = "recipes.yaml:12:5"


def compare(
    golden: Any,
    actual: Any,
    dtype: Any = "float32",
    rtol: float = 0.0,
    atol: float = 0.0,
    **options: str,
) -> LeafResult:
    arrays = np.array(golden, dtype), np.array(actual, dtype)
    return compare_leaf("[0]['w']", np.dtype(dtype).name, *arrays, Tolerance(rtol, atol), **options)


def test_a_leaf_within_tolerance_keeps_its_numbers_and_has_no_reason() -> None:
    leaf = compare([1.0, 2.0], [1.0, 2.0000005], rtol=2e-6, atol=2e-6)
    assert leaf.reason is None
    assert 0 < leaf.violation_ratio <= 1
    assert (leaf.path, leaf.dtype, leaf.shape, leaf.size, leaf.bit_equal) == ("[0]['w']", "float32", (2,), 2, 1)
    assert (leaf.tolerance.rtol, leaf.tolerance.atol, leaf.tolerance.source) == (2e-6, 2e-6, "recipes.yaml:12:5")


@pytest.mark.parametrize(
    ("golden", "actual", "options", "reason"),
    [
        (
            [[0.0, 0.0, 0.0], [0.0, 0.0, 0.1234111]],
            [[0.0, 0.0, 0.0], [0.0, 0.1, 0.1234567]],
            {"atol": 2e-6},
            "2 of 6 beyond tolerance, worst 5e+04 x at [1, 1]: 0.1 was 0.0, allowed 2e-06",
        ),
        (
            0.1234111,
            0.1234567,
            {"atol": 4e-6},
            "1 of 1 beyond tolerance, worst 11.4 x: 0.1234567 was 0.1234111, allowed 4e-06",
        ),
        ([0.0], [1e-3], {"rtol": 0.5}, "1 of 1 beyond tolerance, worst at [0]: 0.001 was 0.0, allowed 0"),
        ([7, 9, 9], [7, 8, 7], {"dtype": "int32"}, "2 of 3 differ, worst at [1]: 8 was 9"),
        ([True], [False], {"dtype": "bool"}, "1 of 1 differ, worst at [0]: False was True"),
        (
            [1.0],
            [1.125],
            {"dtype": ml_dtypes.bfloat16, "rtol": 0.01},
            "1 of 1 beyond tolerance, worst 12.5 x at [0]: 1.125 was 1, allowed 0.01",
        ),
        ([3 + 4j], [3 - 4j], {"dtype": "complex64"}, "1 of 1 differ, worst at [0]: 3-4j was 3+4j"),
        ([1.5], [math.nan], {"rtol": 1.0}, "NaN at [0] where golden has 1.5"),
        ([0.0], [math.inf], {}, "inf at [0] where golden has 0.0"),
        ([math.nan, 2.0], [1.0, 2.0], {}, "1.0 at [0] where golden has NaN"),
        ([math.inf], [-math.inf], {"against": "eager"}, "-inf at [0] where eager has inf"),
        (
            [1.0, 2.0, 3.0],
            [math.nan, math.inf, 4.0],
            {},
            "NaN at [0] where golden has 1.0; 2 of 3 disagree in NaN or infinity, 1 more beyond tolerance",
        ),
    ],
)
def test_the_reason_says_what_where_and_by_how_much(
    golden: Any, actual: Any, options: dict[str, Any], reason: str
) -> None:
    assert compare(golden, actual, **options).reason == reason


def test_large_counts_are_grouped() -> None:
    leaf = compare(np.zeros(5000), np.ones(5000))
    assert leaf.reason == "5,000 of 5,000 differ, worst at [0]: 1.0 was 0.0"


def test_what_is_beyond_tolerance_never_reads_as_within() -> None:
    assert times(12.345) == "12.3 x"
    assert times(1.0000004) == "1.0000004 x"
    assert times(1.0) == "1 x"


def test_exact_takes_every_bit_whatever_the_tolerance() -> None:
    assert compare([1.0], [1.0], comparator="exact").reason is None
    moved = compare([1.0], [1.0000001], rtol=1.0, comparator="exact")
    assert moved.reason == "1 of 1 differ, worst at [0]: 1.0000001 was 1.0"
    assert moved.tolerance.source == "comparator: exact"
    zero = compare([0.0, 1.0], [-0.0, 1.0], comparator="exact")
    assert zero.reason == "1 of 2 have other bits: the sign of a zero, or another NaN"


def test_the_registry_knows_the_comparators() -> None:
    assert tuple(COMPARATORS) == model.COMPARATORS


def test_an_unknown_comparator_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"no comparator 'close'; valid: allclose, exact, ulp"):
        compare([1.0], [1.0], comparator="close")


@dataclass(frozen=True)
class Meta:
    dtype: Any = "float32"
    shape: tuple[int, ...] = (2, 3)
    weak_type: bool = False


@pytest.mark.parametrize(
    ("golden", "actual", "words"),
    [
        (Meta(), Meta(), None),
        (Meta(), Meta(np.dtype("float32")), None),
        (Meta(), Meta("float64"), "dtype is float64, golden has float32"),
        (Meta("uint32"), Meta("key<fry>"), "dtype is key<fry>, golden has uint32"),
        (Meta(), Meta(shape=()), "shape is [], golden has [2, 3]"),
        (Meta(), Meta(weak_type=True), "is weakly typed, golden is not"),
        (Meta(weak_type=True), Meta(), "is not weakly typed, golden is"),
        (Meta(), Meta("int8", (6,)), "dtype is int8, golden has float32; shape is [6], golden has [2, 3]"),
    ],
)
def test_signatures_differ_in_precise_words(golden: Meta, actual: Meta, words: str | None) -> None:
    assert signature_difference(golden, actual) == words


def test_signatures_name_what_they_are_compared_with() -> None:
    assert signature_difference(Meta(), Meta("int8"), against="eager") == "dtype is int8, eager has float32"
