"""The form of a registry file as a JSON Schema, and what stands in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jaxcheck.registry.json_schema import json_schema
from jaxcheck.registry.model import COMPARATORS, MODES
from jaxcheck.registry.operators import OPERATORS
from jaxcheck.registry.schema import RegistryBlock
from jaxcheck.registry.yaml_source import read_source, source_of
from tests.harness import Project


def test_the_schema_is_json_and_names_every_key() -> None:
    schema = json.loads(json.dumps(json_schema()))

    assert set(schema["properties"]) == {"version", "include", "defaults", "recipes"}
    assert "required" not in schema, "an included file has no version"
    assert schema["properties"]["version"]["const"] == 1
    recipe = schema["$defs"]["RecipeBlock"]
    assert recipe["required"] == ["kernel"]
    assert recipe["additionalProperties"] is False
    assert {"tolerance", "cases", "modes", "golden", "when", "inputs", "backends"} <= set(recipe["properties"])


def test_the_schema_knows_the_valid_words() -> None:
    schema = json_schema()
    recipe, output = schema["$defs"]["RecipeBlock"]["properties"], schema["$defs"]["OutputBlock"]["properties"]

    assert recipe["modes"]["items"]["enum"] == list(MODES)
    assert recipe["golden"]["enum"] == ["eager", "jit", "truth"]
    bare, block = output["comparator"]["oneOf"]
    assert bare["enum"] == ["allclose", "exact", "permutation"]
    assert list(schema["$defs"][block["$ref"].rpartition("/")[2]]["properties"]) == list(COMPARATORS)


def test_a_key_is_left_out_not_empty() -> None:
    def nulls(schema: Any) -> list[Any]:
        if isinstance(schema, dict):
            here = [schema] if schema.get("type") == "null" or schema.get("default", ...) is None else []
            return here + [found for value in schema.values() for found in nulls(value)]
        return [found for item in schema for found in nulls(item)] if isinstance(schema, list) else []

    assert nulls(json_schema()) == []


def test_blocks_cannot_be_changed_and_take_their_own_kind() -> None:
    block = RegistryBlock.model_validate(
        {
            "version": 1,
            "defaults": {"tolerance": {"rtol": 0, "atol": 0}},
            "recipes": {"a": {"kernel": "k:f", "cases": {"s": {"raises": {"type": ["A", "B"], "match": "x"}}}}},
        }
    )

    assert RegistryBlock.model_validate(block) == block
    assert block.model_copy(update={"recipes": {}}).recipes == {}
    assert block.recipes["a"].model_config["frozen"]


def test_every_key_and_every_parameter_is_described() -> None:
    schema = json_schema()
    blocks = {"": schema, **{name: schema["$defs"][name] for name in ("DefaultsBlock", "RecipeBlock", "CaseBlock")}}

    assert [
        key for block in blocks.values() for key, value in block["properties"].items() if "description" not in value
    ] == []
    assert set(schema["$defs"]["Operator"]["properties"]) == {*OPERATORS, "$python", "$tuple", "$list"}
    for name, operator in OPERATORS.items():
        said = schema["$defs"]["Operator"]["properties"][name]
        mapping = next(form for form in said.get("anyOf", [said]) if form.get("type") == "object")
        assert set(mapping["properties"]) == set(operator.parameters)


ROOT = Path(__file__).resolve().parents[2]
RIGHT = [*(Path(__file__).parent / "examples/good").glob("*.yaml"), ROOT / "recipes.yaml", *ROOT.glob("recipes/*.yaml")]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_files_are_valid(validator: Draft202012Validator, path: Path) -> None:
    assert [error.message for error in validator.iter_errors(read_source(path, path.name).data)] == []


CASE = "version: 1\nrecipes: {a: {kernel: 'k:f', cases: {s: {%s}}}}"
RECIPE = "version: 1\nrecipes: {a: {kernel: 'k:f', %s}}"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "version: 2",
        "version: 1\nrecipe: {}",
        "version: 1\ninclude: more.yaml",
        "version: 1\nrecipes: {a: {cases: {}}}",
        "version: 1\nrecipes: {a: {kernel: 'kernels.newton'}}",
        "version: 1\ndefaults: {tolerance: {rtol: -1, atol: 0}}",
        "version: 1\ndefaults: {tolerance: {rtol: 1e-6}}",
        "version: 1\ndefaults: {tolerance: {float23: {rtol: 1e-6, atol: 0}}}",
        "version: 1\ndefaults: {backends: {gpu: {rtol: 1}}}",
        RECIPE % "modes: [eager, jitted]",
        RECIPE % "modes: jit",
        RECIPE % "golden: jitted",
        RECIPE % "timeout: 0",
        RECIPE % "memory: 4",
        RECIPE % "memory: 4 gigabytes",
        RECIPE % "devices: many",
        RECIPE % "outputs: {'[0]': {comparator: ulp}}",
        RECIPE % "outputs: {'[0]': {comparator: {ulp: {max_ulps: 4}}}}",
        RECIPE % "when: {jax: 0.11}",
        CASE % "arguments: {x: 1.0}",
        CASE % "args: {x: {$zeroes: [2]}}",
        CASE % "args: {x: {$zeros: [-2]}}",
        CASE % "args: {x: {$normal: {shape: [2]}}}",
        CASE % "args: {x: {$normal: {shape: [2], seed: 0, stddev: 1}}}",
        CASE % "args: {x: {$zeros: [2], $ones: [2]}}",
        CASE % "args: {x: {$full: {shape: [2], value: 1, dtype: float}}}",
        CASE % "args: {x: {$python: one}}",
        CASE % "nonfinite: yes please",
        CASE % "raises: {match: shape}",
    ],
)  # fmt: skip
def test_wrong_files_are_not(validator: Draft202012Validator, text: str) -> None:
    assert not validator.is_valid(source_of(text, "recipes.yaml").data)


def test_the_command_writes_it(project: Project) -> None:
    done = project.jaxcheck("schema")
    assert done.code == 0, done
    assert json.loads(done.out) == json.loads(json.dumps(json_schema()))
    assert project.jaxcheck("schema", "-o", "s.json").out == ""
    assert (project.folder / "s.json").read_text() == done.out
