"""What would stop a run here, line by line: a status, what was found, and the command that mends it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from jaxcheck.errors import JaxcheckError, RegistryError, Unavailable, UsageError
from jaxcheck.execution import cache
from jaxcheck.execution.inspect import golden_remarks
from jaxcheck.execution.process import Launch, Needs
from jaxcheck.execution.project import Project, open_registry, project_of
from jaxcheck.execution.run import not_verified
from jaxcheck.execution.session import INSTALL, Session
from jaxcheck.results import Environment

State = Literal["ok", "note", "stop", "unavailable"]
OLDEST, NEWEST = "0.10.2", "0.12.0.1"  # of jax: what the tests and the shipped goldens are run with
OLDEST_PYTHON, NEWEST_PYTHON = "3.11", "3.13"
INSTALL_JAX = "pip install -U jax jaxlib"
LITTLE_SPACE = 1 << 30
NAMES_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """`stop`: no run passes before this is mended; `unavailable`: nor the backend; `note`: worth knowing."""

    state: State
    text: str
    command: str = ""


def examine_jax(backend: str | None) -> list[Finding]:
    """Starts a worker as a run would."""
    session = Session(Launch(backend=backend), Needs())
    try:
        session.start()
    except Unavailable as error:
        mend = error.hint if backend and error.hint != "jaxcheck doctor" else INSTALL_JAX
        return [Finding("unavailable", str(error), mend or INSTALL_JAX)]
    finally:
        session.close()
    environment = session.environment
    assert environment is not None
    return [
        *version_findings(environment),
        Finding(
            "ok",
            f"backend {environment.backend}: {environment.device_count} x {environment.device_kind}; "
            f"{environment.cpu}, {environment.cpu_count} cores",
        ),
        *(Finding("note", f"{name} = {value}") for name, value in environment.config.items()),
        *([Finding("note", f"XLA_FLAGS = {environment.xla_flags}")] if environment.xla_flags else []),
        *(
            Finding("note", f"{name}: {why}", "" if name in session.backends else INSTALL.get(name, ""))
            for name, why in not_verified(environment, session.backends).items()
        ),
    ]


def version_findings(environment: Environment) -> Iterator[Finding]:
    """Versions that are supported, and what is wrong with others."""
    versions = (
        f"jax {environment.jax}, jaxlib {environment.jaxlib}, optax {environment.optax or 'not installed'}, "
        f"numpy {environment.numpy}, Python {environment.python}"
    )
    jax, python = (
        version_age(environment.jax, OLDEST, NEWEST),
        version_age(environment.python, OLDEST_PYTHON, NEWEST_PYTHON),
    )
    if jax < 0:
        text = f"{versions}: jax is older than {OLDEST}, the oldest supported"
        yield Finding("stop", text, f"pip install 'jax>={OLDEST}'")
    elif jax > 0:
        yield Finding("note", f"{versions}: jax is newer than {NEWEST}, the newest that jaxcheck was tested with")
    elif python:
        yield Finding("note", f"{versions}: jaxcheck is tested with Python {OLDEST_PYTHON} to {NEWEST_PYTHON}")
    else:
        yield Finding("ok", f"{versions}: supported")


def version_age(version: str, oldest: str, newest: str) -> int:
    """-1 where it is older than the oldest, 1 where it is newer than the newest; releases of a series count as one."""
    try:
        release = Version(version).release
    except InvalidVersion:
        return 1
    if release < Version(oldest).release:
        return -1
    newest_release = Version(newest).release
    return int(release[: len(newest_release)] > newest_release)


def examine_project(registry: Path | None, goldens: Path | None, state: Path | None) -> list[Finding]:
    """The registry, its goldens, and the folders that a run and a blessing write to."""
    try:
        project = project_of(open_registry(registry, False), goldens, state)
    except RegistryError as error:
        return [Finding("stop", str(error), "jaxcheck check")]
    except UsageError as error:
        return [Finding("stop", str(error), "jaxcheck init MODULE:FUNCTION")]
    recipes = project.registry.recipes
    cases = sum(len(recipe.cases) for recipe in recipes.values())
    found = [Finding("ok", f"registry {project.registry.path}: {len(recipes)} recipes, {cases} cases")]
    if not recipes:
        found = [Finding("stop", f"registry {project.registry.path} has no recipe", "jaxcheck init MODULE:FUNCTION")]
    return found + [finding for examine in EXAMINATIONS for finding in _examined(examine, project)]


def _examined(examine: Callable[[Project], Iterator[Finding]], project: Project) -> list[Finding]:
    try:
        return list(examine(project))
    except JaxcheckError as error:
        return [Finding("stop", str(error), error.hint or "")]


def _state_folder(project: Project) -> Iterator[Finding]:
    folder = project.state.folder
    project.state.prepare()
    free = shutil.disk_usage(folder).free
    text = f"state {folder}: writable, {free / (1 << 30):.1f} GiB free"
    if free < LITTLE_SPACE:
        yield Finding("note", text, f"rm -r {shlex.quote(str(folder))} (all of it can be made again)")
    else:
        yield Finding("ok", text)


def _goldens_folder(project: Project) -> Iterator[Finding]:
    folder = project.goldens.folder
    if folder.is_dir():
        if os.access(folder, os.W_OK):
            yield Finding("ok", f"goldens {folder}: writable")
        else:
            yield Finding(
                "note", f"goldens {folder}: read-only: runs read them, bless cannot write", "--goldens FOLDER"
            )
        return
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if above.is_dir() and os.access(above, os.W_OK):
        yield Finding("ok", f"goldens {folder}: no such folder yet; the first bless makes it")
    else:
        yield Finding("stop", f"goldens {folder}: cannot be made, {above} is read-only", "--goldens FOLDER")


def _cache_folder(project: Project) -> Iterator[Finding]:
    """It costs time where it cannot be written, not the run."""
    try:
        yield Finding("ok", f"cache {cache.compiled_programs()}: writable")
    except UsageError as error:
        yield Finding("note", f"{error}: every program is compiled anew", error.hint or "")


def _goldens(project: Project) -> Iterator[Finding]:
    """Missing and stale ones in one line each, with the command for all of them; damaged ones one by one."""
    faults, remarks = golden_remarks(project.registry, project.goldens)
    for kind in ("missing", "stale"):
        names = [remark.name for remark in remarks if remark.kind == kind]
        if names:
            more = f" and {len(names) - NAMES_SHOWN} more" if names[NAMES_SHOWN:] else ""
            recipes = " ".join(shlex.quote(name) for name in dict.fromkeys(name.partition("::")[0] for name in names))
            text = f"goldens {kind}: {', '.join(names[:NAMES_SHOWN])}{more}"
            yield Finding("stop", text, f'jaxcheck bless {recipes} --reason "why"')
    yield from (Finding("stop", str(fault), fault.hint or "jaxcheck check") for fault in faults)
    yield from (Finding("note", remark.text) for remark in remarks if remark.kind == "other")
    if not faults and all(remark.kind == "other" for remark in remarks):
        yield Finding("ok", f"goldens: there for each of {len(project.registry.recipes)} recipes, none stale")


EXAMINATIONS = (_state_folder, _goldens_folder, _cache_folder, _goldens)
