"""Which outputs move far for no reason though nobody said that they may: what `conditioning: unstable` is for."""

from __future__ import annotations

from collections.abc import Iterator

from jaxcheck.execution.verdicts import eps_of, floor_of, scale_of
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf
from jaxcheck.registry.model import OutputRule, Recipe
from jaxcheck.registry.tolerance import is_unstable, output_rule

UNSTABLE_FLOOR = 1e-3
UNSTABLE_EPS = 4.0  # eps of bfloat16 alone is 8e-3: a floor of a few of them is rounding, not conditioning


def float_leaves(golden: GoldenCase) -> Iterator[tuple[Leaf, float, float]]:
    """(leaf, noise floor, scale) of every leaf with a floor. One that is all zero has no scale to be relative to."""
    for leaf in (*(golden.outputs.leaves if golden.outputs else ()), *golden.grad_leaves):
        floor = floor_of(golden, leaf.path)
        if floor is not None and (scale := scale_of(leaf)):
            yield leaf, floor, scale


def floor_limit(leaf: Leaf) -> float:
    """The noise floor, relative to the leaf's scale, above which it is ill-conditioned."""
    return max(UNSTABLE_FLOOR, UNSTABLE_EPS * eps_of(leaf))


def is_plain(recipe: Recipe, path: str) -> bool:
    """Whether a leaf is compared element by element within a tolerance."""
    return (output_rule(recipe, path) or OutputRule()).comparator == "allclose"


def ill_conditioned(recipe: Recipe, case: str, golden: GoldenCase) -> dict[str, str]:
    """{leaf: what is wrong and what to write} for leaves above the limit that were not declared."""
    found = {}
    for leaf, _, _ in float_leaves(golden):
        part, floor = _largest_part(golden, leaf.path)
        declared = not is_plain(recipe, leaf.path) or is_unstable(recipe, case, leaf.path)
        if floor > floor_limit(leaf) and not declared:
            found[leaf.path] = _words(recipe, leaf, part, floor)
    return found


def _largest_part(golden: GoldenCase, path: str) -> tuple[str, float]:
    """(name, size) of what makes a leaf's noise floor. The distance to a reference is not asked: where that is large,
    the formula is another one, and the brake `reference` says so."""
    by_reference = golden.extra.get("truth", {}).get("sources", {}).get(path) == "reference"
    parts = {part: size for part, size in golden.extra["floor"][path].items() if part != "truth" or not by_reference}
    return max(parts.items(), key=lambda part: part[1], default=("", 0.0))


def _words(recipe: Recipe, leaf: Leaf, part: str, floor: float) -> str:
    return (
        f"{leaf.path} is ill-conditioned: its noise floor is {floor:.1e} of its scale ({part}), more than "
        f"{floor_limit(leaf):.1g}; where that is so by nature, write `conditioning: unstable` at "
        f"{recipe.locate('outputs', leaf.path)} (the leaf, the case or the recipe), else a semantic comparator"
    )
