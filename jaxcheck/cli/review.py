"""`jaxcheck review`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxcheck.cli import options as opt
from jaxcheck.cli.bless import Allow, Reason, Who, WithTruth, Yes

if TYPE_CHECKING:
    from jaxcheck.cli.options import Project
    from jaxcheck.execution.review import Item, Review
    from jaxcheck.execution.truth import Known
    from jaxcheck.goldens.golden import Blessing
    from jaxcheck.results import Run

LEAVES_SHOWN = 3
SCHEMA = 1
QUESTION = "accept [a], reject [r], skip [s], leaves [l], diff [d], accept the rest [A], quit [q]? "


def review(
    names: opt.Names = None,
    reason: Reason = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list what waits; needs no terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: as JSON.")] = False,
    allow: Allow = None,
    yes: Yes = False,
    truth: WithTruth = True,
    who: Who = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    jobs: opt.Jobs = None,
    no_cache: opt.NoCache = False,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Decide about the candidates of the last run, one by one: accept, reject or skip each.

    Accepts as `jaxcheck bless` does: exactly the bytes that the run left, with the same brakes, a reason (asked once),
    truth and noise floor. Quitting and Ctrl-C keep what was decided before.

    Examples: `jaxcheck review`; `jaxcheck review 'newton*' --reason "new stopping rule"`; `jaxcheck review --list`.
    """
    from jaxcheck.cli.bless import brakes_released, candidates_of, stop_in_ci
    from jaxcheck.cli.keys import is_interactive
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.review import items_of

    if as_json and not list_:
        raise UsageError("--json is the form of a list", hint="jaxcheck review --list --json")
    allowed = brakes_released(allow)
    if not list_:
        stop_in_ci(yes)
        if not is_interactive():
            raise UsageError(
                "a review needs a terminal",
                hint='jaxcheck review --list, then jaxcheck bless NAME… --reason "…" or jaxcheck reject NAME…',
            )
    project = opt.open_project(registry, goldens, state, shipped)
    selection = opt.selection_of(names, tag, k)
    run = project.state.last_run()
    items = items_of(run, project.registry, selection, candidates_of(project), project.goldens, allowed)
    if list_:
        print_list(items, as_json)
        return
    assert run is not None
    project.state.prepare()
    known, items = measured(project, run, items, allowed, truth, jobs, no_cache)
    raise typer.Exit(conduct(project, run, items, known, reason, who))


def measured(
    project: Project,
    run: Run,
    items: list[Item],
    allowed: set[str],
    truth: bool,
    jobs: int | None,
    no_cache: bool,
) -> tuple[dict[tuple[str, str], Known], list[Item]]:
    """Truth and noise floor of what may be accepted, as a blessing takes them; they can hold an item back."""
    from jaxcheck.cli.bless import Workers, truth_of
    from jaxcheck.execution.review import braked

    if not truth:
        return {}, items
    opt.say("measuring the truth and the noise floor of the candidates")
    compiled = opt.compiled_programs("--no-cache" if no_cache else "")
    known = truth_of(project, [(item.facts, item.decision) for item in items], Workers(run.backend, jobs, compiled))
    return known, braked(items, known, allowed)


def conduct(
    project: Project,
    run: Run,
    items: list[Item],
    known: dict[tuple[str, str], Known],
    reason: str | None,
    who: str | None,
) -> int:
    """The walk; what was decided is written whenever a recipe is done, and at any end."""
    from jaxcheck.cli.bless import candidates_of
    from jaxcheck.errors import Exit
    from jaxcheck.execution.review import Review
    from jaxcheck.report.lines import plain_text

    signature = Signature(project, reason, who)
    deciding = Review(run, candidates_of(project), project.goldens, known, signature.blessing, project.registry.recipes)
    walk = Walk(deciding, signature, items)
    try:
        walk.go()
    finally:
        deciding.write()
        print(walk.told())
        for name in deciding.taken:
            print(plain_text(f"not written: {name}: its candidate went away meanwhile (jaxcheck run)"), file=sys.stderr)
    return int(Exit.FAILED if walk.refused or deciding.taken else Exit.PASSED)


class Signature:
    """Who blesses and why: asked for when it is first needed, and one for the whole review."""

    def __init__(self, project: Project, reason: str | None, who: str | None) -> None:
        self._project, self._reason, self._who = project, (reason or "").strip(), who
        self._blessing: Blessing | None = None

    def given(self) -> bool:
        """Whether there is a reason; asks for it."""
        from jaxcheck.cli.keys import END, ask_line
        from jaxcheck.execution.bless import blessing_of

        if not self._reason:
            answer = ask_line("reason, for all that is accepted: ")
            self._reason = "" if answer == END else answer
        if self._reason and self._blessing is None:  # before anything is written: the commit is not dirty by us
            self._blessing = blessing_of(self._reason, self._who, Path(self._project.registry.root))
        return bool(self._reason)

    def blessing(self) -> Blessing:
        assert self._blessing is not None
        return self._blessing


