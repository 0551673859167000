"""What is kept between runs in the user's cache folder: its owner's only, since who writes there decides what runs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jaxcheck.errors import UsageError

COMPILED = "compiled"
MOST_BYTES = 2 << 30


def cache_folder() -> Path:
    """$JAXCHECK_CACHE, else $XDG_CACHE_HOME/jaxcheck, else ~/.cache/jaxcheck."""
    if chosen := os.environ.get("JAXCHECK_CACHE"):
        return Path(chosen).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "jaxcheck"


def private(cache: Path, *folders: Path) -> None:
    """Makes the cache and folders in it, mode 0700; UsageError where it is another user's or cannot be written."""
    try:
        for made in (cache, *folders):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (owner := made.stat().st_uid) != os.geteuid():
                raise UsageError(
                    f"the cache {made} belongs to another user (uid {owner}), who could change what runs from it",
                    hint="give a folder of your own: JAXCHECK_CACHE=FOLDER",
                )
            made.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache {cache}: {error.strerror}",
            hint="give a folder that can be written: JAXCHECK_CACHE=FOLDER",
        ) from error


def compiled_programs() -> Path:
    """The folder of compiled programs, a folder in it for each environment. UsageError as `private`."""
    folder = cache_folder() / COMPILED
    private(cache_folder(), folder)
    return folder


def trim(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes the programs that were not used for longest, until no more than `most_bytes` are left."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # another run may have removed it meanwhile
                status = os.stat(path)
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    excess = sum(size for _, size, _ in found) - most_bytes
    for _, size, path in sorted(found):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess -= size
