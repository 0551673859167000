"""What is to be in an environment: what was asked, and everything else as it is, as far as that goes together."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jaxcheck.gate.environments.frozen import Package, Snapshot, extras_in_force
from jaxcheck.gate.environments.requests import Request

# jax allows a range of jaxlib releases, and a plugin moves with it by its version alone. Who asks for another jax means
# the runtime of that release; who does not, names jaxlib too.
FOLLOWS_JAX = re.compile(r"jaxlib|libtpu|jax-(cuda\d*|rocm\d*|oneapi|metal)-(plugin|pjrt)")


@dataclass(frozen=True)
class Plan:
    """`fixed` are source trees, taken as they are; `pins` the versions to keep where the resolver can."""

    requests: tuple[Request, ...]
    lines: tuple[str, ...]
    fixed: tuple[Package, ...]
    pins: Mapping[str, str]
    archives: Mapping[str, Package]

    def installable(self, resolved: Iterable[str]) -> list[str]:
        """What the resolver chose, with the stand-ins replaced by what they stood for. Source trees come last."""
        lines = []
        fixed = {package.name for package in self.fixed}
        for line in resolved:
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            archive = self.archives.get(name)
            if name in fixed:
                continue
            if archive is not None and requirement.specifier == Requirement(_pin(archive)).specifier:
                assert archive.origin is not None
                lines.append(archive.origin.line)
            else:
                lines.append(line)
        return lines + [package.origin.line for package in self.fixed if package.origin is not None]


def make_plan(base: Snapshot, requests: tuple[Request, ...]) -> Plan:
    """The base with these requests. What was asked for is not kept: it is the newest that the request allows."""
    installed = {package.name: package for package in base.packages}
    asked = {request.name for request in requests}
    kept = {name: package for name, package in installed.items() if name not in asked}
    trees = tuple(package for package in kept.values() if package.origin is not None and package.origin.source)
    archives = {
        name: package for name, package in kept.items() if package.origin is not None and not package.origin.source
    }
    pins = {name: package.version for name, package in kept.items() if package not in trees}
    if "jax" in asked:
        pins = {name: version for name, version in pins.items() if not FOLLOWS_JAX.fullmatch(name)}
    lines = [request.with_extras(_extras(request.name, installed)) for request in requests]
    lines += [_bare(name, _extras(name, installed)) for name in kept if kept[name] not in trees]
    return Plan(requests, tuple(lines), trees, pins, archives)


def _extras(name: str, installed: Mapping[str, Package]) -> frozenset[str]:
    """Of jax and of what is asked for only: others have no part that must move with them and says so in an extra."""
    return extras_in_force(installed[name], installed) if name in installed else frozenset()


def _bare(name: str, extras: frozenset[str]) -> str:
    return f"{name}[{','.join(sorted(extras))}]" if extras and name == "jax" else name


def _pin(package: Package) -> str:
    return f"{package.name}=={package.version}"


def write_stand_ins(plan: Plan, folder: Path) -> list[str]:
    """Wheels with no content, so that a resolver knows what is there already; the lines that ask for the source trees.

    A source tree is taken whatever it declares (a project that forbids the new version is what one wants to try it
    with); an archive keeps its requirements, since the resolver may have to move it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for archive in plan.archives.values():
        _write_wheel(folder, archive, archive.requires)
    return [f"{tree.name} @ {_write_wheel(folder, tree, ()).as_uri()}" for tree in plan.fixed]


def _write_wheel(folder: Path, package: Package, requires: tuple[str, ...]) -> Path:
    stem = f"{package.name.replace('-', '_')}-{package.version}"
    metadata = ["Metadata-Version: 2.1", f"Name: {package.name}", f"Version: {package.version}"]
    metadata += [f"Requires-Dist: {text}" for text in requires]
    metadata += [f"Provides-Extra: {extra}" for extra in package.extras]
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(
            f"{stem}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: jaxcheck\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path
