"""Latency and compile time of both sides, measured in turns: whole processes, A B A B ..., so that noise hits both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from jaxcheck.results import CheckResult, Latency, Run

ROUNDS = 5
# A median of processes moves by this much for no reason, even where every round of one side is above the other's.
NOISE_FACTOR = 1.1
TIMED_MODES = ("eager", "jit")


def take_turns(
    before: Callable[[], Run], after: Callable[[], Run], rounds: int = ROUNDS
) -> tuple[list[Run], list[Run]]:
    """The runs of each side, one process after the other."""
    old, new = [], []
    for _ in range(rounds):
        old.append(before())
        new.append(after())
    return old, new


def timed(results: Sequence[CheckResult], old: Sequence[Run], new: Sequence[Run]) -> list[CheckResult]:
    """The results with the latency of both sides, for checks that could be timed in every round."""
    befores, afters = latencies(old), latencies(new)
    found = []
    for result in results:
        before, after = befores.get(result.id), afters.get(result.id)
        if before is None or after is None or result.baseline is None:
            found.append(result)
            continue
        baseline = result.baseline.model_copy(update={"latency": before})
        found.append(result.model_copy(update={"baseline": baseline, "latency": after}))
    return found


def latencies(runs: Sequence[Run]) -> dict[str, Latency]:
    """{check: its distribution, with each round's median and compile time} of checks that every round has."""
    by_check: dict[str, list[CheckResult]] = {}
    for run in runs:
        for result in run.results:
            if result.latency is not None:
                by_check.setdefault(result.id, []).append(result)
    return {check: _merged(results) for check, results in by_check.items() if len(results) == len(runs)}


def _merged(results: Sequence[CheckResult]) -> Latency:
    parts = [result.latency for result in results if result.latency is not None]
    middle = sorted(parts, key=lambda part: part.p50)[len(parts) // 2]
    return middle.model_copy(
        update={
            "samples": sum(part.samples for part in parts),
            "min": min(part.min for part in parts),
            "max": max(part.max for part in parts),
            "rounds": tuple(part.p50 for part in parts),
            "compiling": tuple(result.compile_seconds or 0.0 for result in results),
        }
    )


def slower(old: Sequence[float], new: Sequence[float]) -> float | None:
    """How many times slower, where that is beyond what the baseline scatters by; else None.

    Every round of the candidate has to be slower than every round of the baseline, and the medians apart by more than
    NOISE_FACTOR.
    """
    if not old or not new or min(new) <= max(old):
        return None
    before = statistics.median(old)
    ratio = statistics.median(new) / before if before else 0.0
    return ratio if ratio > NOISE_FACTOR else None


def slower_checks(results: Sequence[CheckResult]) -> Mapping[str, list[str]]:
    """{check: what takes longer}, in words with the spread of the rounds."""
    found: dict[str, list[str]] = {}
    for result in results:
        old, new = result.baseline and result.baseline.latency, result.latency
        if not old or not new:
            continue
        pairs = (("a call", old.rounds, new.rounds), ("compiling", old.compiling, new.compiling))
        for what, before, after in pairs:
            if (factor := slower(before, after)) is not None:
                found.setdefault(result.id, []).append(
                    f"{what} takes {factor:.2f} x as long: {_spread(before)} -> {_spread(after)}"
                )
    return found


def _spread(rounds: Sequence[float]) -> str:
    """`12.1 us (11.8 to 13.0)`: the median of the rounds, the least and the most."""
    scale, unit = (1e6, "us") if statistics.median(rounds) < 1e-3 else (1e3, "ms")
    middle, least, most = (value * scale for value in (statistics.median(rounds), min(rounds), max(rounds)))
    return f"{middle:,.1f} {unit} ({least:,.1f} to {most:,.1f})"
