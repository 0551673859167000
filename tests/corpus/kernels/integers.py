"""Integers that do not fit, and floats that are no integers."""

import jax.numpy as jnp
import numpy as np

INT32 = np.iinfo(np.int32)


def same(x):
    return x + 0


def total(x):
    return jnp.sum(x)


def running(x):
    return jnp.cumsum(x)


def bump(x):
    return x + 1


def to_int(x):
    return x.astype(jnp.int32)


def to_byte(x):
    return x.astype(jnp.uint8)


def over_zero(a, b):
    return {"div": a // b, "mod": a % b}


def _wrapped(x, dtype=np.int32):
    bits = np.iinfo(dtype).bits
    low = np.iinfo(dtype).min
    return (np.asarray(x, np.int64) - low) % 2**bits + low


def total_reference(x):
    """Sums of narrow integers are made in int32, and wrap."""
    return _wrapped(x.astype(np.int64).sum())


def running_reference(x):
    """Running sums stay in the dtype of what is summed."""
    return _wrapped(np.cumsum(x.astype(np.int64)), x.dtype)


def bump_reference(x):
    return _wrapped(x.astype(np.int64) + 1)


def _saturated(x, dtype):
    info = np.iinfo(dtype)
    return np.trunc(np.clip(np.nan_to_num(x, nan=0.0, posinf=info.max, neginf=info.min), info.min, info.max)).astype(
        np.int64
    )


def to_int_reference(x):
    """XLA on a CPU saturates, and makes 0 of NaN."""
    return _saturated(x, np.int32)


def to_byte_reference(x):
    return _saturated(x, np.uint8)


def beyond_int32():
    return {
        "int64": {"x": np.array([2**32 + 5, 7])},
        "nested": {"x": {"a": [np.float32(1), np.uint64(2**63)]}},
        "python-int": {"x": 2**32},
        "overflow": {"x": np.array([1e300])},
        "underflow": {"x": np.array([1e-300])},
        "fits": {"x": np.array([2**31 - 1, -(2**31)])},
        "rounded": {"x": np.array([0.1])},
        "zeros": {"x": np.array([0.0, -0.0, np.nan, np.inf])},
    }


def narrow():
    return {"int16": {"x": np.full(1000, 30000, np.int16)}, "wraps": {"x": np.array([INT32.max, 2], np.int32)}}


def bytes_():
    return {"uint8": {"x": np.full(3, 200, np.uint8)}}
