"""Gathers the truth and the noise floor of cases that are about to be blessed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jaxcheck.compare.verdict import error_to_truth
from jaxcheck.execution.conditioning import ill_conditioned
from jaxcheck.execution.conduct import recipe_message
from jaxcheck.execution.process import Death, Launch
from jaxcheck.execution.run import Crew, default_jobs
from jaxcheck.execution.session import Session, Spare
from jaxcheck.goldens.exchange import read_tree
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import GRADIENT, Recipe, Registry

DIGITS = 2


@dataclass(frozen=True)
class Known:
    """What is known of a case beside its numbers.

    `extra` is what the golden keeps of it: where the truth came from, and the noise floor of each leaf. `brakes` says
    what holds the blessing back: shadow and reference that contradict one another, outputs without a floor to stand
    on. `draws` and `knobs` are how the floor was measured. `tolerance` is set where another one is in force by now than
    when the case ran.
    """

    truth: Tree | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    brakes: Mapping[str, str] = field(default_factory=dict)
    draws: int = 0
    knobs: tuple[str, ...] = ()
    tolerance: dict[str, dict[str, Any]] | None = None


def gather(
    registry: Registry,
    chosen: Mapping[str, Collection[str]],
    candidates: GoldenStore,
    launch: Launch,
    scratch: Path,
    jobs: int | None,
    spare: Spare | None = None,
) -> dict[tuple[str, str], Known]:
    """{(recipe, case): what is known} for candidates that are about to be blessed."""
    recipes = [recipe for recipe in registry.recipes.values() if chosen.get(recipe.name)]
    each = partial(of_recipe, registry.root, chosen, candidates, scratch)
    crew = Crew(launch, recipes, each, spare)
    crew.run(jobs or default_jobs(recipes))
    if crew.interrupted:
        raise KeyboardInterrupt
    return {(name, case): known for name, cases in crew.done.items() for case, known in cases.items()}


def of_recipe(
    root: str,
    chosen: Mapping[str, Collection[str]],
    candidates: GoldenStore,
    scratch: Path,
    recipe: Recipe,
    session: Session,
) -> dict[str, Known]:
    """Of the chosen cases of one recipe."""
    found = {}
    golden = candidates.load(recipe.name)
    if golden is None:
        return {}
    generation = -1
    with golden:
        for number, case in enumerate(chosen[recipe.name]):
            held = golden.case(case)
            if held.outputs is None:
                found[case] = Known()
                continue
            folder = scratch / f"truth-{recipe.position.line}-{number}"
            folder.mkdir(exist_ok=True)
            session.start()
            if generation != session.generation:  # the first case, or the first one after a death
                message = {"op": "prepare", "recipe": recipe_message(recipe, root), "alone": True}
                prepared = session.request(message, recipe.timeout)
                if isinstance(prepared, Death):
                    found[case] = Known(extra={"truth": {"reason": prepared.reason}})
                    continue
                generation = session.generation
            found[case] = _of_case(recipe, case, held, str(golden.path), folder, session)
    return found


def _of_case(recipe: Recipe, case: str, held: GoldenCase, stored: str, folder: Path, session: Session) -> Known:
    """Asks the worker, which knows the recipe; one that dies over it costs the truth of this case only."""
    request = {"op": "truth", "recipe": recipe.name, "case": case, "stored": stored, "floor": True}
    request["gradients"] = held.gradients is not None
    reply = session.request({**request, "folder": str(folder)}, recipe.case(case).timeout)
    session.output()
    if isinstance(reply, Death):
        return Known(extra={"truth": {"reason": reply.reason}})
    return known_of(recipe, case, held, reply)


def known_of(recipe: Recipe, case: str, held: GoldenCase, reply: Mapping[str, Any]) -> Known:
    """The reference where there is one, the shadow elsewhere; both must agree within the leaf's tolerance."""
    shadow = read_tree(reply["truth"])[0].by_path if "truth" in reply else {}
    reference = read_tree(reply["reference"])[0].by_path if "reference" in reply else {}
    assert held.outputs is not None
    leaves, faults, sources = [], [], {}
    for output in held.outputs.leaves:
        exact = _as_truth(reference.get(output.path), output)
        other = shadow.get(output.path)
        if exact is not None and other is not None and (fault := _contradiction(recipe, output, exact, other, held)):
            faults.append(fault)
        chosen = exact if exact is not None else other
        if chosen is not None and chosen.shape == output.shape:
            leaves.append(chosen)
            sources[output.path] = "reference" if chosen is exact else "shadow"
    gradients = read_tree(reply["gradients"])[0].under(GRADIENT).by_path if "gradients" in reply else {}
    for output in held.grad_leaves:
        exact = gradients.get(output.path)
        if exact is not None and exact.shape == output.shape:
            leaves.append(exact)
            sources[output.path] = "shadow"
    leaves.sort(key=lambda leaf: leaf.path)
    truth = Tree({"dict": {leaf.path: "*" for leaf in leaves}}, tuple(leaves)) if leaves else None
    facts = {"sources": sources, **reply.get("facts", {}), **_reasons(reply)}
    wander = {**reply.get("floor", {})}
    wander |= {GRADIENT + path: kinds for path, kinds in reply.get("gradient_floor", {}).items()}
    computed = {leaf.path: leaf for leaf in (*held.outputs.leaves, *held.grad_leaves)}
    floors = {path: _floor(kinds, computed[path], truth) for path, kinds in wander.items() if path in computed}
    extra = {"truth": facts, "floor": floors}
    unstable = ill_conditioned(recipe, case, replace(held, extra=extra)).values()
    brakes = {brake: "; ".join(said) for brake, said in (("truth", faults), ("conditioning", unstable)) if said}
    measured = reply.get("measured", {})
    return Known(truth, extra, brakes, measured.get("draws", 0), tuple(measured.get("knobs", ())))


