"""The nearest word wins: which tolerance holds for a leaf, as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import OutputRule, Position, Recipe, Tolerance
from jaxcheck.registry.tolerance import output_rule

REGISTRY = """\
version: 1
defaults:
  tolerance:
    float32: {rtol: 1, atol: 1}
    float64: {rtol: 2, atol: 2}
    int8: {rtol: 0, atol: 3}
  backends:
    gpu: {tolerance: {float32: {rtol: 4, atol: 4}}}
    tpu: {tolerance: {rtol: 5, atol: 5}}
include: [more.yaml]
recipes:
  plain: {kernel: "k:f", cases: {a: {}}}
  uniform: {kernel: "k:f", tolerance: {rtol: 6, atol: 6}, cases: {a: {}}}
  by-dtype:
    kernel: k:f
    tolerance: {float32: {rtol: 7, atol: 7}, complex64: {rtol: 8, atol: 8}}
    backends: {gpu: {tolerance: {float64: {rtol: 9, atol: 9}}}}
    outputs:
      "[0]": {tolerance: {rtol: 10, atol: 10}}
      "[1]['w']": {tolerance: {float64: {rtol: 11, atol: 11}}}
      "[2]*": {tolerance: {float32: {rtol: 12, atol: 12}}}
      "[2]['x']": {comparator: exact}
      .: {tolerance: {float16: {rtol: 13, atol: 13}}}
    cases: {a: {}}
"""
INCLUDED = """\
defaults: {tolerance: {float32: {rtol: 20, atol: 20}, float16: {rtol: 21, atol: 21}}}
recipes:
  included: {kernel: "k:f", cases: {a: {}}}
