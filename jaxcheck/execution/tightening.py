"""Derived tolerances on their way: from what is about to be blessed, into the registry, and into the goldens."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxcheck.errors import GoldenError, UsageError
from jaxcheck.execution.bless import CaseFacts, Decision
from jaxcheck.execution.candidates import tolerances_in_force
from jaxcheck.execution.derive import FLOORS, LEAST_EPS, Derived, Proposal, propose, provenance, short
from jaxcheck.execution.truth import Known
from jaxcheck.files import remove_leftovers
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.replacing import replacing
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.edit import CannotEdit, Change, edited
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Recipe, Registry
from jaxcheck.results import Environment

Decisions = Sequence[tuple[CaseFacts, Decision]]
KnownCases = Mapping[tuple[str, str], Known]


@dataclass(frozen=True)
class Tightening:
    """What is proposed for every recipe that is blessed, from `cases`; where and when it was measured."""

    proposals: tuple[Proposal, ...]
    cases: Mapping[tuple[str, str], GoldenCase]
    environment: Environment
    when: str

    def origin(self, one: Derived) -> str:
        """`8 x noise floor 3e-7, jax 0.11.2, 2026-01-02`: the comment in the registry."""
        return f"{origin(one)}, jax {self.environment.jax}, {self.when[:10]}"


def origin(one: Derived) -> str:
    """What a tolerance was derived from."""
    least = max(leaf.eps for leaf in one.leaves) * LEAST_EPS
    if FLOORS * one.floor < least:
        return f"{LEAST_EPS:g} eps of {one.dtype}, noise floor {short(one.floor)}"
    return f"{FLOORS} x noise floor {short(one.floor)}"


def tightening(
    registry: Registry,
    decisions: Decisions,
    known: KnownCases,
    candidates: GoldenStore,
    goldens: GoldenStore,
    environment: Environment,
    when: str,
) -> Tightening:
    """Proposals from the cases that are about to be blessed, and those of the same recipes that stay as they are."""
    proposals = []
    fresh: dict[tuple[str, str], GoldenCase] = {}
    for name in dict.fromkeys(facts.recipe for facts, decision in decisions if decision.action == "bless"):
        recipe = registry.recipes[name]
        gone = {facts.case for facts, decision in decisions if facts.recipe == name and decision.action == "drop"}
        new = _candidates(candidates, name, {case: one for (of, case), one in known.items() if of == name})
        fresh |= {(name, case): held for case, held in new.items()}
        cases = {**_staying(goldens, recipe, environment.backend, gone | set(new)), **new}
        proposals.append(propose(recipe, cases, environment.backend))
    return Tightening(tuple(proposals), fresh, environment, when)


def _candidates(candidates: GoldenStore, name: str, known: Mapping[str, Known]) -> dict[str, GoldenCase]:
    golden = candidates.load(name)
    if golden is None:
        return {}
    with golden:
        held = {case: golden.case(case) for case in known if case in golden.cases}
    return {case: replace(one, extra={**one.extra, **known[case].extra}) for case, one in held.items()}


def _staying(goldens: GoldenStore, recipe: Recipe, backend: str, gone: set[str]) -> dict[str, GoldenCase]:
    """The golden's other cases, as far as the recipe still is what they are of."""
    try:
        golden = goldens.load(recipe.name, backend)
        if golden is None:
            return {}
        with golden:
            names = [case for case in golden.cases if case not in gone]
            held = {case: golden.case(case) for case in names}
    except GoldenError:  # damaged: it is blessed anew, and nothing of it is kept
        return {}
    known = {case for case in held if case in recipe.cases or recipe.inputs}
    return {case: one for case, one in held.items() if case in known and one.hash == recipe.case_hash(case)}


def write(registry: Registry, measured: Tightening) -> tuple[Registry, list[str]]:
    """(the registry with the derived tolerances in its files, what could not be written and why).

    Each file is replaced at once, or stays as it was.
    """
    contents = {file: Path(file).read_bytes() for file in registry.files}
    digests = [hashlib.sha256(content).hexdigest() for content in contents.values()]
    if hashlib.sha256("".join(digests).encode()).hexdigest() != registry.digest:
        raise UsageError(f"{registry.path} changed while this ran: nothing was written", hint="run it again")
    refused = []
    new = dict(contents)
    for proposal in measured.proposals:
        file = proposal.recipe.position.file
        # New keys go behind `kernel`, so that what comes last comes first in the file.
        for holder in sorted(proposal.blocks, key=lambda holder: holder[:1] != ("outputs",)):
            change = Change(proposal.path(holder), proposal.blocks[holder], _comment(measured, proposal, holder))
            try:
                new[file] = edited(new[file], [change], file)
            except CannotEdit as error:
                refused.append(str(error))
    for file, content in new.items():
        if content != contents[file]:
            _replace(Path(os.path.realpath(file)), content)
    return load_registry(Path(registry.path)), refused


def _comment(measured: Tightening, proposal: Proposal, holder: tuple[str, ...]) -> str:
    of = proposal.of(holder)
    if not of:
        return "kept as it was, nothing follows from its noise floor"
    return measured.origin(max(of, key=lambda one: one.floor))


def _replace(path: Path, content: bytes) -> None:
    """At once, under the file's own mode; what a link points to, not the link."""
    mode = path.stat().st_mode
    remove_leftovers(path)
    with replacing(path) as file:
        os.fchmod(file.fileno(), mode & 0o7777)
        file.write(content)


def recorded(known: KnownCases, measured: Tightening, registry: Registry | None) -> dict[tuple[str, str], Known]:
    """What is known of the cases, with where their tolerances came from; and with the tolerances that are now in force
    where `registry` holds them."""
    proposals = {proposal.recipe.name: proposal for proposal in measured.proposals}
    environment = measured.environment
    result = dict(known)
    for (name, case), one in known.items():
        held = measured.cases.get((name, case))
        if held is None or name not in proposals:
            continue
        facts = {"draws": one.draws, "knobs": list(one.knobs), "jax": environment.jax, "backend": environment.backend}
        extra = {**one.extra, "derived": provenance(proposals[name], case, facts)}
        tolerance = one.tolerance
        if registry is not None:
            recipe = registry.recipes[name]
            tolerance = tolerances_in_force(recipe, held.outputs, held.gradients, environment.backend)
        result[name, case] = replace(one, extra=extra, tolerance=tolerance)
    return result
