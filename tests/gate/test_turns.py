"""What counts as slower: a pure function of the rounds of both sides."""

from __future__ import annotations

import random

import pytest

from jaxcheck.gate.turns import NOISE_FACTOR, ROUNDS, latencies, slower, slower_checks, take_turns, timed
from jaxcheck.results import Baseline, CheckResult, Latency, Run, Status

CHECK = "a::b[jit]"


def latency(p50: float) -> Latency:
    return Latency(samples=10, first=1.0, min=p50 / 2, p50=p50, p90=p50, p99=p50, max=p50 * 2, spread=0.1)


def result(p50: float | None, compiling: float = 0.1) -> CheckResult:
    timing = None if p50 is None else latency(p50)
    return CheckResult(
        id=CHECK, recipe="a", case="b", mode="jit", status=Status.PASS, latency=timing, compile_seconds=compiling
    )


def runs(*medians: float | None, compiling: float = 0.1) -> list[Run]:
    return [Run(jaxcheck="1", results=(result(p50, compiling),)) for p50 in medians]


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.2, 2.4], 2.0),
        ([1.0, 1.1, 1.2], [1.21, 1.25, 1.3], 1.25 / 1.1),
        ([1.0, 1.1, 1.2], [1.2, 2.0, 2.0], None),  # one round is no slower than the slowest of before
        ([1.0, 1.0, 1.0], [1.05, 1.05, 1.05], None),  # always slower, by less than processes differ
        ([1.0, 1.0, 5.0], [3.0, 3.0, 3.0], None),  # the baseline scatters by more
        ([2.0, 2.0], [1.0, 1.0], None),
        ([], [1.0], None),
        ([0.0, 0.0], [1.0, 1.0], None),
    ],
)
def test_slower_is_beyond_what_the_baseline_scatters_by(
    old: list[float], new: list[float], factor: float | None
) -> None:
    assert slower(old, new) == (None if factor is None else pytest.approx(factor))


def test_equal_distributions_are_hardly_ever_slower() -> None:
    draw = random.Random(0)
    alarms = sum(
        slower(*([draw.lognormvariate(0, 0.3) for _ in range(ROUNDS)] for _ in range(2))) is not None
        for _ in range(2000)
    )
    assert alarms / 2000 < 0.01  # 1 in 252 by counting the orders of ten rounds


def test_turns_alternate() -> None:
    order: list[str] = []

    def side(name: str) -> Run:
        order.append(name)
        return Run(jaxcheck=name)

    old, new = take_turns(lambda: side("A"), lambda: side("B"), 3)
    assert order == ["A", "B"] * 3
    assert ({run.jaxcheck for run in old}, {run.jaxcheck for run in new}) == ({"A"}, {"B"})


def test_rounds_are_merged_and_a_check_that_missed_one_has_no_latency() -> None:
    (merged,) = latencies(runs(3.0, 1.0, 2.0)).values()
    assert (merged.rounds, merged.p50, merged.samples) == ((3.0, 1.0, 2.0), 2.0, 30)
    assert (merged.min, merged.max) == (0.5, 6.0)
    assert merged.compiling == (0.1, 0.1, 0.1)
    assert latencies(runs(3.0, None, 2.0)) == {}


def test_what_is_slower_is_told_with_its_spread() -> None:
    before = result(None).model_copy(update={"baseline": Baseline(status=Status.PASS)})
    (after,) = timed([before], runs(1e-5, 1.2e-5, 1.1e-5), runs(3e-5, 3e-5, 3e-5, compiling=0.4))
    assert slower_checks([after]) == {
        CHECK: [
            "a call takes 2.73 x as long: 11.0 us (10.0 to 12.0) -> 30.0 us (30.0 to 30.0)",
            "compiling takes 4.00 x as long: 100.0 ms (100.0 to 100.0) -> 400.0 ms (400.0 to 400.0)",
        ]
    }
    (same,) = timed([before], runs(1.0, 1.0), runs(1.0, 1.0))
    assert slower_checks([same]) == {}
    assert NOISE_FACTOR > 1
