"""What an environment holds, precisely enough to make it again: versions, and the origin of what no index gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from jaxcheck.gate.environments.interpreters import Interpreter, probe

# jaxcheck runs in every environment from where it is now; the others are tools that install, and not what is installed.
LEFT_OUT = frozenset({"jaxcheck", "pip", "setuptools", "wheel", "uv"})


@dataclass(frozen=True)
class Origin:
    """Where a package came from that no index gave: `line` is what an installer is given to have it again."""

    line: str
    path: Path | None
    source: bool  # a source tree: a folder, editable or not, or a repository


@dataclass(frozen=True)
class Package:
    """An installed package. No origin: it came from an index."""

    name: str
    version: str
    origin: Origin | None = None
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """An interpreter with everything it has installed but what is left out."""

    interpreter: Interpreter
    packages: tuple[Package, ...]
    remarks: tuple[str, ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        return {package.name: package.version for package in self.packages}


def snapshot(python: str) -> Snapshot:
    """What this interpreter has; Unavailable where it does not run."""
    interpreter, entries = probe(python, full=True)
    packages: dict[str, Package] = {}
    remarks: list[str] = []
    for entry in entries:
        package = _package(entry, remarks)
        if package is not None and package.name not in LEFT_OUT:
            packages.setdefault(package.name, package)
    return Snapshot(interpreter, tuple(packages[name] for name in sorted(packages)), tuple(remarks))


def versions_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Canonical names and versions of what a probe found, without what is left out."""
    found: dict[str, str] = {}
    for entry in entries:
        name = canonicalize_name(entry["name"])
        if name not in LEFT_OUT and entry["version"]:
            found.setdefault(name, entry["version"])
    return found


def _package(entry: Mapping[str, Any], remarks: list[str]) -> Package | None:
    name, version = canonicalize_name(entry["name"]), entry["version"]
    try:
        Version(version)
    except (InvalidVersion, TypeError):
        remarks.append(f"{name} is left out: its version is recorded as {version!r}, which no installer takes")
        return None
    origin = read_origin(name, entry["origin"], remarks) if entry["origin"] else None
    return Package(name, version, origin, tuple(entry["requires"]), tuple(entry["extras"]))


def read_origin(name: str, text: str, remarks: list[str]) -> Origin | None:
    """The meaning of a `direct_url.json` (PEP 610)."""
    try:
        record = json.loads(text)
        url = record["url"]
        subfolder = f"#subdirectory={record['subdirectory']}" if record.get("subdirectory") else ""
        if "vcs_info" in record:
            info = record["vcs_info"]
            return Origin(f"{name} @ {info['vcs']}+{url}@{info['commit_id']}{subfolder}", None, source=True)
    except (ValueError, KeyError, TypeError):
        remarks.append(f"{name}: its direct_url.json cannot be read; it is taken from the index")
        return None
    parts = urlsplit(url)
    if parts.scheme != "file":
        return Origin(f"{name} @ {url}{subfolder}", None, source="dir_info" in record)
    path = Path(unquote(parts.path))
    if not path.exists():
        # Conda records the folder that a package was built in, on another machine.
        remarks.append(f"{name} was installed from {path}, which is gone; it is taken from the index")
        return None
    if record.get("dir_info", {}).get("editable"):
        return Origin(f"-e {url}", path, source=True)
    return Origin(f"{name} @ {url}{subfolder}", path, source=path.is_dir())


def extras_in_force(package: Package, installed: Mapping[str, Package]) -> frozenset[str]:
    """The extras that this package was installed with, as far as what is installed shows it.

    `jax[cuda13]` leaves no other trace than the plugin beside jax, and without the extra nothing would make the plugin
    follow. An extra counts if all of it is there and it brings something that the package alone does not. Of two that
    bring the same, the one named more closely counts: `cuda` may mean another version tomorrow, `cuda12` may not.
    """
    plain = {requirement.name for requirement in _requirements(package, None)}
    by_content: dict[frozenset[str], str] = {}
    for extra in sorted(package.extras, key=len):
        brought = _requirements(package, extra)
        if {requirement.name for requirement in brought} - plain and _all_there(brought, installed):
            by_content[frozenset(map(_without_marker, brought))] = extra
    return frozenset(by_content.values())


def _all_there(requirements: list[Requirement], installed: Mapping[str, Package]) -> bool:
    for requirement in requirements:
        package = installed.get(requirement.name)
        if package is None or not requirement.specifier.contains(package.version, prereleases=True):
            return False
        if not all(_all_there(_requirements(package, extra), installed) for extra in requirement.extras):
            return False
    return True


def _without_marker(requirement: Requirement) -> str:
    return f"{requirement.name}{sorted(requirement.extras)}{requirement.specifier}"


def _requirements(package: Package, extra: str | None) -> list[Requirement]:
    """With an extra: what it adds."""
    found = []
    for text in package.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        requirement.name = canonicalize_name(requirement.name)
        alone = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        with_extra = requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})
        if alone if extra is None else with_extra and not alone:
            found.append(requirement)
    return found


def violations(package: Package, versions: Mapping[str, str]) -> list[str]:
    """What a package declares and these versions do not give it."""
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in _requirements(package, None)
        if requirement.name in versions
        and not requirement.specifier.contains(versions[requirement.name], prereleases=True)
    ]


def missing(package: Package, versions: Mapping[str, str]) -> list[str]:
    """What a package declares and is not among these at all."""
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in _requirements(package, None)
        if requirement.name not in versions and requirement.name not in LEFT_OUT
    ]
