"""The policy of `bless`, as a table: facts of a case -> what becomes of it."""

from __future__ import annotations

import pytest

from jaxcheck.execution.bless import BRAKES, CaseFacts, decide
from jaxcheck.results import Status

PASS, FAIL, MISSING, STALE, SKIP = Status.PASS, Status.FAIL, Status.MISSING, Status.STALE, Status.SKIP
ERROR, CRASH, TIMEOUT = Status.ERROR, Status.CRASH, Status.TIMEOUT


def facts(
    *statuses: Status,
    brakes: dict[str, str] | None = None,
    differs: bool = False,
    candidate: bool = True,
    orphan: bool = False,
) -> CaseFacts:
    return CaseFacts("recipe", "case", frozenset(statuses), brakes or {}, differs, candidate, orphan)


@pytest.mark.parametrize(
    ("case", "everything", "allowed", "action"),
    [
        (facts(PASS), False, (), "keep"),
        (facts(PASS), True, (), "bless"),
        (facts(PASS, SKIP), False, (), "keep"),
        (facts(SKIP), True, (), "keep"),
        (facts(FAIL, differs=True), False, (), "bless"),
        (facts(FAIL, PASS, differs=True), False, (), "bless"),
        (facts(MISSING, differs=True), False, (), "bless"),
        (facts(STALE, differs=True), False, (), "bless"),
        (facts(STALE, SKIP, differs=True), False, (), "bless"),
        (facts(MISSING, differs=True, candidate=False), False, (), "refuse"),
        (facts(PASS, candidate=False), True, (), "refuse"),
        # What fails for another reason is not mended by a new golden.
        (facts(FAIL, brakes={"modes": "apart"}), False, (), "refuse"),
        (facts(FAIL, brakes={"modes": "apart"}), False, ("modes",), "refuse"),
        (facts(ERROR, brakes={"error": "boom"}), False, (), "refuse"),
        *[(facts(FAIL, differs=True, brakes={brake: "x"}), False, (), "refuse") for brake in BRAKES],
        *[(facts(FAIL, differs=True, brakes={brake: "x"}), False, (brake,), "bless") for brake in BRAKES],
        *[(facts(PASS, brakes={brake: "x"}), True, (), "refuse") for brake in BRAKES],
        (facts(FAIL, differs=True, brakes={"modes": "x", "property": "y"}), False, ("modes",), "refuse"),
        (facts(FAIL, differs=True, brakes={"modes": "x", "property": "y"}), False, ("modes", "property"), "bless"),
        (facts(MISSING, CRASH, differs=True, brakes={"crash": "x"}), False, (), "refuse"),
        (facts(MISSING, TIMEOUT, differs=True, brakes={"timeout": "x"}), False, ("timeout",), "bless"),
        (facts(STALE, differs=True, candidate=False, orphan=True), False, (), "drop"),
        (facts(STALE, differs=True, candidate=False, orphan=True), True, (), "drop"),
    ],
)
def test_decisions(case: CaseFacts, everything: bool, allowed: tuple[str, ...], action: str) -> None:
    assert decide(case, everything=everything, allowed=allowed).action == action


def test_every_refusal_by_a_brake_names_its_override() -> None:
    for brake, words in BRAKES.items():
        decision = decide(facts(FAIL, differs=True, brakes={brake: "what was found"}), everything=False, allowed=())
        assert decision.override == f"--allow {brake}"
        assert words in decision.reason
        assert "what was found" in decision.reason


def test_a_failure_that_no_golden_mends_says_what_it_is() -> None:
    decision = decide(facts(FAIL, brakes={"property": "loss grew"}), everything=False, allowed=())
    assert "another reason" in decision.reason
    assert "loss grew" in decision.reason
    assert decision.override == ""
