"""What is searched for, and how a run comes out: decision tables over results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from jaxcheck.gate.search import Told
from jaxcheck.gate.standing import CALL, COMPILING, Evidence, Predicate, aims, name_of, tell, times_of
from jaxcheck.results import Baseline, CheckResult, Latency, LeafResult, Status, ToleranceUsed
from jaxcheck.results.bisection import BisectTarget

CHECK = "f::a[jit]"
TOLERANCE = ToleranceUsed(rtol=1e-6, atol=0.0, source="recipes.yaml:1:1")


def leaf(verdict: str = "unchanged", path: str = "['y']") -> LeafResult:
    same, beyond = verdict == "unchanged", verdict not in ("unchanged", "drifted")
    return LeafResult.model_validate(
        {
            "path": path,
            "dtype": "float32",
            "shape": (2,),
            "size": 2,
            "bit_equal": 2 if same else 1,
            "mismatched": int(beyond),
            "nonfinite": 0,
            "violation_ratio": 5.0 if beyond else 0.0,
            "max_abs": 0.0,
            "max_rel": 0.0,
            "max_ulp": 0.0,
            "tolerance": TOLERANCE,
            "reason": "beyond" if beyond else None,
            "verdict": verdict,
        }
    )


def result(status: str = "pass", **more: Any) -> CheckResult:
    fields = {"id": CHECK, "recipe": "f", "case": "a", "mode": "jit", "status": status, "reason": f"{status} it is"}
    return CheckResult.model_validate({**fields, **more})


def run(own: str = "pass", verdict: str | None = None, leaves: Sequence[str] = ("unchanged",), **more: Any) -> Evidence:
    """One check's run: its own status, and the verdicts of its leaves against the good end."""
    held = [leaf(text, f"['{index}']") for index, text in enumerate(leaves)]
    worst = verdict if verdict is not None or not leaves else max(leaves, key=lambda text: text != "unchanged")
    compared = result(more.pop("status", "pass"), verdict=worst, leaves=tuple(held))
    return Evidence({CHECK: result(own)}, {CHECK: compared}, more.pop("times", {}))


ITSELF = run()
BROKEN = run("error", "broken", (), status="error")
FOUND: list[tuple[Predicate, Evidence, list[tuple[str, str, str, str]]]] = [
    ("moved", run(leaves=["unchanged"]), []),
    ("moved", run(leaves=["drifted"]), [("moved", "['0']", "same", "moved")]),
    ("moved", run(leaves=["improved"]), [("moved", "['0']", "same", "moved")]),
    ("moved", BROKEN, [("error", "", "runs", "broken")]),
    ("moved", run("fail", "changed", ()), [("structure", "", "same", "other")]),
    ("moved", run(verdict="broken", leaves=["drifted"]), [("moved", "['0']", "same", "moved")]),
    ("moved", run(verdict="broken", leaves=["unchanged"]), [("error", "", "runs", "broken")]),
    ("tolerance", run(leaves=["drifted"]), []),
    ("tolerance", run(leaves=["improved"]), [("tolerance", "['0']", "within", "beyond")]),
    ("tolerance", run("fail", "changed", ()), [("structure", "", "same", "other")]),
    ("tolerance", BROKEN, []),
    ("truth", run(leaves=["improved"]), []),
    ("truth", run(leaves=["changed"]), []),
    ("truth", run(leaves=["regressed"]), [("truth", "['0']", "not farther", "farther")]),
    ("error", run(leaves=["regressed"]), []),
    ("error", BROKEN, [("error", "", "runs", "broken")]),
    ("golden", run("fail"), [("golden", "", "right", "wrong")]),
    ("golden", run("timeout"), [("golden", "", "right", "broken")]),
    ("golden", run("missing"), []),
    ("golden", run("pass", leaves=["regressed"]), []),
    ("slower", run(times={CHECK: {CALL: ((1.0, 1.1), (2.0, 2.1)), COMPILING: ((1.0,), (1.0,))}}), [
        ("slower", CALL, "not slower", "slower")
    ]),
    ("slower", run(times={CHECK: {CALL: ((1.0, 1.1), (1.2, 1.0)), COMPILING: ((1.0,), (1.05,))}}), []),
    ("slower", run(times={}), []),
]  # fmt: skip


def its_own(predicate: Predicate) -> Evidence:
    return Evidence(ITSELF.own, ITSELF.compared, None if predicate == "slower" else {})


def calm(predicate: Predicate) -> Evidence:
    """A second run of the good end that is as the first."""
    times = {CHECK: {CALL: ((1.0, 1.1), (1.0, 1.2)), COMPILING: ((1.0,), (1.0,))}} if predicate == "slower" else {}
    return Evidence(ITSELF.own, ITSELF.compared, times)


