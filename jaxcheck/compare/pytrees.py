"""Two pytrees of arrays compared leaf by leaf, for Python users: structure, dtypes, shapes, then values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.leaves import compare_leaf
from jaxcheck.results import LeafResult, ToleranceUsed

SOURCE = "compare()"


@dataclass(frozen=True)
class Comparison:
    """What came of it. `differences` are sentences about leaves that cannot be compared or are beyond the tolerance;
    `leaves` are the statistics of those that could be, in the order of `expected`. True where nothing differs."""

    leaves: tuple[LeafResult, ...]
    differences: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def violation_ratio(self) -> float:
        """The largest |actual - expected| / (atol + rtol * |expected|) of all leaves; up to 1 is within."""
        return max((leaf.violation_ratio for leaf in self.leaves), default=0.0)

    def __str__(self) -> str:
        if self.differences:
            return "\n".join(self.differences)
        return f"{len(self.leaves)} leaves, the furthest at {self.violation_ratio:.3g} of its tolerance"


def compare(expected: Any, actual: Any, *, rtol: float, atol: float) -> Comparison:
    """`actual` against `expected`: dicts, lists, tuples and None around arrays of any shape and dtype that
    `compare_arrays` takes (NumPy, JAX, ml_dtypes) or Python numbers.

    Structure (a tuple is no list), dtypes and shapes must be equal. A floating or complex element is within if
    |actual - expected| <= atol + rtol * |expected|, computed in float64; integers and booleans are exact. NaN agrees
    with NaN, an infinity with itself. Raises TypeError for a leaf that is no array of numbers (a PRNG key: give its
    `jax.random.key_data`), ValueError for a tolerance that is negative or not finite, and for two keys of one dict that
    are written alike.
    """
    wanted, found = _by_path(expected), _by_path(actual)
    differences = [f"{path or '.'}: missing" for path in wanted if path not in found]
    differences += [f"{path or '.'}: not expected" for path in found if path not in wanted]
    leaves = []
    for path, want in wanted.items():
        if path not in found:
            continue
        name, unlike = path or ".", _unlike(want, found[path])
        if unlike:
            differences.append(f"{name}: {unlike}")
        elif isinstance(want, np.ndarray):
            leaf = compare_leaf(
                name, want.dtype.name, want, found[path], _tolerance(want, rtol, atol), against="expected"
            )
            leaves.append(leaf)
            differences += [f"{name}: {leaf.reason}"] if leaf.reason else []
    return Comparison(tuple(leaves), tuple(differences))


def _tolerance(array: Array, rtol: float, atol: float) -> ToleranceUsed:
    if array.dtype.kind in "biu" or array.dtype.name in ("int2", "int4", "uint2", "uint4"):
        return ToleranceUsed(rtol=0.0, atol=0.0, source=f"exact: {array.dtype.name}")
    return ToleranceUsed(rtol=rtol, atol=atol, source=SOURCE)


def _unlike(want: Any, got: Any) -> str | None:
    """How kind, dtype or shape differ."""
    if not (isinstance(want, np.ndarray) and isinstance(got, np.ndarray)):
        return None if want == got and type(want) is type(got) else f"is {_words(got)}, expected {_words(want)}"
    same = want.dtype == got.dtype and want.shape == got.shape
    return None if same else f"is {_words(got)}, expected {_words(want)}"


def _words(leaf: Any) -> str:
    if isinstance(leaf, np.ndarray):
        return f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]"
    return str(leaf)


def _by_path(tree: Any) -> dict[str, Any]:
    """{key path as JAX writes it: array, or what kind of node is there}."""
    found: dict[str, Any] = {}
    for path, node in _nodes("", tree):
        if path in found:
            raise ValueError(f"two nodes have the path {path}: give the keys of that dict a repr of their own")
        found[path] = node
    return found


def _nodes(path: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """(path, array), in order; a container before what is in it and None are told by what they are."""
    if tree is None:
        yield path, "None"
    elif isinstance(tree, dict | list | tuple):
        yield path, f"{'a' if tree else 'an empty'} {type(tree).__name__}"
        for step, child in _children(tree):
            yield from _nodes(path + step, child)
    else:
        yield path, _array(path, tree)


def _children(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        yield from ((f"[{key!r}]", child) for key, child in tree.items())
    elif hasattr(tree, "_fields"):
        yield from ((f".{field}", getattr(tree, field)) for field in tree._fields)
    else:
        yield from ((f"[{index}]", child) for index, child in enumerate(tree))


def _array(path: str, leaf: Any) -> Array:
    array: Array = np.asarray(leaf)
    if array.dtype.kind in "OSUMm":
        raise TypeError(f"{path or '.'} is {type(leaf).__name__}, which is no array of numbers")
    return array
