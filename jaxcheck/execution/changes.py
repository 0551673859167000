"""What became of a case from one golden to another: leaf by leaf, and in words for what leaves cannot say."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from jaxcheck.execution.comparison import Comparison, Rules
from jaxcheck.execution.saved import Rules as StoredRules
from jaxcheck.execution.verdicts import judged
from jaxcheck.goldens.golden import Blessing, CaseSummary, Golden, GoldenCase
from jaxcheck.goldens.leaf import Tree
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import GRADIENT, Recipe, Tolerance
from jaxcheck.results import LeafResult


@dataclass(frozen=True)
class CaseChange:
    """A case of two goldens. `remarks` are changes that are not those of values; `leaves` are compared, with verdicts
    against the truth that the old golden holds, else the new one. `before` and `after` are None where the case was not
    there."""

    recipe: str
    case: str
    before: Blessing | None
    after: Blessing | None
    remarks: tuple[str, ...] = ()
    leaves: tuple[LeafResult, ...] = ()

    @property
    def differs(self) -> bool:
        absent = self.before is None or self.after is None
        return absent or bool(self.remarks) or any(leaf.moved for leaf in self.leaves)


def candidate_change(recipe: Recipe, case: str, candidates: GoldenStore, goldens: GoldenStore) -> CaseChange:
    """From the golden that is in use where the candidate was made."""
    candidate = candidates.load(recipe.name)
    assert candidate is not None
    with candidate:
        made = str(candidate.summary(case).blessing.environment.get("backend", "cpu"))
        with goldens.load(recipe.name, made) or contextlib.nullcontext() as golden:
            return change_of(case, golden, candidate, recipe)


def change_of(case: str, old: Golden | None, new: Golden | None, rules: Rules | None = None) -> CaseChange:
    """The case, from the old golden to the new one; at least one of them has it.

    `rules` are the recipe's; without them, leaves are held to the tolerances that the goldens store, element by
    element.
    """
    before, after = _case_in(old, case), _case_in(new, case)
    recipe = new.recipe if new else old.recipe if old else ""
    if old is None or new is None or before is None or after is None:
        return CaseChange(recipe, case, before.blessing if before else None, after.blessing if after else None)
    said, says = old.summary(case), new.summary(case)
    remarks = list(_remarks(said, says, before, after))
    leaves: list[LeafResult] = []
    used = rules or stored_rules(before, after)
    comparison = Comparison(used, str(after.blessing.environment.get("backend", "cpu")), after.inputs)
    for expected, actual in _trees(before, after):
        findings, compared = comparison.trees("golden", expected, actual, "differs")
        told = {leaf.reason for leaf in compared}
        remarks += [f.message for f in findings if not any(reason and f.message.endswith(reason) for reason in told)]
        leaves += judged(compared, _yardstick(before, after), expected, actual, used)
    silent = not remarks and not any(leaf.moved for leaf in leaves)
    if silent and _is_blessed(after) and said.digest != says.digest:  # nothing that differs is passed over
        remarks.append("its content has another digest")
    return CaseChange(recipe, case, before.blessing, after.blessing, tuple(remarks), tuple(leaves))


def _case_in(golden: Golden | None, case: str) -> GoldenCase | None:
    return golden.case(case) if golden and case in golden.cases else None


def stored_rules(old: GoldenCase, new: GoldenCase) -> StoredRules:
    """What a golden itself says of its leaves: the new one's tolerances, else the old one's; integers are exact."""
    held = {**old.tolerance, **new.tolerance}
    rules = {path: Tolerance(said["rtol"], said["atol"], said["source"]) for path, said in held.items()}
    leaves = (*(new.outputs.leaves if new.outputs else ()), *new.grad_leaves)
    without = {leaf.path for leaf in leaves} - rules.keys()
    return StoredRules(rules | dict.fromkeys(without, Tolerance(0.0, 0.0, "exact: no tolerance is stored")))


def _trees(old: GoldenCase, new: GoldenCase) -> Iterator[tuple[Tree, Tree]]:
    """Outputs, and gradients where both have them: a run without the mode grad leaves none."""
    if old.outputs and new.outputs:
        yield old.outputs, new.outputs
    if old.gradients and new.gradients:
        yield old.gradients.under(GRADIENT), new.gradients.under(GRADIENT)


def _yardstick(old: GoldenCase, new: GoldenCase) -> GoldenCase:
    """As a run would judge: by what the old golden knows of the truth and the floor, where it knows anything."""
    floor = old.extra.get("floor") or new.extra.get("floor") or {}
    return dataclasses.replace(old, truth=old.truth or new.truth, extra={"floor": floor})


def _remarks(said: CaseSummary, says: CaseSummary, old: GoldenCase, new: GoldenCase) -> Iterator[str]:
    if (old.outputs is None) != (new.outputs is None):
        yield f"was {_kind(old)}, is now {_kind(new)}"
    elif old.error != new.error and old.error and new.error:
        yield f"raised {old.error.type}: {old.error.message}; raises now {new.error.type}: {new.error.message}"
    if said.contract != says.contract:
        yield f"golden: {said.contract} -> {says.contract}"
    if old.gradients is None and new.gradients is not None:
        yield "new: the golden holds no gradients yet"
    if old.gradients is not None and new.gradients is None:
        yield "gone: it holds no gradients any more"
    yield from _input_remarks(old, new)
    yield from _tolerance_remarks(old, new)
    if _is_blessed(new):
        yield from _kept_remarks(old, new)
    if said.program != says.program:
        yield "the exported program is another"
    if said.hash != says.hash:
        yield "what the recipe says of the case changed"


def _input_remarks(old: GoldenCase, new: GoldenCase) -> Iterator[str]:
    if old.inputs != new.inputs:
        yield f"other inputs: {', '.join(_other_leaves(old.inputs, new.inputs)) or 'their structure'}"
    for name in sorted(old.statics.keys() | new.statics.keys()):
        if old.statics.get(name) != new.statics.get(name):
            yield f"{name}: {old.statics.get(name)!r} -> {new.statics.get(name)!r}"


def _other_leaves(old: Tree, new: Tree) -> list[str]:
    """Paths of the leaves that only one of the trees has, or that are not the same in both."""
    before, after = old.by_path, new.by_path
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _tolerance_remarks(old: GoldenCase, new: GoldenCase) -> Iterator[str]:
    for path in new.tolerance:
        was, now = old.tolerance.get(path), new.tolerance[path]
        if was is None or (was["rtol"], was["atol"]) == (now["rtol"], now["atol"]):
            continue
        looser = now["rtol"] > was["rtol"] or now["atol"] > was["atol"]
        change = f"rtol {was['rtol']:g} -> {now['rtol']:g}, atol {was['atol']:g} -> {now['atol']:g}"
        yield f"the tolerance of {path} was {'loosened' if looser else 'tightened'}: {change} ({now['source']})"


def _is_blessed(case: GoldenCase) -> bool:
    """A candidate was blessed by nobody yet, and holds neither truth nor noise floor."""
    return bool(case.blessing.when)


def _kept_remarks(old: GoldenCase, new: GoldenCase) -> Iterator[str]:
    """What goldens keep beside the numbers."""
    if old.truth and new.truth and old.truth != new.truth:
        yield f"the truth changed: {', '.join(_other_leaves(old.truth, new.truth)) or 'its structure'}"
    elif old.truth != new.truth:
        yield "new: the truth" if new.truth else "gone: the truth"
    for path in sorted(old.tolerance.keys() ^ new.tolerance.keys()):
        yield f"{'new' if path in new.tolerance else 'gone'}: the tolerance of {path}"
    other = [name for name in sorted(old.extra.keys() | new.extra.keys()) if old.extra.get(name) != new.extra.get(name)]
    if other:
        yield f"kept beside the numbers, and changed: {', '.join(other)}"


def _kind(case: GoldenCase) -> str:
    return "an expected error" if case.outputs is None else "values"
