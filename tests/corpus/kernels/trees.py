"""Outputs that are trees: None, empty containers, named tuples, dataclasses, Python scalars."""

import dataclasses
import functools
from collections import OrderedDict, namedtuple

import jax
import jax.numpy as jnp
import numpy as np

Stat = namedtuple("Stat", "mean extra")


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["order"])
@dataclasses.dataclass
class Box:
    w: jax.Array
    order: int = 3


@dataclasses.dataclass
class Unregistered:
    w: jax.Array


def tree(x):
    return {
        "z": None,
        "a": (x, {}),
        "stat": Stat(x.mean(), None),
        "empty": [],
        "box": Box(x * 2),
        "od": OrderedDict(z=x, a=x + 1),
    }


def scalars(x):
    return {"i": 3, "f": 2.5, "b": True, "np64": np.float64(1.5), "arr": np.arange(2), "x": x}


def unregistered(x):
    return Unregistered(x)


def text(x):
    return {"status": "ok", "x": x}


def first_key(d):
    """Depends on the order of a dict, which jit replaces by that of its sorted keys."""
    return d[next(iter(d))] * 1.0


def nothing(x):
    return None


def slopes(p):
    return jax.grad(lambda p: jnp.sum(p["w"] ** 2))(p)


def tree_reference(x):
    """The leaves that there is something to say about."""
    return {"a": (x,), "stat": Stat(x.mean(), None), "box": Box(x * 2), "od": OrderedDict(z=x, a=x + 1)}


def scalars_reference(x):
    return {"i": 3, "f": 2.5, "b": True, "np64": 1.5, "arr": np.arange(2), "x": x}


def slopes_reference(p):
    return {"w": 2 * p["w"], "unused": None}
