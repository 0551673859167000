"""Files that appear whole or not at all, folders with one writer at a time, and what writers that were killed leave.

Who writes holds a lock on its temporary file or folder: it ends with the process, however that ends, so that what
nobody holds is nobody's. Where a file system has no locks, nothing is swept up.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

_LONGEST = 200  # bytes of a name that are kept in a temporary one; file systems take 255


@contextlib.contextmanager
def replaced(path: Path, durable: bool = True) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its place at the end, or is removed if anything fails: readers see the
    old bytes or the new ones. `durable` writes through to the disk, for files that must outlive a power cut."""
    with _made(path) as temporary, open(temporary, "wb") as file:
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())
        file.close()  # some systems tell only now that the disk is full
        os.replace(temporary, path)
    if durable:
        _sync_folder(path.parent)


@contextlib.contextmanager
def fresh(path: Path) -> Iterator[IO[bytes]]:
    """A new file, removed if anything fails: for a reader who is told when it is complete, and who forgets it after a
    power cut. Who has read what was at `path` before keeps that."""
    path.unlink(missing_ok=True)
    try:
        with open(path, "xb") as file:
            yield file
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


@contextlib.contextmanager
def _made(path: Path) -> Iterator[Path]:
    """A new file beside `path` that we hold; it is gone afterwards, unless it was renamed."""
    while True:
        temporary = path.with_name(f"{_prefix(path)}{os.urandom(4).hex()}.tmp")
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            hold(handle)
            if not os.path.exists(temporary):  # swept up before we held it
                continue
            yield temporary
            return
        finally:
            os.close(handle)
            with contextlib.suppress(OSError):
                temporary.unlink()


def remove_leftovers(path: Path) -> None:
    """Removes what killed writers of `path` left beside it."""
    prefix = _prefix(path)
    sweep(file for file in path.parent.iterdir() if file.name.startswith(prefix) and file.suffix == ".tmp")


def short(name: str) -> str:
    """The name, or its hash where temporary names with it would be too long."""
    whole = os.fsencode(name)
    return name if len(whole) <= _LONGEST else hashlib.sha256(whole).hexdigest()[:32]


def _prefix(path: Path) -> str:
    return f".{short(path.name)}."


def sweep(paths: Iterable[Path]) -> None:
    """Removes those of these files and folders that nobody holds."""
    for path in paths:
        with contextlib.suppress(OSError), _opened(path, os.O_NOFOLLOW) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def hold(handle: int) -> None:
    """Makes the open file or folder ours until the handle is closed, or this process ends."""
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among the folder's writers. The folder itself is locked, so that no lock file lies about; where that cannot
    be had (some network file systems), there is no lock."""
    with _opened(folder) as handle:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(path: Path, how: int = 0) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | how)
    try:
        yield handle
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the file system can: some network ones cannot."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
