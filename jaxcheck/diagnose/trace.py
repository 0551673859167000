"""The walker's steps, read once from its file: what each stage and each scope amounts to, and the steps that tell most.

A long program has more steps than memory: only those that stand out are kept.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxcheck.diagnose.scopes import place, stage
from jaxcheck.results.diagnosis import DiagnosedScope, DiagnosedStep

KEPT = 64  # of each kind; the shown ones are fewer
SHOWN = 3
WEIGHT = 10.0  # an origin whose excess is so many times less than the worst one's is not what made the outcome
MEASURES = ("local", "bound", "inherited", "amplification", "before", "after", "effect")


def read_steps(path: Path) -> Iterator[DiagnosedStep]:
    """The steps in the order in which they ran."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield step_of(json.loads(line))


def step_of(row: Mapping[str, Any]) -> DiagnosedStep:
    """A step from what the walker wrote: JSON's NaN, an error against a value that is none, is the largest there is."""
    told = {name: value for name, value in row.items() if value is not None or name in ("iteration", "kind", "worst")}
    for name in MEASURES:
        if isinstance(told.get(name), float) and not math.isfinite(told[name]):
            told[name] = sys.float_info.max
    for name in ("in", "out"):
        told[name] = [str(one) for one in told.get(name, ())]
    if told.get("worst") is not None:
        told["worst"] = _plain(told["worst"])
    return DiagnosedStep.model_validate(told)


def _plain(value: Any) -> Any:
    """As JSON holds it: a number that is none of its own is text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def excess(step: DiagnosedStep) -> float:
    """The local error in bounds of its operation."""
    return step.local / step.bound if step.bound else step.local


@dataclass
class Sum:
    """What the steps of a stage, or of a scope, amount to."""

    equations: int = 0
    local: float = 0.0
    error: float = 0.0
    kinds: set[str] = field(default_factory=set)
    worst: DiagnosedStep | None = None

    def add(self, step: DiagnosedStep) -> None:
        self.equations += 1
        self.error = max(self.error, step.inherited)
        if self.worst is None or excess(step) > self.local:
            self.local, self.worst = excess(step), step
        if step.kind:
            self.kinds.add(step.kind)


@dataclass
class Trace:
    """A walk, summed up. `reason` says why there is none, `partial` why it did not reach the end."""

    count: int = 0
    stages: dict[str, Sum] = field(default_factory=dict)
    places: dict[tuple[str, ...], Sum] = field(default_factory=dict)
    origins: list[DiagnosedStep] = field(default_factory=list)
    flips: list[DiagnosedStep] = field(default_factory=list)
    amplifiers: list[DiagnosedStep] = field(default_factory=list)
    reason: str = ""
    partial: str = ""
    outputs: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Iterable[DiagnosedStep]) -> Trace:
        trace = cls()
        for step in steps:
            trace.add(step)
        return trace

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> Trace:
        """A worker's answer: its steps, or why there are none."""
        if "steps" not in reply:
            return cls(reason=str(reply.get("reason") or "the worker gave no steps"))
        try:
            trace = cls.of(read_steps(Path(reply["steps"])))
        except (OSError, ValueError) as error:
            return cls(reason=f"the steps cannot be read: {str(error).splitlines()[0]}")
        trace.partial = str(reply.get("partial") or "")
        trace.outputs = {str(path): measure(value) for path, value in (reply.get("outputs") or {}).items()}
        program = reply.get("program")
        trace.facts = program if isinstance(program, Mapping) else {"program": program} if program else {}
        return trace

    def add(self, step: DiagnosedStep) -> None:
        self.count += 1
        self.stages.setdefault(stage(step.scope), Sum()).add(step)
        where = place(step.scope)
        for depth in range(len(where) + 1):
            self.places.setdefault(where[:depth], Sum()).add(step)
        if step.kind == "origin":
            _keep(self.origins, step)
        elif step.kind == "flip":
            _keep(self.flips, step)
        elif step.kind == "amplifier":
            self.amplifiers.append(step)
            self.amplifiers.sort(key=lambda one: -one.amplification)
            del self.amplifiers[KEPT:]

    @property
    def origin(self) -> DiagnosedStep | None:
        """The first step that is wrong by itself and weighs as much as the worst one."""
        return first_weighty(self.origins)

    def origin_in(self, name: str) -> DiagnosedStep | None:
        """The same among the steps of a stage."""
        return first_weighty([step for step in self.origins if stage(step.scope) == name])

    def telling(self) -> tuple[DiagnosedStep, ...]:
        """The steps worth showing, in the order of the program."""
        first = [self.origin] if self.origin else []
        worst = [total.worst for total in self.stages.values() if total.worst and total.local > 0]
        worst.sort(key=lambda step: -excess(step))
        chosen = [*first, *self.origins[:SHOWN], *self.flips[:SHOWN], *self.amplifiers[:SHOWN], *worst[:SHOWN]]
        return tuple(sorted({step.n: step for step in reversed(chosen)}.values(), key=lambda step: step.n))

    def tree(self, effects: Mapping[tuple[str, ...], float] | None = None) -> tuple[DiagnosedScope, ...]:
        """The scopes in the order of the program, each before those inside it. `effects` {place: what hangs on it}."""
        return tuple(
            DiagnosedScope(
                scope="/".join(where),
                depth=len(where),
                equations=total.equations,
                local=total.worst.local if total.worst else 0.0,
                error=total.error,
                kinds=tuple(sorted(total.kinds)),  # type: ignore[arg-type]
                effect=(effects or {}).get(where),
            )
            for where, total in _depth_first(self.places)
        )


def first_weighty(steps: Iterable[DiagnosedStep]) -> DiagnosedStep | None:
    found = list(steps)
    most = max(map(excess, found), default=0.0)
    return next((step for step in found if excess(step) >= most / WEIGHT), None)


def _keep(steps: list[DiagnosedStep], step: DiagnosedStep) -> None:
    """The first ones, and whatever is worse than all of these."""
    if len(steps) < KEPT or excess(step) > max(map(excess, steps)):
        steps.append(step)


def _depth_first(places: Mapping[tuple[str, ...], Sum]) -> Iterator[tuple[tuple[str, ...], Sum]]:
    """By their first appearance, children after their parent."""

    def below(parent: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Sum]]:
        for where in places:
            if len(where) == len(parent) + 1 and where[: len(parent)] == parent:
                yield where, places[where]
                yield from below(where)

    yield from below(())


def measure(value: Any) -> float:
    """A number of the worker's: NaN, an error against a value that is none, is the largest there is."""
    number = float(value)
    return number if math.isfinite(number) else sys.float_info.max
