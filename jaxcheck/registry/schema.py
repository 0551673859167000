"""The registry file's form, as pydantic models.

Only form is checked here, each key by itself; `rules.py` checks what keys mean together. Messages are complete
sentences about the value; `validate.py` adds the place and the words for pydantic's own errors. `json_schema.py` makes
the JSON Schema of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Strict, Tag

from jaxcheck.registry.comparators import Comparator
from jaxcheck.registry.forms import (
    MAX_ROWS,
    MAX_TRACES,
    Axis,
    Backends,
    Block,
    Bound,
    Conditioning,
    Config,
    Devices,
    Dotted,
    Dtype,
    Env,
    ExceptionName,
    ExceptionNames,
    Identifier,
    LeafPath,
    Memory,
    Modes,
    Name,
    Nonfinite,
    Number,
    Package,
    PartitionSpec,
    Pattern,
    Processes,
    Resources,
    RulePath,
    Seconds,
    Several,
    Stored,
    Text,
    Versions,
    VmapAxis,
    fault,
    mapping_list_or_text,
    once,
)
from jaxcheck.registry.model import Contract, Deprecations
from jaxcheck.registry.words import show


def _version(given: Any) -> Any:
    """To Python, and so to `Literal`, true and 1.0 equal 1."""
    if type(given) is not int or given != 1:
        raise fault(f"must be 1, not {show(given)}")
    return given


def _uniform_or_by_dtype(value: Any) -> str:
    uniform = isinstance(value, Uniform) or (isinstance(value, dict) and not value.keys().isdisjoint(("rtol", "atol")))
    return "(uniform)" if uniform else "(by dtype)"


class Uniform(Block):
    """|actual - golden| <= atol + rtol * |golden|, for every floating or complex dtype."""

    rtol: Bound
    atol: Bound


ByDtype = Annotated[dict[Dtype, Uniform], Field(min_length=1)]
ToleranceBlock = Annotated[
    Annotated[Uniform, Tag("(uniform)")] | Annotated[ByDtype, Tag("(by dtype)")],
    Discriminator(_uniform_or_by_dtype),
]


class OutputBlock(Block):
    """What holds for one leaf of the output, named by its key path (`[0]['w']`, `.` for the root) or a glob (`*`).

    Gradients of the mode `grad` are named `grad` and the argument's key path: `grad['w']`, `grad*`.
    """

    tolerance: ToleranceBlock | None = None
    comparator: Comparator = "allclose"
    nonfinite: Nonfinite | None = None
    conditioning: Conditioning | None = None
    store: Stored | None = None


class BackendBlock(Block):
    """What holds on one backend."""

    tolerance: ToleranceBlock


class RaisesBlock(Block):
    """The exception that a case expects; `match` is searched for in its message."""

    type: ExceptionNames
    match: Pattern | None = None
    modes: Modes | None = None


RaisesOrNames = Annotated[
    Annotated[ExceptionName, Tag("(text)")]
    | Annotated[Several[ExceptionName], Tag("(list)")]
    | Annotated[RaisesBlock, Tag("(mapping)")],
    Discriminator(mapping_list_or_text),
]


class VmapBlock(Block):
    """The batch axis of each argument, null for one that is not batched; arguments not named get a new first axis.

    `rows` are filled with the recipe's cases, over and over: reductions may be ordered otherwise in larger batches.
    """

    axes: dict[Identifier, VmapAxis] = Field(default_factory=dict)
    rows: Annotated[int, Strict(), Field(ge=2, le=MAX_ROWS)] | None = None


VmapOrSeveral = Annotated[
    Annotated[VmapBlock, Tag("(mapping)")] | Annotated[Several[VmapBlock], Tag("(list)")],
    Discriminator(mapping_list_or_text),
]


class GradBlock(Block):
    """What the mode `grad` differentiates, and how exactly."""

    arguments: Several[Identifier] | None = None
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
    memory: Memory | None = None


class DefaultsBlock(Block):
    """What recipes need not say again. A recipe's own word wins; `config`, `env`, `resources`, `when` merge by key."""

    modes: Modes | None = None
    golden: Contract | None = None
    tolerance: ToleranceBlock | None = None
    backends: dict[Name, BackendBlock] = Field(default_factory=dict)
    nonfinite: Nonfinite | None = None
    deprecations: Deprecations | None = None
    config: Config = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)
    devices: Devices | None = None
    processes: Processes | None = None
    resources: Resources | None = None
    when: WhenBlock | None = None
    timeout: Seconds | None = None
    memory: Memory | None = None


class RecipeBlock(DefaultsBlock):
    """A kernel with its cases."""

    kernel: Dotted
    description: Text = ""
    tags: Annotated[tuple[Name, ...], AfterValidator(once)] = ()
    static: Annotated[tuple[Identifier, ...], AfterValidator(once)] = ()
    reference: Dotted | None = None
    properties: Annotated[tuple[Dotted, ...], AfterValidator(once)] = ()
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
    include: Annotated[tuple[Text, ...], AfterValidator(once)] = ()
    defaults: DefaultsBlock = DefaultsBlock()
    recipes: dict[Name, RecipeBlock] = Field(default_factory=dict)
