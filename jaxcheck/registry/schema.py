"""The registry file's form, as pydantic models.

Only form is checked here, each key by itself; `rules.py` checks what keys mean together. Messages are complete
sentences about the value; `validate.py` adds the place and the words for pydantic's own errors. `json_schema.py` makes
the JSON Schema of them.
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
    model_validator,
)
from pydantic_core import PydanticCustomError

from jaxcheck.registry.dtypes import DTYPES
from jaxcheck.registry.model import COMPARATORS, GRADIENT, MODES, Contract, Deprecations
from jaxcheck.registry.words import did_you_mean, dotted_problem, name_problem, show

FAULT = "jaxcheck"
MAX_DEVICES = 1024
MAX_ROWS = 4096
MAX_TRACES = 1000
MAX_SECONDS = 1_000_000  # about 11 days; waiting for more than 24 overflows the system's poll()
_LEAF_DTYPES = (*DTYPES, "int1", "uint1", "float6_e2m3fn", "float6_e3m2fn", "float8_e8m0fnu")  # outputs may be more


def fault(message: str, hint: str | None = None) -> PydanticCustomError:
    """An error in our own words; they may contain braces, which pydantic would fill in."""
    return PydanticCustomError(FAULT, "{message}", {"message": message, "hint": hint})


def _version(given: Any) -> Any:
    """To Python, and so to `Literal`, true and 1.0 equal 1."""
    if type(given) is not int or given != 1:
        raise fault(f"must be 1, not {show(given)}")
    return given


# Text with a form


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
        raise fault(f"{show(path)} is not a key path", "for example \"[0]['w']\", or . for an output that is one array")
    return path


def _rule_path(path: str) -> str:
    """Of a leaf of the output, or of a gradient: `grad` and the argument's key path."""
    return path if path.startswith(f"{GRADIENT}[") else _leaf_path(path)


def _known(valid: tuple[str, ...], what: str) -> AfterValidator:
    def check(word: str) -> str:
        if word not in valid:
            raise fault(f"{show(word)} is not {what}", did_you_mean(word, valid))
        return word

    return AfterValidator(check)


