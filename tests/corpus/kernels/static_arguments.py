"""Arguments that select code rather than carry data."""

import jax
import jax.numpy as jnp
import numpy as np


def tile(x, n):
    return jnp.concatenate([x] * n)


def _scaled(x, mode):
    return x * 10 if mode is True else x


def mode_pair(x):
    """One jitted function called with static values that are equal and differ: 1, True and 1.0."""
    f = jax.jit(_scaled, static_argnums=1)
    return {"one": f(x, 1), "true": f(x, True), "float": f(x, 1.0)}


def by_index(x, order):
    return x[jnp.array(order)]


def ramp(n):
    return jnp.arange(n, dtype=jnp.float32)


def kind_of(x, order, n):
    """What a static argument arrives as, in numbers: a tuple of ints, never an array."""
    plain = isinstance(order, tuple) and type(order[0]) is int and type(n) is int
    return x * (1.0 if plain else 0.0)


def tile_reference(x, n):
    return np.tile(x, n)


def mode_pair_reference(x):
    return {"one": x, "true": 10 * x, "float": x}


def by_index_reference(x, order):
    return x[list(order)]


def ramp_reference(n):
    return np.arange(n, dtype=np.float64)


def same_reference(x, order, n):
    return x


def array_order():
    return {"array": {"x": np.array([1, 2], np.float32), "order": np.array([1, 0])}}
