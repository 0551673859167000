"""The JSON Schema of a registry file, for editors: the models' own, with argument values and descriptions.

Editors see form only: what keys mean together, and whether a name leads anywhere, `jaxcheck check` tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from jaxcheck.registry.dtypes import DTYPES
from jaxcheck.registry.operators import KEY_IMPLS, MAX_ELEMENTS, OPERATORS, Operator
from jaxcheck.registry.schema import CaseBlock, DefaultsBlock, RecipeBlock, RegistryBlock

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VALUE, OPERATION = "#/$defs/Value", "#/$defs/Operator"
_LENGTH = {"type": "integer", "minimum": 0, "maximum": MAX_ELEMENTS}

# What the parameters of operators may be, by name: they mean the same wherever they occur.
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "shape": {"anyOf": [_LENGTH, {"type": "array", "items": _LENGTH}], "description": "A length, or a list of them."},
    "dtype": {"type": "string", "enum": list(DTYPES)},
    "value": {"$ref": "#/$defs/Literal"},
    "seed": {"type": "integer", "minimum": 0, "description": "Of NumPy's PCG64; of $key, that of jax.random.key."},
    "impl": {"type": "string", "enum": list(KEY_IMPLS)},
    "path": {"type": "string", "description": "A file below the registry's folder."},
    "name": {"type": "string", "description": "The array in the file."},
    "num": {"type": "integer", "minimum": 0, "maximum": MAX_ELEMENTS},
    "scale": {"type": "number", "minimum": 0},
    **{key: {"type": "number"} for key in ("start", "stop", "step", "loc", "low", "high")},
}

MEANING: Mapping[str, str] = {
    "$array": "An array with a dtype of its own.",
    "$zeros": "Zeros: a shape, or shape and dtype.",
    "$ones": "Ones: a shape, or shape and dtype.",
    "$full": "One value everywhere.",
    "$arange": "start, start + step, ... up to and without stop.",
    "$linspace": "num evenly spaced numbers from start to stop.",
    "$normal": "Normal draws (loc, scale) from NumPy's PCG64.",
    "$uniform": "Uniform draws between low and high from NumPy's PCG64.",
    "$integers": "Whole draws from low up to and without high.",
    "$key": "A typed PRNG key.",
    "$npz": "An array of an .npz file.",
    "$python": "A number or truth value passed as it is: weakly typed.",
    "$tuple": "A tuple pytree.",
    "$list": "A list pytree.",
}

DESCRIPTIONS: Mapping[type, Mapping[str, str]] = {
    RegistryBlock: {
        "version": "The version of this format: 1. The main file needs it.",
        "include": "Files with more recipes: paths or globs, relative to this file.",
        "defaults": "What recipes need not say again.",
        "recipes": "The recipes by name.",
    },
    DefaultsBlock: {
        "modes": "How kernels are executed; eager and jit if nothing is said.",
        "golden": "What is blessed: the outputs of eager or jit, or the truth.",
        "tolerance": "|actual - golden| <= atol + rtol * |golden|: {rtol, atol}, or {dtype: {rtol, atol}}.",
        "backends": "{backend: {tolerance: ...}}: what holds on one backend.",
        "nonfinite": "allow: NaN and infinities may occur, and then have to match the golden.",
        "deprecations": "error: a kernel's deprecation warnings fail its checks.",
        "config": "jax.config values, without the prefix jax_.",
        "env": "Environment variables; their recipes get worker processes of their own.",
        "devices": "Number of virtual CPU devices.",
        "processes": "Number of processes that the mode sharded runs in, with so many devices each.",
        "resources": "What a node of a cluster has to have for it (`run --executor ray`): {GPU: 1}, {A100: 1}.",
        "when": "Where recipes apply; elsewhere they are skipped, with the reason.",
        "timeout": "Seconds that one check may take.",
        "memory": "Memory that one check may take, beyond what its worker held before: 4GiB, 512MiB, or bytes.",
    },
    RecipeBlock: {
        "kernel": "The function under test: package.module:function.",
        "description": "For people.",
        "tags": "For --tag.",
        "static": "Arguments that are static under jit, passed as Python values.",
        "reference": "An independent formula in NumPy that the outputs are held to: package.module:function.",
        "properties": "Functions (inputs, outputs) -> None that raise where something does not hold.",
        "inputs": "A function that makes the cases: returns {case: {argument: pytree}}.",
        "outputs": "What holds for single leaves, by key path ([0]['w'], . for the root) or glob.",
        "vmap": "The batch of the mode vmap.",
        "grad": "What the mode grad differentiates, and how exactly.",
        "sharded": "How the mode sharded splits the arguments.",
        "allow_key_reuse": "true: a PRNG key may be used twice.",
        "conditioning": "unstable: outputs with a noise floor above 1e-3 are so by nature.",
        "gate": "always: jaxcheck gate runs the recipe also where when: excludes it.",
        "traces": "How many traces a check's calls may cost together under jit.",
        "cases": "The cases by name.",
    },
    CaseBlock: {
        "args": "The arguments by the kernel's names.",
        "nonfinite": "allow: NaN and infinities may occur, and then have to match the golden.",
        "conditioning": "unstable: outputs with a noise floor above 1e-3 are so by nature.",
        "raises": "The exception that is expected: a name, several, or {type, match, modes}.",
        "timeout": "Seconds that one check of this case may take.",
        "memory": "Memory that one check of this case may take.",
    },
}


class _Generator(GenerateJsonSchema):
    """Without `null` and its default: a key is left out, not empty."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a registry file (draft 2020-12).

    `version` is not required: an included file is valid without, and a schema does not know which one it is given.
    """
    schema = RegistryBlock.model_json_schema(schema_generator=_Generator)
    del schema["required"]
    definitions = schema["$defs"]
    definitions |= _values()
    arguments = definitions["CaseBlock"]["properties"]["args"]
    arguments["additionalProperties"] = {"$ref": VALUE}
    for block in DESCRIPTIONS:
        properties = schema["properties"] if block is RegistryBlock else definitions[block.__name__]["properties"]
        for key, text in _descriptions(block):
            properties[key] = {**properties[key], "description": text}
    return {"$schema": DIALECT, "title": "jaxcheck registry", **{k: v for k, v in schema.items() if k != "title"}}


def _descriptions(block: type) -> Iterator[tuple[str, str]]:
    """A block's own and those that it inherits."""
    for base in reversed(block.__mro__):
        yield from DESCRIPTIONS.get(base, {}).items()