def _reasons(reply: Mapping[str, Any]) -> dict[str, str]:
    """Why something could not be had."""
    kinds = ("reason", "floor_reason", "gradient_reason", "gradient_floor_reason")
    return {name: reply[name] for name in kinds if name in reply}


def _as_truth(leaf: Leaf | None, output: Leaf) -> Leaf | None:
    """A reference's leaf as the truth of a float output: float64 or complex128."""
    if leaf is None or leaf.shape != output.shape or leaf.dtype not in ("float64", "complex128"):
        return None
    complex_output = output.dtype.startswith("complex")
    return Leaf.of(leaf.path, leaf.array().astype(np.complex128)) if complex_output else leaf


def _contradiction(recipe: Recipe, output: Leaf, exact: Leaf, shadow: Leaf, held: GoldenCase) -> str:
    tolerance = held.tolerance.get(output.path)
    if tolerance is None or exact.shape != shadow.shape:
        return ""
    want, got = exact.array(), shadow.array()
    with np.errstate(invalid="ignore"):
        apart = np.abs(want - got) > tolerance["atol"] + tolerance["rtol"] * np.abs(want)
    apart |= np.isnan(want) != np.isnan(got)
    if not apart.any():
        return ""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    return (
        f"{output.path} at {list(index)}: the reference says {want[index]:.9g}, the float64 shadow {got[index]:.9g}: "
        f"one of {recipe.reference} and {recipe.kernel} is wrong"
    )


def _floor(kinds: Mapping[str, float], computed: Leaf, truth: Tree | None) -> dict[str, float]:
    """The parts of a leaf's noise floor, relative to its scale; rounded, so that a golden does not change for digits
    that mean nothing."""
    exact = truth.by_path.get(computed.path) if truth else None
    distance = error_to_truth(computed.array(), exact.array()) if exact is not None else 0.0
    parts = {**kinds, "truth": distance if np.isfinite(distance) else 0.0}
    return {name: float(f"{value:.{DIGITS - 1}e}") for name, value in parts.items()}
