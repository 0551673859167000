"""What a mode computes, as a function of flat arrays: what can be exported, or read as equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jaxcheck.worker import derivatives, vmapped
from jaxcheck.worker.program import flat_function
from jaxcheck.worker.subject import Subject
from jaxcheck.worker.units import Units, exported_steps, exported_whole

Flat = tuple[Callable[..., Any], list[Any]]


class NoProgramError(Exception):
    """The mode is not a program that could be taken elsewhere."""


def traceable(subject: Subject, mode: str) -> Flat:
    """(a function of arrays that gives the mode's outputs, these arrays)."""
    if mode == "vmap":
        return vmapped.batched(subject)
    if mode == "grad":
        return derivatives.differentiable(subject)
    return flat_function(subject.kernel, subject.arguments)


def export_mode(subject: Subject, mode: str) -> Units:
    """The program that a check in this mode runs; raises what JAX raises where there is none."""
    if mode == "sharded":
        raise NoProgramError("a program for several devices is not exported")
    function, flat = traceable(subject, mode)
    if mode in ("jit", "grad"):  # the gradient is computed under jit
        return exported_whole(function, flat)
    if mode == "disable_jit":
        with jax.disable_jit():
            return exported_steps(function, flat)
    return exported_steps(function, flat)
