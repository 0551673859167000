"""Derived tolerances as a block that can be pasted into the registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxcheck.execution.derive import Derived, Proposal
from jaxcheck.execution.tightening import Tightening, origin
from jaxcheck.registry.edit import flow, key_text
from jaxcheck.report.lines import plain_text


def derived_lines(measured: Tightening) -> list[str]:
    """YAML below `recipes:`, with where each tolerance came from as comments."""
    proposals = [proposal for proposal in measured.proposals if proposal.derived or proposal.passed_over]
    if not proposals:
        return []
    environment = measured.environment
    title = f"# tolerances derived from noise floors, jax {environment.jax} on {environment.backend}"
    return [title, "recipes:", *(plain_text(line) for one in proposals for line in _recipe(one))]


def _recipe(proposal: Proposal) -> Iterator[str]:
    said = [holder for holder in proposal.blocks if holder[:1] != ("outputs",)]
    yield f"  {key_text(proposal.recipe.name)}:" if proposal.blocks else f"  # {proposal.recipe.name}: nothing derived"
    for holder in said:
        yield from (f"    # {line}" for line in _words(proposal, holder))
        block = flow(proposal.blocks[holder])
        yield (
            f"    tolerance: {block}"
            if not holder
            else f"    backends: {{{key_text(holder[1])}: {{tolerance: {block}}}}}"
        )
    leaves = [holder for holder in proposal.blocks if holder not in said]
    if leaves:
        yield "    outputs:"
    for holder in leaves:
        yield from (f"      # {line}" for line in _words(proposal, holder))
        yield f"      {key_text(holder[1])}: {{tolerance: {flow(proposal.blocks[holder])}}}"
    yield from (f"    # {leaf} is passed over: {why}" for leaf, why in proposal.passed_over.items())
    for name in proposal.reach:
        yield f"    # the defaults' tolerance for {name} no longer reaches this recipe: say it under backends"


def _words(proposal: Proposal, holder: tuple[str, ...]) -> list[str]:
    if holder in proposal.kept:
        return ["kept as it is: nothing follows from its noise floor"]
    return [_origin(one) for one in proposal.of(holder)]


def _origin(one: Derived) -> str:
    cases = len({leaf.case for leaf in one.leaves})
    leaves = len({leaf.path for leaf in one.leaves})
    counted = f"{leaves} {'leaf' if leaves == 1 else 'leaves'} in {cases} {'case' if cases == 1 else 'cases'}"
    return f"{one.dtype}: {origin(one)} ({counted}); {_now(one)}"


def _now(one: Derived) -> str:
    """`now {rtol: 2.0e-6, atol: 2.0e-6} at recipes.yaml:14:5, of which it is 0.12 to 0.4`."""
    present = list(dict.fromkeys(leaf.present for leaf in one.leaves if leaf.present))
    if not present:
        return "now none"
    first = present[0]
    more = f" and {len(present) - 1} more" if len(present) > 1 else ""
    ratios = sorted(one.bound.compared(leaf) for leaf in one.leaves)
    said = _range([f"{ratio:.2g}" for ratio in (ratios[0], ratios[-1])])
    held = flow({"rtol": first.rtol, "atol": first.atol})
    return f"now {held} at {first.source}{more}; allows {said} x that"


def _range(words: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(words))
