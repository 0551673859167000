"""Ties and NaN in ordering operations: the indices are the fragile part of the output."""

import jax
import jax.numpy as jnp
import numpy as np


def best(x):
    values, index = jax.lax.top_k(x, 4)
    return {"values": values, "index": index}


def best_other_ties(x):
    """As a backend that takes the last of equal values."""
    found = best(x)
    return {"values": found["values"], "index": found["index"].at[2].set(5)}


def orders(x):
    return {"asc": jnp.argsort(x), "desc": jnp.argsort(x, descending=True), "loose": jnp.argsort(x, stable=False)}


def first_max(x):
    return jnp.argmax(x)


def max_slope(x):
    return jax.grad(jnp.max)(x)


def best_reference(x):
    """NaN sorts first; of equal values the lowest index comes first."""
    keyed = np.where(np.isnan(x), np.inf, x)
    index = np.lexsort((np.arange(x.size), -keyed, ~np.isnan(x)))[:4]
    return {"values": x[index], "index": index}


def orders_reference(x):
    ascending = np.argsort(x, kind="stable")  # NaN last
    descending = best_order(x)
    return {"asc": ascending, "desc": descending, "loose": ascending}


def best_order(x):
    keyed = np.where(np.isnan(x), np.inf, x)
    return np.lexsort((np.arange(x.size), -keyed, ~np.isnan(x)))


def first_max_reference(x):
    return np.argmax(x)  # a NaN counts as the largest, as in JAX


def max_slope_reference(x):
    """Ties share the gradient."""
    return (x == x.max()) / np.count_nonzero(x == x.max())
