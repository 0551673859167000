"""Kernels as they were when their goldens were blessed; `moving_after` is what an upgrade makes of them."""

import jax
import jax.numpy as jnp
import numpy as np


def slopes(x):
    """NaN where the branch not taken is singular: at 0."""
    return jax.vmap(jax.grad(lambda v: jnp.where(v < 1, v, jnp.sqrt(v))))(x)


def magnitude(x):
    """As one release compiled sqrt(|x * x|): finite at both ends."""
    return jnp.abs(x)


def frexp(x):
    return {"fraction": x * 0 + 0.5, "exponent": jnp.array([1, -149])}


def tree(x):
    return {"z": None, "a": (x, {}), "empty": [], "w": x * 2}


def key(seed):
    return jax.random.PRNGKey(seed)


def key_impl(seed):
    return jax.random.wrap_key_data(jnp.array([0, 7, 0, 7], jnp.uint32), impl="rbg")


def grid(x):
    return jnp.full(11, 0.8984375, jnp.bfloat16)


def nan_bits(x):
    return jnp.asarray(np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32))
