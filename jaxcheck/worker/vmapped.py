"""The kernel under `jax.vmap`: this case's row is the output, every other row must equal a call of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.subject import Pair, Produced, Subject
from jaxcheck.worker.trees import restore, tree_of

MOST_ROWS = 4
ROWS_ALONE = 3
DEFAULT: Mapping[str, Any] = {"axes": {}, "rows": None}


def vmap(subject: Subject, given: Mapping[str, Any]) -> Produced:
    """One batch for each that the recipe describes; without one, every argument gets a new first axis.

    `options`: [{`axes`: {argument: axis or None}, `rows`: number or None}].
    """
    singles = _Singles(subject)
    batches = [_Batch(subject, said["axes"], said["rows"], singles) for said in subject.options or [DEFAULT]]
    pairs = tuple(pair for number, batch in enumerate(batches) for pair in _pairs(batch, singles, first=number == 0))
    return Produced(jax.tree.map(lambda leaf: leaf[0], batches[0].outputs), pairs=pairs)


def batched(subject: Subject) -> tuple[Callable[..., Any], list[Any]]:
    """(the first batch as a function of its array leaves, which gives what the mode does, these leaves)."""
    said = (subject.options or [DEFAULT])[0]
    batch = _Batch(subject, said["axes"], said["rows"], _Singles(subject))
    return lambda *leaves: jax.tree.map(lambda leaf: leaf[0], batch.function(list(leaves))), batch.leaves


class _Singles:
    """The outputs of plain calls, made when first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._known: dict[str, Tree | None] = {}

    def of(self, name: str, arguments: Arguments) -> Tree | None:
        """None where the call raises: that is the finding of another check."""
        if name not in self._known:
            try:
                self._known[name] = tree_of(self._subject.call(arguments.fresh()))
            except Exception:
                self._known[name] = None
        return self._known[name]


def _pairs(batch: _Batch, singles: _Singles, first: bool) -> Iterator[Pair]:
    """Every row with the call of its own case; rows with the same bits once. The first batch's first is the output."""
    seen = set()
    for row, name in list(enumerate(batch.names))[first:]:
        single, actual = singles.of(name, batch.cases[name]), batch.row(row)
        bits = name, *(leaf.digest for leaf in actual.leaves)
        if single is not None and bits not in seen:
            seen.add(bits)
            words = f"vmap{batch.words} disagrees with the single call: row {row} ({name or 'this case'})"
            yield Pair(words, single, actual)


def _same_signature(mine: Arguments, theirs: Arguments) -> bool:
    """Whether two cases can be rows of one batch: the same tree, shapes and dtypes, and equal Python values."""
    return (mine.structure, mine.statics, mine.python) == (theirs.structure, theirs.statics, theirs.python) and [
        _signature(leaf) for leaf in mine.leaves
    ] == [_signature(leaf) for leaf in theirs.leaves]


def _signature(leaf: Leaf) -> tuple[Any, ...]:
    return leaf.path, leaf.dtype, leaf.shape, leaf.impl


class _Batch:
    """This case, then others that can be rows with it; alone, this case several times over."""

    def __init__(self, subject: Subject, axes: Mapping[str, int | None], rows: int | None, singles: _Singles) -> None:
        self.words = f" over {{{', '.join(f'{name}: {_yaml(axis)}' for name, axis in axes.items())}}}" if axes else ""
        mine = subject.arguments
        numbers = jax.tree.unflatten(mine.treedef, range(len(mine.leaves)))
        axis_of = {i: axes.get(name, 0) for name, part in numbers.items() for i in jax.tree.leaves(part)}
        along = [None if i in mine.python else axis_of[i] for i in range(len(mine.leaves))]
        shared = [i for i, axis in enumerate(along) if axis is None]
        self.cases = self._cases(subject, shared, rows or MOST_ROWS, singles)
        number = rows or (len(self.cases) if len(self.cases) > 1 else ROWS_ALONE)
        self.names = list(islice(cycle(self.cases), number))
        leaves = [
            restore(mine.leaves[i])
            if axis is None
            else _stacked([self.cases[name].leaves[i] for name in self.names], axis)
            for i, axis in enumerate(along)
        ]
        self.leaves, self.function = leaves, jax.vmap(subject.call_leaves, in_axes=(along,))
        self.outputs = self.function(leaves)
        self._tree = tree_of(self.outputs)

    def _cases(self, subject: Subject, shared: list[int], most: int, singles: _Singles) -> dict[str, Arguments]:
        """This case and others like it. What is not batched has one value for all rows: they must share it."""
        mine = subject.arguments
        cases = {"": mine}
        for name, other in subject.companions():
            if len(cases) == most:
                break
            like = _same_signature(mine, other) and all(other.leaves[i].digest == mine.leaves[i].digest for i in shared)
            if like and singles.of(name, other) is not None:
                cases[name] = other
        return cases

    def row(self, number: int) -> Tree:
        leaves = [
            Leaf(leaf.path, leaf.dtype, leaf.shape[1:], leaf.weak_type, leaf.words[number], leaf.impl)
            for leaf in self._tree.leaves
        ]
        return Tree(self._tree.structure, tuple(leaves))


def _yaml(axis: int | None) -> str:
    return "null" if axis is None else str(axis)


def _stacked(leaves: list[Leaf], axis: int) -> jax.Array:
    """By NumPy where it can, which compiles nothing; typed keys by JAX."""
    if leaves[0].impl is not None:
        return jnp.stack([restore(leaf) for leaf in leaves], axis)
    batch: jax.Array = jax.device_put(np.stack([leaf.array() for leaf in leaves], axis))
    return batch
