"""One example at a time, or all at once: the same mathematics, other rounding."""

import jax
import jax.numpy as jnp
import numpy as np

FEW = 32


def _level(v):
    """floor(4 |v|^2) of a unit vector: on the boundary between 3 and 4."""
    return jnp.floor(jnp.sum(v * v) * 4)


def _energy(v):
    return jnp.sum(v * v)


def _project(v):
    return v @ jnp.cos(jnp.arange(64 * 8, dtype=jnp.float32).reshape(64, 8) * 0.3)


def _phase(v):
    """A remainder amplifies a relative error of 1e-7 by the size of its argument."""
    return jnp.remainder(jnp.sum(v * v) * 1e5, 7.0)


def _batched(function):
    """All at once, and the first of them one by one: the two that a user wants to agree."""
    return lambda rows: {
        "vmap": jax.vmap(function)(rows)[:FEW],
        "loop": jnp.stack([function(row) for row in rows[:FEW]]),
    }


def level(rows):
    return _batched(_level)(rows)


def energy(rows):
    return _batched(_energy)(rows)


def project(rows):
    return _batched(_project)(rows)


def phase(rows):
    return _batched(_phase)(rows)


def _both(expected):
    return {"vmap": expected[:FEW], "loop": expected[:FEW]}


def energy_reference(rows):
    return _both((rows * rows).sum(1))


def level_reference(rows):
    return _both(np.floor((rows * rows).sum(1) * 4))


def project_reference(rows):
    angles = np.arange(64 * 8, dtype=np.float32).reshape(64, 8) * np.float32(0.3)
    return _both(rows @ np.cos(angles.astype(np.float64)))


def phase_reference(rows):
    return _both(np.remainder((rows * rows).sum(1) * 1e5, 7.0))


def units():
    k = np.arange(128 * 64, dtype=np.int64)
    a = ((((k + 5) * 7919 * (k + 17)) % 9973) / 4986.5 - 1).reshape(128, 64)
    return {"units": {"rows": (a / np.linalg.norm(a, axis=1, keepdims=True)).astype(np.float32)}}
