"""Two saved runs held against one another: what became of every check, and of every leaf of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from jaxcheck.execution.comparison import Comparison
from jaxcheck.execution.saved import SavedCase, SavedRun
from jaxcheck.execution.verdicts import in_words, judged
from jaxcheck.gate.verdict import Ended, check_verdict
from jaxcheck.goldens.leaf import Tree
from jaxcheck.results import Baseline, CheckResult, CheckVerdict, Finding, LeafResult, Status, Value, Worst

MOVED: tuple[CheckVerdict, ...] = ("drifted", "improved", "regressed", "changed")
STATUS: Mapping[CheckVerdict | None, Status] = {
    "unchanged": Status.PASS,
    "drifted": Status.PASS,
    "improved": Status.FAIL,
    "regressed": Status.FAIL,
    "changed": Status.FAIL,
    "broken": Status.ERROR,
    "unstable": Status.SKIP,
    None: Status.SKIP,
}
# What a run says of a check that is about its golden, not about the candidate.
OF_THE_GOLDEN = frozenset({"golden", "orphan"})
REASONS_SHOWN = 3


def compare(before: SavedRun, after: SavedRun, unstable: Mapping[str, str]) -> list[CheckResult]:
    """The candidate's checks, each with what became of it; `unstable` says of which the baseline differs from itself.

    Checks that only the baseline has come last.
    """
    old = {result.id: result for result in before.run.results}
    new = {result.id: result for result in after.run.results}
    backend = after.run.environment.backend if after.run.environment else ""
    results = []
    cases: dict[str, tuple[dict[str, SavedCase], dict[str, SavedCase]]] = {}
    for check in [*new, *(check for check in old if check not in new)]:
        recipe = (new.get(check) or old[check]).recipe
        if recipe not in cases:
            cases = {recipe: (before.cases(recipe), after.cases(recipe))}  # one recipe's arrays at a time
        pair = Pair(old.get(check), new.get(check), *cases[recipe], before, after, backend)
        results.append(pair.result(unstable.get(check, "")))
    return results


class Pair:
    """One check on both sides."""

    def __init__(
        self,
        old: CheckResult | None,
        new: CheckResult | None,
        old_cases: Mapping[str, SavedCase],
        new_cases: Mapping[str, SavedCase],
        before: SavedRun,
        after: SavedRun,
        backend: str,
    ) -> None:
        self.old, self.new = old, new
        self.known: CheckResult = new or old  # type: ignore[assignment]
        self.old_case, self.new_case = old_cases.get(self.known.case), new_cases.get(self.known.case)
        self.before, self.after, self.backend = before, after, backend

    def result(self, unstable: str) -> CheckResult:
        left, right = ended(self.old, self.old_case), ended(self.new, self.new_case)
        findings = self.new_findings()
        leaves: tuple[LeafResult, ...] = ()
        moved: list[Finding] = []
        if left == right == "values":
            moved, leaves = self.leaves()
        verdicts = {leaf.verdict for leaf in leaves if leaf.verdict} | ({"changed"} if moved and not leaves else set())
        verdict = check_verdict(left, right, verdicts, unstable=bool(unstable), new_findings=bool(findings))
        reason = self.reason(verdict, left, right, moved, findings, unstable, leaves)
        if verdict == "broken" and left == "broken":
            status = Status.SKIP
        elif verdict == "broken" and self.new is not None and self.new.status is not Status.PASS:
            status = self.new.status if right == "broken" else Status.FAIL
        else:
            status = STATUS[verdict]
        return self.known.model_copy(
            update={
                "status": status,
                "verdict": verdict,
                "golden_status": self.new and self.new.status,
                "reason": reason,
                "hint": "",
                "leaves": leaves,
                "against": {},
                "findings": (*moved, *findings),
                "notes": (),
                "drifted": any(leaf.bit_equal < leaf.size for leaf in leaves),
                "baseline": self.baseline(),
                "details": tuple(self.details(left, right)),
            }
        )

    def baseline(self) -> Baseline | None:
        if self.old is None:
            return None
        return Baseline(
            status=self.old.status,
            reason=self.old.reason,
            compile_seconds=self.old.compile_seconds,
            compiles=self.old.compiles,
            latency=self.old.latency,
        )

    def leaves(self) -> tuple[list[Finding], tuple[LeafResult, ...]]:
        """The candidate's outputs against the baseline's, under the tolerances of the candidate's registry."""
        assert self.old_case
        assert self.new_case
        mode = self.known.mode
        expected, actual = self.old_case.outputs[mode], self.new_case.outputs[mode]
        comparison = Comparison(self.new_case.rules, self.backend, self._inputs())
        moved, leaves = comparison.trees("golden", expected, actual, "moved", "the baseline")
        known = self.new_case if self.new_case.truth is not None else self.old_case
        leaves = judged(leaves, known, expected, actual, self.new_case.rules)
        return moved, tuple(_with_truth(leaf, known.truth) for leaf in leaves)

    def _inputs(self) -> Tree | None:
        """What the outputs were computed from, for comparators that look at it."""
        assert self.new_case
        if not any(rule.inputs() for rule in self.new_case.rules.outputs.values()):
            return None
        golden = self.after.golden(self.known.recipe)
        if golden is None:
            return None
        with golden:
            return golden.case(self.known.case).inputs if self.known.case in golden.cases else None

    def inputs_differ(self) -> list[str]:
        """Input leaves that are not the same on both sides: then nothing can be said of the outputs."""
        sides = []
        for run in (self.before, self.after):
            golden = run.golden(self.known.recipe)
            if golden is None:
                return []
            with golden:
                if self.known.case not in golden.cases:
                    return []
                leaves = golden.summary(self.known.case).inputs["leaves"]
                sides.append({leaf["path"]: leaf["sha256"] for leaf in leaves})
        old, new = sides
        return [path for path in {**old, **new} if old.get(path) != new.get(path)]

    def new_findings(self) -> list[Finding]:
        """What is wrong with the candidate, other than its numbers, and was not wrong with the baseline."""
        if self.old is None or self.new is None:
            return []
        known = {finding.kind for finding in self.old.findings} | OF_THE_GOLDEN
        return [finding for finding in self.new.findings if finding.kind not in known]

    def reason(
        self,
        verdict: CheckVerdict | None,
        left: Ended,
        right: Ended,
        moved: Sequence[Finding],
        findings: Sequence[Finding],
        unstable: str,
        leaves: Sequence[LeafResult],
    ) -> str:
        old, new = self.old, self.new
        if old is None or new is None:
            return f"only the {'candidate' if old is None else 'baseline'} has this check"
        if verdict is None:
            side, text = ("baseline", old.reason) if left == "skipped" else ("candidate", new.reason)
            return f"skipped by the {side}: {text}"
        if verdict == "unstable":
            return f"the baseline differs from itself: {unstable}{self._standing(right)}"
        if left == "broken":
            return f"broken before: {old.reason}" + ("" if right == "broken" else f"; now it {_ends(right)}")
        if right == "broken":
            return f"broken: {new.reason}"
        if left != right:
            return f"before, it {_ends(left)}; now it {_ends(right)}"
        said = [finding.message for finding in findings] + [finding.message for finding in moved]
        more = f"; and {len(said) - REASONS_SHOWN} more" if len(said) > REASONS_SHOWN else ""
        return "; ".join([*said[:REASONS_SHOWN], *in_words(leaves)]) + more

    def _standing(self, right: Ended) -> str:
        """Whether either side is right, where a golden or a reference can tell."""
        assert self.old is not None
        assert self.new is not None
        before = "right" if self.old.status is Status.PASS else "wrong" if self.old.status is Status.FAIL else ""
        after = "right" if self.new.status is Status.PASS else "wrong" if self.new.status is Status.FAIL else ""
        if not before or not after or right != "values":
            return ""
        return f"; by its golden the baseline is {before}, the candidate {after}"

    def details(self, left: Ended, right: Ended) -> list[str]:
        """What else is different: errors, compilations."""
        lines = []
        mode = self.known.mode
        if left == right == "raised" and self.old_case and self.new_case:
            # The first line: what follows it names lines of JAX and of the machine, which are others everywhere.
            was, now = (first_line(case.raised.get(mode, "")) for case in (self.old_case, self.new_case))
            if was != now:
                lines.append(f"the error was {was!r}, it is {now!r}")
        old, new = (side.compiles if side else None for side in (self.old, self.new))
        if mode == "jit" and old is not None and new is not None and old != new:
            lines.append(f"compilations: {old} -> {new}")
        return lines


