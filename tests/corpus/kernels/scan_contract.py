"""Loop bodies that keep, and bodies that break, the contract of a carry."""

import jax.numpy as jnp
import numpy as np
from jax import lax


def good(xs):
    return lax.scan(lambda c, x: (c + x, c), jnp.float32(0), xs)


def weak_start(xs):
    """A Python number as the start is promoted to the dtype of xs."""
    return lax.scan(lambda c, x: (c + x, c), 0, xs)


def bad_dtype(xs):
    return lax.scan(lambda c, x: (c * jnp.float32(2) + x, c), jnp.float16(0), xs)


def bad_shape(xs):
    return lax.scan(lambda c, x: (jnp.stack([c, c]), x), jnp.float32(0), xs)


def bad_tree(xs):
    return lax.scan(lambda c, x: ({"sum": c["sum"] + x, "last": x}, x), {"sum": jnp.float32(0)}, xs)


def not_a_pair(xs):
    return lax.scan(lambda c, x: c + x, jnp.float32(0), xs)


def ragged(xs):
    return lax.scan(lambda c, x: (c, x), jnp.float32(0), (xs, xs[:-1]))


def bad_cond(xs):
    return lax.while_loop(lambda c: c, lambda c: c + 1.0, xs[0])


def bad_branch(xs):
    return lax.cond(xs[0] > 0, lambda v: v, lambda v: v.astype(jnp.int32), xs)


def sums_reference(xs):
    return xs.sum(), np.cumsum(xs) - xs
