"""`ulp`, `topk`, `permutation`, `kl`: what may differ passes, and what may not fails in words that say how."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.compare.distances import ulp_distances
from jaxcheck.compare.leaves import ParameterError
from jaxcheck.results import LeafResult
from tests.compare.semantic import Tolerance, compare

BFLOAT16, FLOAT8, INT4 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4


def one(comparator: str, golden: Any, actual: Any, dtype: Any = "float32", **options: Any) -> LeafResult:
    """An output of one leaf."""
    return compare(comparator, ".", {".": np.array(golden, dtype)}, {".": np.array(actual, dtype)}, **options)


# ulp


def stepped(value: float, steps: int, dtype: str) -> Any:
    """The number so many representable values above."""
    number = np.array(value, dtype)
    for _ in range(steps):
        number = np.nextafter(number, np.array(np.inf, dtype))
    return number


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [1.0, -3.7, 0.0, 1e-5])
def test_ulps_are_counted_in_the_leaf_s_own_dtype(dtype: str, value: float) -> None:
    golden, actual = [value, 2.0], [stepped(value, 4, dtype), 2.0]
    within = one("ulp", golden, actual, dtype, max_ulp=4)
    assert (within.reason, within.violation_ratio, within.mismatched, within.max_ulp) == (None, 1.0, 0, 4)
    beyond = one("ulp", golden, actual, dtype, max_ulp=3)
    assert beyond.reason is not None
    assert beyond.reason.startswith("1 of 2 are more than 3 ULP apart, worst 4 ULP at [0]: ")
    assert (beyond.mismatched, beyond.violation_ratio) == (1, pytest.approx(4 / 3))
    assert beyond.tolerance.source == "comparator: ulp, max_ulp 3"


def test_ulps_of_extended_and_complex_numbers_and_integers() -> None:
    assert one("ulp", [1.0], [1.0078125], BFLOAT16, max_ulp=1).reason is None
    assert one("ulp", [1.0], [1.015625], BFLOAT16, max_ulp=1).reason is not None
    assert one("ulp", [1.0], [1.125], FLOAT8, max_ulp=1).reason is None
    assert (
        one("ulp", [1], [3], INT4, max_ulp=1).reason == "1 of 1 are more than 1 ULP apart, worst 2 ULP at [0]: 3 was 1"
    )
    assert one("ulp", [5], [7], "int32", max_ulp=2).reason is None
    parts = [1 + 1e-3j], [1 + 1.00001e-3j]
    assert one("ulp", *parts, "complex64", max_ulp=80).reason is not None
    assert one("ulp", *parts, "complex64", max_ulp=90).reason is None
    assert one("ulp", *parts, "complex64", max_ulp=1, floor=1.0).reason is None


def test_the_floor_is_a_scale_for_what_is_small() -> None:
    golden, actual = [1000.0, 1e-9], [1000.0, 2e-9]
    assert one("ulp", golden, actual, max_ulp=4).reason is not None
    assert one("ulp", golden, actual, max_ulp=4, floor=1e-12).reason is not None
    leaf = one("ulp", golden, actual, max_ulp=4, floor=1e-3)
    assert leaf.reason is None
    assert 0 < leaf.violation_ratio < 1
    assert leaf.tolerance.source == "comparator: ulp, max_ulp 4, floor 0.001"
    unit = float(np.spacing(np.float32(1.0)))
    assert one("ulp", [1000.0, 1e-9], [1000.0, 1e-9 + 3.9 * unit], max_ulp=4, floor=1e-3).reason is None
    assert one("ulp", [1000.0, 1e-9], [1000.0, 1e-9 + 4.1 * unit], max_ulp=4, floor=1e-3).reason is not None


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT8, "float16", "float64"])
def test_the_floor_works_for_every_float(dtype: Any) -> None:
    assert one("ulp", [8.0, 0.0], [8.0, 0.015625], dtype, max_ulp=0).reason is not None
    assert one("ulp", [8.0, 0.0], [8.0, 2.0**-9], dtype, max_ulp=2**53, floor=1.0).reason is None


def test_ulp_of_nan_infinity_zero_and_nothing() -> None:
    assert one("ulp", [np.nan, np.inf], [np.nan, np.inf], max_ulp=0).reason is None
    moved = one("ulp", [1.0, np.inf], [np.nan, np.inf], max_ulp=5, floor=1.0)
    assert moved.reason == "NaN at [0] where golden has 1.0"
    assert one("ulp", [0.0], [-0.0], max_ulp=0).reason is None
    assert one("ulp", np.zeros((0, 2)), np.zeros((0, 2)), max_ulp=0, floor=1.0).reason is None
    assert one("ulp", 1.0, 1.5, max_ulp=1).reason is not None
    assert one("ulp", [0.0, 0.0], [0.0, 1.0], max_ulp=1, floor=0.5).reason is not None


def test_ulp_distances_have_the_shape_of_the_array() -> None:
    golden = np.arange(6, dtype=">f4").reshape(2, 3).T
    assert ulp_distances(golden, golden).tolist() == [[0, 0], [0, 0], [0, 0]]
    assert ulp_distances(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)


# topk

SCORES = np.array([3.0, 1.0, 3.0, np.nan, 2.0, 3.0, -np.inf, np.inf], "float32")


def order(golden: Any, actual: Any, operand: Any = SCORES, **options: Any) -> LeafResult:
    inputs = {"x": np.asarray(operand)}
    return one("topk", golden, actual, "int32", inputs=inputs, operand="x", **options)


def test_indices_may_change_places_where_elements_tie() -> None:
    leaf = order([3, 7, 0, 2], [3, 7, 5, 0])
    assert (leaf.reason, leaf.mismatched, leaf.violation_ratio) == (None, 0, 0)
    assert leaf.bit_equal == 2
    assert leaf.tolerance.source == "comparator: topk, ties within rtol 1e-05, atol 1e-05 (recipes.yaml:12:5)"


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        ([3, 7, 0, 4], "worst at [3]: 4 (element 2) was 2 (element 3)"),
        (
            [7, 3, 0, 2],
            "2 of 4 indices differ where the elements do not tie, worst at [0]: 7 (element inf) was 3 (element nan)",
        ),
        ([3, 7, 0, 0], "worst at [3]: 0 for the second time"),
        ([3, 7, 0, 8], "worst at [3]: 8, which is out of range"),
        ([3, 7, 0, -1], "worst at [3]: -1, which is out of range"),
    ],
)
def test_an_index_of_another_element_fails(actual: list[int], words: str) -> None:
    leaf = order([3, 7, 0, 2], actual)
    assert leaf.reason is not None
    assert leaf.reason.endswith(words)
    assert leaf.mismatched >= 1
    assert leaf.violation_ratio > 1


def test_elements_tie_within_the_tolerance_of_their_dtype() -> None:
    close = [1.0, 1.000004, 2.0]
    assert order([0, 1], [1, 0], close).reason is None
    assert order([0, 1], [1, 0], close, tolerance=Tolerance(0, 1e-7)).reason is not None
    with pytest.raises(ParameterError, match="no tolerance for float64"):
        order([0, 1], [1, 0], close, tolerance=None)


def test_indices_along_any_axis_and_of_argmax() -> None:
    scores = np.array([[1.0, 5.0, 1.0], [2.0, 5.0, 2.0]])
    assert order([[0, 2, 1], [0, 2, 1]], [[2, 0, 1], [0, 2, 1]], scores).reason is None
    assert order([[0, 2, 1], [0, 2, 1]], [[0, 2, 1], [1, 2, 0]], scores).reason is not None
    assert order([[0, 0, 0], [1, 1, 1]], [[0, 1, 0], [1, 0, 1]], scores, axis=0).reason is None
    assert order([[0, 0, 0], [1, 1, 1]], [[1, 0, 0], [0, 1, 1]], scores, axis=0).reason is not None
    assert order([1, 0, 1], [1, 1, 1], scores, axis=0).reason is None
    assert order([1, 0, 1], [0, 0, 1], scores, axis=-2).reason is not None
    assert order([1, 1], [1, 1], scores).reason is None
    assert order(1, 4, scores).reason is None
    assert order(1, 2, scores).reason is not None
    assert order(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 7))).reason is None


@pytest.mark.parametrize(
    ("golden", "operand", "options", "words"),
    [
        ([0, 1], np.ones((2, 3)), {"axis": 2}, r"axis 2 of x, which has shape \[2, 3\]"),
        ([0, 1], np.ones((2, 3)), {"axis": 0}, r"indices of shape \[2\] do not index x, \[2, 3\], along axis 0"),
        ([[[0]]], np.ones(2), {}, r"indices of shape \[1, 1, 1\] do not index x"),
        ([0, 1], np.ones(0), {}, "x, which is empty along axis -1"),
    ],
)
def test_indices_that_do_not_fit_the_operand(golden: Any, operand: Any, options: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        order(golden, golden, operand, **options)


def top(golden: Any, actual: Any, values: Any = (5.0, 3.0, 3.0, 1.0, 1.0), **options: Any) -> LeafResult:
    leaves = [{"v": np.array(values), "i": np.array(indices, "int32")} for indices in (golden, actual)]
    return compare("topk", options.pop("path", "i"), *leaves, values="v", **options)


def test_ties_show_in_the_values_too() -> None:
    assert top([4, 0, 2, 7, 1], [4, 2, 0, 7, 1]).reason is None
    assert top([4, 0, 2, 7, 1], [4, 0, 2, 1, 9]).reason is None
    assert top([4, 0, 2, 7, 1], [0, 4, 2, 7, 1]).reason is not None
    assert top([4, 0, 2, 7, 1], [4, 9, 2, 7, 1]).reason is not None
    assert top([4, 0, 2, 7, 1], [4, 0, 0, 7, 1]).reason is not None
    assert top([[0, 1], [1, 0]], [[1, 0], [1, 0]], [[1.0, 1.0], [2.0, 1.0]]).reason is None
    assert top(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0))).reason is None


def test_at_the_values_topk_is_allclose() -> None:
    assert top([0], [1], [1.0], path="v").reason is None
    with pytest.raises(ParameterError, match="it compares indices, not float64"):
        one("topk", [1.0], [1.0], "float64", operand="x", inputs={"x": np.ones(2)})
    with pytest.raises(ParameterError, match=r"indices of shape \[2\], values v of \[3\]: name the operand instead"):
        top([0, 1], [0, 1], [1.0, 2.0, 3.0])


def test_where_no_inputs_are_known_indices_are_exact() -> None:
    assert one("topk", [0, 1], [0, 1], "int32", operand="x").reason is None
    assert one("topk", [0, 1], [1, 0], "int32", operand="x").reason == "2 of 2 differ, worst at [0]: 1 was 0"


# permutation


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "bool", BFLOAT16])
def test_the_same_values_in_another_order_pass(dtype: Any) -> None:
    leaf = one("permutation", [3, 1, 1, 0], [1, 3, 0, 1], dtype)
    assert (leaf.reason, leaf.mismatched, leaf.violation_ratio) == (None, 0, 0)
    assert leaf.bit_equal < leaf.size


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
def test_another_multiset_fails(dtype: str) -> None:
    leaf = one("permutation", [3, 1, 1, 0], [1, 3, 0, 3], dtype)
    assert leaf.reason is not None
    assert leaf.reason.startswith("not a permutation of golden: 1 of 4 beyond tolerance, worst ")
    assert leaf.mismatched == 1


def test_values_have_their_partners_within_tolerance() -> None:
    assert one("permutation", [1.0, 2.0, 3.0], [3.00001, 1.00001, 2.0]).reason is None
    roots = np.exp(2j * np.pi * np.arange(5) / 5)
    assert one("permutation", roots, np.roll(roots, 2) + 1e-6j, "complex64").reason is None
    assert one("permutation", roots, np.roll(roots, 2) + 1e-2j, "complex64").reason is not None


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_nan_and_infinity_have_partners_too(dtype: str) -> None:
    assert one("permutation", [np.nan, 1, np.inf, -np.inf], [-np.inf, np.inf, np.nan, 1], dtype).reason is None
    leaf = one("permutation", [np.nan, 1], [1, 1], dtype)
    assert leaf.reason is not None
    assert "where golden has" in leaf.reason


def test_each_line_along_the_axis_is_permuted_by_itself() -> None:
    golden, actual = [[1, 2], [3, 4]], [[2, 1], [3, 4]]
    assert one("permutation", golden, actual).reason is None
    assert one("permutation", golden, actual, axis=0).reason is not None
    assert one("permutation", np.zeros((2, 0)), np.zeros((2, 0))).reason is None
    with pytest.raises(ParameterError, match=r"axis 1 of an array of shape \[2\]"):
        one("permutation", [1, 2], [1, 2], axis=1)
    with pytest.raises(ParameterError, match=r"axis -1 of an array of shape \[\]"):
        one("permutation", 1, 1)


def test_a_permutation_of_a_range() -> None:
    assert one("permutation", [0, 1, 2], [2, 0, 1], "int32", of="range").reason is None
    assert one("permutation", [[0, 1], [0, 1]], [[0, 1], [1, 0]], "int32", of="range").reason is None
    leaf = one("permutation", [0, 1, 2], [2, 2, 3], "int32", of="range")
    assert leaf.reason == "not a permutation of 0 to 2: 2 of 3 lie outside or occur before, first at [1]: 2"
    assert leaf.mismatched == 2
    assert one("permutation", np.zeros((0, 3)), np.zeros((0, 3)), "int32", of="range").reason is None


# kl


def kl(golden: Any, actual: Any, dtype: Any = "float64", bound: float = 1e-6, **options: Any) -> LeafResult:
    return one("kl", golden, actual, dtype, max_kl=bound, **{"of": "logits", **options})


def test_a_constant_added_to_logits_changes_nothing() -> None:
    leaf = kl([1.0, 2.0, 3.0], [101.0, 102.0, 103.0])
    assert leaf.reason is None
    assert leaf.violation_ratio < 1e-6
    assert leaf.max_abs == 100
    assert leaf.tolerance.source == "comparator: kl, max_kl 1e-06"


def test_the_divergence_is_that_of_the_textbook() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.25, 0.25, 0.5])
    exact = float(np.sum(p * np.log(p / q)))
    for golden, actual, of in ((p, q, "probabilities"), (np.log(p), np.log(q) + 3, "logits")):
        leaf = kl(golden, actual, of=of, bound=exact / 2)
        assert leaf.violation_ratio == pytest.approx(2)
        assert leaf.reason == f"the distribution moved, KL divergence {exact:.3g}, allowed {exact / 2:.2g} nats"
        assert leaf.mismatched == 3
        assert kl(golden, actual, of=of, bound=exact * 1.01).reason is None


def test_distributions_along_an_axis() -> None:
    golden = np.zeros((2, 3))
    actual = golden.copy()
    actual[1, 2] = 1.0
    rows = kl(golden, actual)
    assert rows.reason is not None
    assert rows.reason.startswith("1 of 2 distributions moved, worst at [1]: KL divergence 0.")
    assert rows.mismatched == 3
    assert kl(golden, actual, axis=0).mismatched == 2


@pytest.mark.parametrize("dtype", ["float16", "float32", BFLOAT16])
def test_kl_takes_every_float(dtype: Any) -> None:
    assert kl([1.0, 2.0], [3.0, 4.0], dtype).reason is None
    assert kl([1.0, 2.0], [2.0, 1.0], dtype).reason is not None


def test_impossible_events_and_wrong_probabilities() -> None:
    assert kl([0.0, -np.inf], [5.0, -np.inf]).reason is None
    assert kl([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], of="probabilities").reason is None
    assert kl([0.5, 0.5], [1.0, 0.0], of="probabilities").violation_ratio > 1e300
    assert kl([1.0, 0.0], [0.5, 0.5], of="probabilities").reason is not None
    assert kl([0.5, 0.5], [0.6, 0.6], of="probabilities").reason is not None
    assert kl([0.5, 0.5], [1.5, -0.5], of="probabilities").reason is not None


def test_kl_of_nan_and_of_nothing() -> None:
    assert kl([np.nan, 1.0], [np.nan, 1.0]).reason is None
    assert kl([np.nan, 1.0], [np.nan, 1.5]).reason is not None
    moved = kl([0.0, 1.0], [np.nan, 1.0])
    assert moved.reason == "NaN at [0] where golden has 0.0"
    assert kl(np.zeros((0, 3)), np.zeros((0, 3))).reason is None
    assert kl(np.zeros((3, 0)), np.zeros((3, 0))).reason is None
    with pytest.raises(ParameterError, match=r"no distribution along axis 1 of float64 of shape \[2\]"):
        kl([0.0, 1.0], [0.0, 1.0], axis=1)
    with pytest.raises(ParameterError, match="no distribution"):
        kl([1j], [1j], "complex64")