def ended(result: CheckResult | None, case: SavedCase | None) -> Ended:
    """How a check ended on one side."""
    if result is None:
        return "absent"
    if result.status is Status.SKIP:
        return "skipped"
    if result.status in (Status.ERROR, Status.CRASH, Status.TIMEOUT) or case is None:
        return "broken"
    return "values" if result.mode in case.outputs else "raised" if result.mode in case.raised else "broken"


def _ends(end: Ended) -> str:
    return {"values": "gives values", "raised": "raises as expected"}.get(end, end)


def first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]


def _with_truth(leaf: LeafResult, truth: Tree | None) -> LeafResult:
    """The truth beside the worst element's values."""
    exact = truth.by_path.get(leaf.path) if truth else None
    if leaf.worst is None or exact is None or exact.shape != leaf.shape:
        return leaf
    value = exact.element(leaf.worst.index)
    if value is None:
        return leaf
    return leaf.model_copy(update={"worst": Worst(**leaf.worst.model_dump() | {"truth": as_value(value)})})


def as_value(value: Any) -> Value:
    """An element of a float64 or complex128 array as a report holds it."""
    if np.iscomplexobj(value):
        return str(complex(value))
    number = float(value)
    return number if math.isfinite(number) else str(number)


def differences(before: SavedRun, after: SavedRun, checks: Collection[str]) -> dict[str, str]:
    """{check: how} for those checks of which two runs of one environment differ: another end, or other bits."""
    new = {result.id: result for result in after.run.results}
    found = {}
    for old in before.run.results:
        if old.id not in checks or (result := new.get(old.id)) is None:
            continue
        case, other = before.cases(old.recipe).get(old.case), after.cases(old.recipe).get(old.case)
        left, right = ended(old, case), ended(result, other)
        if left != right:
            found[old.id] = f"it once {_ends(left)}, once {_ends(right)}"
        elif left == "values" and case and other:
            moved = _other_bits(case.outputs[old.mode], other.outputs[old.mode])
            if moved:
                found[old.id] = f"{', '.join(moved[:REASONS_SHOWN])} has other bits in a second run"
    return found


def _other_bits(one: Tree, other: Tree) -> list[str]:
    theirs = other.by_path
    return [leaf.path for leaf in one.leaves if leaf.path not in theirs or leaf.digest != theirs[leaf.path].digest]
