"""The programs that resolve and install: uv, or pip in a venv. Both take the same plan and answer in the same way."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name
from packaging.version import Version

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments.interpreters import Interpreter, bare_environment, probe
from jaxcheck.gate.environments.lockfile import LockFile
from jaxcheck.gate.environments.plan import Plan, write_stand_ins
from jaxcheck.gate.environments.settings import (
    Handover,
    choices,
    names_sources,
    pip_settings,
    uv_options,
    uv_tables,
)

LIMIT_SECONDS = 3600.0  # CUDA's libraries are gigabytes
ROUNDS = 40
CHOICE = "JAXCHECK_INSTALLER"
REQUIRE_HASHES = "--require-hashes"
INDEXES = frozenset({"index-url", "extra-index-url", "no-index"})
PIP_WITH_PYTHON = Version("22.3")  # the first with --python
# Settings of the user's own `pip install` that would send packages elsewhere than into the environment.
NOT_OF_PIP = frozenset({"USER", "TARGET", "PREFIX", "ROOT", "PYTHON", "DRY_RUN", "REPORT", "REQUIREMENT", "QUIET"})


class Installer(Protocol):
    """Makes an empty environment, decides what goes into it, and puts it there. InstallerFailed where it cannot."""

    @property
    def name(self) -> str: ...

    def create(self, interpreter: Interpreter, folder: Path) -> Path: ...

    def resolve(self, plan: Plan, python: Path, scratch: Path) -> list[str]: ...

    def install(self, lines: list[str], plan: Plan, python: Path, scratch: Path, *options: str) -> None: ...

    def install_lock(self, lock: LockFile, python: Path) -> None: ...

    def settings(self) -> str: ...


def choose_installer(environ: Mapping[str, str]) -> Installer:
    """uv where there is one, for it is ten times as fast; else pip."""
    chosen = environ.get(CHOICE, "")
    if chosen not in ("", "uv", "pip"):
        raise UsageError(f"{CHOICE}={chosen}: there is no such installer", hint=f"{CHOICE}=uv or {CHOICE}=pip")
    uv = None if chosen == "pip" else find_uv()
    if uv is not None:
        return Uv(uv)
    if chosen == "uv":
        raise Unavailable(f"{CHOICE}=uv, and there is no uv here", hint="pip install 'jaxcheck[gate]'")
    return Pip()


def find_uv() -> str | None:
    """Beside this interpreter, as a package of it, or on PATH."""
    beside = Path(sys.executable).parent / "uv"
    if os.access(beside, os.X_OK):
        return str(beside)
    try:
        import uv
    except ImportError:
        return shutil.which("uv")
    try:
        return str(uv.find_uv_bin())
    except FileNotFoundError:
        return shutil.which("uv")


@dataclass(frozen=True)
class Uv:
    """uv keeps the versions that it finds in its output file wherever they go together with what is asked."""

    program: str
    name: str = "uv"

    def settings(self) -> str:
        return choices(os.environ, pip_settings(os.environ), uv_tables(os.environ, Path.cwd()))

    def create(self, interpreter: Interpreter, folder: Path) -> Path:
        # Relocatable: the environment is made beside its place, and moved.
        self._run("venv", "--relocatable", "--no-project", "--python", interpreter.path, str(folder))
        return folder / "bin/python"

    def resolve(self, plan: Plan, python: Path, scratch: Path) -> list[str]:
        trees = write_stand_ins(plan, scratch / "stand-ins")
        wanted, chosen = scratch / "wanted.txt", scratch / "chosen.txt"
        wanted.write_text("".join(f"{line}\n" for line in (*plan.lines, *trees)))
        chosen.write_text("".join(f"{name}=={version}\n" for name, version in plan.pins.items()))
        archives = ["--find-links", str(scratch / "stand-ins")] if plan.archives else []
        handover = self._handover()
        self._run(
            *("pip", "compile", str(wanted), "--output-file", str(chosen), "--python", str(python)),
            *("--no-header", "--no-annotate", *handover.fetch, *handover.resolve, *archives),
        )
        return [line for line in chosen.read_text().splitlines() if line.strip() and not line.startswith(("#", "-"))]

    def install(self, lines: list[str], plan: Plan, python: Path, scratch: Path, *options: str) -> None:
        listed = scratch / "install.txt"
        listed.write_text("".join(f"{line}\n" for line in lines))
        # uv builds a folder again only when its pyproject.toml changes.
        folders = [request.name for request in plan.requests if request.path is not None and request.path.is_dir()]
        folders += [package.name for package in plan.fixed]
        fresh = [option for name in folders for option in ("--refresh-package", name)]
        self._run(
            *("pip", "install", "--python", str(python), "--no-deps", "-r", str(listed)),
            *(*fresh, *self._handover().fetch, *options),
        )

    def install_lock(self, lock: LockFile, python: Path) -> None:
        handover = self._handover(lock.own_index)
        options = (REQUIRE_HASHES,) if lock.hashed else handover.resolve
        self._run("pip", "install", "--python", str(python), "-r", str(lock.path), *options, *handover.fetch)

    @property
    def fetching(self) -> tuple[str, ...]:
        """uv's options for finding what pip finds."""
        return self._handover().fetch

    def _handover(self, own_index: bool = False) -> Handover:
        """`own_index`: what is installed names its index, which to pip stands instead of those that are set up."""
        configured = names_sources(uv_tables(os.environ, Path.cwd()))
        settings = pip_settings(os.environ)
        if own_index:
            settings = {name: value for name, value in settings.items() if name not in INDEXES}
        return uv_options(settings, os.environ, configured)

    def _run(self, *arguments: str) -> None:
        environment = bare_environment(UV_NO_PROGRESS="1", **dict(self._handover().environment))
        run_installer([self.program, *arguments, "--color", "never"], environment)


