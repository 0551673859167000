"""`jaxcheck doctor`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from jaxcheck.cli import options as opt

CACHED = "Cached environments"

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
    """Say what would stop a run here, and how to mend it: JAX, backends, folders, registry, goldens.

    With --environments: what `gate` has built, and whether it still works; with --prune: removes it.

    Exit 4 where JAX or the backend asked for does not start, 2 where a folder or the registry is at fault.
    """
    from jaxcheck.errors import Exit, JaxcheckError

    if environments or prune or keys or older_than is not None:
        show_environments(keys or [], prune, older_than)
        return
    worst = Exit.PASSED
    examinations: dict[str, Callable[[], list[str]]] = {
        "JAX": lambda: examine_jax(backend),
        "project": lambda: examine_project(registry, goldens, state),
    }
    for title, examine in examinations.items():
        try:
            lines = examine()
        except JaxcheckError as error:
            worst = max(worst, error.exit_code)
            lines = [f"PROBLEM  {error}", *([f"         try: {error.hint}"] if error.hint else [])]
        print(f"{title}\n  " + "\n  ".join(lines))
    print(f"python\n  {sys.executable} ({sys.version.split()[0]})")
    raise typer.Exit(int(worst))


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


def examine_jax(backend: str | None) -> list[str]:
    """Starts a worker as a run would."""
    from jaxcheck.execution.process import Launch, Needs
    from jaxcheck.execution.run import not_verified
    from jaxcheck.execution.session import Session

    session = Session(Launch(backend=backend), Needs())
    try:
        session.start()
    finally:
        session.close()
    environment = session.environment
    assert environment is not None
    lines = [
        f"jax {environment.jax}, jaxlib {environment.jaxlib}, optax {environment.optax or 'not installed'}, "
        f"numpy {environment.numpy}, Python {environment.python}",
        f"backend {environment.backend}: {environment.device_count} x {environment.device_kind}; "
        f"{environment.cpu}, {environment.cpu_count} cores",
    ]
    lines += [f"{name} = {value}" for name, value in environment.config.items()]
    if environment.xla_flags:
        lines.append(f"XLA_FLAGS = {environment.xla_flags}")
    return lines + [f"{name}: {why}" for name, why in not_verified(environment, session.backends).items()]


def examine_project(registry: Path | None, goldens: Path | None, state: Path | None) -> list[str]:
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.inspect import golden_faults

    project = opt.open_project(registry, goldens, state, False)
    project.state.prepare()
    lines = [f"registry {project.registry.path}: {len(project.registry.recipes)} recipes"]
    folder = project.goldens.folder
    if not folder.is_dir():
        lines.append(f"goldens {folder}: no such folder yet (the first bless makes it)")
    elif not os.access(folder, os.W_OK):
        lines.append(f"goldens {folder}: read-only, so `bless` cannot write here")
    free = shutil.disk_usage(project.state.folder).free
    lines.append(f"state {project.state.folder}: writable, {free >> 30} GiB free")
    faults, remarks = golden_faults(project.registry, project.goldens)
    if faults:
        raise UsageError("\n           ".join(str(fault) for fault in faults))
    return lines + remarks
