"""A review: the candidates of the last run, one by one, and what was decided about each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jaxcheck.errors import NothingVerified, UsageError
from jaxcheck.execution.bless import (
    CaseFacts,
    Decision,
    changed_since,
    decide,
    facts_of,
    forget,
    held_back,
    promote,
    selected_results,
)
from jaxcheck.execution.changes import CaseChange, candidate_change
from jaxcheck.execution.truth import Known
from jaxcheck.goldens.golden import Blessing
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Recipe, Registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import Run


@dataclass(frozen=True)
class Item:
    """A candidate, or a case that left the registry; `decision` is what a blessing would do, `change` what it would
    change (None for a case that left)."""

    facts: CaseFacts
    decision: Decision
    change: CaseChange | None

    @property
    def name(self) -> str:
        return f"{self.facts.recipe}::{self.facts.case}"


def items_of(
    run: Run | None,
    registry: Registry,
    selection: Selection,
    candidates: GoldenStore,
    goldens: GoldenStore,
    allowed: Collection[str],
) -> list[Item]:
    """What waits for a decision, in the run's order.

    UsageError where something changed since the run: its candidates are not what the kernels give now. NothingVerified
    where nothing waits.
    """
    if run is None or run.environment is None:
        raise NothingVerified("there is no last run to review", hint="jaxcheck run")
    if why := changed_since(run, registry):
        raise UsageError(f"the last run cannot be reviewed: {why}", hint="jaxcheck run")
    items, backend = [], run.environment.backend
    for facts in facts_of(selected_results(run, registry, selection), candidates, goldens, backend):
        decision = whole(run, registry, facts, decide(facts, everything=False, allowed=allowed))
        orphan = facts.orphan and _holds(goldens, facts, backend)  # else it was dropped since
        if decision.action != "keep" and (facts.candidate or orphan):
            recipe = registry.recipes[facts.recipe]
            change = candidate_change(recipe, facts.case, candidates, goldens) if facts.candidate else None
            items.append(Item(facts, decision, change))
    if not items:
        raise NothingVerified("nothing waits for a review: no candidate of the last run is selected", "jaxcheck run")
    return items


def whole(run: Run, registry: Registry, facts: CaseFacts, decision: Decision) -> Decision:
    """A case of which not every mode was run may differ where nobody looked."""
    ran = {result.mode for result in run.results if (result.recipe, result.case) == (facts.recipe, facts.case)}
    missing = [mode for mode in registry.recipes[facts.recipe].modes if mode not in ran]
    if decision.action != "bless" or not missing:
        return decision
    return Decision("refuse", f"the last run left out {', '.join(missing)}: jaxcheck run {facts.recipe}")


def _holds(goldens: GoldenStore, facts: CaseFacts, backend: str) -> bool:
    with goldens.load(facts.recipe, backend) or contextlib.nullcontext() as golden:
        return golden is not None and facts.case in golden.cases


def braked(items: list[Item], known: Mapping[tuple[str, str], Known], allowed: Collection[str]) -> list[Item]:
    """The items, with those refused whose truth or noise floor speaks against them."""
    decisions = held_back([(item.facts, item.decision) for item in items], known, allowed)
    return [replace(item, decision=decision) for item, (_, decision) in zip(items, decisions, strict=True)]


@dataclass
class Review:
    """What was decided and is not written yet. A recipe's decisions are written together: one file, one history.

    `taken` are accepted items whose candidate another process took before they were written."""

    run: Run
    candidates: GoldenStore
    goldens: GoldenStore
    known: Mapping[tuple[str, str], Known]
    blessing: Callable[[], Blessing]
    recipes: Mapping[str, Recipe]
    accepted: list[Item] = field(default_factory=list)
    rejected: list[Item] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Makes the accepted candidates goldens as a blessing does, and drops the rejected ones."""
        accepted, rejected = self.accepted, self.rejected
        self.accepted, self.rejected = [], []
        if accepted:
            decisions = [(item.facts, item.decision) for item in accepted]
            blessing = self.blessing()
            written, decisions = promote(
                self.run, decisions, self.candidates, self.goldens, blessing, None, self.known, self.recipes
            )
            self.written += written
            self.taken += [
                item.name for item, (_, made) in zip(accepted, decisions, strict=True) if made.action != "bless"
            ]
        for item in rejected:
            forget(self.candidates, item.facts.recipe, [item.facts.case])
