"""Built environments in the user's cache: whole or not there, checked when taken, locked while in use."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.cache import private
from jaxcheck.execution.state import alive
from jaxcheck.gate.environments.frozen import versions_of
from jaxcheck.gate.environments.interpreters import probe

FORMAT = 1
COMPLETE = "complete.json"
BUSY = (errno.EWOULDBLOCK, errno.EACCES)
KEY = re.compile(r"[0-9a-f]{16}")
LEFTOVER = re.compile(r"([0-9a-f]{16})\.(building|removed)-(\d+)")


@dataclass(frozen=True)
class Complete:
    """What an environment is, written when all of it is there. When it was last used is the time of its file."""

    label: str
    requirements: tuple[str, ...]
    python_version: str
    base: str
    packages: Mapping[str, str]
    created: float
    size: int
    installer: str
    format: int = FORMAT


@dataclass(frozen=True)
class Cached:
    """An environment of the cache. `fault` says why it cannot be used; None: it is healthy."""

    key: str
    folder: Path
    complete: Complete | None
    used: float
    fault: str | None

    @property
    def python(self) -> str:
        return str(self.folder / "bin/python")


def prepare(cache: Path) -> Path:
    """The folder of environments, for its owner only."""
    folder = cache / "environments"
    private(cache, folder, folder / "locks")
    return folder


class Lock:
    """Held on one key by this process: shared while the environment is used, exclusive while it is made or removed.

    The system drops it when the process ends, however it ends. Where a file system has no locks there is none: then
    two processes may build the same thing, and the second one's is dropped.
    """

    _held: dict[Path, Lock] = {}  # noqa: RUF012 - of the process: its own lock must never wait for itself

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def of(cls, folder: Path, key: str) -> Lock:
        path = folder / "locks" / key
        if path not in cls._held:
            cls._held[path] = cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return cls._held[path]

    def take(self, exclusive: bool, wait: bool) -> bool:
        """False where another process is in the way and it was not to be waited for."""
        kind = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(self._descriptor, kind)
        except OSError as error:
            return error.errno not in BUSY
        return True

    @classmethod
    def drop(cls, folder: Path, key: str) -> None:
        lock = cls._held.pop(folder / "locks" / key, None)
        if lock is not None:
            os.close(lock._descriptor)


def examine(folder: Path, key: str) -> Cached:
    """An entry with its fault, if any: read, started, and its packages counted."""
    place = folder / key
    try:
        complete, used = _read_complete(place / COMPLETE)
    except (OSError, ValueError, TypeError, KeyError) as error:
        return Cached(key, place, None, 0.0, f"its {COMPLETE} cannot be read: {error}")
    return Cached(key, place, complete, used, _fault(place, complete))


def _read_complete(path: Path) -> tuple[Complete, float]:
    content = json.loads(path.read_text())
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, not {FORMAT}")
    content["requirements"] = tuple(content["requirements"])
    return Complete(**content), path.stat().st_mtime


def _fault(place: Path, complete: Complete) -> str | None:
    try:
        interpreter, entries = probe(str(place / "bin/python"))
    except Unavailable as error:
        return str(error)
    if interpreter.version != complete.python_version:
        return f"its Python is {interpreter.version} now, and was {complete.python_version}"
    found = versions_of(entries)
    for name in sorted(found.keys() | complete.packages.keys()):
        if found.get(name) != complete.packages.get(name):
            return f"{name} is {found.get(name, 'gone')} now, and was {complete.packages.get(name, 'not there')}"
    return None


@contextlib.contextmanager
def building(folder: Path, key: str) -> Iterator[Path]:
    """A place to build in. It becomes the key's if all goes well and its complete.json is there, else it goes."""
    place = folder / f"{key}.building-{os.getpid()}"
    remove(place)
    try:
        yield place
        final = folder / key
        if final.exists():
            discard(folder, key)
        try:
            os.rename(place, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another process was first, which is as good
    finally:
        remove(place)


def write_complete(place: Path, complete: Complete) -> None:
    """The last thing written, and wholly: everything else is on the disk before it."""
    temporary = place / f"{COMPLETE}.new"
    with temporary.open("w") as file:
        json.dump(asdict(complete), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, place / COMPLETE)


def size_of(place: Path) -> int:
    """Bytes of all files."""
    total = 0
    for where, _, files in os.walk(place):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


def touch(entry: Cached) -> None:
    """Notes the use."""
    with contextlib.suppress(OSError):
        os.utime(entry.folder / COMPLETE)


def discard(folder: Path, key: str) -> None:
    """Takes the entry out of sight in one step, then removes it: a process killed here leaves no half of it."""
    aside = folder / f"{key}.removed-{os.getpid()}"
    remove(aside)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder / key, aside)
    remove(aside)


def remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Removes what processes that are gone left half done."""
    for place in folder.iterdir():
        match = LEFTOVER.fullmatch(place.name)
        if match and int(match[3]) != os.getpid() and _abandoned(folder, match[1], int(match[3])):
            remove(place)


def _abandoned(folder: Path, key: str, pid: int) -> bool:
    """Whoever builds or removes holds the key's lock. A process number alone tells less: containers that share the
    cache have numbers of their own.
    """
    descriptor = os.open(folder / "locks" / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in BUSY else not alive(pid)
    finally:
        os.close(descriptor)
    return True


def cached(cache: Path) -> list[Cached]:
    """Every environment of the cache, examined, the last used first."""
    folder = cache / "environments"
    if not folder.is_dir():
        return []
    found = [examine(folder, place.name) for place in folder.iterdir() if KEY.fullmatch(place.name)]
    return sorted(found, key=lambda entry: (-entry.used, entry.key))


@dataclass(frozen=True)
class Pruned:
    """What was removed, and what was kept because a process uses it."""

    removed: tuple[Cached, ...]
    in_use: tuple[Cached, ...]


def prune(cache: Path, keys: Sequence[str] = (), older_than_days: float | None = None) -> Pruned:
    """Removes these environments (keys may be cut short), or all; only those unused for so long, if that is given."""
    found = cached(cache)
    chosen = select(found, keys) if keys else found
    if older_than_days is not None:
        limit = time.time() - older_than_days * 86_400
        chosen = [entry for entry in chosen if entry.used < limit]
    folder = cache / "environments"
    if folder.is_dir():
        folder = prepare(cache)
        sweep(folder)
    removed, in_use = [], []
    for entry in chosen:
        if Lock.of(folder, entry.key).take(exclusive=True, wait=False):
            discard(folder, entry.key)
            removed.append(entry)
        else:
            in_use.append(entry)
        Lock.drop(folder, entry.key)
    return Pruned(tuple(removed), tuple(in_use))


def select(found: Sequence[Cached], keys: Sequence[str]) -> list[Cached]:
    """Those with these keys, which may be cut short; UsageError for a key that is none's, or several's."""
    chosen = []
    for key in dict.fromkeys(keys):
        matching = [entry for entry in found if entry.key.startswith(key)]
        if len(matching) != 1:
            problem = "no environment" if not matching else f"{len(matching)} environments"
            raise UsageError(
                f"the cache has {problem} with a key that begins with {key!r}", hint="jaxcheck doctor --environments"
            )
        chosen.append(matching[0])
    return chosen
