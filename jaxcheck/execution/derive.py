"""Tolerances from measured noise floors: what is proposed for a recipe, where it belongs, and what goldens keep of it.

Rounding is relative to the size of what is added up, not to what is left where that cancels: a floor is relative to
max |golden| of a leaf, so every element, however small, may move by FLOORS of it. Releases moved outputs by 1.1 floors
at most; beyond 4 is worth a word, beyond 8 a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any

from jaxcheck.compare.verdict import extent
from jaxcheck.execution.conditioning import floor_limit, is_plain
from jaxcheck.execution.verdicts import eps_of, floor_of, scale_of
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf
from jaxcheck.registry.model import Recipe, Tolerance
from jaxcheck.registry.tolerance import INEXACT, UNIFORM, output_key
from jaxcheck.registry.yaml_source import Keys

FLOORS = 8
LEAST_EPS = 4.0  # what is allowed at least, in eps of the dtype: a floor of 0 is that of one machine
APART = 10.0  # a shared tolerance may be so much wider than a leaf's own
CLEARLY = 1.5  # a larger rtol has to be so much better than atol alone


@dataclass(frozen=True)
class Measured:
    """A leaf of a case: its noise floor relative to `scale`, max |golden|; `least` is min |golden|."""

    case: str
    path: str
    dtype: str
    eps: float
    floor: float
    scale: float
    least: float
    present: Tolerance | None

    @property
    def needed(self) -> float:
        """What every element has to be allowed."""
        return max(FLOORS * self.floor, LEAST_EPS * self.eps) * self.scale


@dataclass(frozen=True)
class Bound:
    """A derived tolerance."""

    rtol: float
    atol: float

    def excess(self, leaves: Sequence[Measured]) -> float:
        """What it allows the largest element, in units of what that needs; the worst of the leaves."""
        return max((self.atol + self.rtol * leaf.scale) / leaf.needed for leaf in leaves)

    def compared(self, leaf: Measured) -> float:
        """What it allows the largest element, in units of what is allowed now; infinite where nothing is."""
        present = leaf.present
        now = present.atol + present.rtol * leaf.scale if present else 0.0
        return (self.atol + self.rtol * leaf.scale) / now if now else float("inf")


@dataclass(frozen=True)
class Derived:
    """One tolerance: where it belongs below the recipe (`()`, `("outputs", KEY)`, `("backends", NAME)`), for a dtype,
    and the leaves that it was derived from."""

    holder: tuple[str, ...]
    dtype: str
    bound: Bound
    leaves: tuple[Measured, ...]

    @property
    def floor(self) -> float:
        return max(leaf.floor for leaf in self.leaves)


@dataclass(frozen=True)
class Proposal:
    """What is proposed for a recipe.

    `blocks` is {holder: the whole value of its `tolerance:`}. `passed_over` says of leaves why nothing follows for
    them; `kept` are holders that give such a leaf what it has now, where a shared tolerance would change it. `reach`
    are backends whose tolerance in `defaults` would no longer reach the recipe.
    """

    recipe: Recipe
    derived: tuple[Derived, ...]
    blocks: Mapping[tuple[str, ...], Mapping[str, Any]]
    passed_over: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[tuple[str, ...], ...] = ()
    reach: tuple[str, ...] = ()

    def path(self, holder: tuple[str, ...]) -> Keys:
        """Where the tolerance of a holder stands in the file."""
        return ("recipes", self.recipe.name, *holder, "tolerance")

    def of(self, holder: tuple[str, ...]) -> list[Derived]:
        return [one for one in self.derived if one.holder == holder]


def propose(recipe: Recipe, cases: Mapping[str, GoldenCase], backend: str) -> Proposal:
    """Tolerances for the leaves of these cases of a recipe: all that have noise floors."""
    leaves, passed_over = measured(recipe, cases, backend)
    own = {name for name, layers in recipe.backend_tolerances.items() if layers and layers[0]}
    home = ("backends", backend) if backend != "cpu" or backend in own else ()
    derived = _derived(recipe, leaves, home)
    seen = {leaf.path: leaf.dtype for case in cases.values() for leaf in _leaves(case)}
    blocks = {holder: _block(recipe, holder, derived, seen) for holder in dict.fromkeys(one.holder for one in derived)}
    kept = _kept(recipe, derived, home, seen, backend)
    others = [name for name, layers in recipe.backend_tolerances.items() if name != backend and any(layers[1:])]
    is_new = () in blocks and not next(iter(recipe.tolerances), {})
    reach = tuple(name for name in others if name not in own) if is_new else ()
    return Proposal(recipe, tuple(derived), {**blocks, **kept}, passed_over, tuple(kept), reach)


def _derived(recipe: Recipe, leaves: Sequence[Measured], home: tuple[str, ...]) -> list[Derived]:
    """One for each dtype of a holder: `home` is the recipe's own, the others are what `outputs` says of leaves."""
    groups: dict[tuple[tuple[str, ...], str], list[Measured]] = {}
    for leaf in leaves:
        key = output_key(recipe, leaf.path)
        groups.setdefault((("outputs", key) if key else home, leaf.dtype), []).append(leaf)
    derived = []
    for (holder, dtype), members in groups.items():
        shared, apart = split(members) if holder == home else (members, {})
        derived.append(Derived(holder, dtype, merged(shared), tuple(shared)))
        derived += [Derived(("outputs", path), dtype, merged(alone), tuple(alone)) for path, alone in apart.items()]
    return sorted(derived, key=lambda one: (one.holder[:1] == ("outputs",), one.holder))


