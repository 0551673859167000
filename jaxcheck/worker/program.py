"""The exported program (StableHLO) of a kernel: what lets a later JAX run what this one would have run."""

from __future__ import annotations

from typing import Any

import jax
from jax import export

from jaxcheck.worker import internals
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.modes import Call


def exported(kernel: Call, arguments: Arguments) -> bytes:
    """Serialised export of the kernel at these arguments, with flat inputs and outputs (named tuples need no
    registration then). Static and Python values are baked in; typed keys travel as key data.

    Raises whatever JAX raises for what it cannot export (callbacks, unknown custom calls).
    """
    fresh = arguments.fresh()
    flat, treedef = jax.tree.flatten({name: fresh[name] for name in fresh if name not in arguments.statics})
    dynamic = [i for i in range(len(flat)) if i not in arguments.python]
    impls = {i: jax.random.key_impl(flat[i]) for i in dynamic if internals.is_key(flat[i])}

    def program(*leaves: Any) -> list[Any]:
        values = list(flat)
        for position, leaf in zip(dynamic, leaves, strict=True):
            values[position] = jax.random.wrap_key_data(leaf, impl=impls[position]) if position in impls else leaf
        args, kwargs = bind(kernel, {**jax.tree.unflatten(treedef, values), **arguments.statics})
        return [_words(leaf) for leaf in jax.tree.leaves(kernel(*args, **kwargs))]

    with internals.portable_locations():
        inputs = [_words(flat[i]) for i in dynamic]
        return bytes(export.export(jax.jit(program))(*inputs).serialize())


def _words(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if internals.is_key(leaf) else leaf
