"""Bisection as a pure function: where, in a row of releases, what was good at the first is bad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Told:
    """How a release came out; `skip` where it can tell nothing, for the reason given."""

    outcome: Literal["good", "bad", "skip"]
    reason: str = ""


class Probe(Protocol):
    """Asks the release at an index. `fresh` asks for another run than the one that the search went by."""

    def __call__(self, index: int, *, fresh: bool = False) -> Told: ...


@dataclass(frozen=True)
class Found:
    """The last good and the first bad release, by index; `skipped` are those between them that can tell nothing.

    found       they are neighbours, and both came out the same when asked afresh
    range       only skipped ones are between them
    unstable    asked afresh, one of them came out otherwise: `reason` says which
    not-good    the first of the row is not good: there is nothing to look for
    not-bad     the last of the row is not bad
    """

    state: Literal["found", "range", "unstable", "not-good", "not-bad"]
    last_good: int
    first_bad: int
    skipped: tuple[int, ...] = ()
    reason: str = ""


def search(count: int, probe: Probe, known: Callable[[int], bool] = lambda index: False) -> Found:
    """Bisects releases 0 (good) to count - 1 (bad).

    Both ends are asked first, the two neighbours of the answer once more at the end. `known` are releases that cost
    nothing to ask. What can tell nothing is stepped around, to the one nearest to the middle that is left. Whatever the
    releases say, monotone or not, the answer is a good one followed by a bad one, with only skipped ones between.
    """
    low, high = 0, count - 1
    for index, wanted, state in ((low, "good", "not-good"), (high, "bad", "not-bad")):
        told = probe(index)
        if told.outcome != wanted:
            return Found("not-good" if state == "not-good" else "not-bad", low, high, reason=told.reason)
    skipped: set[int] = set()
    while open_ones := [index for index in range(low + 1, high) if index not in skipped]:
        middle = (low + high) / 2
        index = min(open_ones, key=lambda one: (not known(one), abs(one - middle)))
        told = probe(index)
        if told.outcome == "good":
            low = index
        elif told.outcome == "bad":
            high = index
        else:
            skipped.add(index)
    between = tuple(range(low + 1, high))
    for index, wanted in ((low, "good"), (high, "bad")):
        told = probe(index, fresh=True)
        if told.outcome != wanted:
            return Found("unstable", low, high, between, _flip(wanted, told))
    return Found("range" if between else "found", low, high, between)


def _flip(wanted: str, told: Told) -> str:
    what = "could tell nothing" if told.outcome == "skip" else f"came out {told.outcome}"
    return f"it came out {wanted}, and {what} when it was asked again" + (f": {told.reason}" if told.reason else "")
