"""Magnitude as sqrt(|x * x|): under- and overflow at the ends of float32, which a compiler may simplify away."""

import jax
import jax.numpy as jnp
import numpy as np


def magnitude(x):
    return jnp.sqrt(jnp.abs(x * x))


def magnitudes(x):
    return jax.vmap(magnitude)(x)


def slope(x):
    return jax.grad(lambda v: jnp.sum(jnp.sqrt(jnp.abs(jnp.square(v)))))(x)


def magnitude_reference(x):
    """As written, in float32: the square of the smallest normal number is 0, that of the largest is inf."""
    x = x.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        square = np.abs(x * x)
        return np.sqrt(np.where(square < np.finfo(np.float32).tiny, 0, square)).astype(np.float64)


def slope_reference(x):
    return np.sign(x)


def mutant(x):
    """A backend that loses infinities."""
    return jnp.where(jnp.isinf(magnitude(x)), jnp.finfo(x.dtype).max, magnitude(x))
