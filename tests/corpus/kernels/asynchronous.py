"""Work that is still under way when the call returns."""

import time

import jax
import jax.numpy as jnp
import numpy as np

NAP = 0.15


def slow(x):
    """Takes NAP seconds, behind a call that returns at once."""

    def nap(value):
        time.sleep(NAP)
        return np.asarray(value)

    return jax.jit(lambda x: jax.pure_callback(nap, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(x)


def timings(n):
    """Seconds: of the first call, until a later one returns, until its value is there. Nothing to hold to a golden."""
    x = jnp.ones((n, n), jnp.float32)
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 12, lambda i, c: jnp.tanh(c @ x * 1e-3), x))
    start = time.perf_counter()
    f(x).block_until_ready()
    first = time.perf_counter() - start
    start = time.perf_counter()
    y = f(x)
    returned = time.perf_counter() - start
    y.block_until_ready()
    return {"first": first, "returned": returned, "ready": time.perf_counter() - start}


def in_order(inputs, outputs):
    assert 0 < outputs["returned"] <= outputs["ready"]


def checked_late(x):
    """An error inside a callback surfaces only when the result is waited for."""

    def boom(value):
        raise RuntimeError("sensor offline")

    return jax.pure_callback(boom, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def healthy(x):
    return x + 1


def same_reference(x):
    return x


def healthy_reference(x):
    return x + 1
