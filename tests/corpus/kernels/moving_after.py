"""See `moving_before`."""

import jax
import jax.numpy as jnp
import numpy as np


def slopes(x):
    """NaN elsewhere."""
    return jnp.array([1.0, jnp.nan, 0.5, 0.25])


def magnitude(x):
    return jnp.array([0.0, jnp.inf, 3.0])


def frexp(x):
    return {"fraction": jnp.array([0.5, 0.0]), "exponent": jnp.array([1, 0])}


def tree(x):
    """Neither the None nor the empty dict."""
    return {"a": (x,), "empty": [], "w": x * 2}


def key(seed):
    return jax.random.key(seed)


def key_impl(seed):
    """The same words, another implementation."""
    return jax.random.wrap_key_data(jnp.array([0, 7, 0, 7], jnp.uint32), impl="unsafe_rbg")


def grid(x):
    return jnp.full(11, 0.8984375, jnp.bfloat16).at[9].set(0.90234375)


def nan_bits(x):
    """Other NaN: neither sign nor payload of a NaN is a number."""
    return jnp.asarray(np.array([0xFFC00000, 0x7FC12345], np.uint32).view(np.float32))
