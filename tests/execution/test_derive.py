"""Tolerances from noise floors: sound for every element, no wider than that, and put where they belong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.execution.conditioning import ill_conditioned
from jaxcheck.execution.derive import (
    APART,
    FLOORS,
    LEAST_EPS,
    Bound,
    Measured,
    merged,
    propose,
    provenance,
    rounded_up,
    short,
    split,
)
from jaxcheck.execution.tightening import origin
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Recipe, Tolerance
from tests.goldens.samples import case as sample

EPS = float(np.finfo(np.float32).eps)


def leaf(floor: float, scale: float = 1.0, least: float = 0.0, path: str = ".", case: str = "a") -> Measured:
    return Measured(case, path, "float32", EPS, floor, scale, least, Tolerance(1e-6, 1e-6, "recipes.yaml:3:5"))


def recipe_of(tmp_path: Path, text: str) -> Recipe:
    (tmp_path / "recipes.yaml").write_text(f"version: 1\n{text}")
    (recipe,) = load_registry(tmp_path / "recipes.yaml").recipes.values()
    return recipe


def golden(floors: dict[str, float], **values: Any) -> GoldenCase:
    """A case with outputs `['name']`, each with a floor (of any part) where one is given."""
    leaves = tuple(Leaf.of(f"['{name}']", np.asarray(value)) for name, value in values.items())
    parts = {f"['{name}']": {"inputs": 0.0, "knobs": floor} for name, floor in floors.items()}
    return sample(outputs=Tree({"dict": dict.fromkeys(values, "*")}, leaves), extra={"floor": parts})


@pytest.mark.parametrize(
    ("value", "up"),
    [
        (0.0, 0.0),
        (3e-7, 3e-7),
        (8 * 3e-7, 3e-6),
        (3 * 0.8e-6, 3e-6),
        (1.0000001e-6, 2e-6),
        (1.00000000000001e-6, 1e-6),
        (9.1e-6, 1e-5),
        (0.95, 1.0),
        (123.0, 200.0),
    ],
)
def test_rounded_up_to_one_digit(value: float, up: float) -> None:
    assert rounded_up(value) == up


def test_short_numbers() -> None:
    assert [short(value) for value in (3e-7, 2.13e-7, 0.25, 4.7e8, 0.0)] == ["3e-7", "2.1e-7", "0.25", "4.7e8", "0"]


def test_atol_scales_with_the_largest_element_not_with_what_is_left_of_it() -> None:
    """A dot product's error is relative to |a||b|: where the result cancels to nothing, it is as large."""
    bound = merged([leaf(3e-7, scale=1000.0, least=0.0)])
    assert bound.atol == rounded_up(FLOORS * 3e-7 * 1000)
    assert bound.rtol == rounded_up(EPS)
    assert merged([leaf(3e-7, scale=1e-10)]).atol == pytest.approx(FLOORS * 3e-7 * 1e-10, rel=0.3)


def test_a_floor_of_nothing_is_that_of_one_machine() -> None:
    bound = merged([leaf(0.0, scale=2.0)])
    assert bound.atol == rounded_up(LEAST_EPS * EPS * 2)


def test_scales_far_apart_are_carried_by_rtol_where_no_element_is_small() -> None:
    scales = (1e-3, 1.0, 1e4)
    leaves = [leaf(1e-7, scale=scale, least=scale / 2, case=str(scale)) for scale in scales]
    bound = merged(leaves)
    assert bound.excess(leaves) < 6, "an atol for the largest would allow the smallest 1e7 times what it needs"
    assert bound.atol >= leaves[0].needed, "a new zero in the smallest is allowed what that needs"
    cancelled = merged([*leaves, leaf(1e-7, scale=1e4, least=0.0, case="cancelled")])
    assert cancelled.atol >= FLOORS * 1e-7 * 1e4, "an element near zero beside large ones needs atol"


sizes = st.floats(1e-30, 1e30)


@st.composite
def measurements(draw: st.DrawFn) -> Measured:
    scale = draw(sizes)
    least = scale * draw(st.sampled_from([0.0, 1e-6, 0.1, 0.9, 1.0]))
    path, case = draw(st.sampled_from("abcdef")), draw(st.sampled_from("xyz"))
    return leaf(draw(st.floats(0, 1e-3)), scale, least, path, case)


