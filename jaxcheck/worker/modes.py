"""How a kernel is executed: one function a mode, `(subject, fresh arguments by name) -> what it produced`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxcheck.worker.gradient import grad
from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.sharded import sharded
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.vmapped import vmap

Mode = Callable[[Subject, Mapping[str, Any]], Produced]


def eager(subject: Subject, given: Mapping[str, Any]) -> Produced:
    """The plain call: what a user gets who writes `kernel(x)`."""
    return Produced(subject.call(given))


def jit(subject: Subject, given: Mapping[str, Any]) -> Produced:
    args, kwargs = bind(subject.kernel, given)
    return Produced(JITTED(subject.kernel, subject.static)(*args, **kwargs))


def disable_jit(subject: Subject, given: Mapping[str, Any]) -> Produced:
    """Operation by operation, also inside what is jitted already."""
    with jax.disable_jit():
        return Produced(subject.call(given))


MODES: Mapping[str, Mode] = {
    "eager": eager,
    "jit": jit,
    "disable_jit": disable_jit,
    "vmap": vmap,
    "grad": grad,
    "sharded": sharded,
}
