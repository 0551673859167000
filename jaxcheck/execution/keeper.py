"""The far end of a worker on another machine: keeps it there, and hands files to and fro.

What is asked and answered is as on the machine that asks: its paths stand in requests and replies alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jaxcheck
from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.cache import compiled_programs, trim
from jaxcheck.execution.parcel import PROJECT
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.session import DidNotStart, Session
from jaxcheck.execution.state import State
from jaxcheck.goldens.replacing import fresh

READ, WRITTEN = ("stored", "program", "golden"), "folder"  # what names files in requests
Content = Mapping[str, bytes]


@dataclass(frozen=True)
class Answer:
    """The reply, or the death in its place, with what was printed, the programs counted, and the files written."""

    reply: Mapping[str, Any] = field(default_factory=dict)
    death: Death | None = None
    output: tuple[str, str] = ("", "")
    programs: Mapping[str, int] = field(default_factory=dict)
    files: Content = field(default_factory=dict)


@dataclass(frozen=True)
class Started:
    """The environment of a worker, as its machine tells it; or why there is none, and whether it `died` over it.

    `generation` is another one for every worker that the keeper had.
    """

    environment: Mapping[str, Any] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    generation: int = 0
    unavailable: str = ""
    hint: str | None = None
    died: bool = False


class Keeper:
    """Keeps one worker. `places` is where the folders of the asking machine are in the archive that this one has, and
    `folder` the one that is current there."""

    def __init__(self, places: Mapping[str, str], folder: str, launch: Launch, needs: Needs) -> None:
        self._home = Path(jaxcheck.__file__).resolve().parents[1]
        if not (self._home / PROJECT).is_dir():
            raise RuntimeError(f"jaxcheck was imported from {self._home}, and not from what was sent")
        # Ray sets it to the number of cores that it counts: LAPACK would add up in another order than elsewhere.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._places = {folder: str(self._home / place) for folder, place in places.items()}
        os.chdir(self._there(folder) or self._home / PROJECT)
        state = State(self._home / ".jaxcheck")
        state.prepare()
        self._closing = contextlib.ExitStack()
        self._scratch = self._closing.enter_context(state.scratch())
        self._compiled = _own_cache() if launch.compiled else None
        paths = tuple(there for path in launch.paths if (there := self._there(path)))
        launch = replace(launch, python=sys.executable, paths=paths, harness=None, compiled=self._compiled)
        self._session = Session(launch, needs)
        self._folders: dict[str, Path] = {}
        self._sent: dict[Path, tuple[int, int]] = {}

    def node(self) -> str:
        """The identity of this node."""
        return str(importlib.import_module("ray").get_runtime_context().get_node_id())

    def packages(self) -> tuple[str, dict[str, str]]:
        """Python's version, and those of all that this environment has installed."""
        found = {
            one.metadata["Name"]: one.version for one in importlib.metadata.distributions() if one.metadata["Name"]
        }
        return platform.python_version(), found

    def start(self) -> Started:
        """Makes sure that the worker runs."""
        try:
            self._session.start()
        except Unavailable as error:
            return Started(unavailable=self._here(str(error)), hint=error.hint, died=isinstance(error, DidNotStart))
        assert self._session.environment is not None
        told = self._session.environment.model_dump(mode="json")
        return Started(told, tuple(self._session.backends), self._session.generation)

    def request(self, message: Mapping[str, Any], timeout: float, files: Content, memory: int | None = None) -> Answer:
        """One request. `files` are those that it names and that were not sent before."""
        for name, content in files.items():
            path = self._incoming(name)
            put(path, content)
            self._sent[path] = _signature(path)
        reply = self._session.request(self._translated(message), timeout, memory)
        output = self._session.output()
        programs = dict(self._session.programs)
        self._session.programs.clear()
        told = (self._here(output[0]), self._here(output[1]))
        if isinstance(reply, Death):
            return Answer(death=replace(reply, reason=self._here(reply.reason)), output=told, programs=programs)
        return Answer(self._answered(reply), None, told, programs, self._outgoing(message))

    def tidy(self) -> None:
        """Ends what kernels left running."""
        self._session.tidy()

    def close(self) -> None:
        """Lets the worker go, and removes all files."""
        self._session.close()
        self._closing.close()
        if self._compiled:
            trim(Path(self._compiled))

    def _there(self, path: str) -> str | None:
        """Where a path of the asking machine is here; None where it was not sent."""
        for folder, place in self._places.items():
            if Path(path).is_relative_to(folder):
                return str(Path(place) / Path(path).relative_to(folder))
        return None

    def _translated(self, message: Mapping[str, Any]) -> dict[str, Any]:
        said = dict(message)
        for key in READ:
            if isinstance(said.get(key), str):
                said[key] = str(self._incoming(said[key]))
        if WRITTEN in said:
            said[WRITTEN] = str(self._folder(said[WRITTEN]))
        if isinstance(recipe := said.get("recipe"), Mapping):
            said["recipe"] = {**recipe, "root": self._there(recipe["root"]) or recipe["root"]}
        return said

    def _incoming(self, name: str) -> Path:
        return self._folder(os.path.dirname(name)) / os.path.basename(name)

    def _folder(self, name: str) -> Path:
        if name not in self._folders:
            self._folders[name] = self._scratch / hashlib.sha256(name.encode()).hexdigest()[:16]
            self._folders[name].mkdir(exist_ok=True)
        return self._folders[name]

    def _outgoing(self, message: Mapping[str, Any]) -> dict[str, bytes]:
        """What was written since the last time, by its name on the asking machine."""
        found = {}
        if WRITTEN in message:
            folder = self._folder(message[WRITTEN])
            for path in filter(Path.is_file, folder.rglob("*")):  # several processes have folders of their own in it
                if self._sent.get(path) != (seen := _signature(path)):
                    self._sent[path] = seen
                    found[os.path.join(message[WRITTEN], path.relative_to(folder))] = path.read_bytes()
        return found

    def _answered(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(reply)
        for here, there in self._pairs():
            text = text.replace(json.dumps(here)[1:-1], json.dumps(there)[1:-1])
        answered: dict[str, Any] = json.loads(text)
        return answered

    def _here(self, text: str) -> str:
        for here, there in self._pairs():
            text = text.replace(here, there)
        return text

    def _pairs(self) -> list[tuple[str, str]]:
        """(a folder here, the same on the asking machine), the inner ones first."""
        inner = [(str(folder), name) for name, folder in self._folders.items()]
        return [*inner, *((place, folder) for folder, place in self._places.items())]


def put(path: Path, content: bytes) -> None:
    """A new file in its place: arrays may be views of the old one, which has to stay as it is. GoldenError where the
    system does not let us write."""
    with contextlib.suppress(OSError):  # then the file cannot be written either, which says why
        path.parent.mkdir(parents=True, exist_ok=True)
    with fresh(path) as file:
        file.write(content)


def _signature(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _own_cache() -> str | None:
    """Where compiled programs are kept on this machine; a cache that cannot be written costs time and not the run."""
    try:
        return str(compiled_programs())
    except UsageError:
        return None
