"""What became of a case from one golden to another, in plain lines."""

from __future__ import annotations

from jaxcheck.execution.changes import CaseChange
from jaxcheck.execution.verdicts import error_text
from jaxcheck.goldens.golden import Blessing
from jaxcheck.report.lines import leaf_lines, plain_text
from jaxcheck.report.words import INFINITE, count
from jaxcheck.results import LeafResult


def change_lines(change: CaseChange) -> list[str]:
    """All of it: who blessed either side, what is not a matter of values, and every leaf."""
    lines = [plain_text(f"{change.recipe}::{change.case}")]
    if change.before is None:
        lines.append("  new: there is no golden yet")
    elif change.after is None:
        lines.append("  gone: the golden no longer has this case")
    lines += [f"  {line}" for line in _blessings(change)]
    lines += [plain_text(f"  {remark}") for remark in change.remarks]
    return lines + [f"  {line}" for leaf in change.leaves for line in moved_leaf_lines(leaf)]


def summary_lines(change: CaseChange, most: int) -> list[str]:
    """The leaves that moved furthest, `most` of them, after what is not a matter of values."""
    if change.before is None:
        return ["new: there is no golden yet"]
    moved = sorted((leaf for leaf in change.leaves if leaf.moved), key=lambda leaf: -leaf.violation_ratio)
    lines = [plain_text(remark) for remark in change.remarks]
    lines += [line for leaf in moved[:most] for line in moved_leaf_lines(leaf)]
    if len(moved) > most:
        lines.append(f"and {count(len(moved) - most, 'more leaf', 'more leaves')} moved less")
    return lines or ["the numbers are those of the golden"]


def moved_leaf_lines(leaf: LeafResult) -> list[str]:
    """How far the leaf moved in units of its tolerance, where most, and what the truth and the floor say of that."""
    told = verdict_text(leaf) if leaf.moved else ""
    return [*leaf_lines(leaf), *([f"    {told}"] if told else [])]


def verdict_text(leaf: LeafResult) -> str:
    """`improved: error to truth 0.0099 -> 1.8e-07; 3.2 noise floors`."""
    said = [str(leaf.verdict)] if leaf.verdict else []
    if leaf.verdict and leaf.error_to_truth:
        before, after = map(error_text, (leaf.error_to_truth.golden, leaf.error_to_truth.actual))
        said = [f"{said[0]}: error to truth {before} -> {after}"]
    if leaf.floors is not None:
        said.append(f"{leaf.floors:.3g} noise floors" if leaf.floors < INFINITE else "beyond any noise floor")
    return "; ".join(said)


def blessing_text(blessing: Blessing) -> str:
    """`2026-01-02T03:04:05+00:00 by Ada: new stopping rule`."""
    return plain_text(f"{blessing.when} by {blessing.who}: {blessing.reason}")


def _blessings(change: CaseChange) -> list[str]:
    """Of goldens only: a candidate was blessed by nobody yet."""
    if change.after is not None and not change.after.when:
        return []
    if change.before == change.after:
        return []
    sides = (("was blessed", change.before), ("is blessed", change.after))
    return [f"{words} {blessing_text(blessing)}" for words, blessing in sides if blessing is not None]
