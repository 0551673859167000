"""Pytrees to and from the leaves and structures that goldens hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.worker import internals

ROOT = "."
PYTHON_SCALARS = (bool, int, float, complex)


class UnsupportedOutput(TypeError):
    """The kernel returned something that is no array and no pytree of arrays."""


def key_path(path: Any) -> str:
    """The leaf's name: `['w'][0]`, and `.` for an output that is one array."""
    return jax.tree_util.keystr(path) or ROOT


def structure_of(tree: Any) -> Any:
    """The containers of a pytree as JSON (grammar in `jaxcheck.goldens.leaf`)."""
    return _structure(jax.tree.structure(tree))


def _structure(treedef: Any) -> Any:
    data = treedef.node_data()
    if data is None:
        return "*"
    kind, aux = data
    if kind is type(None):
        return None
    children = [_structure(child) for child in treedef.children()]
    if kind is dict:
        if all(isinstance(key, str) for key in aux):
            return {"dict": dict(zip(aux, children, strict=True))}
        return {"dict": [[repr(key), child] for key, child in zip(aux, children, strict=True)]}
    if kind in (list, tuple):
        return {kind.__name__: children}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return {"namedtuple": kind.__name__, "fields": _pairs(kind._fields, children)}
    numbers = map(str, range(len(children)))
    return {"node": f"{kind.__module__}.{kind.__qualname__}", "aux": repr(aux), "children": _pairs(numbers, children)}


def _pairs(names: Iterable[str], children: list[Any]) -> list[list[Any]]:
    return [list(pair) for pair in zip(names, children, strict=True)]


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
    flat, _ = jax.tree_util.tree_flatten_with_path(value)
    paths = unique([key_path(path) for path, _ in flat])
    leaves = [leaf_of(path, as_jax_array(path, leaf)) for path, (_, leaf) in zip(paths, flat, strict=True)]
    return Tree(structure_of(value), tuple(leaves))


def unique(paths: list[str]) -> list[str]:
    """A custom node may give two leaves one name: the second is `name#2`."""
    seen: dict[str, int] = {}
    result = []
    for path in paths:
        seen[path] = seen.get(path, 0) + 1
        result.append(path if seen[path] == 1 else f"{path}#{seen[path]}")
    return result


def restore(leaf: Leaf) -> jax.Array:
    """A fresh JAX array with the leaf's bits, in memory of its own (a kernel may donate it)."""
    if leaf.impl is not None:
        return jax.random.wrap_key_data(jnp.array(leaf.words), impl=leaf.impl)
    return jnp.array(leaf.array(), copy=True)


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
