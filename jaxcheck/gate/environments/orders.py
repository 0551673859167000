"""What is to be built, whole: the current environment with something changed in it, or what a lock says."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from jaxcheck.errors import Unavailable
from jaxcheck.gate.environments import cache as store
from jaxcheck.gate.environments.frozen import Package, Snapshot, missing, violations
from jaxcheck.gate.environments.installers import Installer, InstallerFailed, choose_installer, find_uv
from jaxcheck.gate.environments.interpreters import Interpreter, find_python, probe
from jaxcheck.gate.environments.lockfile import LockFile, lock_of, read_lock
from jaxcheck.gate.environments.model import Say, Wanted
from jaxcheck.gate.environments.plan import Plan, make_plan
from jaxcheck.gate.environments.requests import Request, fingerprint, parse_request

OTHER_INSTALLER = "the other installer: JAXCHECK_INSTALLER=pip, or JAXCHECK_INSTALLER=uv"
# What a project is built with that does not say it (PEP 518).
BUILT_WITH = ["setuptools"]


class Order(Protocol):
    """Everything that decides what is built. `open`: a later release could be the better answer."""

    @property
    def label(self) -> str: ...

    @property
    def requirements(self) -> tuple[str, ...]: ...

    @property
    def interpreter(self) -> Interpreter: ...

    @property
    def installer(self) -> Installer: ...

    @property
    def key(self) -> str: ...

    @property
    def open(self) -> bool: ...

    def fill(self, python: Path, scratch: Path, say: Say) -> list[str]:
        """Installs all of it into an empty environment; the lines decided on. InstallerFailed, or Unavailable."""
        ...

    def examine(self, decided: list[str], packages: Mapping[str, str], say: Say) -> None:
        """Unavailable where what is there is not what was decided."""
        ...

    def remarks(self, packages: Mapping[str, str]) -> tuple[str, ...]:
        """What a reader of results should know of it."""
        ...


def order_of(base: Snapshot, wanted: Wanted) -> Order:
    """UsageError for what cannot be meant, Unavailable where there is no such Python or installer."""
    lock = lock_of(wanted.requirements)
    requests = () if lock else tuple(map(parse_request, wanted.requirements))
    installer = choose_installer(os.environ)
    interpreter = base.interpreter if wanted.python is None else find_python(wanted.python, find_uv())
    if lock is None:
        return Changed(wanted.label, base, requests, interpreter, installer)
    label = wanted.label.replace(lock.text, lock.label, 1)
    return Locked(label, base, lock, interpreter, installer)


def _key(order: Order, *facts: object) -> str:
    interpreter = order.interpreter
    python = [interpreter.version, interpreter.implementation, interpreter.platform, interpreter.base]
    everything = [store.FORMAT, python, *facts, order.installer.name, order.installer.settings()]
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Changed:
    """`base` with these requests, and all else as it is, as far as that goes together."""

    label: str
    base: Snapshot
    requests: tuple[Request, ...]
    interpreter: Interpreter
    installer: Installer

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(request.text for request in self.requests)

    @property
    def plan(self) -> Plan:
        return make_plan(self.base, self.requests)

    @property
    def key(self) -> str:
        local = [request.path for request in self.requests if request.path is not None]
        local += [
            package.origin.path
            for package in self.base.packages
            if package.origin is not None and package.origin.path is not None
        ]
        return _key(
            self,
            [(package.name, package.version, package.origin and package.origin.line) for package in self.base.packages],
            sorted(request.line for request in self.requests),
            sorted((str(path), fingerprint(path)) for path in local),
        )

    @property
    def open(self) -> bool:
        return any(not _exact(Requirement(request.line)) for request in self.requests)

    def fill(self, python: Path, scratch: Path, say: Say) -> list[str]:
        plan = self.plan
        say(f"resolving {self.label}")
        lines = plan.installable(self.installer.resolve(plan, python, scratch))
        say(f"installing {len(lines)} packages with {self.installer.name}")
        self.installer.install(lines, plan, python, scratch)
        return lines

    def examine(self, decided: list[str], packages: Mapping[str, str], say: Say) -> None:
        for line in decided:
            if line.startswith("-e "):
                continue
            requirement = Requirement(line)
            version = packages.get(canonicalize_name(requirement.name))
            if version is None or not requirement.specifier.contains(version, prereleases=True):
                raise Unavailable(
                    f"{self.label}: {line} was to be installed, and what is there is {version or 'nothing'}",
                    hint=OTHER_INSTALLER,
                )
        for remark in _declared_otherwise(self.plan.fixed, self.base, packages):
            say(remark)

    def remarks(self, packages: Mapping[str, str]) -> tuple[str, ...]:
        return ()


def _exact(requirement: Requirement) -> bool:
    if requirement.url is not None:
        return True
    return any(one.operator in ("==", "===") and not one.version.endswith("*") for one in requirement.specifier)


def _declared_otherwise(trees: tuple[Package, ...], base: Snapshot, packages: Mapping[str, str]) -> list[str]:
    """Projects that are taken along although they forbid what was asked for: to be known, not to be stopped by."""
    return [
        f"{tree.name} declares {wanted}; it is taken along all the same"
        for tree in trees
        for wanted in violations(tree, packages)
        if wanted not in violations(tree, base.versions)
    ]


@dataclass(frozen=True)
class Locked:
    """What a lock says and nothing else, but for the base's own projects: folders of this machine."""

    label: str
    base: Snapshot
    lock: LockFile
    interpreter: Interpreter
    installer: Installer

    @property
    def requirements(self) -> tuple[str, ...]:
        return (self.lock.text,)

    @property
    def projects(self) -> tuple[Package, ...]:
        return tuple(package for package in self.base.packages if _folder_of(package) is not None)

    @property
    def key(self) -> str:
        folders = [(package.name, str(_folder_of(package))) for package in self.projects]
        return _key(self, "lock", self.lock.digest, [(*one, fingerprint(Path(one[1]))) for one in sorted(folders)])

    @property
    def open(self) -> bool:
        return not self.lock.hashed

    def fill(self, python: Path, scratch: Path, say: Say) -> list[str]:
        say(f"installing {self.label} with {self.installer.name}")
        self.installer.install_lock(self.lock, python)
        if read_lock(self.lock.text) != self.lock:
            raise Unavailable(f"{self.lock.text} was changed while it was installed", hint="the same command again")
        installed = {str(canonicalize_name(entry["name"])): entry["version"] for entry in probe(str(python))[1]}
        for project in self.projects:
            if project.name not in installed:
                self._put(project, installed, python, scratch, say)
        return []

    def _put(self, project: Package, installed: Mapping[str, str], python: Path, scratch: Path, say: Say) -> None:
        """The project alone, built with what the lock has, where that is enough: nothing else is fetched then."""
        plan = Plan((), (), (project,), {}, {})
        if _can_be_built(project, installed):
            with contextlib.suppress(InstallerFailed):  # a backend may ask for more when it is called
                self.installer.install(plan.installable(()), plan, python, scratch, "--no-build-isolation")
                return
        say(f"{project.name} is built with tools from the index: {self.lock.text} does not have them")
        self.installer.install(plan.installable(()), plan, python, scratch)

    def examine(self, decided: list[str], packages: Mapping[str, str], say: Say) -> None:
        if "jax" not in packages:
            raise Unavailable(f"{self.lock.text} has no jax", hint="a lock of everything that the kernels need")

    def remarks(self, packages: Mapping[str, str]) -> tuple[str, ...]:
        text = self.lock.text
        found = [
            f"{project.name} declares {wanted}, which {text} does not have"
            for project in self.projects
            for wanted in missing(project, packages)
        ]
        found += _declared_otherwise(self.projects, self.base, packages)
        found += [
            f"{package.name} is installed here from no index and not in {text}: it is left out"
            for package in self.base.packages
            if package.origin is not None and package.name not in packages
        ]
        if "flatbuffers" not in packages:
            found.append(f"{text} has no flatbuffers: programs cannot be exported there, so no cause can be told")
        return tuple(found)


def _folder_of(package: Package) -> Path | None:
    """Where a project of this machine is, which its user works on."""
    return package.origin.path if package.origin is not None and package.origin.source else None


def _can_be_built(project: Package, installed: Mapping[str, str]) -> bool:
    """Whether all that the project says it is built with is installed."""
    folder = _folder_of(project)
    assert folder is not None
    try:
        table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text()).get("build-system", {})
        needed = [Requirement(text) for text in table.get("requires", BUILT_WITH)]
    except (OSError, ValueError, AttributeError, TypeError, InvalidRequirement):
        return False
    return all(
        (version := installed.get(canonicalize_name(one.name))) is not None
        and one.specifier.contains(version, prereleases=True)
        for one in needed
        if one.marker is None or one.marker.evaluate({"extra": ""})
    )
