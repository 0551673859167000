"""Which scopes and equations an outcome hangs on: what one ULP on one equation at a time makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxcheck.diagnose.inquiry import GRACE, TIME_UP, Inquiry
from jaxcheck.diagnose.scopes import place
from jaxcheck.diagnose.trace import measure, step_of
from jaxcheck.results.diagnosis import DiagnosedStep

EQUATIONS = 200
SECONDS = 10.0
SHOWN = 3


@dataclass(frozen=True)
class Sensitivity:
    """`effects` {place in the tree of scopes: the largest effect in it, in eps of an output}, `steps` the equations
    with the largest ones; `remark` says what is missing."""

    effects: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    steps: tuple[DiagnosedStep, ...] = ()
    remark: str = ""

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> Sensitivity:
        if "scopes" not in reply:
            return cls(remark=f"sensitivity: not measured: {reply.get('reason') or 'the worker gave no answer'}")
        effects: dict[tuple[str, ...], float] = {}
        for scope, effect in reply["scopes"].items():
            where = place(scope)
            for depth in range(len(where) + 1):
                effects[where[:depth]] = max(effects.get(where[:depth], 0.0), measure(effect))
        partial = f"sensitivity: partial: {reply['partial']}" if reply.get("partial") else ""
        return cls(effects, _largest(reply["largest"]), partial)


def _largest(rows: list[dict[str, Any]]) -> tuple[DiagnosedStep, ...]:
    """Each equation once, however often a loop ran it."""
    each: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if row["effect"] > 0:
            each.setdefault(row.get("position") or row["n"], row)
    return tuple(map(step_of, list(each.values())[:SHOWN]))


def measured(inquiry: Inquiry) -> Sensitivity:
    """The worker's answer within a budget: EQUATIONS, SECONDS, and what is left of the diagnosis' own."""
    left, allowed = inquiry.left(), inquiry.limits.equations
    if inquiry.late:
        return Sensitivity(remark=f"sensitivity: not measured: {TIME_UP}")
    inquiry.say("sensitivity: one ULP on one equation at a time")
    seconds = SECONDS if left is None else min(SECONDS, left)
    request: dict[str, Any] = {
        "mode": inquiry.mode,
        "stored": inquiry.stored,
        "folder": inquiry.made("sensitivity"),
        "most_equations": EQUATIONS if allowed is None else min(EQUATIONS, allowed),
        "seconds": seconds,
    }
    return Sensitivity.from_reply(inquiry.now.of_case("sensitivity", inquiry.case, timeout=seconds + GRACE, **request))