def _kept(
    recipe: Recipe, derived: Sequence[Derived], home: tuple[str, ...], seen: Mapping[str, str], backend: str
) -> dict[tuple[str, ...], dict[str, float]]:
    """{holder: its present tolerance} of leaves that nothing was derived for and that `home` would speak of."""
    shared = {one.dtype: one.bound for one in derived if one.holder == home}
    known = {leaf.path for one in derived for leaf in one.leaves}
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for path, dtype in seen.items():
        now = recipe.tolerance(path, dtype, backend)
        if path in known or output_key(recipe, path) or dtype not in shared or now is None:
            continue
        if Bound(now.rtol, now.atol) != shared[dtype]:
            found["outputs", path] = {"rtol": now.rtol, "atol": now.atol}
    return found


def _leaves(case: GoldenCase) -> tuple[Leaf, ...]:
    return (*(case.outputs.leaves if case.outputs else ()), *case.grad_leaves)


def measured(recipe: Recipe, cases: Mapping[str, GoldenCase], backend: str) -> tuple[list[Measured], dict[str, str]]:
    """(the leaves that a tolerance can be derived from, {leaf: why not} for the other floating ones)"""
    found: list[Measured] = []
    passed_over: dict[str, str] = {}
    for name, case in cases.items():
        for leaf in _leaves(case):
            if not leaf.dtype.startswith(INEXACT):
                continue
            floor = floor_of(case, leaf.path)
            reason = _reason(recipe, case, leaf, floor)
            if reason or floor is None:
                passed_over[f"{name} {leaf.path}"] = reason
                continue
            present = recipe.tolerance(leaf.path, leaf.dtype, backend)
            sizes = (eps_of(leaf), floor, scale_of(leaf), _least(leaf))
            found.append(Measured(name, leaf.path, leaf.dtype, *sizes, present))
    return found, passed_over


def _reason(recipe: Recipe, case: GoldenCase, leaf: Leaf, floor: float | None) -> str:
    """Why no tolerance follows from a leaf's floor; "" where one does."""
    if not is_plain(recipe, leaf.path):
        return "has a comparator of its own"
    if floor is None:
        said = case.extra.get("truth", {})
        why = said.get("floor_reason", said.get("reason", "blessed with --no-truth"))
        return f"its noise floor was not measured ({why})"
    if not scale_of(leaf):
        return "nothing in it has a size: a floor is relative to that"
    if floor > floor_limit(leaf):
        return f"unstable: {FLOORS} x its noise floor of {short(floor)} is no tolerance"
    return ""


def _least(leaf: Leaf) -> float:
    """min |value| over the finite elements, of which there are some."""
    return extent(leaf.array())[0]


def merged(leaves: Sequence[Measured]) -> Bound:
    """The tolerance under which every element of every leaf is allowed what it needs, and no leaf much more.

    atol carries it, with an rtol of one eps; a larger rtol where scales differ so much that this is clearly better.
    """
    bounds = [_with_rtol(rtol, leaves) for rtol in _rtols(leaves)]
    best = min(bounds[1:], key=lambda bound: bound.excess(leaves), default=bounds[0])
    return best if best.excess(leaves) * CLEARLY < bounds[0].excess(leaves) else bounds[0]


