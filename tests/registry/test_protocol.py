"""Which kinds of cases a recipe has: by name, and by what its arguments hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck.errors import UsageError
from jaxcheck.registry import protocol
from jaxcheck.registry.model import Case, Position, Raises, Recipe
from jaxcheck.registry.protocol import MAX_ELEMENTS, PROTOCOL, coverage, names

HERE = Position("recipes.yaml", 1, 1)


def case(name: str, args: dict[str, Any] | None, raises: Raises | None = None) -> Case:
    return Case(name, args, False, raises, 300.0, HERE)


def kinds(args: dict[str, Any], **recipe: Any) -> set[str]:
    """What a case is by its content alone."""
    found = coverage(Recipe("r", "m:f", HERE, cases={"c": case("c", args)}, **recipe), ".")
    return {kind for kind, cases in found.items() if cases}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("standard", "standard"),
        ("ordinary", "standard"),
        ("standard-2", "standard"),
        ("Standard", "standard"),
        ("single_unit", "single"),
        ("batch-of-one", "single"),
        ("zero", "zeros"),
        ("zeros-left", "zeros"),
        ("ends", "boundary"),
        ("boundary-of-float16", "boundary"),
        ("wide", "asymmetric"),
        ("wrong-shape", "invalid-shape"),
        ("invalid_shape", "invalid-shape"),
    ],
)
def test_a_name_tells_one_kind(name: str, kind: str) -> None:
    assert [other for other in PROTOCOL if names(other, name)] == [kind]


@pytest.mark.parametrize("name", ["zero-start", "small", "singles", "nonstandard", "mixed", "x", "limit-reached"])
def test_other_names_tell_nothing(name: str) -> None:
    assert not any(names(kind, name) for kind in PROTOCOL)


def test_no_name_means_two_kinds() -> None:
    words = [word for synonyms in PROTOCOL.values() for word in synonyms]
    assert len(words) == len(set(words))
    for kind in PROTOCOL:
        assert not any(names(kind, word) for other, words_ in PROTOCOL.items() if other != kind for word in words_)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1.5, {"single"}),
        ([2.0], {"single"}),
        ([[2.0]], {"single"}),
        ([1.0, 2.0], set()),
        ([], set()),
        ({"$zeros": [3]}, {"zeros"}),
        ({"$zeros": {"shape": [0]}}, set()),
        ([0, 0], {"zeros"}),
        ([0.0, 1.0], set()),
        ([False, False], set()),
        ({"a": [0.0, 0.0], "b": {"$tuple": [[0, 0]]}}, {"zeros"}),
        ({"a": [0.0, 0.0], "b": [1.0, 1.0]}, set()),
        ([1.0, float("inf")], {"boundary"}),
        ([1.0, float("nan")], set()),
        ([1.0, 3.0e38], {"boundary"}),
        ([1.0, 1.0e38], set()),
        ([1.0, 1.1754943508222875e-38], {"boundary"}),
        ([1.0, 1e-40], {"boundary"}),
        ([1.0, 1.2e-38], set()),
        ([1.0, -0.0], {"boundary"}),
        ([2147483647, 1], {"boundary"}),
        ([-2147483648, -1], {"boundary"}),
        ({"$array": {"value": [0, 1], "dtype": "uint8"}}, set()),
        ({"$array": {"value": [255, 1], "dtype": "uint8"}}, {"boundary"}),
        ({"$array": {"value": [65504.0, 1.0], "dtype": "float16"}}, {"boundary"}),
        ({"$array": {"value": [65504.0, 1.0], "dtype": "bfloat16"}}, set()),
        ({"$array": {"value": [448.0, 1.0], "dtype": "float8_e4m3fn"}}, {"boundary"}),
        ([True, False], set()),
        ([1.0, -1.0], {"asymmetric"}),
        ([-1.0, -2.0], set()),
        ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {"asymmetric"}),
        ([[1.0, 2.0], [2.0, 3.0]], set()),
        ([[1.0, 2.0], [3.0, 4.0]], {"asymmetric"}),
        ([[1.0, float("nan")], [float("nan"), 4.0]], set()),
        ({"$key": 0}, set()),
        ({"$python": 3}, {"single"}),
        (None, set()),
    ],
    ids=str,
)
def test_content_tells(value: Any, found: set[str]) -> None:
    assert kinds({"x": value}) == found


def test_arguments_are_judged_together() -> None:
    assert kinds({"x": [0.0, 0.0], "y": [0.0]}) == {"zeros"}
    assert kinds({"x": [0.0, 0.0], "y": [1.0]}) == set()
    assert kinds({"x": [1.0], "y": [2.0]}) == {"single"}


def test_static_arguments_are_no_arrays() -> None:
    assert kinds({"x": [0.0, 0.0], "n": 20}, static=("n",)) == {"zeros"}


def test_complex_numbers_are_judged_by_their_parts(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", zeros=np.zeros(2, np.complex64), signs=np.array([1 - 1j, 1 + 0j], np.complex64))
    cases = {
        name: case(name, {"x": {"$npz": {"path": "z.npz", "name": array}}})
        for name, array in (("a", "zeros"), ("b", "signs"))
    }
    found = coverage(Recipe("r", "m:f", HERE, cases=cases), str(tmp_path))
    assert (found["zeros"], found["asymmetric"], found["boundary"]) == (("a",), ("b",), ())


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    (tmp_path / "z.npz").write_bytes(b"PK")
    cases = {"a": case("a", {"x": {"$npz": {"path": "z.npz", "name": "x"}}})}
    with pytest.raises(UsageError, match=r"z\.npz: the array x cannot be read"):
        coverage(Recipe("r", "m:f", HERE, cases=cases), str(tmp_path))


@pytest.mark.parametrize(
    "value",
    [
        {"$zeros": [MAX_ELEMENTS + 1]},
        {"$ones": {"shape": [MAX_ELEMENTS, 2]}},
        {"$linspace": {"start": 0, "stop": 1, "num": MAX_ELEMENTS + 1}},
        {"$arange": {"stop": MAX_ELEMENTS + 1}},
        {"$arange": {"start": -MAX_ELEMENTS, "stop": 1}},
        {"$list": [{"$zeros": MAX_ELEMENTS}, 1.0]},
    ],
    ids=str,
)
def test_what_is_very_large_is_told_by_its_name_only(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    monkeypatch.setattr(protocol, "build_value", lambda *_: pytest.fail("it was made"))
    assert kinds({"x": value}) == set()


SHAPES = Raises(("TypeError",), "incompatible shapes for broadcasting")
DTYPES = Raises(("TypeError",), "must have equal types.*int32.*float32")


@pytest.mark.parametrize(
    ("raising", "counts"),
    [
        (case("c", {"x": [1.0, 2.0]}, SHAPES), True),
        (case("c", {"x": [1.0, 2.0]}, Raises(("TypeError",), r"\brank\b")), True),
        (case("c", {"x": [1, 2]}, DTYPES), False),
        (case("c", {"x": [1, 2]}, Raises(("TypeError",))), False),
        (case("wrong-shape", {"x": [1.0, 2.0]}, Raises(("TypeError",))), True),
        (case("c", {"x": [[1.0, 2.0]]}, Raises(("TypeError",))), True),
        (case("c", {"y": [[1.0, 2.0]]}, Raises(("TypeError",))), False),
        (case("wrong-shape", {"x": [1.0, 2.0]}), False),
    ],
    ids=["message", "pattern", "dtype", "class", "name", "another-rank", "another-argument", "raises-nothing"],
)
def test_a_shape_is_invalid_where_the_case_raises_over_it(raising: Case, counts: bool) -> None:
    cases = {"works": case("works", {"x": [1.0, 2.0]}), raising.name: raising}
    found = coverage(Recipe("r", "m:f", HERE, cases=cases), ".")["invalid-shape"]
    assert found == ((raising.name,) if counts else ())


def test_what_raises_is_no_case_by_its_content() -> None:
    cases = {"c": case("c", {"x": {"$zeros": [1]}}, SHAPES)}
    found = coverage(Recipe("r", "m:f", HERE, cases=cases), ".")
    assert {kind for kind, names_ in found.items() if names_} == {"invalid-shape"}


def test_of_a_factory_only_names_are_known() -> None:
    cases = {"zeros": case("zeros", None), "bad": case("bad", None, SHAPES), "other": case("other", None)}
    found = coverage(Recipe("r", "m:f", HERE, inputs="m:g", cases=cases), ".")
    assert {kind: names_ for kind, names_ in found.items() if names_} == {
        "zeros": ("zeros",),
        "invalid-shape": ("bad",),
    }
