"""Derivatives where the branch that is not taken is singular: some NaN are the documented answer."""

import jax
import jax.numpy as jnp
import numpy as np


def soft_root(x):
    """x below one, sqrt(x) above."""
    return jnp.where(x < 1, x, jnp.sqrt(x))


def soft_root_guarded(x):
    safe = jnp.where(x < 1, 1.0, x)
    return jnp.where(x < 1, x, jnp.sqrt(safe))


def entropy_term(p):
    return jnp.where(p > 0, -p * jnp.log(p), 0.0)


def log_or_zero(x):
    return jax.lax.cond(x > 0, jnp.log, lambda t: 0.0 * t, x)


def logs_or_zeros(x):
    return jax.vmap(log_or_zero)(x)


def bare_slopes(x):
    return jax.vmap(jax.grad(soft_root))(x)


def guarded_slopes(x):
    return jax.vmap(jax.grad(soft_root_guarded))(x)


def entropy_slopes(p):
    return jax.vmap(jax.grad(entropy_term))(p)


def cond_slopes(x):
    return jax.vmap(jax.grad(log_or_zero))(x)


def root_reference(x):
    return np.where(x < 1, x, np.sqrt(x))


def guarded_slopes_reference(x):
    return np.where(x < 1, 1.0, 0.5 / np.sqrt(np.maximum(x, 1)))


def bare_slopes_reference(x):
    """At 0 the branch not taken has an infinite slope, and 0 * inf is NaN, as JAX's FAQ explains."""
    return np.where(x == 0, np.nan, guarded_slopes_reference(x))


def entropy_reference(p):
    return -p * np.log(np.where(p > 0, p, 1))


def entropy_slopes_reference(p):
    with np.errstate(divide="ignore"):
        return np.where(p > 0, -np.log(p) - 1, np.nan)


def log_or_zero_reference(x):
    return np.log(np.where(x > 0, x, 1))


def cond_slopes_reference(x):
    return np.where(x > 0, 1 / np.where(x > 0, x, 1), 0.0)
