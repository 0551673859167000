"""Environments on the nodes of a cluster: what they have, with only what was asked changed, by Ray's own means.

The versions are decided here, as for an environment on this machine; Ray has them installed on each node that needs
them, over what the node has, and keeps what it made as long as the cluster runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.parcel import WHEELS
from jaxcheck.execution.process import Elsewhere
from jaxcheck.gate.environments.frozen import LEFT_OUT, Snapshot, snapshot
from jaxcheck.gate.environments.installers import InstallerFailed, Uv, choose_installer
from jaxcheck.gate.environments.model import Installation, Wanted
from jaxcheck.gate.environments.plan import make_plan
from jaxcheck.gate.environments.reasons import reason_of
from jaxcheck.gate.environments.requests import Request, names_a_lock, parse_request


class Nodes(Elsewhere, Protocol):
    """Machines on which packages can be installed beside those that they have."""

    def with_packages(self, installer: str, lines: Sequence[str], options: Sequence[str]) -> Nodes: ...

    def packages(self) -> tuple[str, dict[str, str]]: ...


def provide_on(nodes: Nodes, wanted: Wanted, sent: str, say: Callable[[str], None]) -> Installation:
    """The environment of the nodes, with what is wanted changed. `sent` is where they have what was sent to them.

    UsageError for what cannot be meant; Unavailable, with the reason, for what cannot be had.
    """
    refuse_locks(wanted.requirements)
    requests = tuple(parse_request(text) for text in wanted.requirements)
    if wanted.python is not None or wanted.interpreter is not None:
        raise UsageError(
            "the nodes of a Ray cluster have one Python, that of Ray itself",
            hint="--to and --from change packages there; for another Python start a cluster that has it",
        )
    if requests:
        installer = choose_installer(os.environ)
        say(f"resolving {wanted.label}")
        lines = [_on_a_node(line, requests, sent) for line in changed(snapshot(sys.executable), requests)]
        say(f"installing {len(lines)} packages on the nodes with {installer.name}")
        options = ["--no-deps", *(installer.fetching if isinstance(installer, Uv) else ())]
        nodes = nodes.with_packages(installer.name, lines, options)
    version, found = nodes.packages()
    packages = {str(name): said for key, said in found.items() if (name := canonicalize_name(key)) not in LEFT_OUT}
    return Installation(wanted.label, sys.executable, packages, None, False, version, nodes)


def changed(base: Snapshot, requests: tuple[Request, ...]) -> Iterator[str]:
    """The lines to install so that what was asked for is there: what the resolver chose and the base has otherwise."""
    plan, installer = make_plan(base, requests), choose_installer(os.environ)
    with tempfile.TemporaryDirectory(prefix="jaxcheck-") as folder:
        try:
            resolved = installer.resolve(plan, Path(sys.executable), Path(folder))
        except InstallerFailed as error:
            reason = reason_of(error.output)
            asked = ", ".join(request.text for request in requests)
            raise Unavailable(f"{asked} cannot be installed\n  {reason}", hint=reason.hint) from None
    for line in plan.installable(resolved):
        if line.startswith("-e "):
            continue
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        pins = {f"=={base.versions[name]}"} if name in base.versions else set()
        asked_by_path = any(request.name == name and request.path is not None for request in requests)
        if asked_by_path or (requirement.url is None and str(requirement.specifier) not in pins):
            yield line


def _on_a_node(line: str, requests: Sequence[Request], sent: str) -> str:
    """A wheel of this machine by its place on the node."""
    name = canonicalize_name(Requirement(line).name)
    path = next((request.path for request in requests if request.name == name and request.path is not None), None)
    return line if path is None else f"{sent}/{WHEELS}/{path.name}"


def refuse_locks(requirements: Sequence[str]) -> None:
    """UsageError for a lock: Ray installs over what a node has, which would not be what the lock says."""
    for text in filter(names_a_lock, requirements):
        raise UsageError(
            f"{text} is a whole environment, and on the nodes of a Ray cluster packages are added to those they have",
            hint="without --executor, on a machine that has the device; or name what is to move: --to jax==0.12.0.1",
        )


def wheels_of(requirements: Sequence[str]) -> list[Path]:
    """The files among them, which have to be sent; UsageError for a folder, which is no file."""
    refuse_locks(requirements)
    paths = [request.path for text in requirements if (request := parse_request(text)).path is not None]
    for path in paths:
        if path.is_dir():
            raise UsageError(
                f"{path} is a folder, and only wheels are sent to a cluster",
                hint=f"python -m pip wheel --no-deps -w dist {path}, and give the wheel",
            )
    return [path for path in paths if path is not None]
