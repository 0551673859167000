"""`jaxcheck check`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jaxcheck.cli import options as opt


def check(
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    shipped: opt.Shipped = False,
    static: Annotated[
        bool, typer.Option("--static", help="Without a worker: names are looked up, not imported.")
    ] = False,
) -> None:
    """Check the registry, every dotted name and every golden, without running a kernel.

    All faults at once, each with its file:line:column. Exit 2 where there is one.
    """
    from jaxcheck.errors import RegistryError
    from jaxcheck.execution.inspect import golden_faults, name_faults
    from jaxcheck.goldens.store import GoldenStore
    from jaxcheck.registry.names import check_names
    from jaxcheck.report.lines import plain_text
    from jaxcheck.report.words import count

    read = opt.open_registry(registry, shipped)
    store = GoldenStore(opt.goldens_folder(read, goldens))
    faults, ambiguous = (check_names(read), []) if static else name_faults(read)
    problems, remarks = golden_faults(read, store)
    for remark in [*ambiguous, *remarks]:
        print(plain_text(f"note: {remark}"), file=sys.stderr)
    if faults or problems:
        raise RegistryError([*faults, *problems])
    cases = sum(len(recipe.cases) for recipe in read.recipes.values())
    print(f"{count(len(read.recipes), 'recipe')}, {count(cases, 'case')} in {read.path}: in order")
