"""What a golden keeps of a leaf that is stored as a digest: of floats some blocks, and of all else nothing.

The blocks are spread over the array, one in each of BLOCKS equal stretches, the first at its beginning and the last at
its end; where in its stretch a block lies follows from the array's size alone. The golden says which ones it has, so
that another choice can be made one day.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BLOCKS, LENGTH = 64, 1024
WHOLE = BLOCKS * LENGTH  # elements: a leaf of no more is kept whole, since a digest of it would save nothing


@dataclass(frozen=True)
class Excerpt:
    """Blocks of `length` elements, in C order, from each of `starts` on; `digest` is that of the whole leaf."""

    starts: tuple[int, ...]
    length: int
    digest: str

    @functools.cached_property
    def positions(self) -> Array:
        """Of every element that is kept, in order."""
        found: Array = (np.array(self.starts, np.int64)[:, None] + np.arange(self.length)).reshape(-1)
        return found


def excerpt_of(dtype: str, shape: tuple[int, ...], digest: str) -> Excerpt | None:
    """What is to be kept of a leaf of JAX's `dtype`; None where that is all of it."""
    size = math.prod(shape)
    if size <= WHOLE:
        return None
    inexact = dtype.startswith(("float", "bfloat", "complex"))
    return Excerpt(_starts(size) if inexact else (), LENGTH if inexact else 0, digest)


@functools.cache
def _starts(size: int) -> tuple[int, ...]:
    bounds = [block * size // BLOCKS for block in range(BLOCKS + 1)]
    inner = (_within(size, first, last) for first, last in itertools.pairwise(bounds[1:-1]))
    return (0, *inner, size - LENGTH)


def _within(size: int, first: int, last: int) -> int:
    draw = hashlib.sha256(f"{size} {first}".encode()).digest()
    return first + int.from_bytes(draw[:8], "little") % (last - LENGTH - first + 1)


def check_excerpt(meta: Any, size: int) -> None:
    """ValueError where the metadata say of an excerpt what cannot be."""
    starts, length = meta.get("starts"), meta.get("length")
    if type(length) is not int or not isinstance(starts, list) or not all(type(start) is int for start in starts):
        raise ValueError(f"its excerpt is {str(meta)[:60]}")
    ends = [0, *(start + length for start in starts)]
    apart = all(start >= end for start, end in zip(starts, ends[:-1], strict=True))
    if not apart or length < 0 or (starts and length == 0) or ends[-1] > size:
        raise ValueError(f"the blocks of its excerpt are not in order within {size} elements")
