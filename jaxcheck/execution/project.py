"""A project: a registry with its goldens and the folder of its last run. Importing this imports no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcheck.errors import NothingVerified, UsageError
from jaxcheck.registry.load import find_registry, load_registry
from jaxcheck.registry.model import Registry

if TYPE_CHECKING:
    from jaxcheck.execution.state import State
    from jaxcheck.goldens.store import GoldenStore


@dataclass(frozen=True)
class Project:
    """A registry with its goldens and the folder of its last run."""

    registry: Registry
    goldens: GoldenStore
    state: State


def open_registry(registry: Path | None, shipped: bool) -> Registry:
    """The registry asked for, wholly checked; RegistryError with every fault."""
    if shipped and registry:
        raise UsageError("--shipped and --registry exclude each other")
    return load_registry(shipped_folder() / "recipes.yaml" if shipped else registry or find_registry(Path.cwd()))


def open_project(registry: Path | None, goldens: Path | None, state: Path | None, shipped: bool) -> Project:
    """The registry asked for, with its goldens and its state (of the shipped recipes: in the current folder)."""
    return project_of(open_registry(registry, shipped), goldens, state, Path.cwd() if shipped else None)


def project_of(registry: Registry, goldens: Path | None, state: Path | None, home: Path | None = None) -> Project:
    """The same of a registry that was read already; `home` is where its state is, else beside it."""
    from jaxcheck.execution.state import State
    from jaxcheck.goldens.store import GoldenStore

    kept, folder = State(state or (home or Path(registry.root)) / ".jaxcheck"), goldens_folder(registry, goldens)
    return Project(registry, GoldenStore(folder, kept.history(folder)), kept)


def goldens_folder(registry: Registry, goldens: Path | None) -> Path:
    return goldens or Path(registry.root) / "goldens"


def shipped_folder() -> Path:
    """Recipes and goldens inside the installed package; in a checkout they lie beside it."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "shipped", package.parent):
        if (folder / "recipes.yaml").exists() and (folder / "goldens").is_dir():
            return folder
    raise UsageError("this installation carries no recipes", hint="pip install --force-reinstall jaxcheck")


def last_failed_ids(state: State) -> tuple[str, ...]:
    """What failed in the last run; NothingVerified where nothing did."""
    from jaxcheck.results import FAILURES

    run = state.last_run()
    failed = tuple(result.id for result in run.results if result.status in FAILURES) if run else ()
    if not failed:
        reason = "nothing failed in the last run" if run else f"there is no last run in {state.folder}"
        raise NothingVerified(f"--last-failed selects nothing: {reason}", hint="jaxcheck run")
    return failed


def compiled_programs(off: str) -> Path | str:
    """The folder that compiled programs are kept in; or why there is none: `off`, or a cache that cannot be written,
    which costs time and not the run."""
    from jaxcheck.execution import cache

    if off:
        return off
    try:
        return cache.compiled_programs()
    except UsageError as error:
        return str(error)
