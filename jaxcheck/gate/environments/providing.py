"""From what is wanted to an environment that is there: resolve, install, examine, cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments import cache as store
from jaxcheck.gate.environments.cache import Cached, Complete, Lock
from jaxcheck.gate.environments.frozen import Snapshot, snapshot, versions_of, violations
from jaxcheck.gate.environments.installers import Installer, InstallerFailed, choose_installer, find_uv
from jaxcheck.gate.environments.interpreters import OLDEST, Interpreter, find_python, probe, too_old
from jaxcheck.gate.environments.model import Installation, Wanted
from jaxcheck.gate.environments.plan import Plan, make_plan
from jaxcheck.gate.environments.reasons import reason_of
from jaxcheck.gate.environments.requests import Request, fingerprint, parse_request

Say = Callable[[str], None]
# What a request that leaves the version open means can change with every release.
OPEN_SECONDS = 86_400.0
DECISIVE = frozenset({"jax", "jaxlib", "numpy", "optax", "ml-dtypes"})
OTHER_INSTALLER = "the other installer: JAXCHECK_INSTALLER=pip, or JAXCHECK_INSTALLER=uv"


def provide(wanted: Wanted, cache: Path, say: Say, *, refresh: bool = False) -> Installation:
    """The environment that is wanted: the current one, one that exists, a cached one, or a new one.

    `refresh` builds anew even if there is one. UsageError for what cannot be meant; Unavailable, with the resolver's
    reason, for what cannot be had. In use, and so safe from `prune`, until this process ends.
    """
    requests = tuple(parse_request(text) for text in wanted.requirements)
    if wanted != Wanted():
        _refuse_shadows(os.environ.get("PYTHONPATH", ""))
    if wanted.interpreter is not None:
        if requests or wanted.python is not None:
            raise UsageError(
                "an interpreter that exists is taken as it is: no requirement and no --python go with it",
                hint=f"{wanted.interpreter} -m pip install what is to be there, then without the requirements",
            )
        return _existing(wanted.interpreter, say)
    base = snapshot(sys.executable)
    if not requests and wanted.python is None:
        return _installation(wanted.label, sys.executable, base.interpreter, base.versions)
    return provide_from(base, wanted, cache, say, refresh=refresh)


def _refuse_shadows(path: str) -> None:
    """A jax on PYTHONPATH would be imported in every environment, and each gate would pass."""
    for folder in filter(None, path.split(os.pathsep)):
        for found in importlib.metadata.distributions(path=[folder]):
            name = canonicalize_name(found.metadata["Name"] or "")
            if name in DECISIVE:
                raise UsageError(
                    f"{name} {found.version} is in {folder}, which PYTHONPATH names: every environment would import it",
                    hint="take that folder out of PYTHONPATH, and install its packages",
                )


def provide_from(base: Snapshot, wanted: Wanted, cache: Path, say: Say, *, refresh: bool = False) -> Installation:
    """`base` with what is wanted changed."""
    requests = tuple(parse_request(text) for text in wanted.requirements)
    installer = choose_installer(os.environ)
    interpreter = base.interpreter if wanted.python is None else find_python(wanted.python, find_uv())
    for remark in base.remarks:
        say(remark)
    order = Order(wanted.label, base, requests, interpreter, installer)
    folder = store.prepare(cache)
    store.sweep(folder)
    taken = None if refresh else _take(order, folder, say)
    entry = taken or _build_once(order, folder, say, refresh)
    assert entry.complete is not None
    store.touch(entry)
    packages, version = entry.complete.packages, entry.complete.python_version
    return Installation(order.label, entry.python, packages, entry.folder, taken is not None, version)


@dataclass(frozen=True)
class Order:
    """Everything that decides what is built."""

    label: str
    base: Snapshot
    requests: tuple[Request, ...]
    interpreter: Interpreter
    installer: Installer

    @property
    def key(self) -> str:
        local = [request.path for request in self.requests if request.path is not None]
        local += [
            package.origin.path
            for package in self.base.packages
            if package.origin is not None and package.origin.path is not None
        ]
        facts = [
            store.FORMAT,
            [
                self.interpreter.version,
                self.interpreter.implementation,
                self.interpreter.platform,
                self.interpreter.base,
            ],
            [(package.name, package.version, package.origin and package.origin.line) for package in self.base.packages],
            sorted(request.line for request in self.requests),
            sorted((str(path), fingerprint(path)) for path in local),
            self.installer.name,
            self.installer.settings(),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def open(self) -> bool:
        """Whether a later release could be the better answer."""
        return any(not _exact(Requirement(request.line)) for request in self.requests)


def _exact(requirement: Requirement) -> bool:
    if requirement.url is not None:
        return True
    return any(one.operator in ("==", "===") and not one.version.endswith("*") for one in requirement.specifier)


def _take(order: Order, folder: Path, say: Say) -> Cached | None:
    """The cached environment, if it is whole and of today."""
    key = order.key
    if not Lock.of(folder, key).take(exclusive=False, wait=False) or not (folder / key).exists():
        return None
    entry = store.examine(folder, key)
    if entry.fault is not None:
        say(f"the cached environment {key} is broken, and is built again: {entry.fault}")
        return None
    if _outdated(order, entry):
        say(f"the cached environment {key} is more than a day old: looking for newer releases")
        return None
    say(f"cached environment {key}")
    return entry


def _outdated(order: Order, entry: Cached) -> bool:
    return order.open and entry.complete is not None and time.time() - entry.complete.created > OPEN_SECONDS


def _build_once(order: Order, folder: Path, say: Say, refresh: bool) -> Cached:
    """Builds, unless another process has while this one waited. What there is stays if newer cannot be had."""
    key = order.key
    lock = Lock.of(folder, key)
    if not lock.take(exclusive=True, wait=False):
        say("waiting for another process that builds or uses this environment")
        lock.take(exclusive=True, wait=True)
    there = store.examine(folder, key) if (folder / key).exists() else None
    usable = there is not None and there.fault is None
    try:
        if there is None or not usable or refresh or _outdated(order, there):
            _build(order, folder, say)
            there = store.examine(folder, key)
    except Unavailable as error:
        if there is None or not usable or refresh:
            Lock.drop(folder, key)
            raise
        say(f"nothing newer can be had, so the cached environment {key} is used: {error}")
    except BaseException:
        Lock.drop(folder, key)
        raise
    lock.take(exclusive=False, wait=True)
    if there.fault is not None:
        raise Unavailable(f"the environment {key} was built and does not work: {there.fault}", hint=OTHER_INSTALLER)
    return there


def _build(order: Order, folder: Path, say: Say) -> None:
    """Resolve, install, examine, and only then move to its place."""
    plan, installer = make_plan(order.base, order.requests), order.installer
    with store.building(folder, order.key) as place:
        try:
            python = installer.create(order.interpreter, place)
            scratch = place / "scratch"
            scratch.mkdir()
            say(f"resolving {order.label}")
            lines = plan.installable(installer.resolve(plan, python, scratch))
            say(f"installing {len(lines)} packages with {installer.name}")
            installer.install(lines, plan, python, scratch)
        except InstallerFailed as error:
            reason = reason_of(error.output)
            raise Unavailable(f"{order.label} cannot be installed\n  {reason}", hint=reason.hint) from None
        store.remove(scratch)
        found, entries = probe(str(python))
        packages = versions_of(entries)
        _compare_with_plan(lines, packages, order.label)
        for remark in _declared_otherwise(plan, order.base, packages):
            say(remark)
        requirements = tuple(request.text for request in order.requests)
        size = store.size_of(place)
        complete = Complete(
            order.label, requirements, found.version, found.base, packages, time.time(), size, installer.name
        )
        store.write_complete(place, complete)


def _compare_with_plan(lines: list[str], packages: Mapping[str, str], label: str) -> None:
    for line in lines:
        if line.startswith("-e "):
            continue
        requirement = Requirement(line)
        version = packages.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            raise Unavailable(
                f"{label}: {line} was to be installed, and what is there is {version or 'nothing'}",
                hint=OTHER_INSTALLER,
            )


def _declared_otherwise(plan: Plan, base: Snapshot, packages: Mapping[str, str]) -> list[str]:
    """Projects that are taken along although they forbid what was asked for: to be known, not to be stopped by."""
    return [
        f"{tree.name} declares {wanted}; it is taken along all the same"
        for tree in plan.fixed
        for wanted in violations(tree, packages)
        if wanted not in violations(tree, base.versions)
    ]


def _existing(python: str, say: Say) -> Installation:
    found = shutil.which(os.path.expanduser(python)) if os.sep not in python else os.path.expanduser(python)
    if found is None or not os.path.exists(found):
        raise UsageError(f"{python}: there is no such interpreter", hint="--to-python /path/to/bin/python")
    path = os.path.abspath(found)  # not resolved: a venv is known by its link
    interpreter, entries = probe(path)
    if Version(interpreter.version) < OLDEST:
        raise too_old(f"{python} (Python {interpreter.version})")
    packages = versions_of(entries)
    if "jax" not in packages:
        raise Unavailable(f"{python} (Python {interpreter.version}) has no jax", hint=f"{python} -m pip install jax")
    if "flatbuffers" not in packages:
        say(f"{python} has no flatbuffers: programs cannot be exported there, so no cause can be told")
    return _installation(python, path, interpreter, packages)


def _installation(label: str, python: str, interpreter: Interpreter, packages: dict[str, str]) -> Installation:
    return Installation(label, python, packages, None, cached=False, python_version=interpreter.version)