@given(st.lists(measurements(), min_size=1, max_size=12))
def test_every_element_is_allowed_eight_floors(leaves: list[Measured]) -> None:
    bound = merged(leaves)
    for one in leaves:
        for size in (one.least, (one.least + one.scale) / 2, one.scale):
            assert bound.atol + bound.rtol * size >= one.needed * (1 - 1e-9)
    assert bound.atol > 0
    assert rounded_up(bound.atol) == bound.atol
    assert rounded_up(bound.rtol) == bound.rtol


@given(st.lists(measurements(), min_size=1, max_size=12))
def test_no_leaf_that_shares_is_allowed_far_more_than_it_needs(leaves: list[Measured]) -> None:
    shared, apart = split(leaves)
    assert sorted([*shared, *(one for members in apart.values() for one in members)], key=repr) == sorted(
        leaves, key=repr
    )
    bound = merged(shared)
    for path in {one.path for one in shared}:
        assert path not in apart, "a leaf shares with all of its cases"
        own = [one for one in shared if one.path == path]
        assert bound.excess(own) <= APART * merged(own).excess(own) * (1 + 1e-9)


def test_a_leaf_that_needs_much_more_has_its_own() -> None:
    leaves = [leaf(1e-7, path="a"), leaf(2e-7, path="b"), leaf(1e-7, scale=1e5, path="c")]
    shared, apart = split(leaves)
    assert [one.path for one in shared] == ["a", "b"]
    assert list(apart) == ["c"]
    assert split(leaves[:2])[1] == {}


def test_how_a_bound_compares_with_what_holds_now() -> None:
    one = leaf(1e-7, scale=2.0)
    assert Bound(1e-6, 1e-6).compared(one) == pytest.approx(1.0)
    exact = Measured("a", ".", "float32", EPS, 1e-7, 2.0, 0.0, Tolerance(0.0, 0.0, "r:1:1"))
    assert math.isinf(Bound(1e-6, 1e-6).compared(exact))


REGISTRY = """\
defaults: {tolerance: {rtol: 1e-3, atol: 1e-3}, backends: {gpu: {tolerance: {rtol: 1, atol: 1}}}}
recipes: {r: {kernel: "k:f", cases: {a: {}, b: {}}%s}}
"""
ONE = np.float32([1.0, 0.5, 0.0])


def test_a_recipe_gets_one_tolerance_by_dtype_over_its_cases(tmp_path: Path) -> None:
    cases = {
        "a": golden({"x": 1e-7, "h": 0.0}, x=ONE, n=np.int32([3]), h=ONE.astype(ml_dtypes.bfloat16)),
        "b": golden({"x": 3e-7}, x=ONE * 2),
    }
    proposal = propose(recipe_of(tmp_path, REGISTRY % ""), cases, "cpu")
    bfloat = rounded_up(LEAST_EPS * float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps))
    assert proposal.blocks == {
        (): {
            "float32": {"rtol": rounded_up(EPS), "atol": rounded_up(FLOORS * 3e-7 * 2)},
            "bfloat16": {"rtol": rounded_up(float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)), "atol": bfloat},
        }
    }
    assert proposal.path(()) == ("recipes", "r", "tolerance")
    assert proposal.passed_over == {}
    assert proposal.reach == ("gpu",), "a recipe's own word is nearer than the defaults' for a backend"
    assert {origin(one) for one in proposal.derived} == {"8 x noise floor 3e-7", "4 eps of bfloat16, noise floor 0"}


