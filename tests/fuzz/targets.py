"""What reads foreign bytes: functions that end in a value or a JaxcheckError. `scripts/fuzz` uses them, too."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import site
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxcheck.errors import JaxcheckError
from jaxcheck.execution.saved import SavedRun
from jaxcheck.goldens.golden import Golden
from jaxcheck.registry.load import load_registry
from jaxcheck.report.formats import FORMATS, named
from jaxcheck.report.reading import read_report
from jaxcheck.results import Run
from tests.fuzz.played import channel, mutated


class Guard:
    """While it is entered, no file outside `folder` may be opened, but for what Python itself reads."""

    def __init__(self, folder: Path) -> None:
        places = [folder, sys.prefix, sys.base_prefix, *site.getsitepackages(), Path(__file__).parents[2], "/proc/self"]
        self._readable = tuple(os.path.realpath(place) for place in places)
        self._writable = os.path.realpath(folder)
        self._active = False
        sys.addaudithook(self._heard)

    def __enter__(self) -> None:
        self._active = True

    def __exit__(self, *_: object) -> None:
        self._active = False

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if self._active and event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            writes = bool((given[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            path = os.path.realpath(os.fsdecode(given[0]))
            if not path.startswith(self._writable if writes else self._readable):
                self._active = False  # the report of this may open what it wants
                raise AssertionError(f"{path} was opened to be {'written' if writes else 'read'}")


def registry(folder: Path, data: bytes) -> None:
    path = folder / "recipes.yaml"
    path.write_bytes(data)
    with contextlib.suppress(JaxcheckError):
        load_registry(path)


def golden(folder: Path, data: bytes) -> None:
    path = folder / "golden.npz"
    path.write_bytes(data)
    with contextlib.suppress(JaxcheckError), Golden.open(path) as found:
        for name in found.cases:
            found.summary(name)
            found.case(name, program=True)
        found.verify()


def report(folder: Path, data: bytes) -> None:
    """Every format that it can be shown in again."""
    path = folder / "run.json"
    path.write_bytes(data)
    with contextlib.suppress(JaxcheckError):
        found = read_report(path)
        found.exit_code()
        for name in FORMATS if isinstance(found, Run) else ("console", "json"):
            named(found, name)


def saved(folder: Path, data: bytes) -> None:
    """The first line is the manifest, the second the run, the rest the outputs; digests that do not match are mended,
    so that more than these is read."""
    manifest, run, outputs = (*data.split(b"\n", 2), b"", b"")[:3]
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(run)
    (folder / "outputs" / "r.npz").write_bytes(outputs)
    with contextlib.suppress(ValueError, RecursionError):
        said = json.loads(manifest)
        if isinstance(said, dict) and isinstance(said.get("files"), dict):
            for name in ("run.json", "outputs/r.npz"):
                said["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            manifest = json.dumps(said).encode()
    (folder / "manifest.json").write_bytes(manifest)
    with contextlib.suppress(JaxcheckError):
        found = SavedRun.open(folder)
        for read in (lambda: found.run, lambda: found.cases("r"), lambda: found.golden("r")):
            with contextlib.suppress(JaxcheckError):
                read()


TARGETS: dict[str, Callable[[Path, bytes], None]] = {
    "registry": registry,
    "golden": golden,
    "report": report,
    "saved": saved,
    "channel": channel,
}
# Where bytes at random would rarely come through the first check: what makes an input another one, in its own terms.
MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {"channel": mutated}
