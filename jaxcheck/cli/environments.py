"""The cache of environments as `jaxcheck doctor` shows and prunes it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxcheck.gate.environments import Cached


def list_environments(cache: Path, keys: Sequence[str]) -> list[str]:
    """One block of lines for every environment, the last used first."""
    from jaxcheck.gate.environments import cached, select

    found = cached(cache)
    chosen = select(found, keys) if keys else found
    if not chosen:
        return [f"none in {cache}"]
    total = sum(entry.complete.size for entry in chosen if entry.complete)
    lines = [line for entry in chosen for line in describe(entry, time.time())]
    return [*lines, f"{len(chosen)} in {cache}, {megabytes(total)}"]


def prune_environments(cache: Path, keys: Sequence[str], older_than: float | None) -> list[str]:
    from jaxcheck.gate.environments import prune

    pruned = prune(cache, keys, older_than)
    lines = [f"removed {entry.key}  {label(entry)}" for entry in pruned.removed]
    lines += [f"kept    {entry.key}  {label(entry)}: a process uses it" for entry in pruned.in_use]
    return lines or [f"nothing to remove in {cache}"]


def describe(entry: Cached, now: float) -> list[str]:
    if entry.complete is None:
        return [f"{entry.key}  broken: {entry.fault}"]
    complete = entry.complete
    facts = [
        f"Python {complete.python_version}",
        f"jax {complete.packages.get('jax', 'not there')}",
        megabytes(complete.size),
        f"built {age(now - complete.created)} ago with {complete.installer}",
        f"used {age(now - entry.used)} ago",
        "healthy" if entry.fault is None else f"broken: {entry.fault}",
    ]
    return [f"{entry.key}  {label(entry)}", f"  {', '.join(facts)}"]


def label(entry: Cached) -> str:
    return entry.complete.label if entry.complete else "broken"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def age(seconds: float) -> str:
    """The largest unit that fits."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