def test_tolerances_stay_in_the_form_that_they_have(tmp_path: Path) -> None:
    cases = {"a": golden({"x": 1e-7}, x=ONE, n=np.int32([3]))}
    new = {"rtol": rounded_up(EPS), "atol": rounded_up(FLOORS * 1e-7)}
    uniform = propose(recipe_of(tmp_path, REGISTRY % ", tolerance: {rtol: 1, atol: 1}"), cases, "cpu")
    assert uniform.blocks == {(): new}
    assert uniform.reach == (), "the recipe had its own word before"
    dtypes = ", tolerance: {float64: {rtol: 2, atol: 2}, float32: {rtol: 1, atol: 1}}"
    assert propose(recipe_of(tmp_path, REGISTRY % dtypes), cases, "cpu").blocks == {
        (): {"float64": {"rtol": 2, "atol": 2}, "float32": new}
    }
    more = {"a": golden({"x": 1e-7}, x=ONE, h=ONE.astype(np.float16))}
    assert propose(recipe_of(tmp_path, REGISTRY % ", tolerance: {rtol: 1, atol: 1}"), more, "cpu").blocks == {
        (): {"float16": {"rtol": 1, "atol": 1}, "float32": new}
    }, "what nothing was measured of keeps what it had"
    rule = ', outputs: {"*": {tolerance: {rtol: 1, atol: 1}}}'
    assert propose(recipe_of(tmp_path, REGISTRY % rule), cases, "cpu").blocks == {
        ("outputs", "*"): {"int32": {"rtol": 1, "atol": 1}, "float32": new}
    }


def test_leaves_with_a_word_of_their_own_keep_it_apart(tmp_path: Path) -> None:
    rule = ", outputs: {\"['y']\": {tolerance: {rtol: 1, atol: 1}}}"
    cases = {"a": golden({"x": 1e-7, "y": 2e-7, "z": 1e-7}, x=ONE, y=ONE, z=ONE * np.float32(1e6))}
    proposal = propose(recipe_of(tmp_path, REGISTRY % rule), cases, "cpu")
    assert list(proposal.blocks) == [(), ("outputs", "['y']"), ("outputs", "['z']")]
    assert proposal.blocks["outputs", "['y']"] == {"rtol": rounded_up(EPS), "atol": rounded_up(FLOORS * 2e-7)}
    assert proposal.blocks["outputs", "['z']"]["atol"] == rounded_up(FLOORS * 1e-7 * 1e6), "it needs far more"


def test_another_backend_gets_a_tolerance_of_its_own(tmp_path: Path) -> None:
    cases = {"a": golden({"x": 1e-7}, x=ONE)}
    assert list(propose(recipe_of(tmp_path, REGISTRY % ""), cases, "gpu").blocks) == [("backends", "gpu")]
    own = ", backends: {cpu: {tolerance: {rtol: 1, atol: 1}}}"
    assert propose(recipe_of(tmp_path, REGISTRY % own), cases, "cpu").blocks == {
        ("backends", "cpu"): {"rtol": rounded_up(EPS), "atol": rounded_up(FLOORS * 1e-7)}
    }


def test_what_no_tolerance_follows_for_keeps_what_it_has(tmp_path: Path) -> None:
    rule = ", conditioning: unstable, outputs: {\"['v']\": {comparator: {eigh: {values: \"['x']\"}}}}"
    values = {"x": ONE, "wild": ONE, "zero": ONE * 0, "v": ONE, "unknown": ONE}
    cases = {"a": golden({"x": 1e-7, "wild": 0.2, "zero": 0.0, "v": 2.0}, **values)}
    proposal = propose(recipe_of(tmp_path, REGISTRY % rule), cases, "cpu")
    now = {"rtol": 1e-3, "atol": 1e-3}
    kept = [("outputs", f"['{name}']") for name in ("wild", "zero", "unknown")]
    assert list(proposal.kept) == kept
    assert [proposal.blocks[holder] for holder in kept] == [now] * 3
    assert "0.2 is no tolerance" in proposal.passed_over["a ['wild']"]
    assert "comparator" in proposal.passed_over["a ['v']"]
    assert "size" in proposal.passed_over["a ['zero']"]
    assert "--no-truth" in proposal.passed_over["a ['unknown']"]


