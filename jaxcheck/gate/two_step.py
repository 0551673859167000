"""Two runs that were saved on two machines: compared as a gate compares its own."""

from __future__ import annotations

from collections.abc import Collection

from jaxcheck.errors import UsageError
from jaxcheck.execution.saved import SavedRun
from jaxcheck.gate.comparison import compare
from jaxcheck.gate.gate import build, packages_of, side_of
from jaxcheck.results.gate import Gate, PackageChange

NO_CONTROL = "the baseline was not run twice: what moved may be a check that differs from itself (run --repeat tells)"


def compare_saved(before: SavedRun, after: SavedRun, allowed: Collection[str], command: str) -> Gate:
    """The gate's report of two saved runs; UsageError where they are of different registries."""
    old, new = before.run, after.run
    if old.registry_digest != new.registry_digest:
        raise UsageError(
            f"{before.folder} and {after.folder} are runs of different registries: what moved could be the recipes",
            hint="run both with the same recipes.yaml",
        )
    old_packages, new_packages = packages_of(old), packages_of(new)
    packages = [
        PackageChange(name=name, before=old_packages.get(name), after=new_packages.get(name), asked=True)
        for name in sorted({*old_packages, *new_packages})
        if old_packages.get(name) != new_packages.get(name)
    ]
    results = compare(before, after, {})
    sides = side_of(str(before.folder), before), side_of(str(after.folder), after)
    gated = build(before, after, sides, results, packages, allowed)
    return gated.model_copy(update={"command": command, "seconds": new.seconds, "remarks": (NO_CONTROL,)})
