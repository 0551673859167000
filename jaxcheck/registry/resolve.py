"""A recipe's block, its cases and the defaults that apply to it, resolved into a `Recipe`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from jaxcheck.errors import Fault
from jaxcheck.registry.comparators import comparator_of
from jaxcheck.registry.include import Defaults
from jaxcheck.registry.model import (
    Case,
    GradOptions,
    OutputRule,
    Position,
    Raises,
    Recipe,
    ShardedOptions,
    Tolerance,
    VmapOptions,
    When,
)
from jaxcheck.registry.schema import (
    CaseBlock,
    DefaultsBlock,
    OutputBlock,
    RaisesBlock,
    RecipeBlock,
    Uniform,
    VmapBlock,
)
from jaxcheck.registry.tolerance import UNIFORM
from jaxcheck.registry.validate import Validated, validate
from jaxcheck.registry.values import Problem, check_static, check_value
from jaxcheck.registry.words import label, name_problem, show
from jaxcheck.registry.yaml_source import Keys, Node, Source, child

NO_FUNCTION = "unknown:unknown"  # stands for a kernel that has a fault: such a registry is never handed out
_ARGUMENT_DEPTH = 4  # of cases, a case, args, an argument


@dataclass(frozen=True)
class Draft:
    """A recipe as far as it could be resolved; `faulty` names the keys left out, as they have faults of their own."""

    recipe: Recipe
    faulty: frozenset[str]


def resolve(source: Source, name: str, defaults: Sequence[Defaults], root: Path) -> tuple[Draft | None, list[Fault]]:
    """The recipe `name` of the file, with the faults of its form and of its argument values.

    `defaults` come nearest first; `root` is the folder of the main file.
    """
    path: Keys = ("recipes", name)
    data = source.data["recipes"][name]
    blocks = _mapping(_mapping(data).get("cases"))
    head = validate(RecipeBlock, {**data, "cases": {}} if blocks else data, source, path, {"kernel": NO_FUNCTION})
    cases = {case: validate(CaseBlock, block, source, (*path, "cases", case)) for case, block in blocks.items()}
    faults = [*_name_faults(source, path, blocks), *head.faults]
    faults += [fault for case in cases.values() for fault in case.faults]
    if head.block is None:
        return None, faults
    recipe = _with_cases(_recipe(head.block, source, path, defaults), cases)
    faulty = head.faulty | {key for one in defaults for key in one.faulty if key not in data or key == "config"}
    static = _texts(data["static"]) if "static" in head.faulty else recipe.static
    x64 = "config" in faulty or recipe.config.get("enable_x64") is True
    faults += _argument_faults(source, path, blocks, static, partial(check_value, root=root, x64=x64))
    return Draft(recipe, faulty | {"cases"} if any(case.faults for case in cases.values()) else faulty), faults


def _texts(data: Any) -> list[str]:
    """What can be understood of a list of texts that has a fault."""
    return [item for item in data if isinstance(item, str)] if isinstance(data, list) else []


def _mapping(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}


def _name_faults(source: Source, path: Keys, cases: Mapping[str, Any]) -> Iterator[Fault]:
    for keys in (path, *((*path, "cases", case) for case in cases)):
        problem = name_problem(str(keys[-1]))
        if problem:
            yield source.key(keys).fault(f"the name {show(keys[-1])} {problem}")


def _argument_faults(
    source: Source,
    recipe: Keys,
    cases: Mapping[str, Any],
    static: Collection[str],
    check: Callable[[Any, Keys], list[Problem]],
) -> Iterator[Fault]:
    """Also of cases with other faults: their arguments can be looked at all the same."""
    for case, block in cases.items():
        for argument, value in _mapping(_mapping(block).get("args")).items():
            path = (*recipe, "cases", case, "args", argument)
            problems = (check_static if argument in static else check)(value, path)
            for problem in problems:
                place = (source.key if problem.at_key else source.value)(problem.path)
                yield place.fault(f"{label(*problem.path)}{problem.message}", problem.hint)


def _recipe(block: RecipeBlock, source: Source, path: Keys, defaults: Sequence[Defaults]) -> Recipe:
    """The recipe without its cases. What the nearest block says counts; mappings are merged key by key."""
    layers: list[tuple[DefaultsBlock, Source, Keys]] = [(block, source, path)]
    layers += [(one.block, one.source, ("defaults",)) for one in defaults]
    blocks = [layer for layer, _, _ in layers]
    nearest = ("modes", "golden", "devices", "processes", "timeout", "memory", "deprecations")
    said = {key: _nearest(blocks, key) for key in nearest}
    return Recipe(
        name=str(path[-1]),
        kernel=block.kernel,
        position=source.key(path),
        description=block.description,
        tags=block.tags,
        static=block.static,
        reference=block.reference,
        properties=block.properties,
        inputs=block.inputs,
        config=_merged([layer.config for layer in blocks]),
        env=_merged([layer.env for layer in blocks]),
        resources=_merged([layer.resources or {} for layer in blocks]),
        vmap=_vmap(block.vmap),
        grad=GradOptions(block.grad.arguments, block.grad.output, block.grad.rtol) if block.grad else None,
        sharded=ShardedOptions(block.sharded.axes, block.sharded.outputs) if block.sharded else None,
        allow_key_reuse=block.allow_key_reuse,
        traces=block.traces,
        gate_always=block.gate == "always",
        when=_when(blocks),
        nonfinite=_nearest(blocks, "nonfinite") == "allow",
        unstable=block.conditioning == "unstable",
        outputs={key: _output(rule, source, (*path, "outputs", key)) for key, rule in block.outputs.items()},
        tolerances=tuple(_layer(layer.tolerance, file, (*keys, "tolerance")) for layer, file, keys in layers),
        backend_tolerances=_backend_layers(layers),
        where=Places(source.node(path), source.file),
        **{key: value for key, value in said.items() if value is not None},
    )


def _nearest(blocks: Sequence[DefaultsBlock], key: str) -> Any:
    return next((value for block in blocks if (value := getattr(block, key)) is not None), None)


def _merged(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All keys; the first mapping that has one gives its value."""
    return {key: value for mapping in reversed(mappings) for key, value in mapping.items()}


