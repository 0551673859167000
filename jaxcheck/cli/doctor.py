"""`jaxcheck doctor`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from jaxcheck.cli import options as opt


def doctor(
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    backend: opt.Backend = None,
) -> None:
    """Say what would stop a run here, and how to mend it: JAX, backends, folders, registry, goldens.

    Exit 4 where JAX or the backend asked for does not start, 2 where a folder or the registry is at fault.
    """
    from jaxcheck.errors import Exit, JaxcheckError

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
