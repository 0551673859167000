"""Trees held against one another: a golden, another mode, a reference, under a recipe's tolerances and comparators."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.distances import is_integer
from jaxcheck.compare.leaves import Among, ParameterError, Surroundings, compare_leaf, signature_difference
from jaxcheck.compare.tally import LABELS
from jaxcheck.goldens.damage import listing
from jaxcheck.goldens.leaf import Leaf, Tree, kept_by_all
from jaxcheck.goldens.structure import describe_difference
from jaxcheck.registry.model import BOUNDED_BY_THEMSELVES, BY_ELEMENT, OutputRule, Tolerance
from jaxcheck.registry.tolerance import OutputRules, output_rule
from jaxcheck.results import Finding, LeafResult, ToleranceUsed


def _same_bits(expected: Leaf, actual: Leaf) -> bool:
    """Whether only the name of the bits is another: a raw PRNG key made a typed one, an array reshaped."""
    if expected.excerpt or actual.excerpt:
        return False  # a digest is of bits and their name
    return expected.words.nbytes == actual.words.nbytes and expected.words.tobytes() == actual.words.tobytes()


def _by_digest(found: LeafResult, expected: Leaf, actual: Leaf, rule: OutputRule) -> LeafResult:
    """What was found in an excerpt, with what the digests of the whole leaves say besides."""
    if expected.digest == actual.digest:
        histogram = found.histogram | {LABELS[0]: found.size}
        return found.model_copy(update={"bit_equal": found.size, "compared": None, "histogram": histogram})
    if found.reason is None and (rule.comparator == "exact" or not found.compared):
        kept = f"{found.compared:,} elements, which are the same" if found.compared else "no element"
        reason = f"its digest is {actual.digest[:12]}…, was {expected.digest[:12]}…; beside it the golden keeps {kept}"
        return found.model_copy(update={"reason": reason, "violation_ratio": sys.float_info.max})
    return found


def _other_names(expected: Tree, actual: Tree) -> str:
    """The first leaf that one structure has at another path: rules and the truth are found by it. Nothing for none."""
    pairs = zip(expected.leaves, actual.leaves, strict=True)
    return next((f"{mine.path} was {theirs.path}" for theirs, mine in pairs if mine.path != theirs.path), "")


def in_common(expected: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reference and outputs in one dtype that holds both: a reference of whole numbers must not cut fractions off, nor
    a real one an imaginary part."""
    dtypes = expected.dtype, actual.dtype
    if any(dtype.kind == "c" for dtype in dtypes):
        common = "complex128"
    elif all(is_integer(dtype) for dtype in dtypes):
        common = "uint64" if all(dtype.kind == "u" for dtype in dtypes) else "int64"
    else:
        common = "float64"
    return expected.astype(common), actual.astype(common)