class Walk:
    """From item to item; `counts` are the decisions, `refused` what was to be accepted and is held back."""

    def __init__(self, deciding: Review, signature: Signature, items: list[Item]) -> None:
        self._deciding, self._signature, self._items = deciding, signature, items
        self.counts = {"accepted": 0, "rejected": 0, "skipped": 0}
        self.refused: set[str] = set()

    def go(self) -> None:
        from jaxcheck.report.lines import plain_text

        recipe, rest = "", False
        for number, item in enumerate(self._items, 1):
            if item.facts.recipe != recipe:
                self._deciding.write()
                recipe = item.facts.recipe
            if rest:
                self._accept(item)
                continue
            print(plain_text(f"\n[{number}/{len(self._items)}] {item.name}"))
            print(*item_lines(item), sep="\n")
            answer = self._decided(item)
            if answer == "q":
                return
            rest = answer == "A"

    def _decided(self, item: Item) -> str:
        """Asks until something is decided: the key that did."""
        from jaxcheck.cli.keys import END, ask_key

        while True:
            key = ask_key(QUESTION)
            if key in ("q", END):
                return "q"
            if key in ("l", "d"):
                print(*(every_leaf(item) if key == "l" else full_diff(item)), sep="\n")
            elif key == "r":
                self._deciding.rejected.append(item)
                self.counts["rejected"] += 1
                return key
            elif key == "s":
                self.counts["skipped"] += 1
                return key
            elif key in ("a", "A") and (self._accept(item) or (key == "A" and item.name in self.refused)):
                return key

    def _accept(self, item: Item) -> bool:
        from jaxcheck.report.lines import plain_text

        if item.decision.action == "refuse":
            self.refused.add(item.name)
            print(plain_text(f"refused {item.name}"), *brake_lines(item), sep="\n  ")
            return False
        if not self._signature.given():
            print("nothing is accepted without a reason")
            return False
        self._deciding.accepted.append(item)
        self.counts["accepted"] += 1
        self.refused.discard(item.name)
        return True

    def told(self) -> str:
        """The last line."""
        left = len(self._items) - sum(self.counts.values())
        said = [f"{number} {what}" for what, number in self.counts.items()] + [f"{left} left"] * bool(left)
        return f"{', '.join(said)}; {len(set(self._deciding.written))} golden files written"


def item_lines(item: Item) -> list[str]:
    """What moved furthest, how far and for better or worse; and what holds it back."""
    from jaxcheck.report.changes import summary_lines

    lines = summary_lines(item.change, LEAVES_SHOWN) if item.change else [item.decision.reason]
    return [f"  {line}" for line in [*lines, *brake_lines(item)]]


def brake_lines(item: Item) -> list[str]:
    from jaxcheck.execution.bless import bless_again
    from jaxcheck.report.lines import plain_text

    if item.decision.action != "refuse":
        return []
    lines = [plain_text(f"held back: {item.decision.reason}")]
    if item.decision.override:
        lines.append(plain_text(f"  to insist: {bless_again(item.facts, item.decision.override)}"))
    return lines


def every_leaf(item: Item) -> list[str]:
    from jaxcheck.report.changes import moved_leaf_lines

    leaves = item.change.leaves if item.change else ()
    return [f"  {line}" for leaf in leaves for line in moved_leaf_lines(leaf)] or ["  no leaf is compared"]


def full_diff(item: Item) -> list[str]:
    """What `jaxcheck diff` prints."""
    from jaxcheck.report.changes import change_lines

    return change_lines(item.change) if item.change else [f"  {item.decision.reason}"]


def print_list(items: list[Item], as_json: bool) -> None:
    """Data for a program, or lines for a person. Truth and noise floor are measured only when something is accepted."""
    from jaxcheck.report.lines import plain_text

    if as_json:
        print(json.dumps({"schema": SCHEMA, "items": [described(item) for item in items]}, indent=1))
        return
    for item in items:
        print(plain_text(f"{item.name}"))
        print(*item_lines(item), sep="\n")
    print(f"{len(items)} to decide: jaxcheck review, jaxcheck bless, jaxcheck reject", file=sys.stderr)


def described(item: Item) -> dict[str, Any]:
    kept = {
        "path",
        "dtype",
        "shape",
        "compared",
        "violation_ratio",
        "max_abs",
        "floors",
        "verdict",
        "error_to_truth",
        "worst",
    }
    leaves = item.change.leaves if item.change else ()
    return {
        "name": item.name,
        "recipe": item.facts.recipe,
        "case": item.facts.case,
        "statuses": sorted(item.facts.statuses),
        "action": item.decision.action,
        "reason": item.decision.reason,
        "override": item.decision.override,
        "new": item.change is not None and item.change.before is None,
        "remarks": list(item.change.remarks) if item.change else [],
        "leaves": [leaf.model_dump(mode="json", include=kept) for leaf in leaves],
    }
