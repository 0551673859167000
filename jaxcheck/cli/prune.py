"""`jaxcheck prune`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.execution.restore import Unowned


def prune(
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; else they are only listed.")] = False,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
) -> None:
    """List, or with --yes remove, goldens and candidates of recipes that the registry does not have.

    Files that are no goldens stay, and so do a recipe's goldens of other backends. `jaxcheck rollback` brings a golden
    back. Exit 1 where something is listed and not removed.

    Example: `jaxcheck prune`, then `jaxcheck prune --yes`.
    """
    from jaxcheck.cli.bless import candidates_of
    from jaxcheck.errors import Exit
    from jaxcheck.execution import restore
    from jaxcheck.report.words import count

    project = opt.open_project(registry, goldens, state, False)
    found = restore.unowned(project.registry.recipes, project.goldens, candidates_of(project))
    if yes:
        project.state.prepare()
        restore.prune(found, project.goldens)
    tell(found, "removed" if yes else "would be removed")
    goldens_, candidates = count(len(found.goldens), "golden"), count(len(found.candidates), "candidate")
    print(f"{goldens_} and {candidates} {'removed' if yes else 'without a recipe'}")
    if (found.goldens or found.candidates) and not yes:
        print("  to remove them: jaxcheck prune --yes", file=sys.stderr)
        raise typer.Exit(int(Exit.FAILED))


def tell(found: Unowned, what: str) -> None:
    from jaxcheck.report.lines import plain_text

    for kind, files in (("", found.goldens), ("candidates: ", found.candidates)):
        for path, recipe in files:
            print(plain_text(f"{kind}{path.name} {what}: the registry has no recipe {recipe!r}"))
    for why in found.left:
        print(plain_text(f"left alone: {why}"), file=sys.stderr)
