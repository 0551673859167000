"""What the properties of several kernels share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Inputs = Mapping[str, Any]


def require(holds: object, message: str) -> None:
    """Raises AssertionError unless `holds`, also under `python -O`, which drops `assert` statements."""
    if not holds:
        raise AssertionError(message)


def all_finite(inputs: Inputs, outputs: Any) -> None:
    """No floating-point leaf of the outputs holds NaN or an infinity."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(outputs):
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            continue
        bad = np.argwhere(~np.isfinite(np.asarray(leaf)))
        name, first = jax.tree_util.keystr(path) or ".", bad[:1].tolist()
        require(not len(bad), f"leaf {name}: {len(bad)} of {leaf.size} not finite, first at {first}")


def same_contract(name: str, actual: Any, expected: Any) -> None:
    """Both pytrees have the same structure, and leaves of the same shapes and dtypes."""
    found, wanted = str(jax.tree.structure(actual)), str(jax.tree.structure(expected))
    require(found == wanted, f"{name} has the structure {found}, expected {wanted}")
    leaves = zip(jax.tree_util.tree_leaves_with_path(actual), jax.tree.leaves(expected), strict=True)
    for (path, leaf), model in leaves:
        found, wanted = (f"{each.dtype}{list(each.shape)}" for each in (leaf, model))
        require(found == wanted, f"{name}{jax.tree_util.keystr(path)} is {found}, expected {wanted}")
