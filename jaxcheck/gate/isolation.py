"""One package moved at a time: which of several that were asked for gives the candidate's bits by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxcheck.errors import Unavailable
from jaxcheck.execution.saved import SavedRun
from jaxcheck.results import CheckResult, LeafResult

OF_JAX = frozenset({"jax", "jaxlib"})


def isolate(
    results: Sequence[CheckResult],
    candidate: SavedRun,
    requirements: Mapping[str, str],
    run: Callable[[str, tuple[str, ...]], SavedRun],
) -> tuple[list[CheckResult], list[str]]:
    """The results with their causes confirmed or corrected, and remarks.

    `requirements` are what was asked for, by package; `run` gives a saved run of these checks in the baseline's
    environment with one of them alone. A package whose environment cannot be had is left out, and told.
    """
    if len(requirements) < 2:
        return list(results), ["--isolate moves one package at a time: only one was asked for"]
    checks = tuple(result.id for result in results if any(leaf.moved for leaf in result.leaves))
    if not checks:
        return list(results), []
    movers: dict[tuple[str, str], list[str]] = {}
    remarks = []
    for name, requirement in requirements.items():
        try:
            alone = run(requirement, checks)
        except Unavailable as error:
            remarks.append(f"{name} alone could not be tried: {str(error).splitlines()[0]}")
            continue
        for key in _same_as(candidate, alone, results):
            movers.setdefault(key, []).append(name)
    return [_told(result, movers, list(requirements)) for result in results], remarks


def _same_as(candidate: SavedRun, alone: SavedRun, results: Sequence[CheckResult]) -> list[tuple[str, str]]:
    """The leaves that moved and have the candidate's bits in the other run, too."""
    found = []
    for result in results:
        ours, theirs = (saved.cases(result.recipe).get(result.case) for saved in (candidate, alone))
        one, other = (case.outputs.get(result.mode) if case else None for case in (ours, theirs))
        if one is None or other is None:
            continue
        mine, others = one.by_path, other.by_path
        for leaf in result.leaves:
            path = leaf.path
            if leaf.moved and path in mine and path in others and mine[path].digest == others[path].digest:
                found.append((result.id, path))
    return found


def _told(result: CheckResult, movers: Mapping[tuple[str, str], Sequence[str]], names: Sequence[str]) -> CheckResult:
    leaves = tuple(
        _confirmed(leaf, movers.get((result.id, leaf.path), ()), names) if leaf.moved else leaf
        for leaf in result.leaves
    )
    return result.model_copy(update={"leaves": leaves})


def _confirmed(leaf: LeafResult, alone: Sequence[str], names: Sequence[str]) -> LeafResult:
    """What moving one package at a time says of a cause: it agrees, it knows better, or it takes several of them."""
    if len(alone) != 1:
        several = f"{' and '.join(alone)} each give" if alone else f"none of {', '.join(names)} alone gives"
        return leaf.model_copy(update={"because": f"{leaf.because}; {several} the candidate's bits"})
    (name,) = alone
    words = f"with only {name} moved, it has the candidate's bits"
    if name in OF_JAX:
        if leaf.cause == "package":
            return leaf.model_copy(update={"cause": "undetermined", "package": None, "because": words})
        return leaf.model_copy(update={"because": f"{leaf.because}; {words}"})
    return leaf.model_copy(update={"cause": "package", "package": name, "because": words})
