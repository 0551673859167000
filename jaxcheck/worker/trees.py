"""Pytrees to and from the leaves and structures that goldens hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.worker import internals

ROOT = "."
MOST_LEAVES = 100_000  # each is compared, kept and reported by itself: some 10 kB of the parent's memory
PYTHON_SCALARS = (bool, int, float, complex)


class UnsupportedOutput(TypeError):
    """The kernel returned something that is no array and no pytree of arrays."""


def key_path(path: Any) -> str:
    """The leaf's name: `['w'][0]`, and `.` for an output that is one array."""
    return jax.tree_util.keystr(path) or ROOT


def structure_of(tree: Any) -> Any:
    """The containers of a pytree as JSON (grammar in `jaxcheck.goldens.structure`)."""
    if tree is None:
        return None
    children = one_level(tree)
    if children is None:
        return "*"
    nodes = [(key, structure_of(child)) for key, child in children]
    treedef: Any = jax.tree.structure(tree)
    kind, aux = treedef.node_data()
    if kind is dict:
        keys = [key.key for key, _ in nodes]
        if all(isinstance(key, str) for key in keys):
            return {"dict": {key: node for key, (_, node) in zip(keys, nodes, strict=True)}}
        return {"dict": [[_json_key(key), node] for key, (_, node) in zip(keys, nodes, strict=True)]}
    if kind in (list, tuple):
        return {kind.__name__: [node for _, node in nodes]}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return {"namedtuple": kind.__name__, "fields": [[key.name, node] for key, node in nodes]}
    steps = [[jax.tree_util.keystr((key,)), node] for key, node in nodes]
    return {"node": f"{kind.__module__}.{kind.__qualname__}", "aux": repr(aux), "children": steps}


def one_level(tree: Any) -> list[tuple[Any, Any]] | None:
    """[(key, child)] of a pytree node, in JAX's order; None for a leaf."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)
    if len(flat) == 1 and flat[0][0] == ():
        return None
    return [(path[0], child) for path, child in flat]


def _json_key(key: Any) -> Any:
    """A dict key as JSON: text, numbers and tuples of these are themselves, anything else is its repr."""
    if isinstance(key, tuple):
        return [_json_key(part) for part in key]
    return key if isinstance(key, str | int | float | bool) or key is None else repr(key)


def leaf_of(path: str, value: Any) -> Leaf:
    """A leaf from a JAX array, typed keys included; anything else has been made one before."""
    if internals.is_key(value):
        words = np.asarray(jax.random.key_data(value))
        return Leaf.of_key(path, words, str(jax.random.key_impl(value)), str(value.dtype), tuple(value.shape))
    return Leaf.of(path, np.asarray(value), weak_type=bool(getattr(value, "weak_type", False)))


def as_jax_array(path: str, value: Any) -> jax.Array:
    """Python and NumPy leaves become what jit would have made of them; text and objects are refused."""
    if isinstance(value, jax.Array):
        return value
    if isinstance(value, PYTHON_SCALARS):
        return jnp.asarray(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OSUMm":
        array = jnp.asarray(value)
        if value.dtype.kind in "iu" and not np.array_equal(np.asarray(array), value):
            raise UnsupportedOutput(
                f"output leaf {path} is {value.dtype} and its value does not fit {array.dtype}, which JAX makes of it"
            )
        return array
    raise UnsupportedOutput(
        f"unsupported output leaf {path}: {type(value).__module__}.{type(value).__qualname__}; "
        "a kernel returns arrays, or pytrees of arrays (register a dataclass with jax.tree_util.register_dataclass)"
    )


def tree_of(value: Any) -> Tree:
    """Structure and leaves of any pytree of arrays."""
    if said := too_many_leaves(value):
        raise UnsupportedOutput(said)
    flat, _ = jax.tree_util.tree_flatten_with_path(value)
    paths = unique([key_path(path) for path, _ in flat])
    leaves = [leaf_of(path, as_jax_array(path, leaf)) for path, (_, leaf) in zip(paths, flat, strict=True)]
    return Tree(structure_of(value), tuple(leaves))


def too_many_leaves(value: Any) -> str:
    """What is wrong with a pytree of more leaves than can be looked at one by one; nothing for others."""
    treedef: Any = jax.tree.structure(value)
    if treedef.num_leaves <= MOST_LEAVES:
        return ""
    return f"{treedef.num_leaves:,} leaves are too many, at most {MOST_LEAVES:,}: stack arrays of one shape (jnp.stack)"


def unique(paths: list[str]) -> list[str]:
    """A custom node may give two leaves one name: the second is `name#2`."""
    seen: dict[str, int] = {}
    result = []
    for path in paths:
        seen[path] = seen.get(path, 0) + 1
        result.append(path if seen[path] == 1 else f"{path}#{seen[path]}")
    return result


def restore(leaf: Leaf) -> jax.Array:
    """A fresh JAX array with the leaf's bits, in memory of its own (a kernel may donate it).

    The copy is NumPy's: `jnp.array(copy=True)` would compile one for every new shape.
    """
    if leaf.impl is not None:
        keys: jax.Array = jax.random.wrap_key_data(jax.device_put(np.array(leaf.words)), impl=leaf.impl)
        return keys
    array: jax.Array = jax.device_put(np.array(leaf.array()))
    return array


def numpy_tree(tree: Any, convert: Callable[[np.ndarray], np.ndarray] = lambda array: array) -> Any:
    """The pytree with NumPy leaves, for references and properties; typed keys stay JAX arrays."""
    return jax.tree.map(
        lambda leaf: leaf if internals.is_key(leaf) or not hasattr(leaf, "dtype") else convert(np.asarray(leaf)), tree
    )


def widened(array: np.ndarray) -> np.ndarray:
    """Floats as float64, complex as complex128; integers and booleans as they are."""
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(np.complex128)
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array