def _values() -> dict[str, Any]:
    """What an argument may be: a literal array, a pytree of such, or an operator; text only where it is static."""
    plain = {"type": ["null", "boolean", "number", "string"]}
    literal = {"anyOf": [{"type": ["boolean", "number"]}, {"type": "array", "items": {"$ref": "#/$defs/Literal"}}]}
    tree = {
        "type": "object",
        "propertyNames": {"not": {"pattern": r"^\$"}},
        "additionalProperties": {"$ref": VALUE},
    }
    several = {"type": "array", "items": {"$ref": VALUE}}
    return {
        "Literal": literal,
        "Value": {"anyOf": [plain, several, {"$ref": OPERATION}, tree]},
        "Operator": {
            "type": "object",
            "description": "An operator: a mapping with this one key.",
            "properties": dict(_operators()),
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    }


def _operators() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, operator in OPERATORS.items():
        yield name, {"description": MEANING[name], **_operator(operator)}
    yield "$python", {"description": MEANING["$python"], "type": ["boolean", "number"]}
    for name in ("$tuple", "$list"):
        yield name, {"description": MEANING[name], "type": "array", "items": {"$ref": VALUE}}


def _operator(operator: Operator) -> dict[str, Any]:
    """Its parameters by name, and a bare value where that means one of them."""
    mapping = {
        "type": "object",
        "properties": {name: PARAMETERS[name] for name in operator.parameters},
        "required": operator.required(),
        "additionalProperties": False,
    }
    return {"anyOf": [PARAMETERS[operator.bare], mapping]} if operator.bare else mapping