@pytest.mark.parametrize(("predicate", "bad", "expected"), FOUND)
def test_what_is_searched_for(predicate: Predicate, bad: Evidence, expected: list[tuple[str, str, str, str]]) -> None:
    asked = aims(predicate, its_own(predicate), calm(predicate), bad)
    assert [(aim.kind, aim.path, aim.before, aim.after) for aim in asked.targets] == expected
    assert not asked.unstable
    for aim in asked.targets:
        assert tell(aim, bad).outcome == "bad"
        assert tell(aim, calm(predicate)).outcome == "good"


def test_only_the_leaves_that_moved_are_searched_for() -> None:
    itself = run(leaves=["unchanged"] * 3)
    asked = aims("moved", itself, itself, run(leaves=["unchanged", "drifted", "changed"]))
    assert [name_of(aim) for aim in asked.targets] == [f"{CHECK} ['1']", f"{CHECK} ['2']"]


def test_what_was_broken_and_runs_again_is_found_too() -> None:
    broken = run("error", "broken", (), status="skip")
    asked = aims("error", broken, broken, run(verdict="improved", leaves=()))
    assert [(aim.before, aim.after) for aim in asked.targets] == [("broken", "runs")]
    assert tell(asked.targets[0], BROKEN).outcome == "good"


REMARKS: list[tuple[Predicate, Evidence, str]] = [
    ("tolerance", BROKEN, "--predicate error looks for that"),
    ("truth", run(leaves=["changed"]), "nothing tells which side is nearer to the truth"),
    ("golden", run("missing"), "at the bad end: missing it is"),
    ("slower", run(times={}), "it was not timed"),
    ("moved", Evidence({CHECK: result("skip")}, {CHECK: result("skip", verdict=None)}, {}), "skip it is"),
]


@pytest.mark.parametrize(("predicate", "bad", "words"), REMARKS)
def test_what_cannot_be_told_is_said(predicate: Predicate, bad: Evidence, words: str) -> None:
    asked = aims(predicate, its_own(predicate), calm(predicate), bad)
    assert not asked.targets
    assert len(asked.remarks) == 1
    assert asked.remarks[0].startswith(f"{CHECK}: ")
    assert words in asked.remarks[0]


def test_nothing_is_remarked_where_nothing_moved() -> None:
    for predicate in ("moved", "tolerance", "truth", "error", "golden"):
        assert aims(predicate, ITSELF, ITSELF, run()) == aims(predicate, ITSELF, ITSELF, ITSELF)
        assert not aims(predicate, ITSELF, ITSELF, run()).remarks


def test_what_the_good_end_does_not_repeat_is_unstable() -> None:
    asked = aims("moved", ITSELF, run(leaves=["drifted"]), run(leaves=["changed"]))
    assert not asked.targets
    ((aim, why),) = asked.unstable
    assert (aim.path, aim.kind) == ("['0']", "moved")
    assert why == "in a second run of the good end it is moved"


def test_a_golden_tells_what_an_unstable_check_does_not() -> None:
    """As with exp(nan) of jax 0.10: other numbers at every call, wrong at every call."""
    wrong = Evidence({CHECK: result("fail")}, ITSELF.compared, {})
    again = Evidence({CHECK: result("fail")}, run(leaves=["drifted"]).compared, {})
    asked = aims("moved", wrong, again, run(leaves=["improved"]))
    assert [(aim.kind, aim.before, aim.after) for aim in asked.targets] == [("golden", "wrong", "right")]
    assert not asked.unstable
    assert asked.remarks == (
        f"not the same twice in the good end, so that no bits can be searched for: {CHECK}; "
        "by the golden wrong there and right at the bad end, which was searched for instead",
    )
    flaky = Evidence({CHECK: result("pass")}, again.compared, {})
    asked = aims("moved", wrong, flaky, run(leaves=["improved"]))
    assert not asked.targets
    assert len(asked.unstable) == 1


def test_another_way_of_standing_is_skipped_with_its_reason() -> None:
    golden = BisectTarget(check=CHECK, kind="golden", before="right", after="wrong")
    assert tell(golden, run("error")) == Told("skip", f"{CHECK}: it is broken: error it is")
    assert tell(golden, run("skip")) == Told("skip", f"{CHECK}: skip it is")
    moved = BisectTarget(check=CHECK, path="['0']", kind="moved", before="same", after="moved")
    assert tell(moved, BROKEN) == Told("skip", f"{CHECK} ['0']: error it is")
    assert tell(moved, Evidence({}, {}, {})) == Told("skip", f"{CHECK} ['0']: it is not part of the run")


def test_times_are_those_of_both_sides_by_round() -> None:
    def latency(*rounds: float) -> Latency:
        numbers = dict.fromkeys(("first", "min", "p50", "p90", "p99", "max", "spread"), 1.0)
        return Latency(samples=1, **numbers, rounds=rounds, compiling=(0.5,))

    timed = result(baseline=Baseline(status=Status.PASS, latency=latency(1.0, 1.2)), latency=latency(3.0))
    assert times_of([timed, result(), result(latency=latency(1.0))]) == {
        CHECK: {CALL: ((1.0, 1.2), (3.0,)), COMPILING: ((0.5,), (0.5,))}
    }
