"""`jaxcheck doctor`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.execution.examine import Finding

CACHED = "Cached environments"
WORDS = {"ok": "ok", "note": "note", "stop": "PROBLEM", "unavailable": "PROBLEM"}

EnvironmentKeys = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY]...", help="Cached environments; the first letters do.", show_default=False),
]
Environments = Annotated[
    bool, typer.Option("--environments", help="List what `gate` has built.", rich_help_panel=CACHED)
]
Prune = Annotated[bool, typer.Option("--prune", help="Remove these environments, or all.", rich_help_panel=CACHED)]
OlderThan = Annotated[
    float | None,
    typer.Option("--older-than", metavar="DAYS", min=0, help="Only those unused for so long.", rich_help_panel=CACHED),
]


def doctor(
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    backend: opt.Backend = None,
    keys: EnvironmentKeys = None,
    environments: Environments = False,
    prune: Prune = False,
    older_than: OlderThan = None,
) -> None:
    """Say what would stop a run here, and how to mend it: JAX, backends, versions, folders, registry, goldens.

    Examples: `jaxcheck doctor`, `jaxcheck doctor --backend gpu`. With --environments: what `gate` has built, and
    whether it still works; with --prune: removes it. Exit 1 where something would stop a run, 4 where JAX or the
    backend asked for does not start.
    """
    from jaxcheck.errors import Exit
    from jaxcheck.execution.examine import examine_jax, examine_project

    if environments or prune or keys or older_than is not None:
        show_environments(keys or [], prune, older_than)
        return
    examined = {"JAX": examine_jax(backend), "project": examine_project(registry, goldens, state)}
    for title, findings in examined.items():
        print(title, *(line for finding in findings for line in lines_of(finding)), sep="\n")
    print(f"python\n  {sys.executable} ({sys.version.split()[0]})")
    states = {finding.state for findings in examined.values() for finding in findings}
    code = Exit.UNAVAILABLE if "unavailable" in states else Exit.FAILED if "stop" in states else Exit.PASSED
    raise typer.Exit(int(code))


def lines_of(finding: Finding) -> list[str]:
    """`ok    backend cpu: ...`, and under what is not, the command that mends it."""
    from jaxcheck.report.lines import plain_text

    first, *rest = finding.text.splitlines()
    lines = [f"  {WORDS[finding.state]:7}  {plain_text(first)}", *(f"           {plain_text(line)}" for line in rest)]
    return lines + [f"           try: {plain_text(finding.command)}"] * bool(finding.command)


def show_environments(keys: list[str], prune: bool, older_than: float | None) -> None:
    from jaxcheck.cli.environments import list_environments, prune_environments
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.cache import cache_folder

    if older_than is not None and not prune:
        raise UsageError(
            "--older-than says which environments to remove", hint="jaxcheck doctor --prune --older-than 30"
        )
    cache = cache_folder()
    lines = prune_environments(cache, keys, older_than) if prune else list_environments(cache, keys)
    print("environments\n  " + "\n  ".join(lines))
