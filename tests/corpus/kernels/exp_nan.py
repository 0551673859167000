"""NaN must come out of an exponential whose argument is NaN."""

import jax
import jax.numpy as jnp
import numpy as np


def poisoned(x):
    return jnp.exp(x * jnp.nan)


def missing_scale(x, scale):
    """NaN as `scale` marks what was not measured: a value at run time, not a constant."""
    return jnp.exp(x * scale)


def poisoned_batch(x):
    return {"e": jnp.exp(x * jnp.nan), "s": jnp.sum(jnp.exp(x * jnp.nan))}


def poisoned_rows(x):
    return jax.vmap(poisoned_batch)(x)


def poisoned_reference(x):
    return x * np.nan


def missing_scale_reference(x, scale):
    return np.exp(x * scale)


def poisoned_batch_reference(x):
    return {"e": x * np.nan, "s": np.float64("nan")}


def poisoned_rows_reference(x):
    return {"e": x * np.nan, "s": x * np.nan}
