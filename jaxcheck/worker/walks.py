"""The requests about a mode's program equation by equation. Each is made of the mode and its own options, and is then
given the program as a function of arrays, and these; what it raises becomes the reason why there is no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxcheck.worker import following, fusions, recordings, repros, walker
from jaxcheck.worker import sensitivity as sensitivities
from jaxcheck.worker.faults import injected

Walk = Callable[[Callable[..., Any], list[Any]], dict[str, Any]]


def walk(
    mode: str,
    folder: str,
    most_equations: int | None = None,
    seconds: float | None = None,
    faults: dict[str, str] | None = None,
) -> Walk:
    """Each equation against the exact result (see `walker.walk`).

    `faults` {number of an execution: a kind in `faults.FAULTS`} makes some wrong, to see what is found.
    """
    steps, wrong = Path(folder, f"{mode}.steps.jsonl"), injected(faults)
    return lambda function, flat: walker.walk(function, flat, steps, most_equations, seconds, wrong)


def record(mode: str, folder: str, most_equations: int | None = None, seconds: float | None = None) -> Walk:
    """A recording for `replay_steps` under another JAX."""
    place = Path(folder, f"{mode}.recording")
    return lambda function, flat: recordings.record(function, flat, place, most_equations, seconds)


def replay_steps(
    mode: str, recording: str, folder: str, most_equations: int | None = None, seconds: float | None = None
) -> Walk:
    """What this JAX's operations make of a recording's inputs (see `following.follow`)."""
    steps = Path(folder, f"{mode}.replayed.jsonl")
    return lambda function, flat: following.follow(function, flat, Path(recording), steps, most_equations, seconds)


def repro(mode: str, n: int, folder: str, seconds: float | None = None, faults: dict[str, str] | None = None) -> Walk:
    """A script of the equation that has this number in a walk or a recording."""
    wrong = injected(faults)
    return lambda function, flat: repros.save(repros.captured(function, flat, n, seconds, wrong), Path(folder))


def sensitivity(mode: str, folder: str, most_equations: int | None = None, seconds: float | None = None) -> Walk:
    """Which equations the outcome hangs on (see `sensitivity.sensitivity`)."""
    steps = Path(folder, f"{mode}.sensitivity.jsonl")
    return lambda function, flat: sensitivities.sensitivity(function, flat, steps, most_equations, seconds)


def inside(mode: str, most_probes: int | None = None, seconds: float | None = None) -> Walk:
    """Where the compiled function leaves the equations (see `fusions.inside`)."""
    return lambda function, flat: fusions.inside(function, flat, most_probes, seconds)


WALKS: Mapping[str, Callable[..., Walk]] = {
    made.__name__: made for made in (walk, record, replay_steps, repro, sensitivity, inside)
}
