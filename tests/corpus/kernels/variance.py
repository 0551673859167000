"""Sums and variances in float32: the order of a sum, and cancellation."""

import jax.numpy as jnp
import numpy as np


def textbook(x):
    """E[x^2] - E[x]^2: hopeless where the mean is large."""
    return jnp.mean(x * x) - jnp.mean(x) ** 2


def two_pass(x):
    return jnp.var(x)


def total(x):
    return jnp.sum(x)


def column_mean(x):
    return jnp.mean(x, axis=0)


def dot_self(x):
    return jnp.dot(x, x)


def variance_reference(x):
    return x.var()


def total_reference(x):
    return x.sum()


def column_mean_reference(x):
    return x.mean(0)


def dot_self_reference(x):
    return (x * x).sum()


def far():
    k = np.arange(1000)
    return {"far": {"x": (1e4 + ((k * 37) % 101) / 101).astype(np.float32)}}


def tenths():
    return {"million": {"x": np.full(1_000_000, 0.1, np.float32)}}


def table():
    k = np.arange(200_000)
    return {"table": {"x": (250 + ((k * 7919) % 9973) / 142.0).astype(np.float32).reshape(-1, 2)}}
