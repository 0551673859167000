"""One array with the facts that `.npy` cannot hold, and the tree that such leaves make up."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import UnionType
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.excerpt import Excerpt, check_excerpt, excerpt_of
from jaxcheck.goldens.structure import count_leaves

Array = npt.NDArray[Any]

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATS = frozenset({"float16", "float32", "float64", "complex64", "complex128"})
NATIVE = _INTEGERS | _FLOATS | {"bool"}
_LEAF_FIELDS: dict[str, type | UnionType] = {
    "path": str,
    "dtype": str,
    "shape": list,
    "weak_type": bool,
    "impl": str | None,
    "sha256": str,
}


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array of a pytree.

    `path` is its key path as jax.tree_util.keystr spells it, the root leaf's is `.`. `dtype` is JAX's name
    (`float32`, `bfloat16`, `int4`, `key<fry>`) and `shape` the logical one: without the words of typed PRNG
    keys. `words` is what is stored: little-endian, C order, read-only; the array itself for dtypes that
    `.npy` names, an unsigned view for other ones, the uint32 key data for typed keys, whose implementation
    is `impl`.

    Where there is an `excerpt`, `words` holds its elements alone, in one dimension; digest and shape are those of the
    whole. Two leaves are equal when all of the array is, bit for bit, however much of it is kept.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    weak_type: bool
    words: Array
    impl: str | None = None
    excerpt: Excerpt | None = None

    @classmethod
    def of(cls, path: str, array: npt.ArrayLike, weak_type: bool = False) -> Leaf:
        """The leaf of an array in any layout and byte order, copied only where one of these must change."""
        given = np.asarray(array)
        dtype = given.dtype.name
        stored = stored_dtype(dtype)
        if stored is None:
            hint = f"return one of {', '.join(sorted(NATIVE))}, or a dtype of ml_dtypes"
            raise GoldenError(f"leaf {path} has dtype {given.dtype}, which a golden cannot hold", hint)
        ordered = given.astype(stored if dtype in NATIVE else given.dtype, order="C", copy=False)
        return cls(path, dtype, given.shape, weak_type, _read_only(ordered.view(stored)))

    @classmethod
    def of_key(cls, path: str, key_data: npt.ArrayLike, impl: str, dtype: str, shape: tuple[int, ...]) -> Leaf:
        """The leaf of typed PRNG keys; `key_data` is uint32 with one axis more than `shape`: the words."""
        given, shape = np.asarray(key_data), tuple(shape)
        if given.dtype.name != "uint32" or given.shape[:-1] != shape or given.ndim == 0:
            found = f"{given.dtype}{list(given.shape)}"
            hint = "pass jax.random.key_data(keys) and keys.shape"
            raise GoldenError(f"leaf {path}: {dtype} of shape {shape} does not have key data {found}", hint)
        words = given.astype("<u4", order="C", copy=False)
        return cls(path, dtype, shape, False, _read_only(words), impl)

    @cached_property
    def digest(self) -> str:
        """sha256, in hexadecimal digits, of dtype, shape, impl and the little-endian bytes in C order."""
        return self._digest_of_words() if self.excerpt is None else self.excerpt.digest

    def _digest_of_words(self) -> str:
        content = hashlib.sha256(json.dumps([self.dtype, self.shape, self.impl]).encode() + b"\n")
        content.update(self.words.reshape(-1).view(np.uint8))
        return content.hexdigest()

    @property
    def size(self) -> int:
        """How many elements the whole has."""
        return math.prod(self.shape)

    def abridged(self) -> Leaf:
        """The leaf with no more than `excerpt_of` says."""
        excerpt = None if self.excerpt else excerpt_of(self.dtype, self.shape, self.digest)
        if excerpt is None:
            return self
        return replace(self, words=_read_only(self.words.reshape(-1)[excerpt.positions]), excerpt=excerpt)

    def elements(self, positions: Array) -> Array:
        """Those at these positions in C order, all of which are kept."""
        flat = self.array().reshape(-1)
        return flat[positions if self.excerpt is None else np.searchsorted(self.excerpt.positions, positions)]

    def element(self, index: tuple[int, ...]) -> Any:
        """The one at an index; None where it is not kept."""
        if self.excerpt is None:
            return self.array()[index]
        place = int(np.ravel_multi_index(index, self.shape))
        at = int(np.searchsorted(self.excerpt.positions, place))
        kept = at < self.words.size and self.excerpt.positions[at] == place
        return self.array()[at] if kept else None

    def array(self) -> Array:
        """The logical array, bit for bit, read-only; for typed keys their uint32 words; of an excerpt its elements."""
        extended = None if self.impl is not None or self.dtype in NATIVE else extended_dtype(self.dtype)
        return self.words if extended is None else self.words.view(extended)

    def meta(self) -> dict[str, Any]:
        """What JSON holds of the leaf; `restore` reads it."""
        kept = self.excerpt
        blocks = {"starts": list(kept.starts), "length": kept.length, "sha256": self._digest_of_words()} if kept else {}
        return self._facts() | ({"excerpt": blocks} if kept else {})

    def _facts(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "weak_type": self.weak_type,
            "impl": self.impl,
            "sha256": self.digest,
        }

    @classmethod
    def restore(cls, meta: Mapping[str, Any], words: Array) -> Leaf:
        """The leaf that `meta` describes, from what was stored; GoldenError where the two do not agree."""
        path, dtype, impl, shape = meta["path"], meta["dtype"], meta["impl"], tuple(meta["shape"])
        stored = stored_dtype(dtype, impl)
        if stored is None:
            message = f"leaf {path} has dtype {dtype}, which neither NumPy nor ml_dtypes knows here"
            raise GoldenError(message, "python -m pip install -U ml_dtypes")
        if words.dtype.name != stored.name:
            raise GoldenError(f"leaf {path} of dtype {dtype} is stored as {words.dtype}, not as {stored}")
        excerpt, recorded = None, meta["sha256"]
        if kept := meta.get("excerpt"):
            excerpt, recorded = Excerpt(tuple(kept["starts"]), kept["length"], meta["sha256"]), kept["sha256"]
            if words.shape != (len(excerpt.starts) * excerpt.length,):
                raise GoldenError(f"leaf {path} is stored with shape {words.shape}, not as its excerpt")
        elif words.shape[: len(shape)] != shape or words.ndim != len(shape) + (impl is not None):
            raise GoldenError(f"leaf {path} is stored with shape {words.shape}, its metadata say {shape}")
        ordered = _read_only(words.astype(stored, order="C", copy=False))
        leaf = cls(path, dtype, shape, meta["weak_type"], ordered, impl, excerpt)
        found = leaf.digest if excerpt is None else leaf._digest_of_words()
        if found != recorded:
            raise GoldenError(f"leaf {path} does not match its digest: {found[:12]}…, recorded was {recorded[:12]}…")
        return leaf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.path, self.digest))


@dataclass(frozen=True)
class Tree:
    """A pytree: its leaves in JAX's order, its structure in the grammar of `jaxcheck.goldens.structure`."""

    structure: Any
    leaves: tuple[Leaf, ...]

    @cached_property
    def by_path(self) -> dict[str, Leaf]:
        return {leaf.path: leaf for leaf in self.leaves}

    def under(self, prefix: str) -> Tree:
        """The same tree with every leaf's path behind a prefix: `grad['w']`."""
        return Tree(self.structure, tuple(replace(leaf, path=prefix + leaf.path) for leaf in self.leaves))

    def abridged(self, chosen: Callable[[str], bool]) -> Tree:
        """The same tree with only an excerpt of the leaves whose paths are chosen."""
        return Tree(self.structure, tuple(leaf.abridged() if chosen(leaf.path) else leaf for leaf in self.leaves))

    def meta(self) -> dict[str, Any]:
        return {"structure": self.structure, "leaves": [leaf.meta() for leaf in self.leaves]}

    @classmethod
    def restore(cls, meta: Mapping[str, Any], words: Iterable[Array]) -> Tree:
        """The tree that `meta` describes (see `check_tree_meta`), from what was stored of each leaf."""
        pairs = zip(meta["leaves"], words, strict=True)
        return cls(meta["structure"], tuple(Leaf.restore(leaf, stored) for leaf, stored in pairs))


