"""The search for the first bad release, over every row of outcomes that a few releases can have."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.gate.search import Found, Told, search

Outcome = Literal["good", "bad", "skip"]
OUTCOMES: tuple[Outcome, ...] = ("good", "bad", "skip")


class Row:
    """Releases with fixed outcomes, and a count of what was asked. `again` are those that differ when asked afresh."""

    def __init__(self, outcomes: Sequence[Outcome], again: dict[int, Outcome] | None = None) -> None:
        self.outcomes, self.again = outcomes, again or {}
        self.asked: Counter[int] = Counter()
        self.afresh: Counter[int] = Counter()
        self.order: list[int] = []

    def __call__(self, index: int, *, fresh: bool = False) -> Told:
        (self.afresh if fresh else self.asked)[index] += 1
        self.order.append(index)
        outcome = self.again.get(index, self.outcomes[index]) if fresh else self.outcomes[index]
        return Told(outcome, f"release {index}" if outcome == "skip" else "")

    def search(self, known: Sequence[int] = ()) -> Found:
        return search(len(self.outcomes), self, lambda index: index in known)


def rows(length: int) -> Iterator[tuple[Outcome, ...]]:
    """Every row with a good and a bad end."""
    for middle in itertools.product(OUTCOMES, repeat=length - 2):
        yield ("good", *middle, "bad")


@pytest.mark.parametrize("length", range(2, 9))
def test_every_row(length: int) -> None:
    """Monotone or not: a good one, then only skipped ones, then a bad one; none asked twice, the neighbours afresh."""
    for outcomes in rows(length):
        row = Row(outcomes)
        found = row.search()
        between = range(found.last_good + 1, found.first_bad)
        assert outcomes[found.last_good] == "good", outcomes
        assert outcomes[found.first_bad] == "bad", outcomes
        assert all(outcomes[index] == "skip" for index in between), outcomes
        assert found.skipped == tuple(between)
        assert found.state == ("range" if found.skipped else "found")
        assert max(row.asked.values()) == 1, outcomes
        assert row.afresh == Counter({found.last_good: 1, found.first_bad: 1})
        assert row.order[:2] == [0, length - 1]


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 9, 33, 1000])
def test_the_first_bad_one_in_as_few_questions_as_can_be(length: int) -> None:
    for first in range(1, length) if length < 100 else (1, 2, 499, 500, 998, 999):
        row = Row(["good"] * first + ["bad"] * (length - first))
        found = row.search()
        assert (found.state, found.last_good, found.first_bad) == ("found", first - 1, first)
        assert sum(row.asked.values()) <= 2 + math.ceil(math.log2(length - 1))


def test_no_more_questions_than_releases_when_all_but_the_ends_are_skipped() -> None:
    row = Row(["good", *["skip"] * 6, "bad"])
    found = row.search()
    assert (found.state, found.last_good, found.first_bad, found.skipped) == ("range", 0, 7, (1, 2, 3, 4, 5, 6))
    assert sum(row.asked.values()) == 8


def test_what_can_tell_nothing_is_stepped_around() -> None:
    found = Row(["good", "good", "good", "skip", "skip", "bad", "bad"]).search()
    assert (found.state, found.last_good, found.first_bad, found.skipped) == ("range", 2, 5, (3, 4))
    found = Row(["good", "good", "skip", "good", "bad"]).search()  # a skipped one outside the answer does not blur it
    assert (found.state, found.last_good, found.first_bad, found.skipped) == ("found", 3, 4, ())


@pytest.mark.parametrize("length", range(2, 7))
def test_ends_that_are_not_what_they_are_said_to_be(length: int) -> None:
    for wrong in ("bad", "skip"):
        row = Row([wrong, *["good"] * (length - 2), "bad"])
        assert row.search().state == "not-good"
        assert row.order == [0]
    for wrong in ("good", "skip"):
        row = Row(["good"] * (length - 1) + [wrong])
        found = row.search()
        assert found.state == "not-bad"
        assert row.order == [0, length - 1]
        assert found.reason == (f"release {length - 1}" if wrong == "skip" else "")


@pytest.mark.parametrize("length", range(2, 6))
def test_a_neighbour_that_comes_out_otherwise_afresh_is_unstable(length: int) -> None:
    for outcomes in rows(length):
        calm = Row(outcomes).search()
        for index, was in ((calm.last_good, "good"), (calm.first_bad, "bad")):
            for now in set(OUTCOMES) - {was}:
                found = Row(outcomes, {index: now}).search()
                assert found.state == "unstable", (outcomes, index, now)
                assert (found.last_good, found.first_bad) == (calm.last_good, calm.first_bad)
                assert f"it came out {was}" in found.reason
                assert ("nothing" if now == "skip" else now) in found.reason


def test_what_is_known_is_asked_first() -> None:
    outcomes: list[Outcome] = ["good"] * 6 + ["bad"] * 10
    row = Row(outcomes)
    assert row.search(known=[5, 6]).last_good == 5
    assert set(row.asked) == {0, 5, 6, 15}


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sampled_from(OUTCOMES), min_size=n))))
def test_any_row_and_anything_known(drawn: tuple[int, list[Outcome]]) -> None:
    length, outcomes = drawn
    outcomes = ["good", *outcomes[1 : length - 1], "bad"]
    one, other = Row(outcomes).search(), Row(outcomes).search(known=range(0, length, 3))
    for found in (one, other):
        assert outcomes[found.last_good] == "good"
        assert outcomes[found.first_bad] == "bad"
        assert {outcomes[index] for index in found.skipped} <= {"skip"}
        assert found.first_bad - found.last_good == len(found.skipped) + 1
    if "good" not in outcomes[outcomes.index("bad") :]:
        assert (one.last_good, one.first_bad) == (other.last_good, other.first_bad)
