"""Causes as results have them: which checks are to be explained, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping

from jaxcheck.gate.cause import Cause
from jaxcheck.gate.causes import WHOLE, Moved
from jaxcheck.results import CheckResult, Status


def moved_check(result: CheckResult) -> Moved | None:
    """What is to be explained of a check, if anything is."""
    paths = tuple(leaf.path for leaf in result.leaves if leaf.moved)
    raises = result.verdict == "broken" and result.status is not Status.SKIP and not result.leaves
    if not paths and not raises:
        return None
    return Moved(result.recipe, result.case, result.mode, paths, result.verdict == "unstable")


def explained(result: CheckResult, causes: Mapping[tuple[str, str], Cause]) -> CheckResult:
    """The result with what is known of the causes of its moves."""
    leaves = []
    details = list(result.details)
    for leaf in result.leaves:
        cause = causes.get((result.id, leaf.path))
        if cause is not None:
            named = {"cause": cause.kind, "because": cause.because, "package": cause.package}
            leaf = leaf.model_copy(update=named)
            details += [line for line in cause.details if line not in details]
        leaves.append(leaf)
    if (whole := causes.get((result.id, WHOLE))) is not None:
        details.append(f"cause {whole.kind}: {whole.because}")
    return result.model_copy(update={"leaves": tuple(leaves), "details": tuple(details)})
