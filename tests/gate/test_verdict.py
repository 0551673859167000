"""The decision tables of a gate, row by row."""

from __future__ import annotations

import itertools

import pytest

from jaxcheck.gate.verdict import ALLOWABLE, BLOCKING, check_verdict, concern, whole_verdict
from jaxcheck.results import CheckResult, Status
from jaxcheck.results.gate import Concern, Gate, Side

ENDS = ("values", "raised", "broken", "skipped", "absent")


@pytest.mark.parametrize(
    ("leaves", "verdict"),
    [
        ((), "unchanged"),
        (("unchanged",), "unchanged"),
        (("unchanged", "drifted"), "drifted"),
        (("drifted", "improved"), "improved"),
        (("improved", "changed"), "changed"),
        (("changed", "regressed", "improved"), "regressed"),
    ],
)
def test_a_check_is_as_bad_as_its_worst_leaf(leaves: tuple[str, ...], verdict: str) -> None:
    assert check_verdict("values", "values", leaves, unstable=False, new_findings=False) == verdict


# before, after -> verdict, where nothing is unstable and no finding is new.
TABLE = {
    ("values", "values"): "unchanged",
    ("values", "raised"): "broken",
    ("values", "broken"): "broken",
    ("raised", "values"): "broken",
    ("raised", "raised"): "unchanged",
    ("raised", "broken"): "broken",
    ("broken", "values"): "improved",
    ("broken", "raised"): "improved",
    ("broken", "broken"): "broken",
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ENDS, ENDS)))
def test_how_the_two_sides_ended(before: str, after: str) -> None:
    expected = TABLE.get((before, after))  # nothing is compared where a side was skipped or is absent
    assert check_verdict(before, after, (), unstable=False, new_findings=False) == expected
    unstable = check_verdict(before, after, (), unstable=True, new_findings=False)
    assert unstable == (expected and "unstable")


def test_the_table_covers_every_pair_that_can_be_compared() -> None:
    compared = [pair for pair in itertools.product(ENDS, ENDS) if not {"skipped", "absent"} & set(pair)]
    assert sorted(compared) == sorted(TABLE)


@pytest.mark.parametrize(
    ("leaves", "verdict"),
    [
        ((), "broken"),
        (("unchanged",), "broken"),
        (("drifted",), "broken"),
        (("improved",), "broken"),
        (("changed",), "changed"),
        (("improved", "regressed"), "regressed"),
    ],
)
def test_a_new_finding_breaks_a_check_whose_numbers_do_not_block_already(leaves: tuple[str, ...], verdict: str) -> None:
    assert check_verdict("values", "values", leaves, unstable=False, new_findings=True) == verdict
    assert check_verdict("values", "values", leaves, unstable=True, new_findings=True) == "unstable"


def test_a_check_that_was_broken_before_is_judged_by_whether_it_still_is() -> None:
    assert check_verdict("broken", "values", (), unstable=False, new_findings=True) == "improved"


@pytest.mark.parametrize("kind", BLOCKING)
def test_what_blocks_cannot_be_allowed(kind: str) -> None:
    assert concern(kind, "text", (), ALLOWABLE + BLOCKING) == Concern(kind=kind, verdict="block", message="text")


@pytest.mark.parametrize("kind", ALLOWABLE)
def test_what_asks_for_a_review_can_be_allowed(kind: str) -> None:
    assert not concern(kind, "text", (), ()).allowed
    assert concern(kind, "text", (), (kind,)).allowed
    assert concern(kind, "text", (), (kind,)).verdict == "review"


def test_the_whole_is_as_bad_as_its_worst_concern() -> None:
    review, block = concern("improved", "", (), ()), concern("changed", "", (), ())
    assert whole_verdict([]) == "pass"
    assert whole_verdict([review]) == "review"
    assert whole_verdict([review, block]) == "block"


def gate(verdict: str | None, *concerns: Concern) -> Gate:
    result = CheckResult(id="a::b[jit]", recipe="a", case="b", mode="jit", status=Status.PASS, verdict=verdict)
    side = Side(label="x")
    return Gate.model_validate(
        {"jaxcheck": "1", "verdict": "pass", "from": side, "to": side, "results": (result,), "concerns": concerns}
    )


def test_exit_codes() -> None:
    review = concern("improved", "", (), ())
    assert gate("unchanged").exit_code() == 0
    assert gate("improved", review).exit_code() == 1
    assert gate("improved", concern("improved", "", (), ("improved",))).exit_code() == 0
    assert gate("regressed", concern("regressed", "", (), ("improved",))).exit_code() == 1
    # Of a check that could not be compared nothing is known: that is not green.
    assert gate(None).exit_code() == 5
    assert gate("broken").exit_code() == 5  # before already, and still
    assert gate("broken", concern("broken", "", (), ())).exit_code() == 1
    assert gate("unstable", concern("unstable", "", (), ("unstable",))).exit_code() == 5
    assert gate("unchanged").model_copy(update={"interrupted": True}).exit_code() == 130