@dataclass(frozen=True)
class Pip:
    """pip knows hard constraints only: those that it says are in the way are dropped, and it tries again."""

    name: str = "pip"

    def settings(self) -> str:
        return choices({}, pip_settings(os.environ), [])

    def create(self, interpreter: Interpreter, folder: Path) -> Path:
        options = ["--without-pip"] if _own_pip_serves(interpreter) else []
        run_installer([interpreter.path, "-m", "venv", *options, str(folder)], bare_environment())
        return folder / "bin/python"

    def resolve(self, plan: Plan, python: Path, scratch: Path) -> list[str]:
        trees = write_stand_ins(plan, scratch / "stand-ins")
        wanted, report = scratch / "wanted.txt", scratch / "report.json"
        wanted.write_text("".join(f"{line}\n" for line in (*plan.lines, *trees)))
        pins = dict(plan.pins)
        for _ in range(ROUNDS):
            constraints = scratch / "constraints.txt"
            constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
            archives = ["--find-links", str(scratch / "stand-ins")] if plan.archives else []
            try:
                self._run(
                    python,
                    *("--dry-run", "--ignore-installed", "--report", str(report)),
                    *("-r", str(wanted), "-c", str(constraints), *archives),
                )
                return _chosen(report, plan)
            except InstallerFailed as error:
                in_the_way = constraints_in_the_way(error.output, pins)
                if not in_the_way:
                    raise
                pins = {name: version for name, version in pins.items() if name not in in_the_way}
        raise InstallerFailed(f"ERROR: no set of versions was found in {ROUNDS} rounds")

    def install(self, lines: list[str], plan: Plan, python: Path, scratch: Path, *options: str) -> None:
        listed = scratch / "install.txt"
        listed.write_text("".join(f"{line}\n" for line in lines))
        self._run(python, "--no-deps", "--no-compile", "-r", str(listed), *options)

    def install_lock(self, lock: LockFile, python: Path) -> None:
        self._run(python, "--no-compile", "-r", str(lock.path), *((REQUIRE_HASHES,) if lock.hashed else ()))

    def _run(self, python: Path, *arguments: str) -> None:
        own = _own_pip_serves(probe(str(python))[0])
        pip = [sys.executable, "-m", "pip", "--python", str(python)] if own else [str(python), "-m", "pip"]
        environment = {
            name: value for name, value in bare_environment().items() if name.removeprefix("PIP_") not in NOT_OF_PIP
        }
        environment |= {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}
        if environment.get("PIP_RETRIES") == "0":
            environment["PIP_RETRIES"] = "1"  # pip tells of a connection that fails only when it tries again
        run_installer([*pip, "install", "--no-color", "--progress-bar", "off", *arguments], environment)


def _own_pip_serves(interpreter: Interpreter) -> bool:
    """Whether the pip at hand can install for that interpreter; a venv's own takes seconds to unpack.

    It runs under the other interpreter then, and an older pip need not know a newer Python.
    """
    try:
        version = Version(importlib.metadata.version("pip"))
    except importlib.metadata.PackageNotFoundError:
        return False
    return version >= PIP_WITH_PYTHON and Version(interpreter.short).release <= sys.version_info[:2]


def _chosen(report: Path, plan: Plan) -> list[str]:
    """What pip's report says that it would install; what was asked by address keeps its address."""
    addresses = {request.name: request.line for request in plan.requests if " @ " in request.line}
    lines = []
    for entry in json.loads(report.read_text())["install"]:
        name = canonicalize_name(entry["metadata"]["name"])
        lines.append(addresses.get(name, f"{name}=={entry['metadata']['version']}"))
    return lines


def constraints_in_the_way(output: str, pins: Mapping[str, str]) -> set[str]:
    """The pins that pip names in its refusal: as constraints; else as what depends on others; else as not there."""
    patterns = (
        r"The user requested \(constraint\) ([\w.-]+)",
        r"^\s+([\w.-]+) \S+ depends on ",
        r"No matching distribution found for ([\w.-]+)",
    )
    for pattern in patterns:
        named = {str(canonicalize_name(name)) for name in re.findall(pattern, output, re.MULTILINE)}
        if named & pins.keys():
            return named & pins.keys()
    return set()


class InstallerFailed(Exception):
    """What uv or pip printed before it gave up."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


def run_installer(command: list[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallerFailed(f"{Path(command[0]).name} did not end within {LIMIT_SECONDS:g} s") from None
    except OSError as error:
        raise InstallerFailed(str(error)) from None
    if done.returncode != 0:
        raise InstallerFailed(done.stdout)
