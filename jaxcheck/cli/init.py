"""`jaxcheck init`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.registry.compose import Sketch

Functions = Annotated[
    list[str], typer.Argument(metavar="MODULE:FUNCTION...", help="What is to be checked.", show_default=False)
]
NewRegistry = Annotated[Path, typer.Option("--registry", help="The file to write.", rich_help_panel=opt.WHERE)]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]
Seconds = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that looking at a function may take.")]


def init(
    functions: Functions,
    registry: NewRegistry = Path("recipes.yaml"),
    force: Force = False,
    backend: opt.Backend = None,
    timeout: Seconds = 120.0,
) -> None:
    """Write a registry for functions of yours: cases by what they say of their arguments, or by what they trace with.

    Example: `jaxcheck init mypkg.model:forward mypkg.losses:cross_entropy`. The functions are called, in a worker. No
    file is replaced without --force. Exit 1 where arguments could not be guessed: the line to edit is named.
    """
    from jaxcheck.errors import Exit
    from jaxcheck.execution.initial import check_request, sketches_of, tell_git, write_registry
    from jaxcheck.report.words import count

    check_request(functions, registry, force)
    sketches = sketches_of(functions, registry.parent, backend, timeout)
    written, to_edit = write_registry(sketches, registry)
    cases = sum(len(recipe.cases) for recipe in written.recipes.values())
    print(f"wrote {registry}: {count(len(written.recipes), 'recipe')}, {count(cases, 'case')}")
    for name in tell_git(registry.parent):
        print(f"wrote {registry.parent / name}: a line for jaxcheck")
    for sketch in sketches:
        if sketch.unknown:
            print(not_guessed(sketch, registry, to_edit[sketch.kernel]), file=sys.stderr)
    print("next:", *(f"  jaxcheck {words}" for words in next_commands(registry)), sep="\n")
    raise typer.Exit(int(Exit.FAILED if to_edit else Exit.PASSED))


def not_guessed(sketch: Sketch, registry: Path, line: int) -> str:
    from jaxcheck.report.lines import plain_text

    names = ", ".join(sketch.unknown)
    return plain_text(f"{registry}:{line}: {sketch.kernel}: could not guess {names}: {sketch.reason}") + (
        f"\n  try: edit {registry}:{line}, then jaxcheck check"
    )


def next_commands(registry: Path) -> list[str]:
    """In order; with the file's name where it is not found without."""
    from jaxcheck.registry.load import FILE_NAME

    where = "" if registry == Path(FILE_NAME) else f" --registry {shlex.quote(str(registry))}"
    return [f"check{where}", f'bless --reason "first goldens"{where}', f"run{where}"]
