"""`jaxcheck list`."""

from __future__ import annotations

from typing import Annotated

import typer

from jaxcheck.cli import options as opt


def list_(
    names: opt.Names = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    shipped: opt.Shipped = False,
    ids: Annotated[bool, typer.Option("--ids", help="One check id a line.")] = False,
) -> None:
    """List recipes, or with --ids every check. Imports neither JAX nor your kernels.

    A recipe whose inputs come from a factory shows `*` for the cases that only the factory knows.
    """
    from jaxcheck.goldens.names import file_stem
    from jaxcheck.registry.select import selected_recipes, wants

    read = opt.open_registry(registry, shipped)
    selection = opt.selection_of(names, tag, k, mode)
    folder = opt.goldens_folder(read, goldens)
    rows = []
    for recipe in selected_recipes(read, selection):
        cases = [*recipe.cases, "*"] if recipe.inputs else list(recipe.cases)
        checks = [
            f"{recipe.name}::{case}[{mode}]"
            for case in cases
            for mode in recipe.modes
            if case == "*" or wants(selection, recipe, case, mode)
        ]
        if ids:
            print(*checks, sep="\n")
        golden = (folder / f"{file_stem(recipe.name)}.npz").exists()
        count = f"{len(recipe.cases) or ''}{'*' if recipe.inputs else ''}"
        rows.append((recipe.name, count, ",".join(recipe.modes), "yes" if golden else "MISSING", ",".join(recipe.tags)))
    if not ids:
        print_columns([("recipe", "cases", "modes", "golden", "tags"), *rows])
    if not rows:
        from jaxcheck.errors import NothingVerified

        raise NothingVerified("no recipe is selected", hint="jaxcheck list")


def print_columns(rows: list[tuple[str, ...]]) -> None:
    """Plain columns: for a person, and for awk."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
