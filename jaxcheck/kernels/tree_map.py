"""Parameters as a pytree: flattened, put together again, and updated leaf by leaf with `jax.tree.map`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxcheck.kernels.properties import Inputs, require, same_contract


def update_tree(params: Any, updates: Any) -> dict[str, Any]:
    """params + updates, both pytrees of one structure with leaves of equal shapes.

    Returns {"leaves": the leaves of `params` in order, "rebuilt": `params` from these leaves, "updated"}. Raises
    ValueError where structures or shapes differ.
    """
    leaves, structure = jax.tree.flatten(params)
    with jax.named_scope("update"):
        updated = jax.tree.map(add, params, updates)
    return {"leaves": leaves, "rebuilt": jax.tree.unflatten(structure, leaves), "updated": updated}


def add(parameter: jax.Array, update: jax.Array) -> jax.Array:
    """The sum of two arrays of one shape; a shape that would broadcast raises ValueError."""
    if parameter.shape != update.shape:
        raise ValueError(f"an update of shape {update.shape} for a parameter of shape {parameter.shape}")
    return parameter + update


def update_tree_reference(params: Any, updates: Any) -> dict[str, Any]:
    """The same by walking dicts (keys sorted), lists, tuples and None, without a pytree library."""

    def combine(left: Any, right: Any) -> Any:
        if left is None:
            return None
        if isinstance(left, dict):
            return {name: combine(left[name], right[name]) for name in sorted(left)}
        if isinstance(left, list | tuple):
            return type(left)(combine(*pair) for pair in zip(left, right, strict=True))
        return left + right

    def flatten(tree: Any) -> list[Any]:
        if tree is None:
            return []
        if isinstance(tree, dict):
            tree = [tree[name] for name in sorted(tree)]
        return [leaf for each in tree for leaf in flatten(each)] if isinstance(tree, list | tuple) else [tree]

    return {"leaves": flatten(params), "rebuilt": params, "updated": combine(params, updates)}


def tree_survives(inputs: Inputs, outputs: Any) -> None:
    """Rebuilding gives the parameters back, unchanged; an update changes no structure, shape or dtype."""
    params = inputs["params"]
    same_contract("rebuilt", outputs["rebuilt"], params)
    same_contract("updated", outputs["updated"], params)
    before, after = jax.tree.leaves(params), jax.tree.leaves(outputs["rebuilt"])
    require(len(outputs["leaves"]) == len(before), f"{len(outputs['leaves'])} leaves of {len(before)}")
    for old, new in zip(before, after, strict=True):
        require(np.array_equal(old, new, equal_nan=True), f"rebuilding turned {old} into {new}")


def rebuild_without_last_leaf(params: Any) -> Any:
    """A structure given one leaf too few: raises ValueError."""
    leaves, structure = jax.tree.flatten(params)
    return jax.tree.unflatten(structure, leaves[:-1])
