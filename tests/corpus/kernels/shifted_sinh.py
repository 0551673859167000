"""An addition fused into a steep function: the everyday few ULP."""

import jax.numpy as jnp
import numpy as np


def shifted_sinh(x):
    return jnp.sinh(x + jnp.float32(16.0))


def damped_wave(x):
    return jnp.sin(x) * jnp.exp(-x * x) + jnp.cos(x) / 3


def cubic(x):
    return 3 * x * x * x - 2 * x * x + x - 1


def shifted_sinh_reference(x):
    return np.sinh(x + 16.0)


def damped_wave_reference(x):
    return np.sin(x) * np.exp(-x * x) + np.cos(x) / 3


def cubic_reference(x):
    return 3 * x**3 - 2 * x * x + x - 1


def scalars():
    """Scalars on purpose: theirs is the code path that moved."""
    return {f"x{i}": {"x": np.float32(x)} for i, x in enumerate((-0.95, -0.8, -0.7, -0.55, 0.1))}


def grid():
    return {"grid": {"x": np.linspace(-3, 3, 97).astype(np.float32)}}


def steps():
    return {"steps": {"x": (np.arange(97) * 0.0631 - 3).astype(np.float32)}}
