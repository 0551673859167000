"""bfloat16: a rounding residual, accumulation in low precision, and a grid in low precision."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np

BF = ml_dtypes.bfloat16


def residual(x, y):
    """What the addition x + y lost of y."""
    s = x + y
    return y - (s - x)


def total(x):
    return jnp.sum(x)


def running_total(x):
    return jnp.cumsum(x)[-1]


def grid(n):
    return jnp.linspace(0, 1, n, dtype=jnp.bfloat16)


def round_trip(x):
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def rounded(x):
    """To bfloat16 and back, in float64."""
    return np.asarray(x, np.float32).astype(BF).astype(np.float64)


def residual_reference(x, y):
    """Every operation rounds."""
    s = rounded(x + y)
    return rounded(y - rounded(s - x))


def total_reference(x):
    return x.sum()


def grid_reference(n):
    """i / 10, correctly rounded."""
    return rounded(np.linspace(0, 1, n))


def round_trip_reference(x):
    return rounded(x)


def pairs():
    x, y = np.array([1.0, 3.0, 100.0, 0.1], np.float32), np.array([0.001, 0.01, 0.3, 0.0007], np.float32)
    return {"pairs": {"x": x.astype(BF), "y": y.astype(BF)}}


def tenths():
    return {"tenths": {"x": np.full(4096, 0.1, np.float32).astype(BF)}}


def singles():
    return {"singles": {"x": np.array([np.pi, 1 + 2.0**-9, 1e-40], np.float32)}}
