"""`jaxcheck rollback`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt
from jaxcheck.cli.bless import Reason, Who, Yes

if TYPE_CHECKING:
    from jaxcheck.goldens.store import GoldenStore, Version


def rollback(
    name: Annotated[str, typer.Argument(help="RECIPE, or RECIPE@gpu for a backend's own golden.")],
    reason: Reason = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="ADDRESS", help="One that --list shows; else the one before.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what is kept, the newest first.")] = False,
    yes: Yes = False,
    who: Who = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Make the golden that was there before the golden again; a second rollback undoes the first.

    The last 5 that were replaced or removed are kept in .jaxcheck/history, on this machine: the long memory is git's.

    Examples: `jaxcheck rollback newton-sqrt --reason "blessed by mistake"`; `jaxcheck rollback --list newton-sqrt`.
    """
    from jaxcheck.cli.bless import stop_without_reason
    from jaxcheck.execution.bless import blessing_of
    from jaxcheck.execution.restore import SHORT, roll_back
    from jaxcheck.report.lines import plain_text

    project = opt.open_project(registry, goldens, state, shipped)
    recipe, backend = opt.golden_name(name, project.registry.recipes)
    if list_:
        list_versions(project.goldens, recipe, backend)
        return
    stop_without_reason(reason, yes, "a rollback", f"jaxcheck rollback {name}")
    project.state.prepare()
    blessing = blessing_of(f"rollback: {reason}", who, Path(project.registry.root))
    done = roll_back(project.goldens, recipe, backend, blessing, to)
    for why in done.skipped:
        print(plain_text(f"passed over: {why}"), file=sys.stderr)
    cases = ", ".join(done.cases)
    print(plain_text(f"{done.path.name} is what it was in {done.version.address[:SHORT]}: {cases}"))


def list_versions(goldens: GoldenStore, recipe: str, backend: str | None) -> None:
    """One line each: address, and of its cases who blessed them last, when and why."""
    from jaxcheck.errors import NothingVerified

    versions = goldens.versions(recipe, backend)
    if not versions:
        raise NothingVerified(f"no earlier golden of {recipe!r} is kept here", hint="jaxcheck list")
    for version in versions:
        print(version_line(version))


def version_line(version: Version) -> str:
    from jaxcheck.errors import GoldenError
    from jaxcheck.execution.restore import SHORT
    from jaxcheck.report.changes import blessing_text
    from jaxcheck.report.lines import plain_text

    try:
        with version.open() as golden:
            last = max((golden.summary(case).blessing for case in golden.cases), key=lambda blessing: blessing.when)
            cases = ", ".join(golden.cases)
    except GoldenError as error:
        return plain_text(f"{version.address[:SHORT]}  damaged: {error}")
    return plain_text(f"{version.address[:SHORT]}  {blessing_text(last)}  ({cases})")
