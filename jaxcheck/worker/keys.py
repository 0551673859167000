"""PRNG keys that are used twice: draws that should be independent are the same draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from jaxcheck.worker import internals
from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import bind, describe, own_frame
from jaxcheck.worker.subject import Subject

RAW = "the kernel takes raw uint32 keys, whose reuse cannot be checked: pass typed ones (jax.random.key, `$key`)"


def examine(subject: Subject) -> tuple[list[dict[str, str]], list[str]]:
    """(findings, notes) on a kernel that was run under jit: it is traced once more where typed keys occur in it."""
    args, kwargs = bind(subject.kernel, subject.arguments.fresh())
    jitted = JITTED(subject.kernel, subject.static)
    primitives = set(_primitives(jitted.trace(*args, **kwargs).jaxpr))
    notes = [RAW] if "random_wrap" in primitives else []
    if not any(name.startswith("random_") for name in primitives):
        return [], []
    try:
        with jax.debug_key_reuse(True):
            jitted.trace(*args, **kwargs)
    except jax.errors.KeyReuseError as error:
        place = own_frame(error.__cause__ or error)
        message = f"a PRNG key is used twice{f' at {place}' if place else ''}: {str(error).splitlines()[0]}"
        return [{"kind": "keys", "message": message}], notes
    except Exception as error:  # a kernel that cannot be traced twice
        notes.append(f"reuse of PRNG keys was not checked: {describe(error)}")
    return [], notes


def _primitives(jaxpr: Any) -> Iterator[str]:
    for equation in internals.opened(jaxpr)[0].eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    yield from _primitives(inner)
