"""What a shell completes: recipes, checks, tags, modes and backends. Reads the registry alone; never raises."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from jaxcheck.registry.model import Registry

BACKENDS = ("cpu", "gpu", "tpu", "cuda", "rocm")


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Recipes; after `RECIPE::` its cases, after `RECIPE::CASE[` its modes."""
    registry = _registry(ctx)
    name, separator, rest = incomplete.partition("::")
    if registry is None or not separator:
        return _beginning(incomplete, registry.recipes if registry else ())
    recipe = registry.recipes.get(name)
    if recipe is None:
        return []
    case, bracket, _ = rest.partition("[")
    if bracket:
        return _beginning(incomplete, (f"{name}::{case}[{mode}]" for mode in recipe.modes))
    return _beginning(incomplete, (f"{name}::{case}" for case in recipe.cases))


def tags(ctx: typer.Context, incomplete: str) -> list[str]:
    registry = _registry(ctx)
    recipes = registry.recipes.values() if registry else ()
    return _beginning(incomplete, sorted({tag for recipe in recipes for tag in recipe.tags}))


def modes(incomplete: str) -> list[str]:
    from jaxcheck.registry.model import MODES

    return _beginning(incomplete, MODES)


def backends(incomplete: str) -> list[str]:
    return _beginning(incomplete, BACKENDS)


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _registry(ctx: typer.Context) -> Registry | None:
    """The registry that the command line so far, or the environment, means; None where there is none to read."""
    from jaxcheck.execution.project import open_registry

    try:
        given = ctx.params.get("registry")
        return open_registry(Path(given) if given else None, bool(ctx.params.get("shipped")))
    except Exception:  # in the middle of a line that is being typed nobody wants to read of a fault
        return None
