"""A step that gives its input buffers away."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.jit, donate_argnums=0)
def step(state):
    return {"w": state["w"] * 2, "n": state["n"] + 1}


def step_twice_same(state):
    """The second call gets arrays that the first one was given for good; an outer jit ignores donation."""
    step(state)
    return step(state)


def read_after(state):
    step(state)
    return state["w"] + 0


@functools.partial(jax.jit, donate_argnums=0)
def shrink(x):
    """Nothing of the size of x is there to reuse its buffer: a warning, and the input survives."""
    return jnp.sum(x)


def shrink_then_read(x):
    s = shrink(x)
    return {"s": s, "x0": x[0]}


def step_reference(state):
    return {"w": 2 * state["w"], "n": state["n"] + 1}


def read_reference(state):
    return state["w"]


def shrink_reference(x):
    return {"s": x.sum(), "x0": x[0]}


def states():
    return {"ramp": {"state": {"w": np.arange(4, dtype=np.float32), "n": np.int32(0)}}}
