"""The forms of single values in a registry: names, key paths, versions, bounds, as pydantic types.

Messages are complete sentences about the value; `validate.py` adds the place and the words for pydantic's own errors.
"""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from jaxcheck.registry.dtypes import DTYPES
from jaxcheck.registry.model import GRADIENT, MODES
from jaxcheck.registry.words import did_you_mean, dotted_problem, name_problem, show

FAULT = "jaxcheck"
MAX_DEVICES = 1024
MAX_PROCESSES = 64
MAX_ROWS = 4096
MAX_TRACES = 1000
BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
LEAST_MEMORY, MOST_MEMORY = 1 << 20, 1 << 60  # less than a page or two cannot be told from noise
_MEMORY = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(BYTES)})", re.ASCII)
MAX_SECONDS = 1_000_000  # about 11 days; waiting for more than 24 overflows the system's poll()
_LEAF_DTYPES = (*DTYPES, "int1", "uint1", "float6_e2m3fn", "float6_e3m2fn", "float8_e8m0fnu")  # outputs may be more


def fault(message: str, hint: str | None = None) -> PydanticCustomError:
    """An error in our own words; they may contain braces, which pydantic would fill in."""
    return PydanticCustomError(FAULT, "{message}", {"message": message, "hint": hint})


def _dotted(name: str) -> str:
    problem = dotted_problem(name)
    if problem:
        raise fault(f"{show(name)} {problem[0]}", problem[1])
    return name


def _name(name: str) -> str:
    problem = name_problem(name)
    if problem:
        raise fault(f"the name {show(name)} {problem}")
    return name


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise fault(f"{show(name)} is not the name of an argument", "a Python identifier, such as max_iterations")
    return name


def _environment_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise fault(f"{show(name)} is not the name of an environment variable", "letters, digits and _ only")
    return name


def _environment_value(text: str) -> str:
    if "\0" in text:
        raise fault("an environment variable cannot hold a NUL character")
    return text


