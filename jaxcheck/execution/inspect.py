"""What can be said of a registry and its goldens without running a kernel."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from jaxcheck.errors import Fault, GoldenError
from jaxcheck.execution.conditioning import float_leaves, ill_conditioned
from jaxcheck.execution.conduct import recipe_message
from jaxcheck.execution.process import Death
from jaxcheck.execution.run import launch_for, needs_of
from jaxcheck.execution.session import Session
from jaxcheck.execution.verdicts import floor_of, loosened
from jaxcheck.goldens.excerpt import WHOLE
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.store import GoldenStore, backend_stem, open_golden
from jaxcheck.registry.model import GRADIENT, OutputRule, Recipe, Registry
from jaxcheck.registry.tolerance import is_digest, output_rule

LARGE_GOLDEN = 10 << 20
HIDING_FLOORS = 1000.0
LEAVES_NAMED = 3


def name_faults(registry: Registry) -> tuple[list[Fault], list[str]]:
    """(faults in dotted names and arguments, remarks on outputs that are not unique), found by a worker."""
    faults: list[Fault] = []
    remarks: list[str] = []
    by_needs: dict[object, list[Recipe]] = {}
    for recipe in registry.recipes.values():
        by_needs.setdefault(needs_of(recipe), []).append(recipe)
    for recipes in by_needs.values():
        session = Session(launch_for(registry, None), needs_of(recipes[0]))
        try:
            for recipe in recipes:
                cases, found = _ask(session, recipe, registry.root)
                faults += found
                remarks += [] if found else _ambiguities(session, recipe, cases)
        finally:
            session.close()
    return sorted(faults), remarks


def _ask(session: Session, recipe: Recipe, root: str) -> tuple[list[str], list[Fault]]:
    """(names of the recipe's cases, faults)"""
    session.start()
    message = {"op": "prepare", "recipe": recipe_message(recipe, root), "alone": True}
    reply = session.request(message, recipe.timeout)
    if isinstance(reply, Death):
        return [], [recipe.locate("kernel").fault(f"importing it killed the worker: {reply.reason}")]
    found = []
    for case, argument, text in reply["faults"]:
        if case is None:
            keys: tuple[str, ...] = (_named(recipe, text),)
        elif case == "config":
            keys = ("config", argument)
        else:
            keys = ("cases", case, "args", argument) if argument else ("cases", case)
        found.append(recipe.locate(*keys).fault(text))
    return reply["cases"], found


def _ambiguities(session: Session, recipe: Recipe, cases: Sequence[str]) -> list[str]:
    """Outputs that are compared element by element though they are not unique, as a first case shows them."""
    case = next((name for name in cases if not recipe.case(name).raises), None)
    if case is None:
        return []
    reply = session.request({"op": "ambiguous", "recipe": recipe.name, "case": case}, recipe.timeout)
    if isinstance(reply, Death):
        return []
    return [
        f"{recipe.locate('outputs')}: {recipe.name}: {path} holds {what}; "
        f"it is compared element by element (see `comparator: {{{comparator}: …}}` under outputs)"
        for path, (what, comparator) in reply["outputs"].items()
        if (output_rule(recipe, path) or OutputRule()).comparator == "allclose"
    ]


def _named(recipe: Recipe, text: str) -> str:
    """Which of the recipe's names a message is about."""
    names = {"inputs": recipe.inputs, "reference": recipe.reference}
    names |= {"properties": next((name for name in recipe.properties if _mentions(text, name)), None)}
    return next((key for key, name in names.items() if name and _mentions(text, name)), "kernel")


def _mentions(text: str, name: str) -> bool:
    module, _, function = name.partition(":")
    return name in text or (module in text and function in text)


Kind = Literal["missing", "stale", "other"]


class Remark(NamedTuple):
    """Something about a golden; a run fails over what is `missing` or `stale`, named by recipe or `recipe::case`."""

    kind: Kind
    name: str
    text: str


def golden_faults(registry: Registry, goldens: GoldenStore) -> tuple[list[Fault], list[str]]:
    """(goldens that cannot be trusted, remarks: missing, stale and orphaned ones, files of no recipe, large files)."""
    faults, remarks = golden_remarks(registry, goldens)
    return faults, [remark.text for remark in remarks]


def golden_remarks(registry: Registry, goldens: GoldenStore) -> tuple[list[Fault], list[Remark]]:
    """The same, with what each remark is about."""
    faults: list[Fault] = []
    remarks: list[Remark] = []
    owned: set[Path] = set()
    for recipe in registry.recipes.values():
        files = goldens.files(recipe.name)
        owned.update(files)
        if goldens.path(recipe.name) not in files:
            remarks.append(Remark("missing", recipe.name, f"{recipe.name}: no golden yet (jaxcheck bless)"))
        for path in files:
            try:
                remarks += _remarks(recipe, path)
            except GoldenError as error:
                faults.append(recipe.position.fault(str(error), error.hint))
    for name, paths in goldens.recipes().items():
        if name not in registry.recipes:
            text = f"{', '.join(path.name for path in paths)}: no recipe {name!r} in the registry"
            remarks.append(Remark("other", name, text))
    damaged = goldens.damaged().items()
    remarks += [Remark("other", path.name, str(error)) for path, error in damaged if path not in owned]
    return faults, remarks


def _remarks(recipe: Recipe, path: Path) -> list[Remark]:
    """Of one of a recipe's golden files, all of which is read; over a backend's own no run fails but that backend's."""
    own = backend_stem(path.name)
    with open_golden(path, recipe.name) as golden:
        cases = {case: golden.case(case, program=True) for case in golden.cases}
        found = [remark for case, held in cases.items() for remark in _case_remarks(recipe, case, held)]
        found += [("missing", case, "not in the golden yet") for case in recipe.cases if case not in cases]
    where = f" ({path.name})" if own else ""
    names = {case: f"{recipe.name}::{case}" for _, case, _ in found}
    remarks = [
        Remark("other" if own else kind, names[case], f"{names[case]}{where}: {said}") for kind, case, said in found
    ]
    if (size := path.stat().st_size) > LARGE_GOLDEN:
        text = f"{path.name} has {size >> 20} MiB: {_smaller(cases.values(), size)}"
        remarks.append(Remark("other", recipe.name, text))
    return remarks


def _case_remarks(recipe: Recipe, case: str, held: GoldenCase) -> Iterator[tuple[Kind, str, str]]:
    """(kind, case, text)"""
    if recipe.inputs is None and case not in recipe.cases:
        yield "stale", case, "in the golden, not in the registry"
    elif held.hash != recipe.case_hash(case):
        yield "stale", case, "stale, the recipe changed since it was blessed"
    if held.gradients and GRADIENT not in recipe.modes:
        yield "other", case, "the golden holds gradients, and the recipe is not run in mode grad"
    yield from (("other", case, text) for text in tolerance_remarks(recipe, case, held))
    yield from (("other", case, text) for text in loosened_remarks(recipe, held))
    yield from (("other", case, text) for text in _otherwise_kept(recipe, held))


def loosened_remarks(recipe: Recipe, golden: GoldenCase) -> list[str]:
    """Tolerances that are wider than when the numbers were blessed: a gate fails over them."""
    leaves = [*(golden.outputs.leaves if golden.outputs else ()), *golden.grad_leaves]
    bounds = {leaf.path: recipe.tolerance(leaf.path, leaf.dtype, _backend(golden)) for leaf in leaves}
    return loosened(golden.tolerance, {path: bound for path, bound in bounds.items() if bound})


def _backend(golden: GoldenCase) -> str:
    return str(golden.blessing.environment.get("backend", "cpu"))


def _otherwise_kept(recipe: Recipe, golden: GoldenCase) -> Iterator[str]:
    """Leaves that were blessed under another word on how they are kept."""
    for leaf in (*(golden.outputs.leaves if golden.outputs else ()), *golden.grad_leaves):
        kept, said = leaf.excerpt is not None, is_digest(recipe, leaf.path) and leaf.size > WHOLE
        if kept != said:
            is_so, word = ("as a digest", "whole") if kept else ("whole", "digest")
            again = f"jaxcheck bless {shlex.quote(recipe.name)} --all"
            yield f"{leaf.path} is kept {is_so}, the registry says `store: {word}` ({again})"


def _smaller(cases: Iterable[GoldenCase], size: int) -> str:
    """What would make a golden smaller: digests in place of outputs, where these are much of it."""
    whole: Counter[str] = Counter()
    for case in cases:
        truths = case.truth.by_path if case.truth else {}
        for leaf in (*(case.outputs.leaves if case.outputs else ()), *case.grad_leaves):
            if leaf.excerpt is None and leaf.size > WHOLE:
                whole[leaf.path] += leaf.words.nbytes + (truths[leaf.path].words.nbytes if leaf.path in truths else 0)
    if whole.total() < size // 2:
        return "a smaller case, or a slice of it, serves as well"
    named = ", ".join(f"{json.dumps(path)}: {{store: digest}}" for path, _ in whole.most_common(LEAVES_NAMED))
    more = f" and {len(whole) - LEAVES_NAMED} more" if len(whole) > LEAVES_NAMED else ""
    return (
        f"a smaller case serves as well, or `outputs: {{{named}}}`{more}: "
        f"a digest and some blocks of what takes {whole.total() >> 20} MiB"
    )


def tolerance_remarks(recipe: Recipe, case: str, golden: GoldenCase) -> list[str]:
    """Tolerances that the measured noise floor says are too wide, or too tight to be kept; and where it says that no
    tolerance can be kept."""
    unstable = ill_conditioned(recipe, case, golden)
    remarks = list(unstable.values())
    for leaf, floor, scale in float_leaves(golden):
        tolerance = recipe.tolerance(leaf.path, leaf.dtype, _backend(golden))
        if not floor or tolerance is None or leaf.path in unstable:
            continue
        # Inputs are stored bit for bit: only what a compiler may do moves an output for no reason.
        compiler = floor_of(golden, leaf.path, "knobs", "modes") or 0.0
        allowed = (tolerance.atol + tolerance.rtol * scale) / scale
        if allowed > HIDING_FLOORS * floor:
            of_floor = f"{allowed / floor:.2g} noise floors ({tolerance.source})"
            remarks.append(f"{leaf.path}: a tolerance of {of_floor} hides changes")
        elif allowed < compiler:
            remarks.append(f"{leaf.path}: its tolerance ({tolerance.source}) is less than compiling alone may move it")
    return remarks
