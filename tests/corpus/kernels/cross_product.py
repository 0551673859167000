"""A call that worked, then warned, then became an error."""

import jax.numpy as jnp
import numpy as np


def turn(a, b):
    """Of vectors in the plane: deprecated in jax 0.11.0, an error in 0.12.0."""
    return jnp.cross(a, b)


def turn_explicit(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def normal(a, b):
    return jnp.cross(a, b)


def turn_reference(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def normal_reference(a, b):
    return np.cross(a, b)