def _resource(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", name):
        raise fault(
            f"{show(name)} is not the name of a resource", "as a cluster's nodes have it: GPU, TPU, or one of your own"
        )
    return name


def _amount(amount: float) -> float:
    """As Ray counts: a share of one, or whole ones."""
    if amount > 1 and amount != int(amount):
        raise fault(f"must be a whole number, or less than 1, not {show(amount)}", "several devices are not shared")
    return amount


def _config_name(name: str) -> str:
    if name.startswith("jax_"):
        raise fault(f"{show(name)} has the prefix jax_", f"write {name.removeprefix('jax_')}")
    if not name.isidentifier():
        raise fault(f"{show(name)} is not the name of a jax.config value", "for example enable_x64")
    return name


def _config(values: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(values.get("enable_x64", False), bool):
        raise fault(f"enable_x64 must be true or false, not {show(values['enable_x64'])}")
    return values


def _config_value(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise fault(f"must be text, a number, true or false, not {show(value)}")
    return value


def _pattern(text: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise fault(f"{show(text)} is not a regular expression: {error}", "as for Python's re.search") from None
    return text


def _exception_name(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise fault(
            f"{show(name)} is not the name of an exception", "for example TypeError or jax.errors.JaxRuntimeError"
        )
    return name


def _versions(text: Any) -> Any:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not isinstance(text, str):
        raise fault(f"must be text, not {show(text)}", 'for example ">=0.11,<0.13"')
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise fault(f"{show(text)} is not a version specifier", 'for example ">=0.11,<0.13"') from None
    return text


def _package(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise fault(f"{show(name)} is not the name of a package")
    return name


def _leaf_path(path: str) -> str:
    if "*" in path or path == ".":
        return path
    unquoted = re.search(r"\[([^\W\d]\w*)\]", path)
    if unquoted:
        raise fault(f"the key path {show(path)} lacks quotes", f"write \"['{unquoted[1]}']\"")
    if not path.startswith(("[", ".")):
        quoted = f"\"['{path}']\"" if path.isidentifier() else "\"[0]['w']\""
        raise fault(f"{show(path)} is not a key path", f"for example {quoted}, or . for an output that is one array")
    return path


def _rule_path(path: str) -> str:
    """Of a leaf of the output, or of a gradient: `grad` and the argument's key path."""
    return path if path.startswith(f"{GRADIENT}[") else _leaf_path(path)


def known(valid: tuple[str, ...], what: str) -> AfterValidator:
    def check(word: str) -> str:
        if word not in valid:
            raise fault(f"{show(word)} is not {what}", did_you_mean(word, valid))
        return word

    return AfterValidator(check)


def _memory(given: Any) -> int:
    """Bytes: a whole number, or a number with a unit."""
    example = "for example 4GiB, 512MiB or 1.5GB"
    match = _MEMORY.fullmatch(given) if isinstance(given, str) else None
    if match is None and type(given) is not int:
        raise fault(f"must be an amount of memory, not {show(given)}", example)
    size = int(float(match[1]) * BYTES[match[2]]) if match else int(given)
    if size < LEAST_MEMORY:
        raise fault(f"must be 1MiB or more, not {show(given)}", "a number without a unit is bytes; " + example)
    if size > MOST_MEMORY:
        raise fault(f"must be less than {MOST_MEMORY >> 40:,}TiB, not {show(given)}", example)
    return size


def once(words: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None:
        raise fault(f"{show(twice)} is given twice")
    return words


T = TypeVar("T")
Several = Annotated[tuple[T, ...], Field(min_length=1), AfterValidator(once)]
Text = Annotated[str, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Dotted = Annotated[
    Text,
    AfterValidator(_dotted),
    WithJsonSchema({"type": "string", "pattern": r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$"}),
]
Name = Annotated[Text, AfterValidator(_name)]
Identifier = Annotated[Text, AfterValidator(_identifier)]
Versions = Annotated[str, BeforeValidator(_versions)]
Mode = Annotated[Text, known(MODES, "a mode"), WithJsonSchema({"type": "string", "enum": list(MODES)})]
Modes = Several[Mode]
Dtype = Annotated[Text, known(_LEAF_DTYPES, "a dtype"), WithJsonSchema({"type": "string", "enum": list(_LEAF_DTYPES)})]
LeafPath = Annotated[Text, AfterValidator(_leaf_path)]
RulePath = Annotated[Text, AfterValidator(_rule_path)]
Package = Annotated[Text, AfterValidator(_package)]
Pattern = Annotated[Text, AfterValidator(_pattern)]
ExceptionName = Annotated[Text, AfterValidator(_exception_name)]
EnvironmentName = Annotated[Text, AfterValidator(_environment_name)]
EnvironmentValue = Annotated[Text, AfterValidator(_environment_value)]
Env = dict[EnvironmentName, EnvironmentValue]
ConfigName = Annotated[Text, AfterValidator(_config_name)]
ConfigValue = Annotated[Any, AfterValidator(_config_value)]
Config = Annotated[dict[ConfigName, ConfigValue], AfterValidator(_config)]
ResourceName = Annotated[Text, AfterValidator(_resource)]
Amount = Annotated[Number, Field(gt=0), AfterValidator(_amount)]
Resources = Annotated[dict[ResourceName, Amount], Field(min_length=1)]
Devices = Annotated[int, Strict(), Field(ge=1, le=MAX_DEVICES)]
Processes = Annotated[int, Strict(), Field(ge=1, le=MAX_PROCESSES)]
Nonfinite = Literal["allow", "forbid"]
Conditioning = Literal["stable", "unstable"]
Stored = Literal["whole", "digest"]
Axis = Annotated[int, Strict()]
VmapAxis = Annotated[Axis | None, WithJsonSchema({"type": ["integer", "null"]})]
MeshAxis = Annotated[Literal["batch"] | None, WithJsonSchema({"enum": ["batch", None]})]
PartitionSpec = tuple[MeshAxis, ...]
Seconds = Annotated[Number, Field(gt=0, le=MAX_SECONDS)]
Bound = Annotated[Number, Field(ge=0)]
Memory = Annotated[
    int,
    BeforeValidator(_memory),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": LEAST_MEMORY, "maximum": MOST_MEMORY},
                {"type": "string", "pattern": f"^{_MEMORY.pattern}$"},
            ]
        }
    ),
]


def list_or_text(value: Any) -> str:
    return "(list)" if isinstance(value, list | tuple) else "(text)"


def mapping_list_or_text(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict | Block) else list_or_text(value)


def mapping_or_text(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict | Block) else "(text)"


# The alternatives of a union, as pydantic names them in the path of an error.
ALTERNATIVES = frozenset(("(list)", "(text)", "(mapping)", "(uniform)", "(by dtype)"))


ExceptionNames = Annotated[
    Annotated[ExceptionName, Tag("(text)")] | Annotated[Several[ExceptionName], Tag("(list)")],
    Discriminator(list_or_text),
]
Backends = Annotated[
    Annotated[Name, Tag("(text)")] | Annotated[Several[Name], Tag("(list)")],
    Discriminator(list_or_text),
]


class Block(BaseModel):
    """A mapping with a fixed set of keys. A key without a value is a mistake, not a way to leave it out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, value: Any) -> Any:
        if value is None:
            raise fault("is empty", "give it a value, or remove the key")
        return value
