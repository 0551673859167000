"""Verdicts: what the truth and the noise floor that a golden holds say of the leaves of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jaxcheck.compare.sample import sample_of
from jaxcheck.compare.verdict import Verdict, error_to_truth, extent, verdict
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree, kept_by_all
from jaxcheck.registry.tolerance import OutputRules, output_rule
from jaxcheck.results import ErrorToTruth, LeafResult, Sample

# Element by element, an eigenvector of the other sign is as far from the truth as a wrong one.
NOT_UNIQUE = frozenset({"eigh", "svd", "qr", "topk", "permutation"})
SAMPLED_LEAVES = 8  # of a check: a training state may have thousands of leaves, and a person looks at a few
NOTABLE_FLOORS = 4.0  # ten recipes drifted by at most 1.1 floors between releases: beyond four is worth a word


class Yardstick(Protocol):
    """What is known of a case beside its numbers: a golden's case, or a saved run's."""

    @property
    def truth(self) -> Tree | None: ...
    @property
    def extra(self) -> Mapping[str, Any]: ...


def floor_of(golden: Yardstick, path: str, *parts: str) -> float | None:
    """The noise floor of a leaf relative to max |golden|, or of some of its parts; None where it was not measured."""
    measured = golden.extra.get("floor", {}).get(path)
    return max(measured[part] for part in parts or measured) if measured else None


def judged(
    leaves: Sequence[LeafResult], golden: Yardstick, expected: Tree, actual: Tree, recipe: OutputRules
) -> tuple[LeafResult, ...]:
    """The leaves with their verdicts against the truth and the floor that the golden holds.

    `expected` is a tree of the golden: its outputs, or its gradients. Those that moved furthest get a sample.
    """
    old, new = expected.by_path, actual.by_path
    furthest = sorted((leaf for leaf in leaves if leaf.moved), key=lambda leaf: -leaf.violation_ratio)
    sampled = {leaf.path for leaf in furthest[:SAMPLED_LEAVES]}
    return tuple(
        leaf.model_copy(update={"verdict": _verdict(leaf, None)})
        if _comparator(recipe, leaf.path) in NOT_UNIQUE
        else _judged(leaf, golden, old[leaf.path], new[leaf.path], leaf.path in sampled)
        for leaf in leaves
    )


def _comparator(recipe: OutputRules, path: str) -> str | None:
    rule = output_rule(recipe, path)
    return rule.comparator if rule else None


def _verdict(leaf: LeafResult, errors: ErrorToTruth | None) -> Verdict:
    return verdict(
        unchanged=leaf.bit_equal == leaf.size and leaf.reason is None,
        within=leaf.reason is None,
        golden_error=errors.golden if errors else None,
        actual_error=errors.actual if errors else None,
    )


def _judged(leaf: LeafResult, golden: Yardstick, old: Leaf, new: Leaf, sampled: bool) -> LeafResult:
    truth = golden.truth.by_path.get(leaf.path) if golden.truth else None
    errors = None
    if truth is not None and truth.shape == old.shape == new.shape:
        (theirs, mine, exact), _ = kept_by_all(old, new, truth)
        before = error_to_truth(theirs, exact)
        after = before if leaf.bit_equal == leaf.size else error_to_truth(mine, exact)
        errors = ErrorToTruth(golden=before, actual=after)
    update: dict[str, Any] = {
        "verdict": _verdict(leaf, errors),
        "error_to_truth": errors,
        "floors": _floors(leaf, golden, old if old.excerpt is None else new),
        "sample": _sample(leaf, old, new) if sampled else None,
    }
    return leaf.model_copy(update=update | ({"eps": eps_of(old)} if errors else {}))


def _sample(leaf: LeafResult, old: Leaf, new: Leaf) -> Sample | None:
    """None where the two are not of one shape and dtype, nor whole, and for keys: their words are no numbers to look
    at."""
    before, after = old.array(), new.array()
    if leaf.dtype.startswith("key<") or before.dtype != after.dtype or before.shape != after.shape or not before.size:
        return None
    return sample_of(before, after, leaf.tolerance, leaf.worst.index if leaf.worst else None)


def _floors(leaf: LeafResult, golden: Yardstick, old: Leaf) -> float | None:
    floor = floor_of(golden, leaf.path)
    if not floor or leaf.max_abs == 0:
        return 0.0 if floor else None
    return leaf.max_abs / (floor * (scale_of(old) or 1.0))


def scale_of(leaf: Leaf) -> float:
    """max |value| over the finite elements of a float or complex leaf, as far as it is kept."""
    return extent(leaf.array())[1]


def eps_of(leaf: Leaf) -> float:
    """The machine epsilon of a float or complex leaf's dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(leaf.array().real.dtype).eps)


def remarks(leaves: Sequence[LeafResult], golden: GoldenCase) -> list[str]:
    """What is worth a word though it passes: drift of many floors, a tolerance looser than when it was blessed."""
    notes = in_words(leaves)
    for leaf in leaves:
        if leaf.floors is not None and leaf.floors > NOTABLE_FLOORS and leaf.reason is None:
            notes.append(f"{leaf.path} drifted by {leaf.floors:.2g} noise floors, within its tolerance")
        if leaf.compared:
            notes.append(
                f"{leaf.path}: {leaf.compared:,} of {leaf.size:,} elements were compared: the golden keeps these and a "
                "digest, which is another"
            )
    notes += loosened(golden.tolerance, {leaf.path: leaf.tolerance for leaf in leaves})
    return notes


class Bound(Protocol):
    """A tolerance and who set it."""

    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...
    @property
    def source(self) -> str: ...


def loosened(blessed: Mapping[str, Mapping[str, Any]], now: Mapping[str, Bound]) -> list[str]:
    """The ratchet: in words, each tolerance that is wider than when its leaf was blessed."""
    return [
        f"the tolerance of {path} was loosened since the blessing: rtol {held['rtol']:g} -> {bound.rtol:g}, "
        f"atol {held['atol']:g} -> {bound.atol:g} ({bound.source})"
        for path, bound in now.items()
        if (held := blessed.get(path)) and (bound.rtol > held["rtol"] or bound.atol > held["atol"])
    ]


def in_words(leaves: Sequence[LeafResult]) -> list[str]:
    """`['y'] improved: error to truth 0.0099 -> 1.8e-07`, for each leaf beyond its tolerance whose truth is known."""
    return [
        f"{leaf.path} {leaf.verdict}: error to truth {error_text(leaf.error_to_truth.golden)} -> "
        f"{error_text(leaf.error_to_truth.actual)}"
        for leaf in leaves
        if leaf.reason and leaf.verdict and leaf.error_to_truth
    ]


def error_text(value: float) -> str:
    """A relative error to the truth, in two digits."""
    return "infinite" if value >= sys.float_info.max else f"{value:.2g}"