def _when(blocks: Sequence[DefaultsBlock]) -> When:
    said = [block.when for block in blocks if block.when]
    packages = [
        {**when.packages, **{name: versions for name in ("jax", "jaxlib") if (versions := getattr(when, name))}}
        for when in said
    ]
    backends = next((when.backend for when in said if when.backend), None)
    return When(
        packages=_merged(packages),
        python=next((when.python for when in said if when.python), None),
        backends=_several(backends) if backends else None,
    )


def _vmap(said: VmapBlock | tuple[VmapBlock, ...] | None) -> tuple[VmapOptions, ...]:
    blocks = (said,) if isinstance(said, VmapBlock) else said or ()
    return tuple(VmapOptions(block.axes, block.rows) for block in blocks)


def _several(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words


def _layer(block: Uniform | Mapping[str, Uniform] | None, source: Source, path: Keys) -> Mapping[str, Tolerance]:
    if block is None:
        return {}
    if isinstance(block, Uniform):
        return {UNIFORM: _tolerance(block, source, path)}
    return {dtype: _tolerance(one, source, (*path, dtype)) for dtype, one in block.items()}


def _tolerance(block: Uniform, source: Source, path: Keys) -> Tolerance:
    return Tolerance(block.rtol, block.atol, str(source.key(path)))


def _backend_layers(
    layers: Sequence[tuple[DefaultsBlock, Source, Keys]],
) -> dict[str, tuple[Mapping[str, Tolerance], ...]]:
    """For each backend as many layers as the recipe has without it, empty ones included."""
    return {
        name: tuple(
            _layer(block.backends[name].tolerance, source, (*path, "backends", name, "tolerance"))
            if name in block.backends
            else {}
            for block, source, path in layers
        )
        for name in dict.fromkeys(name for block, _, _ in layers for name in block.backends)
    }


def _output(block: OutputBlock, source: Source, path: Keys) -> OutputRule:
    tolerance = _layer(block.tolerance, source, (*path, "tolerance")) if block.tolerance else None
    nonfinite = None if block.nonfinite is None else block.nonfinite == "allow"
    name, parameters = comparator_of(block.comparator)
    unstable = None if block.conditioning is None else block.conditioning == "unstable"
    return OutputRule(tolerance, name, nonfinite, parameters, unstable, block.store == "digest")


def _with_cases(recipe: Recipe, cases: Mapping[str, Validated[CaseBlock]]) -> Recipe:
    resolved = {name: _case(recipe, name, case.block) for name, case in cases.items() if case.block}
    return replace(recipe, cases=resolved)


def _case(recipe: Recipe, name: str, block: CaseBlock) -> Case:
    return Case(
        name=name,
        args=block.args if block.args is not None or recipe.inputs else {},
        nonfinite=recipe.nonfinite if block.nonfinite is None else block.nonfinite == "allow",
        raises=_raises(block.raises),
        timeout=recipe.timeout if block.timeout is None else block.timeout,
        position=recipe.locate("cases", name),
        unstable=recipe.unstable if block.conditioning is None else block.conditioning == "unstable",
        memory=recipe.memory if block.memory is None else block.memory,
    )


def _raises(block: RaisesBlock | str | tuple[str, ...] | None) -> Raises | None:
    if isinstance(block, RaisesBlock):
        return Raises(_several(block.type), block.match, block.modes)
    return None if block is None else Raises(_several(block))


class Places(Mapping[tuple[str, ...], Position]):
    """Where everything in a recipe stands; made when it is asked for, since few recipes have faults.

    A mapping, a list or an argument stands where its key does; text, numbers and items of lists (counted: ("modes",
    "0")) where they do.
    """

    def __init__(self, node: Node, file: str) -> None:
        self._node, self._file = node, file

    def __getitem__(self, keys: tuple[str, ...]) -> Position:
        node: Node | None = self._node if keys else None
        for key in keys:
            node = child(node, _step(node, key)) if node else None
        if node is None:
            raise KeyError(keys)
        is_value = node.key is None or (node.children is None and len(keys) < _ARGUMENT_DEPTH)
        return Position(self._file, *(node.place if is_value else node.key or node.place))

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return _paths(self._node, ())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _step(node: Node, key: str) -> str | int:
    return int(key) if isinstance(node.children, list) and key.isdecimal() else key


def _paths(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    children = node.children or {}
    steps = children.items() if isinstance(children, dict) else enumerate(children)
    for step, inner in steps:
        path = (*above, str(step))
        yield path
        yield from _paths(inner, path)
