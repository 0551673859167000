"""Candidates: what a run produced, in the form of a golden that nobody has blessed yet."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jaxcheck
from jaxcheck.errors import GoldenError
from jaxcheck.execution.judge import Outcome, differentiated
from jaxcheck.goldens.exchange import read_tree
from jaxcheck.goldens.golden import Blessing, ErrorRecord, GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import GRADIENT, Recipe
from jaxcheck.results import Environment


def candidate_case(
    recipe: Recipe, name: str, outcomes: Sequence[Outcome], export: Mapping[str, Any], environment: Environment
) -> GoldenCase | None:
    """The case as it would be blessed; None where the mode that is the contract gave nothing to bless."""
    contract = "eager" if recipe.golden == "truth" else recipe.golden
    outcome = next((outcome for outcome in outcomes if outcome.mode == contract), None)
    if outcome is None or outcome.kind not in ("value", "raised"):
        return None
    outputs, error = outcome.outputs, None
    if outcome.kind == "raised":
        error = _expected_error(recipe, name, contract, outcome)
        if error is None:
            return None
    elif recipe.golden == "truth" and outputs is not None and outcome.reference is not None:
        outputs = cast_to(outcome.reference, outputs)
    gradients = next((outcome.outputs for outcome in outcomes if outcome.mode == GRADIENT), None)
    program = Path(export["program"]).read_bytes() if "program" in export else None
    return GoldenCase(
        hash=recipe.case_hash(name),
        contract=recipe.golden,
        inputs=read_tree(export["inputs"])[0],
        outputs=outputs,
        error=error,
        tolerance=tolerances_in_force(recipe, outputs, gradients, environment.backend),
        blessing=Blessing(
            reason="",
            who="",
            when="",
            commit="",
            jaxcheck=jaxcheck.__version__,
            environment=environment.model_dump(mode="json"),
        ),
        program=program,
        program_reason=export.get("reason"),
        gradients=gradients,
        statics=dict(export["statics"]),
        extra={GRADIENT: differentiated(recipe)} if gradients else {},
    )


def _expected_error(recipe: Recipe, name: str, contract: str, outcome: Outcome) -> ErrorRecord | None:
    raises = recipe.case(name).raises
    if raises is None or not raises.expected_in(contract):
        return None
    error = outcome.reply["error"]
    return ErrorRecord(error["type"], tuple(error["bases"]), error["message"])


def cast_to(truth: Tree, outputs: Tree, prefix: str = "") -> Tree:
    """The truth in the outputs' own dtypes; leaves that it has no formula for stay as they were computed.

    `prefix` is what the truth has before the outputs' paths.
    """
    known = truth.by_path
    leaves = []
    for leaf in outputs.leaves:
        exact = known.get(prefix + leaf.path)
        dtype = leaf.array().dtype
        if exact is not None and leaf.impl is None:
            leaf = Leaf.of(leaf.path, np.asarray(exact.array()).astype(dtype), weak_type=leaf.weak_type)
        leaves.append(leaf)
    return Tree(outputs.structure, tuple(leaves))


def tolerances_in_force(
    recipe: Recipe, outputs: Tree | None, gradients: Tree | None, backend: str
) -> dict[str, dict[str, Any]]:
    """{leaf: {rtol, atol, source}}: a later run can tell whether the tolerance was loosened since."""
    found = {}
    leaves = [*(outputs.leaves if outputs else ()), *(gradients.under(GRADIENT).leaves if gradients else ())]
    for leaf in leaves:
        tolerance = recipe.tolerance(leaf.path, leaf.dtype, backend)
        if tolerance is not None:
            found[leaf.path] = {"rtol": tolerance.rtol, "atol": tolerance.atol, "source": tolerance.source}
    return found


def replace_candidates(
    store: GoldenStore, recipe: str, changes: Mapping[str, GoldenCase], ran: Collection[str]
) -> None:
    """What this run found replaces what an earlier one left for the same cases; the others keep theirs."""
    path = store.path(recipe)
    if not changes and not path.exists():
        return
    try:
        with store.load(recipe) or contextlib.nullcontext() as older:
            if older is not None:
                older.verify()
    except GoldenError:  # cut short by something, or of another version: of no use to anybody
        with contextlib.suppress(OSError):
            path.unlink()
    store.update(recipe, changes, remove=set(ran) - set(changes))
