"""The form of a registry file as a JSON Schema, and what stands in it."""

from __future__ import annotations

import json
from typing import Any

from jaxcheck.registry.model import COMPARATORS, MODES
from jaxcheck.registry.schema import RegistryBlock, json_schema


def test_the_schema_is_json_and_names_every_key() -> None:
    schema = json.loads(json.dumps(json_schema()))

    assert set(schema["properties"]) == {"version", "include", "defaults", "recipes"}
    assert schema["required"] == ["version"]
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