def test_a_golden_keeps_the_floors_that_its_tolerances_came_from(tmp_path: Path) -> None:
    cases = {"a": golden({"x": 1e-7, "y": 2e-7}, x=ONE, y=ONE), "b": golden({"x": 3e-7}, x=ONE)}
    proposal = propose(recipe_of(tmp_path, REGISTRY % ""), cases, "cpu")
    kept = provenance(proposal, "a", {"draws": 4, "knobs": ["no fusion"], "jax": "0.11.2", "backend": "cpu"})
    assert kept["rule"] == "8 x noise floor"
    assert (kept["draws"], kept["knobs"], kept["jax"], kept["backend"]) == (4, ["no fusion"], "0.11.2", "cpu")
    shared = {"rtol": rounded_up(EPS), "atol": rounded_up(FLOORS * 3e-7), "floor": 3e-7}
    assert kept["tolerance"] == {
        "['x']": {**shared, "floors": {"a": 1e-7, "b": 3e-7}},
        "['y']": {**shared, "floors": {"a": 2e-7}},
    }
    assert list(provenance(proposal, "b", {})["tolerance"]) == ["['x']"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", True),
        (", conditioning: unstable", False),
        (", conditioning: stable", True),
        (", outputs: {\"['x']\": {conditioning: unstable}}", False),
        (', outputs: {"*": {conditioning: unstable}}', False),
        (", conditioning: unstable, outputs: {\"['x']\": {conditioning: stable}}", True),
        (", conditioning: unstable, outputs: {\"['x']\": {nonfinite: allow}}", False),
        (", outputs: {\"['x']\": {comparator: permutation}}", False),
        (", outputs: {\"['x']\": {comparator: {ulp: {max_ulp: 4}}}}", False),
    ],
)
def test_a_floor_above_the_limit_needs_a_word(tmp_path: Path, said: str, told: bool) -> None:
    recipe = recipe_of(tmp_path, REGISTRY % said)
    found = ill_conditioned(recipe, "a", golden({"x": 1.1e-3, "y": 9e-4}, x=ONE, y=ONE))
    assert list(found) == (["['x']"] if told else [])
    if told:
        assert "1.1e-03" in found["['x']"]
        assert "`conditioning: unstable` at " in found["['x']"]
        assert "recipes.yaml:3:" in found["['x']"]


def test_a_case_may_say_it_for_itself(tmp_path: Path) -> None:
    text = REGISTRY.replace("b: {}", "b: {conditioning: unstable}") % ""
    recipe = recipe_of(tmp_path, text)
    wild = golden({"x": 0.5}, x=ONE)
    assert ill_conditioned(recipe, "a", wild)
    assert not ill_conditioned(recipe, "b", wild)
    back = recipe_of(
        tmp_path,
        text.replace("b: {", "c: {conditioning: stable}, b: {").replace('k:f",', 'k:f", conditioning: unstable,'),
    )
    assert not ill_conditioned(back, "a", wild)
    assert ill_conditioned(back, "c", wild)


def test_narrow_dtypes_and_leaves_without_a_size_are_not_ill_conditioned(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, REGISTRY % "")
    bfloat = ONE.astype(ml_dtypes.bfloat16)
    assert not ill_conditioned(recipe, "a", golden({"h": 0.03, "zero": 1.0}, h=bfloat, zero=ONE * 0))
    assert ill_conditioned(recipe, "a", golden({"h": 0.04}, h=bfloat))


def test_the_hash_of_a_case_does_not_ask_for_conditioning(tmp_path: Path) -> None:
    hashes = {
        recipe_of(tmp_path, REGISTRY % said).case_hash("a")
        for said in ("", ", conditioning: unstable", ', outputs: {".": {conditioning: unstable}}')
    }
    assert len(hashes) == 1


def test_the_distance_to_a_reference_is_no_conditioning(tmp_path: Path) -> None:
    """A reference that is another formula says nothing of how far rounding carries; the float64 shadow does."""
    recipe = recipe_of(tmp_path, REGISTRY % "")
    for source, told in (("reference", False), ("shadow", True)):
        held = golden({"x": 1e-7}, x=ONE)
        held.extra["floor"]["['x']"]["truth"] = 0.5
        held.extra["truth"] = {"sources": {"['x']": source}}
        assert bool(ill_conditioned(recipe, "a", held)) == told
        if told:
            assert "5.0e-01 of its scale (truth)" in ill_conditioned(recipe, "a", held)["['x']"]
