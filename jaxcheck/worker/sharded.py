"""The kernel under jit on a mesh of several devices: some arguments split over them, the others on each.

The mesh spans all devices of all processes that run the check together: each of them gives its own devices their
shards, calls the kernel as the others do, and gathers the whole outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxcheck.worker import internals
from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.trees import key_path

AXIS = "batch"


class TooFewDevicesError(RuntimeError):
    """The recipe asks for more devices than there are."""


def sharded(subject: Subject, given: Mapping[str, Any]) -> Produced:
    """`options`: `devices`, `axes` {argument: axis that is split}, `outputs` {key path: partition spec}."""
    mesh = _mesh(subject.options["devices"])
    placed = {
        name: value if name in subject.arguments.statics else _placed(value, mesh, subject.options["axes"].get(name))
        for name, value in given.items()
    }
    args, kwargs = bind(subject.kernel, placed)
    outputs = JITTED(subject.kernel, subject.static)(*args, **kwargs)
    findings = tuple(_misplaced(outputs, mesh, subject.options["outputs"]))
    return Produced(outputs if jax.process_count() == 1 else _gathered(outputs, mesh), findings)


def _mesh(devices: int) -> Mesh:
    present = jax.devices()
    if len(present) < devices:
        raise TooFewDevicesError(
            f"the recipe needs {devices} devices, there are {len(present)} ({present[0].platform})"
        )
    return Mesh(np.array(present[:devices]), (AXIS,))


def _placed(value: Any, mesh: Mesh, axis: int | None) -> Any:
    """Every array leaf split along the axis, or whole on every device; JAX raises where it cannot be split evenly."""

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return leaf  # a `$python` value
        if axis is None:
            return _put(leaf, NamedSharding(mesh, PartitionSpec()))
        names: list[str | None] = [None] * leaf.ndim
        names[axis] = AXIS
        return _put(leaf, NamedSharding(mesh, PartitionSpec(*names)))

    return jax.tree.map(place, value)


def _put(leaf: jax.Array, sharding: NamedSharding) -> jax.Array:
    placed: jax.Array
    if jax.process_count() == 1:
        placed = jax.device_put(leaf, sharding)
    else:
        whole: Any = leaf if internals.is_key(leaf) else np.asarray(leaf)
        placed = jax.make_array_from_callback(leaf.shape, sharding, lambda index: whole[index])
    return placed


def _gathered(outputs: Any, mesh: Mesh) -> Any:
    """Every output leaf whole, as this process has it or comes to have it from the others."""
    whole = jax.jit(lambda leaf: leaf, out_shardings=NamedSharding(mesh, PartitionSpec()))

    def gather(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        return (leaf if leaf.is_fully_replicated else whole(leaf)).addressable_data(0)

    return jax.tree.map(gather, outputs)


def _misplaced(outputs: Any, mesh: Mesh, expected: Mapping[str, list[str | None]]) -> list[tuple[str, str]]:
    """One finding for each output leaf that lies elsewhere than the recipe says."""
    leaves = {key_path(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(outputs)[0]}
    found = []
    for path, spec in expected.items():
        if path not in leaves:
            found.append(("sharding", f"there is no output leaf {path} to be sharded; there are: {', '.join(leaves)}"))
            continue
        wanted, leaf = NamedSharding(mesh, PartitionSpec(*spec)), leaves[path]
        if len(spec) > leaf.ndim or not leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            actual = getattr(leaf.sharding, "spec", leaf.sharding)
            found.append(("sharding", f"output {path} is sharded as {actual}, the recipe says {wanted.spec}"))
    return found
