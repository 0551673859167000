"""Wrong results on purpose, for measuring what a diagnosis finds: what becomes of the outputs of one equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxcheck.worker import internals
from jaxcheck.worker.interpreter import is_float


class NoFault(Exception):
    """What was made wrong on purpose came out the same: nothing can be found."""


Fault = Callable[[list[Any], list[Any]], list[Any]]  # (inputs, outputs) -> outputs


def _floats(change: Callable[[Any], Any]) -> Fault:
    def fault(inputs: list[Any], outputs: list[Any]) -> list[Any]:
        return [change(x).astype(x.dtype) if is_float(x) else x for x in outputs]

    return fault


def _dropped(inputs: list[Any], outputs: list[Any]) -> list[Any]:
    """The first input of the same shape and dtype in the place of each output: what it should have changed stays."""

    def same(output: Any) -> Any:
        alike = [x for x in inputs if jnp.shape(x) == output.shape and jnp.result_type(x) == output.dtype]
        return jnp.asarray(alike[0]) if alike else output

    return [same(output) for output in outputs]


FAULTS: Mapping[str, Fault] = {
    "bf16": _floats(lambda x: x.astype(jnp.bfloat16)),
    "sign": _floats(lambda x: -x),
    "constant": _floats(lambda x: x * 1.001),
    "dropped": _dropped,
    "nan": _floats(lambda x: jnp.where(jnp.arange(x.size).reshape(x.shape) == x.size // 2, jnp.nan, x)),
}


def injected(faults: Mapping[str, str] | None) -> Callable[[int, Any, list[Any], list[Any]], list[Any]] | None:
    """{number of an execution: kind of fault} as what an interpreter calls with each equation; None for none.

    NoFault where a fault changes no value: a sign of 0, a bfloat16 rounding of 1.
    """
    if not faults:
        return None
    wrong = {int(number): kind for number, kind in faults.items()}

    def intervene(number: int, equation: Any, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        if number not in wrong:
            return outputs
        changed = FAULTS[wrong[number]](inputs, outputs)
        if all(map(_same, outputs, changed)):
            raise NoFault(f"{wrong[number]} changes nothing at {number}, a {equation.primitive.name}")
        return changed

    return intervene


def _same(one: Any, other: Any) -> bool:
    if internals.is_key(one):
        return one is other
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=bool(jnp.issubdtype(one.dtype, jnp.inexact)))
