"""Two sequences side by side: runs of equal keys and, between them, what has no counterpart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

MOST_PAIRS = 4_000_000  # elements times elements: beyond that only what they begin and end with is aligned

Run = tuple[slice, slice]


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[Run]:
    """In order, until both are used up."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    yield slice(0, start), slice(0, start)
    middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if len(middle) * len(new_middle) > MOST_PAIRS:
        yield slice(start, start + len(middle)), slice(start, start + len(new_middle))
    else:
        matcher = SequenceMatcher(None, middle, new_middle, autojunk=False)
        for _, a, b, c, d in matcher.get_opcodes():
            yield slice(start + a, start + b), slice(start + c, start + d)
    yield slice(len(old) - end, len(old)), slice(len(new) - end, len(new))


def _common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many elements they begin with in common."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
