"""Squared length of every row in another basis: silently wrong when compiled, on one release, in the last rows."""

import jax
import jax.numpy as jnp
import numpy as np


def row_energy(points):
    """points (n, 3) -> (n,); the basis is a constant of the kernel."""
    basis = jnp.eye(3, dtype=points.dtype)
    return jax.vmap(lambda point: _energy(basis, point))(points)


def _energy(basis, point):
    moved = basis @ point
    return jnp.sum(moved * moved)


def tail_energy(points):
    """The last eight values only: the damage is in the last rows, and a golden of them is small."""
    return row_energy(points)[-8:]


def energy_reference(points):
    """The basis is the identity."""
    return (points * points).sum(1)


def tail_reference(points):
    return energy_reference(points)[-8:]


def points(n):
    k = np.arange(n, dtype=np.float32)
    return np.stack([k, np.zeros_like(k), np.zeros_like(k)], axis=1)


def whole_inputs():
    return {"n100": {"points": points(100)}, "n32769": {"points": points(32769)}}


def tail_inputs():
    return {"n40000": {"points": points(40000)}}
