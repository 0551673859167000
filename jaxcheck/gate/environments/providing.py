"""From what is wanted to an environment that is there: resolve, install, examine, cache."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import time
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments import cache as store
from jaxcheck.gate.environments.cache import Cached, Complete, Lock
from jaxcheck.gate.environments.frozen import Snapshot, snapshot, versions_of
from jaxcheck.gate.environments.installers import InstallerFailed
from jaxcheck.gate.environments.interpreters import OLDEST, Interpreter, probe, too_old
from jaxcheck.gate.environments.model import Installation, Say, Wanted
from jaxcheck.gate.environments.orders import OTHER_INSTALLER, Order, order_of
from jaxcheck.gate.environments.reasons import reason_of

# What a request that leaves the version open means can change with every release.
OPEN_SECONDS = 86_400.0
DECISIVE = frozenset({"jax", "jaxlib", "numpy", "optax", "ml-dtypes"})


def provide(wanted: Wanted, cache: Path, say: Say, *, refresh: bool = False) -> Installation:
    """The environment that is wanted: the current one, one that exists, a cached one, or a new one.

    `refresh` builds anew even if there is one. UsageError for what cannot be meant; Unavailable, with the resolver's
    reason, for what cannot be had. In use, and so safe from `prune`, until this process ends.
    """
    if wanted != Wanted():
        _refuse_shadows(os.environ.get("PYTHONPATH", ""))
    if wanted.interpreter is not None:
        if wanted.requirements or wanted.python is not None:
            raise UsageError(
                "an interpreter that exists is taken as it is: no requirement and no --python go with it",
                hint=f"{wanted.interpreter} -m pip install what is to be there, then without the requirements",
            )
        return _existing(wanted.interpreter, say)
    base = snapshot(sys.executable)
    if not wanted.requirements and wanted.python is None:
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
    """`base` with what is wanted changed, or what a lock says."""
    order = order_of(base, wanted)
    for remark in base.remarks:
        say(remark)
    folder = store.prepare(cache)
    store.sweep(folder)
    taken = None if refresh else _take(order, folder, say)
    entry = taken or _build_once(order, folder, say, refresh)
    assert entry.complete is not None
    store.touch(entry)
    packages, version = entry.complete.packages, entry.complete.python_version
    remarks = order.remarks(packages)
    for remark in remarks:
        say(remark)
    return Installation(order.label, entry.python, packages, entry.folder, taken is not None, version, remarks=remarks)


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
    """Install, examine, and only then move to its place."""
    with store.building(folder, order.key) as place:
        try:
            python = order.installer.create(order.interpreter, place)
            scratch = place / "scratch"
            scratch.mkdir()
            decided = order.fill(python, scratch, say)
        except InstallerFailed as error:
            reason = reason_of(error.output)
            raise Unavailable(f"{order.label} cannot be installed\n  {reason}", hint=reason.hint) from None
        store.remove(scratch)
        found, entries = probe(str(python))
        packages = versions_of(entries)
        order.examine(decided, packages, say)
        size, name = store.size_of(place), order.installer.name
        built = time.time()
        complete = Complete(order.label, order.requirements, found.version, found.base, packages, built, size, name)
        store.write_complete(place, complete)


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