def check_tree_meta(meta: Any) -> dict[str, Any]:
    """`meta`, where it is what `Tree.meta` gives; ValueError or TypeError says what is wrong with it."""
    leaves = json_field(meta, "leaves", list)
    for leaf in leaves:
        _check_leaf_meta(leaf)
    expected = count_leaves(json_field(meta, "structure", object))
    if expected != len(leaves):
        raise ValueError(f"{len(leaves)} leaves do not fit a structure of {expected}")
    return dict(meta)


def _check_leaf_meta(meta: Any) -> None:
    for name, kind in _LEAF_FIELDS.items():
        json_field(meta, name, kind)
    if not all(type(length) is int and length >= 0 for length in meta["shape"]):
        raise ValueError(f"shape of leaf {meta['path']} is {meta['shape']!r}")
    if "excerpt" in meta:
        json_field(json_field(meta, "excerpt", dict), "sha256", str)
        check_excerpt(meta["excerpt"], math.prod(meta["shape"]))


def kept_by_all(*leaves: Leaf) -> tuple[list[Array], Array | None]:
    """What can be compared of leaves of one shape: their arrays, or, where only excerpts of some are kept, the elements
    that all of them have, and the positions of these in C order."""
    kept = [leaf.excerpt.positions for leaf in leaves if leaf.excerpt is not None]
    if not kept:
        return [leaf.array() for leaf in leaves], None
    positions = kept[0]
    for others in kept[1:]:
        if others is not positions:
            positions = np.intersect1d(positions, others, assume_unique=True)
    return [leaf.elements(positions) for leaf in leaves], positions


def json_field(record: Any, name: str, kind: type | UnionType) -> Any:
    """The field of a JSON object; ValueError where it is absent or of another kind."""
    if not isinstance(record, dict) or name not in record:
        raise ValueError(f"{name} is missing from {str(record)[:60]}")
    if not isinstance(record[name], kind):
        raise ValueError(f"{name} is {str(record[name])[:60]!r}")
    return record[name]


def stored_dtype(dtype: str, impl: str | None = None) -> np.dtype[Any] | None:
    """The little-endian dtype in which `.npy` holds arrays of JAX's `dtype`; None where it is unknown."""
    if impl is not None:
        return np.dtype("<u4")
    if dtype in NATIVE:
        return np.dtype(dtype).newbyteorder("<")
    extended = extended_dtype(dtype)
    return None if extended is None else np.dtype(f"<u{extended.itemsize}")


def extended_dtype(name: str) -> np.dtype[Any] | None:
    """The dtype of ml_dtypes with this name (`bfloat16`, `float8_e4m3fn`, `int4`), or None."""
    import ml_dtypes  # here, because most recipes never need it and it costs as much as NumPy

    scalar = getattr(ml_dtypes, name, None)
    return np.dtype(scalar) if isinstance(scalar, type) and issubclass(scalar, np.generic) else None


def _read_only(words: Array) -> Array:
    view = words.view()
    view.flags.writeable = False
    return view
