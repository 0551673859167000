"""Numbers as a person reads them."""

from __future__ import annotations

import pytest

from jaxcheck.report import words
from tests.report import sample


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.10000000149011612, "float32", "0.1"),
        (0.10000000894069672, "float32", "0.10000001"),
        (3.4028234663852886e38, "float32", "3.4028235e+38"),
        (1.401298464324817e-45, "float32", "1e-45"),
        (0.1, "float32", "0.1"),
        (0.30000000000000004, "float64", "0.30000000000000004"),
        (0.10009765625, "bfloat16", "0.1001"),
        (-0.0, "float32", "-0"),
        (True, "bool", "True"),
        (-7, "int32", "-7"),
        ("1+2j", "complex64", "1+2j"),
        ("nan", "float32", "NaN"),
        ("-inf", "float32", "-inf"),
    ],
)
def test_an_element_has_the_digits_of_its_dtype(value: bool | int | float | str, dtype: str, text: str) -> None:
    assert words.element(value, dtype) == text


@pytest.mark.parametrize(
    ("leaves", "text"),
    [
        ([], ""),
        ([sample.leaf()], "bit-equal"),
        ([sample.leaf(), sample.drifted()], "drift 0.12 of tolerance"),
        ([sample.leaf(bit_equal=11)], "drift 0 of tolerance"),
        ([sample.drifted(), sample.beyond()], "20.4 x tolerance"),
        ([sample.beyond(violation_ratio=1.0000002)], "1.0000002 x tolerance"),
        ([sample.beyond(violation_ratio=float("inf"))], "3 of 12 differ"),
        ([sample.beyond(), sample.not_a_number()], "NaN or inf disagrees"),
    ],
)
def test_the_extent_is_that_of_the_furthest_leaf(leaves: list[sample.LeafResult], text: str) -> None:
    assert words.extent(leaves) == text


def test_infinite_measures_are_called_so() -> None:
    assert words.measure(sample.leaf(max_abs=float("inf")).max_abs) == "inf"
    assert words.ulps(sample.leaf(max_ulp=float("inf")).max_ulp) == "inf"
    assert (words.ulps(85617.0), words.ulps(2.0**62)) == ("85,617", "4.61e+18")


def test_counts_agree_with_their_nouns() -> None:
    assert words.count(1, "check") == "1 check"
    assert words.count(2000, "check") == "2,000 checks"
    assert words.count(2, "leaf", "leaves") == "2 leaves"


def test_statuses_are_counted_the_bad_ones_first() -> None:
    run = sample.every_status()
    assert words.status_counts(run.results[:2]) == "1 fail, 1 pass"
    assert words.status_counts(run.results[2:4]) == "pass"


def test_the_environment_says_what_the_numbers_depend_on() -> None:
    gpu = sample.environment(
        backend="gpu", device_kind="NVIDIA H200", device_count=2, x64=True, matmul_precision="highest", config={}
    )
    facts = words.environment_facts(gpu)
    assert facts["backend"] == "gpu, 2 x NVIDIA H200"
    assert facts["precision"] == "x64 on, matmul precision highest"
    assert "config" not in facts
    assert words.environment_facts(sample.environment(optax=None, xla_flags=""))["XLA flags"] == "none"