def ulps_to(expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest distance in units of the outputs' own dtype: the reference rounded to it."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype)
    return compare_arrays(rounded, actual, rtol=0.0, atol=0.0).max_ulp


class Rules(OutputRules, Protocol):
    """What leaves are held to: a recipe, or what a saved run has of it."""

    def tolerance(self, path: str, dtype: str, backend: str) -> Tolerance | None: ...
    def locate(self, *keys: str) -> object: ...


class Comparison:
    """Trees compared leaf by leaf under a recipe's tolerances and with its comparators.

    `inputs` are those that the outputs were computed from, for comparators that look at them.
    """

    def __init__(self, recipe: Rules, backend: str, inputs: Tree | None = None) -> None:
        self.recipe = recipe
        self.backend = backend
        self.inputs = None if inputs is None else _arrays(inputs.leaves)

    def trees(
        self, kind: Literal["golden", "modes"], expected: Tree, actual: Tree, words: str, against: str = "golden"
    ) -> tuple[list[Finding], tuple[LeafResult, ...]]:
        """Structure, then every leaf: findings for what is beyond, and statistics for all."""
        difference = describe_difference(expected.structure, actual.structure)
        if not difference and kind == "golden":
            difference = _other_names(expected, actual)
        if difference:
            return [Finding(kind=kind, message=f"{words}: structure: {difference}")], ()
        findings, leaves = [], []
        around = self._around(_arrays(expected.leaves), _arrays(actual.leaves))
        for theirs, mine in zip(expected.leaves, actual.leaves, strict=True):
            leaf = self._leaf(theirs, mine, against, around)
            if isinstance(leaf, Finding):
                findings.append(leaf)
                continue
            leaves.append(leaf)
            if leaf.reason:
                findings.append(Finding(kind=kind, message=f"{words}: {mine.path}: {leaf.reason}"))
        return findings, tuple(leaves)

    def _leaf(self, expected: Leaf, actual: Leaf, against: str, around: Surroundings) -> LeafResult | Finding:
        signature = signature_difference(expected, actual, against=against)
        if signature:
            same = "; the bits are the same" if _same_bits(expected, actual) else ""
            return self._other_signature(actual, signature + same)
        rule = output_rule(self.recipe, actual.path) or OutputRule()
        (theirs, mine), positions = kept_by_all(expected, actual)
        if positions is None:
            return self._compared(actual, theirs, mine, rule, against, around)
        if rule.comparator not in BY_ELEMENT:
            return self._needs_the_whole(actual, rule)
        found = self._compared(actual, theirs, mine, rule, against, around, Among(actual.shape, positions))
        return found if isinstance(found, Finding) else _by_digest(found, expected, actual, rule)

    def _compared(
        self,
        leaf: Leaf,
        expected: Any,
        actual: Any,
        rule: OutputRule,
        against: str,
        around: Surroundings,
        among: Among | None = None,
    ) -> LeafResult | Finding:
        tolerance = self.recipe.tolerance(leaf.path, leaf.dtype, self.backend)
        if tolerance is None and rule.comparator in BOUNDED_BY_THEMSELVES:
            tolerance = Tolerance(0.0, 0.0, f"comparator: {rule.comparator}")
        if tolerance is None:
            return self._no_tolerance(leaf)
        try:
            compared = compare_leaf(
                leaf.path,
                leaf.dtype,
                expected,
                actual,
                tolerance,
                rule.comparator,
                against=against,
                parameters=rule.parameters,
                around=around,
                among=among,
            )
        except ParameterError as error:
            where = self.recipe.locate("outputs", leaf.path, "comparator")
            text = f"{where}: the comparator {rule.comparator} does not fit {leaf.path}: {error}"
            return Finding(kind="tolerance", message=text)
        return compared.model_copy(update={"shape": leaf.shape})  # of typed keys, not of their words

    def _around(self, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Surroundings:
        def tolerance(path: str, dtype: str) -> Tolerance | None:
            return self.recipe.tolerance(path, dtype, self.backend)

        return Surroundings(expected, actual, self.inputs, tolerance)

    def _needs_the_whole(self, leaf: Leaf, rule: OutputRule) -> Finding:
        where = self.recipe.locate("outputs", leaf.path, "comparator")
        text = f"the comparator {rule.comparator} looks at all of {leaf.path}, of which the golden keeps an excerpt"
        return Finding(kind="tolerance", message=f"{where}: {text} (jaxcheck bless --all keeps it whole)")

    def _no_tolerance(self, leaf: Leaf) -> Finding:
        where = self.recipe.locate("tolerance")
        add = f"add `{leaf.dtype}: {{rtol: …, atol: …}}`"
        text = f"{where}: no tolerance for {leaf.dtype}, the dtype of {leaf.path} ({add})"
        return Finding(kind="tolerance", message=text)

    def _other_signature(self, leaf: Leaf, reason: str) -> LeafResult:
        size = int(np.prod(leaf.shape, dtype=np.int64))
        return LeafResult(
            path=leaf.path,
            dtype=leaf.dtype,
            shape=leaf.shape,
            size=size,
            bit_equal=0,
            mismatched=max(size, 1),
            nonfinite=0,
            violation_ratio=np.inf,
            max_abs=np.inf,
            max_rel=np.inf,
            max_ulp=np.inf,
            tolerance=ToleranceUsed(rtol=0, atol=0, source="exact: signature"),
            reason=reason,
        )

    def with_reference(self, reference: Tree, actual: Tree) -> tuple[list[Finding], tuple[LeafResult, ...]]:
        """The leaves that the reference has a formula for, compared in its precision."""
        outputs = {leaf.path: leaf for leaf in actual.leaves}
        around = self._around(_arrays(reference.leaves), _arrays(actual.leaves))
        findings, leaves = [], []
        for theirs in reference.leaves:
            mine = outputs.get(theirs.path)
            if mine is None or mine.shape != theirs.shape:
                has = f"{theirs.path} of shape {list(theirs.shape)}"
                instead = f"of shape {list(mine.shape)}" if mine else f"only {listing(outputs) or 'no leaf'}"
                text = f"the reference gives {has}, the kernel {instead}"
                findings.append(Finding(kind="reference", message=text))
                continue
            (known, given), positions = kept_by_all(theirs, mine)
            among = None if positions is None else Among(mine.shape, positions)
            rule = self._reference_rule(mine.path)
            leaf = self._compared(mine, *in_common(known, given), rule, "reference", around, among)
            if isinstance(leaf, Finding):
                findings.append(leaf)
                continue
            leaves.append(leaf.model_copy(update={"max_ulp": ulps_to(known, given)}))
            if leaf.reason:
                text = f"differs from the reference: {mine.path}: {leaf.reason}"
                findings.append(Finding(kind="reference", message=text))
        return findings, tuple(leaves)

    def _reference_rule(self, path: str) -> OutputRule:
        """A formula in float64 has other bits: what counts these asks nothing of it, and the tolerance holds."""
        rule = output_rule(self.recipe, path) or OutputRule()
        return OutputRule(rule.tolerance) if rule.comparator in ("exact", "ulp") else rule


def _arrays(leaves: Sequence[Leaf]) -> dict[str, Any]:
    return {leaf.path: leaf.array() for leaf in leaves if leaf.excerpt is None}