def _rtols(leaves: Sequence[Measured]) -> Iterator[float]:
    yield rounded_up(max(leaf.eps for leaf in leaves))
    yield rounded_up(max(leaf.needed / leaf.scale for leaf in leaves))
    if all(leaf.least for leaf in leaves):
        yield rounded_up(max(leaf.needed / leaf.least for leaf in leaves))


def _with_rtol(rtol: float, leaves: Sequence[Measured]) -> Bound:
    """With the least atol that does; never below what the smallest leaf needs, so that a new zero is allowed it."""
    least = min(leaf.needed for leaf in leaves)
    return Bound(rtol, rounded_up(max(least, *(leaf.needed - rtol * leaf.least for leaf in leaves))))


def split(leaves: Sequence[Measured]) -> tuple[list[Measured], dict[str, list[Measured]]]:
    """(leaves that can share a tolerance, {path: leaves that need one of their own}).

    From the leaf that needs least upwards, groups in which none is allowed APART times what it would be alone; the
    largest one shares.
    """
    by_path: dict[str, list[Measured]] = {}
    for leaf in leaves:
        by_path.setdefault(leaf.path, []).append(leaf)
    alone = {path: merged(members).excess(members) for path, members in by_path.items()}
    groups: list[list[str]] = [[]]
    for path in sorted(by_path, key=lambda path: max(leaf.needed for leaf in by_path[path])):
        bound = merged([leaf for member in (*groups[-1], path) for leaf in by_path[member]])
        if any(bound.excess(by_path[member]) > APART * alone[member] for member in (*groups[-1], path)):
            groups.append([])
        groups[-1].append(path)
    shared = max(groups, key=len)
    together = [leaf for path in shared for leaf in by_path[path]]
    return together, {path: members for path, members in by_path.items() if path not in shared}


def short(value: float) -> str:
    """`3e-7`, `0.25`."""
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.2g}").replace("e+", "e")


def rounded_up(value: float) -> float:
    """To one significant digit; what only float64 arithmetic added (2.4000000000000003e-6) is taken off first."""
    exact = Decimal(f"{value:.12e}")
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), rounding=ROUND_CEILING)) if exact else 0.0


def _block(
    recipe: Recipe, holder: tuple[str, ...], derived: Sequence[Derived], seen: Mapping[str, str]
) -> dict[str, Any]:
    """The whole value of a holder's `tolerance:`: what is there, with what was derived; by dtype where it has to be."""
    present = {dtype: {"rtol": one.rtol, "atol": one.atol} for dtype, one in _present(recipe, holder).items()}
    new = {one.dtype: {"rtol": one.bound.rtol, "atol": one.bound.atol} for one in derived if one.holder == holder}
    at_leaf = holder[:1] == ("outputs",)
    uniform = present.pop(UNIFORM, None)
    here = {dtype for path, dtype in seen.items() if not at_leaf or (output_key(recipe, path) or path) == holder[1]}
    rest = {dtype for dtype in here - set(new) if at_leaf or dtype.startswith(INEXACT)}
    if len(new) == 1 and not present and not rest and (uniform or at_leaf):
        return next(iter(new.values()))
    return {**present, **(dict.fromkeys(sorted(rest), uniform) if uniform else {}), **new}


def _present(recipe: Recipe, holder: tuple[str, ...]) -> Mapping[str, Tolerance]:
    """What the holder itself says now."""
    match holder:
        case ("outputs", key):
            return (recipe.outputs[key].tolerance or {}) if key in recipe.outputs else {}
        case ("backends", name):
            return next(iter(recipe.backend_tolerances.get(name, ())), {})
        case _:
            return next(iter(recipe.tolerances), {})


def provenance(proposal: Proposal, case: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a golden keeps of it, for a case: the tolerances, the floors that they came from, and how those were
    measured (`known`)."""
    tolerances = {
        leaf.path: {
            "rtol": one.bound.rtol,
            "atol": one.bound.atol,
            "floors": {other.case: other.floor for other in one.leaves if other.path == leaf.path},
            "floor": one.floor,
        }
        for one in proposal.derived
        for leaf in one.leaves
        if leaf.case == case
    }
    return {"rule": f"{FLOORS} x noise floor", **known, "tolerance": tolerances}
