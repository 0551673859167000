"""Kernels that hand PRNG keys back to their caller."""

import jax


def advance(seed):
    key, sub = jax.random.split(jax.random.key(seed))
    return {"key": key, "sample": jax.random.uniform(sub, (2,))}


def advance_raw(seed):
    key, sub = jax.random.split(jax.random.PRNGKey(seed))
    return {"key": key, "sample": jax.random.uniform(sub, (2,))}


def many(seed):
    return jax.random.split(jax.random.key(seed), 3)


def other_impl(seed):
    return jax.random.key(seed, impl="rbg")


def uniforms(keys):
    """One draw for every key of an array of keys."""
    return jax.vmap(lambda key: jax.random.uniform(key, ()))(keys)


def keys():
    return {"three": {"keys": jax.random.split(jax.random.key(7), 3)}}
