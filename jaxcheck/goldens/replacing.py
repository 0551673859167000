"""Writing a file so that readers see the old bytes or the new ones, whatever happens in between."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from jaxcheck.errors import GoldenError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its place at the end, or is removed if anything fails.

    Written through to the disk: what is there then outlives a power cut. GoldenError where the system does not let us
    write.
    """
    temporary = path.with_name(f"{_temporary_prefix(path)}{os.urandom(4).hex()}.tmp")
    try:
        with _removed_on_failure(temporary), open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def fresh(path: Path) -> Iterator[IO[bytes]]:
    """A new file, removed if anything fails: for a reader who is told when it is complete, and who forgets it after a
    power cut. Who has read what was at `path` before keeps that. GoldenError as `replacing`."""
    try:
        path.unlink(missing_ok=True)
        with _removed_on_failure(path), open(path, "xb") as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error


def remove_leftovers(path: Path) -> None:
    """Remove what a killed writer of `path` left behind; only while no other writer can be at work."""
    for file in path.parent.iterdir():
        if file.name.startswith(_temporary_prefix(path)) and file.suffix == ".tmp":
            file.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> GoldenError:
    """What the system said, and what to do about it."""
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            hint = f"make the folder writable: chmod u+w {folder}"
        case errno.ENOSPC | errno.EDQUOT:
            hint = f"free some space: df -h {folder}"
        case errno.EISDIR:
            hint = f"a folder has that name: mv {file} {file}.old"
        case errno.ENOENT | errno.ENOTDIR:
            hint = f"make the folder: mkdir -p {folder}"
        case _:
            hint = f"look at the folder: ls -la {folder}"
    return GoldenError(f"{path} cannot be written: {error.strerror or error}", hint)


def _temporary_prefix(path: Path) -> str:
    return f".{path.name}."


@contextlib.contextmanager
def _removed_on_failure(temporary: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the file system can: some network ones cannot."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