def _once(words: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None:
        raise fault(f"{show(twice)} is given twice")
    return words


T = TypeVar("T")
_Several = Annotated[tuple[T, ...], Field(min_length=1), AfterValidator(_once)]
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
Mode = Annotated[Text, _known(MODES, "a mode"), WithJsonSchema({"type": "string", "enum": list(MODES)})]
Modes = _Several[Mode]
Dtype = Annotated[Text, _known(_LEAF_DTYPES, "a dtype"), WithJsonSchema({"type": "string", "enum": list(_LEAF_DTYPES)})]
LeafPath = Annotated[Text, AfterValidator(_leaf_path)]
RulePath = Annotated[Text, AfterValidator(_rule_path)]
Package = Annotated[Text, AfterValidator(_package)]
ExceptionName = Annotated[Text, AfterValidator(_exception_name)]
EnvironmentName = Annotated[Text, AfterValidator(_environment_name)]
EnvironmentValue = Annotated[Text, AfterValidator(_environment_value)]
Env = dict[EnvironmentName, EnvironmentValue]
ConfigName = Annotated[Text, AfterValidator(_config_name)]
ConfigValue = Annotated[Any, AfterValidator(_config_value)]
Config = Annotated[dict[ConfigName, ConfigValue], AfterValidator(_config)]
Devices = Annotated[int, Strict(), Field(ge=1, le=MAX_DEVICES)]
Nonfinite = Literal["allow", "forbid"]
Conditioning = Literal["stable", "unstable"]
Axis = Annotated[int, Strict()]
VmapAxis = Annotated[Axis | None, WithJsonSchema({"type": ["integer", "null"]})]
MeshAxis = Annotated[Literal["batch"] | None, WithJsonSchema({"enum": ["batch", None]})]
PartitionSpec = tuple[MeshAxis, ...]
Seconds = Annotated[Number, Field(gt=0, le=MAX_SECONDS)]
Bound = Annotated[Number, Field(ge=0)]


def _list_or_text(value: Any) -> str:
    return "(list)" if isinstance(value, list | tuple) else "(text)"


def _mapping_list_or_text(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict | Block) else _list_or_text(value)


def _mapping_or_text(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict | Block) else "(text)"


def _uniform_or_by_dtype(value: Any) -> str:
    uniform = isinstance(value, Uniform) or (isinstance(value, dict) and not value.keys().isdisjoint(("rtol", "atol")))
    return "(uniform)" if uniform else "(by dtype)"


# The alternatives of a union, as pydantic names them in the path of an error.
ALTERNATIVES = frozenset(("(list)", "(text)", "(mapping)", "(uniform)", "(by dtype)"))


ExceptionNames = Annotated[
    Annotated[ExceptionName, Tag("(text)")] | Annotated[_Several[ExceptionName], Tag("(list)")],
    Discriminator(_list_or_text),
]
Backends = Annotated[
    Annotated[Name, Tag("(text)")] | Annotated[_Several[Name], Tag("(list)")],
    Discriminator(_list_or_text),
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


class Uniform(Block):
    """|actual - golden| <= atol + rtol * |golden|, for every floating or complex dtype."""

    rtol: Bound
    atol: Bound


ByDtype = Annotated[dict[Dtype, Uniform], Field(min_length=1)]
ToleranceBlock = Annotated[
    Annotated[Uniform, Tag("(uniform)")] | Annotated[ByDtype, Tag("(by dtype)")],
    Discriminator(_uniform_or_by_dtype),
]


# Comparators: a block each, whose fields are the parameters; the function of that name says what they do.


def _one_leaf(path: str) -> str:
    if "*" in path:
        raise fault(f"{show(path)} must name one leaf", "without *")
    return path


def _input_path(path: str) -> str:
    if not re.match(r"[^\W\d]\w*", path):
        raise fault(f"{show(path)} does not begin with the name of an argument", "for example x or params['w']")
    return path


OneLeaf = Annotated[LeafPath, AfterValidator(_one_leaf)]
InputPath = Annotated[Text, AfterValidator(_input_path)]


class PlainBlock(Block):
    """A comparator without parameters."""


class UlpBlock(Block):
    """At most so many representable values apart; below `floor` times the largest element, those of that size."""

    max_ulp: Annotated[int, Strict(), Field(ge=0)]
    floor: Annotated[Number, Field(ge=0, le=1)] = 0.0


class EighBlock(Block):
    """Eigenvectors up to sign and rotation in a cluster; `values` are their eigenvalues, `matrix` is the input."""

    values: OneLeaf
    matrix: InputPath | None = None


class SvdBlock(Block):
    """Singular vectors up to a common sign and rotation in a cluster; `matrix` is the input."""

    u: OneLeaf
    s: OneLeaf
    vh: OneLeaf
    matrix: InputPath | None = None


class QrBlock(Block):
    """An orthogonal and a triangular factor up to signs; `matrix` is the input."""

    q: OneLeaf
    r: OneLeaf
    matrix: InputPath | None = None


class TopkBlock(Block):
    """Indices into the input `operand`, or of the output `values`, which may differ where elements tie."""

    operand: InputPath | None = None
    values: OneLeaf | None = None
    axis: Axis = -1

    @model_validator(mode="after")
    def _has_elements(self) -> TopkBlock:
        if self.operand is None and self.values is None:
            raise fault("needs the elements that the indices stand for", "operand: an input, or values: an output leaf")
        return self


class PermutationBlock(Block):
    """The golden's values in any order, or each of 0 to n-1 once."""

    of: Literal["values", "range"] = "values"
    axis: Axis = -1


class KlBlock(Block):
    """Distributions along an axis whose Kullback-Leibler divergence from the golden's is at most `max_kl` nats."""

    max_kl: Annotated[Number, Field(gt=0)]
    of: Literal["logits", "probabilities"]
    axis: Axis = -1


class ComparatorBlock(Block):
    """One comparator with its parameters."""

    allclose: PlainBlock | None = None
    exact: PlainBlock | None = None
    ulp: UlpBlock | None = None
    eigh: EighBlock | None = None
    svd: SvdBlock | None = None
    qr: QrBlock | None = None
    topk: TopkBlock | None = None
    permutation: PermutationBlock | None = None
    kl: KlBlock | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ComparatorBlock:
        if len(self.model_fields_set) != 1:
            said = " and ".join(name for name in COMPARATORS if name in self.model_fields_set) or "none"
            raise fault(f"must name one comparator, not {said}", "for example ulp: {max_ulp: 4}")
        return self


# What a comparator cannot do without, in the words of a hint; the others may stand as a bare name.
_NEEDED = {
    "ulp": "max_ulp: 4",
    "eigh": "values: \"['w']\"",
    "svd": 'u: "[0]", s: "[1]", vh: "[2]"',
    "qr": 'q: "[0]", r: "[1]"',
    "topk": "operand: x",
    "kl": "max_kl: 1e-6, of: logits",
}


def _bare(word: str) -> str:
    if word in _NEEDED:
        raise fault(f"the comparator {word} needs parameters", f"for example {{{word}: {{{_NEEDED[word]}}}}}")
    return word


BareComparator = Annotated[
    Text,
    _known(COMPARATORS, "a comparator"),
    AfterValidator(_bare),
    WithJsonSchema({"type": "string", "enum": [name for name in COMPARATORS if name not in _NEEDED]}),
]
Comparator = Annotated[
    Annotated[BareComparator, Tag("(text)")] | Annotated[ComparatorBlock, Tag("(mapping)")],
    Discriminator(_mapping_or_text),
]


def comparator_of(said: str | ComparatorBlock) -> tuple[str, dict[str, Any]]:
    """(name, parameters with their defaults)."""
    if isinstance(said, str):
        return said, {}
    (name,) = said.model_fields_set
    return name, getattr(said, name).model_dump(exclude_none=True)


class OutputBlock(Block):
    """What holds for one leaf of the output, named by its key path (`[0]['w']`, `.` for the root) or a glob (`*`).

    Gradients of the mode `grad` are named `grad` and the argument's key path: `grad['w']`, `grad*`.
    """

    tolerance: ToleranceBlock | None = None
    comparator: Comparator = "allclose"
    nonfinite: Nonfinite | None = None
    conditioning: Conditioning | None = None


class BackendBlock(Block):
    """What holds on one backend."""

    tolerance: ToleranceBlock


class RaisesBlock(Block):
    """The exception that a case expects; `match` is searched for in its message."""

    type: ExceptionNames
    match: Annotated[Text, AfterValidator(_pattern)] | None = None
    modes: Modes | None = None


RaisesOrNames = Annotated[
    Annotated[ExceptionName, Tag("(text)")]
    | Annotated[_Several[ExceptionName], Tag("(list)")]
    | Annotated[RaisesBlock, Tag("(mapping)")],
    Discriminator(_mapping_list_or_text),
]


class VmapBlock(Block):
    """The batch axis of each argument, null for one that is not batched; arguments not named get a new first axis.

    `rows` are filled with the recipe's cases, over and over: reductions may be ordered otherwise in larger batches.
    """

    axes: dict[Identifier, VmapAxis] = Field(default_factory=dict)
    rows: Annotated[int, Strict(), Field(ge=2, le=MAX_ROWS)] | None = None


VmapOrSeveral = Annotated[
    Annotated[VmapBlock, Tag("(mapping)")] | Annotated[_Several[VmapBlock], Tag("(list)")],
    Discriminator(_mapping_list_or_text),
]


class GradBlock(Block):
    """What the mode `grad` differentiates, and how exactly."""

    arguments: _Several[Identifier] | None = None
    output: LeafPath | None = None
    rtol: Annotated[Number, Field(gt=0, lt=1)] | None = None


class ShardedBlock(Block):
    """The axis of each argument that is split over the devices, and how outputs have to be sharded then."""

    axes: Annotated[dict[Identifier, Axis], Field(min_length=1)]
    outputs: dict[LeafPath, PartitionSpec] = Field(default_factory=dict)


class WhenBlock(Block):
    """Where a recipe applies. Versions are PEP 440 specifiers, backends are JAX's names."""

    jax: Versions | None = None
    jaxlib: Versions | None = None
    packages: dict[Package, Versions] = Field(default_factory=dict)
    python: Versions | None = None
    backend: Backends | None = None


class CaseBlock(Block):
    """One named set of arguments, or options for a case that the recipe's `inputs` function makes."""

    args: dict[Identifier, Any] | None = None
    nonfinite: Nonfinite | None = None
    conditioning: Conditioning | None = None
    raises: RaisesOrNames | None = None
    timeout: Seconds | None = None


class DefaultsBlock(Block):
    """What recipes need not say again. A recipe's own word wins; `config`, `env` and `when` merge key by key."""

    modes: Modes | None = None
    golden: Contract | None = None
    tolerance: ToleranceBlock | None = None
    backends: dict[Name, BackendBlock] = Field(default_factory=dict)
    nonfinite: Nonfinite | None = None
    deprecations: Deprecations | None = None
    config: Config = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)
    devices: Devices | None = None
    when: WhenBlock | None = None
    timeout: Seconds | None = None


class RecipeBlock(DefaultsBlock):
    """A kernel with its cases."""

    kernel: Dotted
    description: Text = ""
    tags: Annotated[tuple[Name, ...], AfterValidator(_once)] = ()
    static: Annotated[tuple[Identifier, ...], AfterValidator(_once)] = ()
    reference: Dotted | None = None
    properties: Annotated[tuple[Dotted, ...], AfterValidator(_once)] = ()
    inputs: Dotted | None = None
    outputs: dict[RulePath, OutputBlock] = Field(default_factory=dict)
    vmap: VmapOrSeveral | None = None
    grad: GradBlock | None = None
    sharded: ShardedBlock | None = None
    allow_key_reuse: Annotated[bool, Strict()] = False
    conditioning: Conditioning = "stable"
    gate: Literal["when", "always"] = "when"
    traces: Annotated[int, Strict(), Field(ge=1, le=MAX_TRACES)] | None = None
    cases: dict[Name, CaseBlock] = Field(default_factory=dict)


class RegistryBlock(Block):
    """A registry file."""

    version: Annotated[Literal[1], BeforeValidator(_version)]
    include: Annotated[tuple[Text, ...], AfterValidator(_once)] = ()
    defaults: DefaultsBlock = DefaultsBlock()
    recipes: dict[Name, RecipeBlock] = Field(default_factory=dict)
