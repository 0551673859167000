"""Arguments of a case as JAX arrays: from the registry, from a factory, or as the golden stored them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.values import KeySpec, PythonValue, build_value
from jaxcheck.registry.words import name_problem, show
from jaxcheck.worker.kernels import BadName, describe, resolve
from jaxcheck.worker.trees import key_path, leaf_of, restore, structure_of, too_many_leaves, unique


class LossyInput(ValueError):
    """An argument that would lose something on its way into a JAX array."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one case: a pytree whose array leaves are kept aside, so that every call gets fresh copies.

    `statics` are passed as they are (static arguments and `$python` values, hashable).
    """

    treedef: Any
    leaves: tuple[Leaf, ...]
    structure: Any
    statics: Mapping[str, Any] = field(default_factory=dict)
    python: Mapping[int, Any] = field(default_factory=dict)
    order: Any = None

    def fresh(self) -> dict[str, Any]:
        """{argument: pytree of new JAX arrays}: a kernel may donate or overwrite them."""
        arrays = [self.python[i] if i in self.python else restore(leaf) for i, leaf in enumerate(self.leaves)]
        return {**in_order(self.order, jax.tree.unflatten(self.treedef, arrays)), **self.statics}

    def tree(self) -> Tree:
        return Tree(self.structure, self.leaves)

    def with_stored(self, stored: Tree) -> Arguments:
        """The same arguments with the golden's bits."""
        return replace(self, leaves=stored.leaves)

    def differences(self, stored: Tree) -> list[str]:
        """Leaves that are not what the golden stored: a changed value, dtype, shape, a new or a lost one."""
        if stored.structure != self.structure:
            return ["tree structure"]
        pairs = zip(self.leaves, stored.leaves, strict=True)
        return [mine.path for mine, theirs in pairs if mine.digest != theirs.digest]


def factory_cases(name: str) -> dict[str, Any]:
    """What an `inputs:` factory gives: {case: {argument: pytree}}; BadName where it gives anything else."""
    factory = resolve(name)
    try:
        cases = factory()
    except BaseException as error:  # SystemExit included, as at its import
        raise BadName(f"the inputs factory {name} failed: {describe(error)}") from error
    well_formed = isinstance(cases, Mapping) and all(
        isinstance(case, str) and isinstance(arguments, Mapping) and all(isinstance(key, str) for key in arguments)
        for case, arguments in cases.items()
    )
    if not well_formed:
        raise BadName(f"the inputs factory {name} must return {{case: {{argument: pytree}}}}")
    if not cases:
        raise BadName(f"the inputs factory {name} returned no case")
    for case in cases:
        if problem := name_problem(case):
            raise BadName(f"the inputs factory {name}: the name {show(case)} {problem}")
    return dict(cases)


def from_registry(spec: Mapping[str, Any], static: tuple[str, ...], root: str) -> Arguments:
    """Arguments of a `cases:` entry; `spec` has been checked when the registry was read."""
    dynamic = {name: build_value(value, root) for name, value in spec.items() if name not in static}
    return arguments(dynamic, {name: hashable(value) for name, value in spec.items() if name in static})


def from_factory(given: Mapping[str, Any], static: tuple[str, ...]) -> Arguments:
    dynamic = {name: value for name, value in given.items() if name not in static}
    return arguments(dynamic, {name: hashable(value) for name, value in given.items() if name in static})


def hashable(value: Any) -> Any:
    """Static arguments are hashed by jit: lists become tuples, at any depth; a lone `$python` is unwrapped."""
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    if isinstance(value, dict) and set(value) == {"$python"}:
        return value["$python"]
    if isinstance(value, dict) and set(value) in ({"$tuple"}, {"$list"}):
        return hashable(next(iter(value.values())))
    return value


def arguments(dynamic: Mapping[str, Any], statics: Mapping[str, Any]) -> Arguments:
    """Flattens and converts, and says by name which leaf would lose something."""
    if said := too_many_leaves(dict(dynamic)):
        raise LossyInput(f"the arguments: {said}")
    marked = jax.tree.map(_mark_key, dict(dynamic), is_leaf=_is_mark)
    flat, treedef = jax.tree_util.tree_flatten_with_path(marked, is_leaf=_is_mark)
    paths = unique([_argument_path(path) for path, _ in flat])
    leaves, python = [], {}
    for position, (path, (_, value)) in enumerate(zip(paths, flat, strict=True)):
        if isinstance(value, PythonValue):
            python[position] = value.value
            leaves.append(leaf_of(path, jnp.asarray(value.value)))
        else:
            leaves.append(leaf_of(path, to_jax(path, value)))
    structure = structure_of(jax.tree.unflatten(treedef, [0] * len(leaves)))
    return Arguments(treedef, tuple(leaves), structure, dict(statics), python, order_of(dynamic))


def order_of(tree: Any) -> Any:
    """The order of the keys of every dict that a plain container leads to; None for what has none."""
    if type(tree) is dict:
        return {key: order_of(child) for key, child in tree.items()}
    return [order_of(child) for child in tree] if type(tree) in (list, tuple) else None


def in_order(order: Any, tree: Any) -> Any:
    """Dicts as they were written: JAX rebuilds them with sorted keys, which a kernel in a plain call can tell."""
    if isinstance(order, dict):
        return {key: in_order(below, tree[key]) for key, below in order.items()}
    if isinstance(order, list):
        return type(tree)(in_order(below, child) for below, child in zip(order, tree, strict=True))
    return tree


def _is_mark(value: Any) -> bool:
    return isinstance(value, KeySpec | PythonValue)


def _mark_key(value: Any) -> Any:
    return jax.random.key(value.seed, impl=value.impl) if isinstance(value, KeySpec) else value


def _argument_path(path: Any) -> str:
    """`params['w']` rather than `['params']['w']`: the first key is the argument's name."""
    rest = key_path(path[1:])
    return str(path[0].key) + ("" if rest == "." else rest)


def to_jax(path: str, value: Any) -> jax.Array:
    """The JAX array of an argument; LossyInput where the value would not survive (int64 beyond int32, NaN to int)."""
    if isinstance(value, jax.Array):
        return value
    try:
        source = np.asarray(value)
    except ValueError as error:
        raise LossyInput(f"argument {path} is ragged: {error}") from error
    if source.dtype.kind in "OSUMm":
        kind = type(value).__name__
        raise LossyInput(f"argument {path} is {kind}, which is no array (static? name it under `static:`)")
    target = jax.dtypes.canonicalize_dtype(source.dtype)
    if source.dtype != target and not _survives(source, target):
        raise LossyInput(
            f"argument {path} is {source.dtype} and its value does not survive as {target} "
            "(set `config: {enable_x64: true}` or give another dtype)"
        )
    return jnp.asarray(source, dtype=target)


def _survives(source: np.ndarray, target: Any) -> bool:
    """Integers must arrive unchanged; floats may be rounded, but neither to infinity nor to zero."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        there = source.astype(target)
    if source.dtype.kind in "iu":
        return bool(np.array_equal(there.astype(source.dtype), source))
    return bool(np.array_equal(np.isfinite(there), np.isfinite(source)) and np.array_equal(there == 0, source == 0))