"""


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Recipe]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes.yaml").write_text(REGISTRY)
    (tmp_path / "more.yaml").write_text(INCLUDED)
    return dict(load_registry(Path("recipes.yaml")).recipes)


@pytest.mark.parametrize(
    ("recipe", "path", "dtype", "backend", "rtol", "source"),
    [
        ("plain", "[0]", "float32", "cpu", 1, "recipes.yaml:4:5"),
        ("plain", "[0]", "float64", "cpu", 2, "recipes.yaml:5:5"),
        ("plain", "[0]", "complex64", "cpu", 1, "recipes.yaml:4:5"),
        ("plain", "[0]", "complex128", "cpu", 2, "recipes.yaml:5:5"),
        ("plain", "[0]", "float32", "gpu", 4, "recipes.yaml:8:23"),
        ("plain", "[0]", "complex64", "gpu", 4, "recipes.yaml:8:23"),
        ("plain", "[0]", "float64", "gpu", 2, "recipes.yaml:5:5"),
        ("plain", "[0]", "float32", "tpu", 5, "recipes.yaml:9:11"),
        ("plain", "[0]", "int32", "tpu", 0, "exact: int32"),
        ("plain", "[0]", "int32", "cpu", 0, "exact: int32"),
        ("plain", "[0]", "bool", "cpu", 0, "exact: bool"),
        ("plain", "[0]", "key<fry>", "cpu", 0, "exact: key<fry>"),
        ("plain", "[0]", "int8", "cpu", 0, "recipes.yaml:6:5"),
        ("uniform", ".", "float32", "cpu", 6, "recipes.yaml:13:28"),
        ("uniform", ".", "bfloat16", "cpu", 6, "recipes.yaml:13:28"),
        ("uniform", ".", "complex128", "cpu", 6, "recipes.yaml:13:28"),
        ("uniform", ".", "uint4", "cpu", 0, "exact: uint4"),
        ("uniform", ".", "float32", "gpu", 6, "recipes.yaml:13:28"),
        ("by-dtype", "[3]", "float32", "gpu", 7, "recipes.yaml:16:17"),
        ("by-dtype", "[3]", "complex64", "cpu", 8, "recipes.yaml:16:46"),
        ("by-dtype", "[3]", "float64", "gpu", 9, "recipes.yaml:17:34"),
        ("by-dtype", "[3]", "float64", "cpu", 2, "recipes.yaml:5:5"),
        ("by-dtype", "[3]", "float64", "tpu", 5, "recipes.yaml:9:11"),
        ("by-dtype", "[0]", "float32", "gpu", 10, "recipes.yaml:19:15"),
        ("by-dtype", "[0]", "int32", "cpu", 10, "recipes.yaml:19:15"),
        ("by-dtype", "[0]['w']", "float32", "cpu", 7, "recipes.yaml:16:17"),
        ("by-dtype", "[1]['w']", "complex128", "cpu", 11, "recipes.yaml:20:32"),
        ("by-dtype", "[1]['w']", "float32", "cpu", 7, "recipes.yaml:16:17"),
        ("by-dtype", "[2]['y'].mu", "float32", "cpu", 12, "recipes.yaml:21:28"),
        ("by-dtype", "2", "float32", "cpu", 7, "recipes.yaml:16:17"),
        ("by-dtype", "[2]['x']", "float32", "cpu", 7, "recipes.yaml:16:17"),
        ("by-dtype", ".", "float16", "cpu", 13, "recipes.yaml:23:23"),
        ("included", "[0]", "float32", "cpu", 20, "more.yaml:1:24"),
        ("included", "[0]", "float64", "cpu", 2, "recipes.yaml:5:5"),
        ("included", "[0]", "float16", "cpu", 21, "more.yaml:1:55"),
        ("included", "[0]", "float32", "gpu", 20, "more.yaml:1:24"),
        ("included", "[0]", "bfloat16", "tpu", 5, "recipes.yaml:9:11"),
    ],
)
def test_the_nearest_tolerance_holds(
    recipes: dict[str, Recipe], recipe: str, path: str, dtype: str, backend: str, rtol: float, source: str
) -> None:
    tolerance = recipes[recipe].tolerance(path, dtype, backend)

    assert tolerance is not None
    assert (tolerance.rtol, tolerance.source) == (rtol, source)


def test_a_dtype_that_nobody_spoke_of_has_no_tolerance(recipes: dict[str, Recipe]) -> None:
    assert recipes["plain"].tolerance("[0]", "bfloat16", "cpu") is None
    assert recipes["by-dtype"].tolerance(".", "float8_e4m3fn", "gpu") is None


def with_outputs(*keys: str) -> Recipe:
    return Recipe("r", "k:f", None, outputs={key: OutputRule(comparator=key) for key in keys})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "path", "expected"),
    [
        (("[0]",), "[0]", "[0]"),
        (("[0]",), "0", None),
        (("[0]",), "[0][1]", None),
        (("*",), ".", "*"),
        (("*", "[0]"), "[0]", "[0]"),
        (("[0]*", "*"), "[0]['w']", "[0]*"),
        (("*", "[0]*"), "[0]['w']", "*"),
        (("*['w']",), "[0]['w']", "*['w']"),
        (("*['w']",), "[0]['ww']", None),
        (("[?]*",), "[0]", None),
        (("[0-9]*",), "[0]", None),
        (("*" * 40 + "x",), "a" * 200, None),
        (("['a\nb']*",), "['a\nb'][0]", "['a\nb']*"),
    ],
)
def test_brackets_are_literal_and_stars_are_not(keys: tuple[str, ...], path: str, expected: str | None) -> None:
    rule = output_rule(with_outputs(*keys), path)

    assert (rule.comparator if rule else None) == expected


def test_a_recipe_made_by_hand_may_have_more_layers_for_a_backend() -> None:
    tolerance = Tolerance(1.0, 1.0, "here")
    recipe = Recipe("r", "k:f", None, backend_tolerances={"gpu": ({"*": tolerance},)})  # type: ignore[arg-type]

    assert recipe.tolerance(".", "float32", "gpu") == tolerance
    assert recipe.tolerance(".", "float32", "cpu") is None


@pytest.mark.parametrize(
    ("keys", "path", "found"),
    [
        (["*"], "grad['w']", None),
        (["*", "grad*"], "grad['w']", "grad*"),
        (["*", "grad*"], "['w']", "*"),
        (["*['w']"], "grad['w']", None),
        (["grad*", "grad['w']"], "grad['w']", "grad['w']"),
        (["grad*['w']"], "grad['params']['w']", "grad*['w']"),
    ],
)
def test_a_pattern_speaks_of_outputs_or_of_gradients(keys: list[str], path: str, found: str | None) -> None:
    rules = {key: OutputRule(comparator="exact") for key in keys}
    recipe = Recipe("r", "k:f", Position("recipes.yaml", 1, 1), outputs=rules)

    assert output_rule(recipe, path) is (rules[found] if found else None)
