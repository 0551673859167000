"""Plain lines about leaves, for verbs that print more than a report; and text made safe for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from jaxcheck.registry.words import printable
from jaxcheck.report import words
from jaxcheck.results import CheckResult, LeafResult, Value

plain_text = printable  # names and messages are untrusted


def number(value: Value) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def leaf_lines(leaf: LeafResult) -> list[str]:
    """Two lines: how far the leaf moved in units of its tolerance, and where most."""
    title = plain_text(f"{leaf.path}: {words.array_type(leaf)}")
    if not leaf.moved:
        return [f"{title}: unchanged"]
    how_far = f"{words.measure(leaf.violation_ratio)} x the tolerance, {leaf.mismatched:,} of {leaf.out_of} beyond"
    lines = [f"{title}: {how_far}; {plain_text(words.tolerance(leaf))}"]
    if leaf.worst is not None:
        old, new = number(leaf.worst.golden), number(leaf.worst.actual)
        lines.append(
            f"    worst at {list(leaf.worst.index)}: {old} -> {new} (allowed {leaf.worst.allowed:.3g}; "
            f"max abs {leaf.max_abs:.3g}, max rel {leaf.max_rel:.3g}, max ULP {leaf.max_ulp:.6g})"
        )
    elif leaf.reason:
        lines.append("    " + plain_text(leaf.reason))
    return lines


def moved_lines(results: Sequence[CheckResult]) -> list[str]:
    """Old -> new of the leaves that moved, in the mode that moved furthest."""
    leaves: dict[str, LeafResult] = {}
    for result in results:
        for leaf in result.leaves:
            if leaf.path not in leaves or leaf.violation_ratio > leaves[leaf.path].violation_ratio:
                leaves[leaf.path] = leaf
    moved = [leaf for leaf in leaves.values() if leaf.moved]
    return [line for leaf in moved for line in leaf_lines(leaf)] or ["new" if not leaves else "unchanged"]


def latency_lines(results: Sequence[CheckResult]) -> list[str]:
    """A distribution for each timed check, and the conditions under which they were taken."""
    timed = [(result, result.latency) for result in results if result.latency is not None]
    rows: list[tuple[str, ...]] = [("check", "compiling", "min", "p50", "p90", "p99", "spread", "samples")]
    for result, latency in timed:
        points = (result.compile_seconds or 0.0, latency.min, latency.p50, latency.p90, latency.p99)
        numbers = (*map(duration, points), f"{latency.spread:.0%}", str(latency.samples))
        rows.append((plain_text(result.id), *numbers))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    names, cells = widths[0], widths[1:]
    lines = [
        row[0].ljust(names) + "".join(f"  {cell.rjust(width)}" for cell, width in zip(row[1:], cells, strict=True))
        for row in rows
    ]
    said = [", ".join(f"{name} {value}" for name, value in latency.conditions.items()) for _, latency in timed]
    return [*lines, f"conditions of the last: {said[-1]}"] if timed else []


def duration(seconds: float) -> str:
    """`12.3 us`, `4.56 ms`, `1.23 s`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
