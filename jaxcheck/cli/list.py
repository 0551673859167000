"""`jaxcheck list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.registry.model import Recipe

HAS, HAS_NOT, UNKNOWN = "x", "-", "?"


def list_(
    names: opt.Names = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    shipped: opt.Shipped = False,
    ids: Annotated[bool, typer.Option("--ids", help="One check id a line.")] = False,
    protocol: Annotated[
        bool, typer.Option("--protocol", help="Which of the six kinds of cases each recipe has.")
    ] = False,
) -> None:
    """List recipes, or with --ids every check. Imports neither JAX nor your kernels.

    A recipe whose inputs come from a factory shows `*` for the cases that only the factory knows.

    --protocol: standard, single, zeros, boundary, asymmetric and invalid-shape cases, told by name and by arguments.
    """
    from jaxcheck.errors import NothingVerified, UsageError
    from jaxcheck.goldens.names import file_stem
    from jaxcheck.registry.select import check_id, selected_recipes, wants

    if ids and protocol:
        raise UsageError("--ids and --protocol exclude each other")
    read = opt.open_registry(registry, shipped)
    selection = opt.selection_of(names, tag, k, mode)
    if protocol and (chosen := selected_recipes(read, selection)):
        print_protocol(chosen, read.root)
        return
    folder = opt.goldens_folder(read, goldens)
    rows = []
    for recipe in selected_recipes(read, selection):
        cases = [*recipe.cases, "*"] if recipe.inputs else list(recipe.cases)
        checks = [
            check_id(recipe.name, case, mode)
            for case in cases
            for mode in recipe.modes
            if case == "*" or wants(selection, recipe, case, mode)
        ]
        if ids:
            print(*checks, sep="\n")
        golden = (folder / f"{file_stem(recipe.name)}.npz").exists()
        count = f"{len(recipe.cases) or ''}{'*' if recipe.inputs else ''}"
        rows.append((recipe.name, count, ",".join(recipe.modes), "yes" if golden else "MISSING", ",".join(recipe.tags)))
    if not rows:
        raise NothingVerified("no recipe is selected", hint="jaxcheck list")
    if not ids:
        print_columns([("recipe", "cases", "modes", "golden", "tags"), *rows])


def print_protocol(recipes: Sequence[Recipe], root: str) -> None:
    """One line a recipe, and how many have every kind of case."""
    from jaxcheck.registry.protocol import PROTOCOL, coverage

    rows = [("recipe", *PROTOCOL, "")]
    complete = unknown = 0
    for recipe in recipes:
        lacks = UNKNOWN if recipe.inputs else HAS_NOT
        cells = [HAS if cases else lacks for cases in coverage(recipe, root).values()]
        rows.append((recipe.name, *cells, "unknown (inputs:)" if UNKNOWN in cells else ""))
        complete += set(cells) == {HAS}
        unknown += UNKNOWN in cells
    print_columns(rows)
    total = f"{complete} of {len(recipes)} recipes have all {len(PROTOCOL)} kinds of cases"
    print(total + (f"; {unknown} cannot be known from the registry (inputs:)" if unknown else ""))


def print_columns(rows: list[tuple[str, ...]]) -> None:
    """Plain columns: for a person, and for awk."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
