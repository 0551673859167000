"""The exported program (StableHLO) of a kernel: what lets a later JAX run what this one would have run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import export

from jaxcheck.worker import internals
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.subject import Call


def flat_function(kernel: Call, arguments: Arguments) -> tuple[Callable[..., Any], list[Any]]:
    """(the kernel as a function of its array leaves, these leaves). Static and Python values are baked in."""
    fresh = arguments.fresh()
    flat, treedef = jax.tree.flatten({name: fresh[name] for name in fresh if name not in arguments.statics})
    dynamic = [i for i in range(len(flat)) if i not in arguments.python]

    def function(*leaves: Any) -> Any:
        values = list(flat)
        for position, leaf in zip(dynamic, leaves, strict=True):
            values[position] = leaf
        args, kwargs = bind(kernel, {**jax.tree.unflatten(treedef, values), **arguments.statics})
        return kernel(*args, **kwargs)

    return function, [flat[i] for i in dynamic]


def exported(kernel: Call, arguments: Arguments) -> bytes:
    """Serialised export of the kernel at these arguments, with flat inputs and outputs (named tuples need no
    registration then); typed keys travel as key data.

    Raises whatever JAX raises for what it cannot export (callbacks, unknown custom calls).
    """
    return serialised(*flat_function(kernel, arguments))


def serialised(function: Callable[..., Any], flat: Sequence[Any]) -> bytes:
    """Serialised export of a function of array leaves at such leaves, or at their shapes and dtypes."""
    impls = [internals.key_impl(leaf) for leaf in flat]

    def program(*words: Any) -> list[Any]:
        pairs = zip(words, impls, strict=True)
        leaves = [jax.random.wrap_key_data(leaf, impl=impl) if impl else leaf for leaf, impl in pairs]
        return [words_of(leaf) for leaf in jax.tree.leaves(function(*leaves))]

    with internals.portable_locations():
        inputs = [words_of(leaf) for leaf in flat]
        return bytes(export.export(jax.jit(program))(*inputs).serialize())


def words_of(leaf: Any) -> Any:
    """Key data in the place of typed keys, of arrays or of shapes; anything else as it is."""
    if internals.key_impl(leaf) is None:
        return leaf
    return jax.random.key_data(leaf) if isinstance(leaf, jax.Array) else jax.eval_shape(jax.random.key_data, leaf)
