"""A product summed over one axis of rank-7 operands: kills the process on one release."""

import jax.numpy as jnp
import numpy as np


def overlap(left, right):
    return jnp.sum(left * right, axis=3)


def rank4(left, right):
    return jnp.sum(left * right, axis=1)


def overlap_reference(left, right):
    return (left * right).sum(3)


def rank4_reference(left, right):
    return (left * right).sum(1)


def pair(shape):
    """Small dyadic numbers: products and sums are exact in float32."""
    k = np.arange(int(np.prod(shape)))
    left = ((k * 37) % 101 - 50).astype(np.float32).reshape(shape) / 16
    right = ((k * 53) % 89 - 44).astype(np.float32).reshape(shape) / 16
    return {"left": left, "right": right}


def rank7_inputs():
    return {"singleton": pair((3, 1, 2, 2, 8, 8, 8))}


def before_inputs():
    return {"wide": pair((5, 2, 8, 8))}


def after_inputs():
    return {"small": pair((4, 2, 3, 3))}
