"""Cheap exact probes of a backend, and a matrix product whose precision depends on it."""

import jax
import jax.numpy as jnp
import numpy as np


def canary(x):
    """Values that any backend must get exactly right, op by op and compiled."""
    return {
        "root": jnp.sqrt(x[0]),
        "plus": jnp.ones(4, jnp.float32) + 1,
        "pow2": jnp.exp2(x[1]),
        "iota": jnp.arange(5) * 3,
    }


def product(a, b):
    return a @ b


def product_highest(a, b):
    return jnp.matmul(a, b, precision="highest")


def product_bfloat16(a, b):
    """What a TPU does by default: inputs rounded to bfloat16, sums in float32."""
    a, b = (t.astype(jnp.bfloat16).astype(jnp.float32) for t in (a, b))
    return jnp.matmul(a, b, precision="highest")


def product_tf32(a, b):
    """What a GPU with TF32 does by default: inputs rounded to 10 bits of mantissa."""
    a, b = (jax.lax.reduce_precision(t, exponent_bits=8, mantissa_bits=10) for t in (a, b))
    return jnp.matmul(a, b, precision="highest")


def canary_reference(x):
    return {"root": np.sqrt(x[0]), "plus": np.full(4, 2.0), "pow2": 2.0 ** x[1], "iota": np.arange(5) * 3}


def product_reference(a, b):
    return a @ b


def matrices():
    a = np.sin(np.arange(64 * 128) * 0.7).astype(np.float32).reshape(64, 128)
    b = np.cos(np.arange(128 * 32) * 1.1).astype(np.float32).reshape(128, 32)
    return {"waves": {"a": a, "b": b}}
