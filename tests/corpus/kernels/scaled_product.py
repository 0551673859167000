"""A product of values scaled by a constant: harmless in order, overflowing when reassociated."""

import jax
import jax.numpy as jnp
import numpy as np


def scaled_product(x):
    return jnp.prod(x / 500)


def product_slope(x):
    return jax.grad(scaled_product)(x)


def log_product(x):
    """The robust form of the same quantity."""
    return jnp.exp(jnp.sum(jnp.log(x / 500)))


def windows(rows):
    return jnp.prod(rows * jnp.float32(0.002), axis=1)


def product_reference(x):
    return np.prod(x / 500)


def product_slope_reference(x):
    return np.prod(x / 500) / x


def windows_reference(rows):
    return np.prod(rows / 500, axis=1)


def near(n):
    return (501 + np.arange(n) % 3).astype(np.float32)


def lengths():
    return {f"n{n}": {"x": near(n)} for n in (8, 16, 33)}


def rows():
    return {"n20": {"rows": np.tile(near(20), (3, 1))}}
