"""What a registry says, resolved: defaults merged in, every value checked, positions kept for later faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxcheck.errors import Fault
from jaxcheck.registry.words import printable

Contract = Literal["eager", "jit", "truth"]
Deprecations = Literal["note", "error"]
MODES = ("eager", "jit", "disable_jit", "vmap", "grad", "sharded")
GRADIENT = "grad"  # what the paths of gradient leaves begin with: `grad['w']`
DERIVED_MODES = (GRADIENT,)  # whose outputs are not the kernel's, and are not compared with eager
COMPARATORS = ("allclose", "exact", "ulp", "eigh", "svd", "qr", "topk", "permutation", "kl")
BY_ELEMENT = frozenset(("allclose", "exact"))  # comparators that some elements of a leaf are enough for
BOUNDED_BY_THEMSELVES = frozenset(("exact", "ulp", "kl"))  # comparators that no tolerance has a say in


@dataclass(frozen=True)
class Position:
    """A place in a registry file, counted from 1; `file` is as the user would type it."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def fault(self, message: str, hint: str | None = None) -> Fault:
        return Fault(self.file, self.line, self.column, printable(message), hint and printable(hint))


def in_order(faults: Iterable[Fault], files: Sequence[str]) -> list[Fault]:
    """Sorted by file, in the order in which the registry names its files, and by place in the file."""
    rank = {file: number for number, file in enumerate(files)}
    return sorted(faults, key=lambda fault: (rank[fault.file], fault.line, fault.column, fault.message))


@dataclass(frozen=True)
class Tolerance:
    """|actual - golden| <= atol + rtol * |golden|; `source` says who set it (a position, or `exact: int32`)."""

    rtol: float
    atol: float
    source: str


@dataclass(frozen=True)
class Raises:
    """The exception that a case expects: class names (bare or qualified; bases match), a pattern for re.search."""

    types: tuple[str, ...]
    match: str | None = None
    modes: tuple[str, ...] | None = None

    def expected_in(self, mode: str) -> bool:
        return self.modes is None or mode in self.modes


@dataclass(frozen=True)
class When:
    """Where a recipe applies; version specifiers as in PEP 440, backends by JAX's names."""

    packages: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    backends: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Case:
    """One named set of arguments. `args` holds checked registry values, or is None where a factory gives them."""

    name: str
    args: Mapping[str, Any] | None
    nonfinite: bool
    raises: Raises | None
    timeout: float
    position: Position
    unstable: bool = False
    memory: int | None = None


@dataclass(frozen=True)
class OutputRule:
    """What `outputs:` says of one leaf. `parameters` are the comparator's."""

    tolerance: Mapping[str, Tolerance] | None = None
    comparator: str = "allclose"
    nonfinite: bool | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    unstable: bool | None = None
    digest: bool = False  # whether goldens keep a digest and an excerpt of the leaf, and no more

    def inputs(self) -> dict[str, str]:
        """{parameter: path of the input} that the comparator looks at."""
        return {name: self.parameters[name] for name in ("matrix", "operand") if name in self.parameters}

    def outputs(self) -> dict[str, str]:
        """{parameter: path of the output} that the comparator looks at."""
        parts = ("values", "u", "s", "vh", "q", "r")
        return {name: self.parameters[name] for name in parts if name in self.parameters}


@dataclass(frozen=True)
class VmapOptions:
    """A batch of the mode `vmap`: {argument: its batch axis, or None}, and its rows, or None for as few as do."""

    axes: Mapping[str, int | None] = field(default_factory=dict)
    rows: int | None = None


@dataclass(frozen=True)
class GradOptions:
    """What the mode `grad` differentiates; None stands for all floating ones, and for the dtype's rtol."""

    arguments: tuple[str, ...] | None = None
    output: str | None = None
    rtol: float | None = None


@dataclass(frozen=True)
class ShardedOptions:
    """How the mode `sharded` splits: {argument: axis}, and {key path of an output: what its sharding has to be}."""

    axes: Mapping[str, int]
    outputs: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A kernel with its cases, modes and tolerances."""

    name: str
    kernel: str
    position: Position
    description: str = ""
    tags: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("eager", "jit")
    static: tuple[str, ...] = ()
    golden: Contract = "eager"
    reference: str | None = None
    properties: tuple[str, ...] = ()
    inputs: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    devices: int | None = None
    processes: int = 1
    resources: Mapping[str, float] = field(default_factory=dict)
    vmap: tuple[VmapOptions, ...] = ()
    grad: GradOptions | None = None
    sharded: ShardedOptions | None = None
    allow_key_reuse: bool = False
    deprecations: Deprecations = "note"
    traces: int | None = None
    gate_always: bool = False
    when: When = When()
    timeout: float = 300.0
    memory: int | None = None
    nonfinite: bool = False
    unstable: bool = False
    cases: Mapping[str, Case] = field(default_factory=dict)
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    tolerances: tuple[Mapping[str, Tolerance], ...] = ()
    backend_tolerances: Mapping[str, tuple[Mapping[str, Tolerance], ...]] = field(default_factory=dict)
    where: Mapping[tuple[str, ...], Position] = field(default_factory=dict, repr=False)

    def locate(self, *keys: str) -> Position:
        """Where the recipe says something: the nearest position known, e.g. of ("cases", "standard", "args", "x")."""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.where:
                return self.where[keys[:end]]
        return self.position

    def case(self, name: str) -> Case:
        """The case, with the recipe's own options where a factory's case has no entry under `cases:`."""
        made = Case(name, None, self.nonfinite, None, self.timeout, self.position, self.unstable, self.memory)
        return self.cases.get(name) or made

    def case_hash(self, name: str) -> str:
        """Changes when what is computed changes: kernel, arguments, static names, config, env, devices, contract."""
        said: list[Any] = [self.kernel, sorted(self.static), self.golden, dict(self.config), dict(self.env)]
        said += [self.devices, self.inputs, self.case(name).args]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def tolerance(self, path: str, dtype: str, backend: str) -> Tolerance | None:
        """The tolerance of the leaf at `path`, or None where nobody set one for this dtype.

        The nearest word wins: the leaf's own, the recipe's for this backend, the recipe's, the defaults' for this
        backend, the defaults'. Integers, booleans and PRNG keys are exact unless one of these names their dtype
        (or the leaf's own rule says otherwise).
        """
        from jaxcheck.registry.tolerance import choose

        return choose(self, path, dtype, backend)


@dataclass(frozen=True)
class Registry:
    """All recipes, in the order of the files. `root` is the folder of the main file; `digest` covers every file."""

    path: str
    root: str
    digest: str
    recipes: Mapping[str, Recipe]
    files: tuple[str, ...] = ()
