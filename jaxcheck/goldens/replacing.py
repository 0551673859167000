"""Writing a golden so that readers see the old bytes or the new ones, and what to do where the system refuses."""

from __future__ import annotations

import contextlib
import errno
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from jaxcheck import files
from jaxcheck.errors import GoldenError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """As `files.replaced`, written through to the disk; GoldenError where the system does not let us write."""
    try:
        with files.replaced(path) as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def fresh(path: Path) -> Iterator[IO[bytes]]:
    """As `files.fresh`; GoldenError as `replacing`."""
    try:
        with files.fresh(path) as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> GoldenError:
    """What the system said, and what to do about it."""
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            hint = f"make the folder writable: chmod u+w {folder}"
        case errno.ENOSPC | errno.EDQUOT:
            hint = f"free some space: df -h {folder}"
        case errno.EFBIG:
            hint = "raise the limit on the size of files: ulimit -f"
        case errno.EISDIR:
            hint = f"a folder has that name: mv {file} {file}.old"
        case errno.ENOENT | errno.ENOTDIR:
            hint = f"make the folder: mkdir -p {folder}"
        case _:
            hint = f"look at the folder: ls -la {folder}"
    return GoldenError(f"{path} cannot be written: {error.strerror or error}", hint)
