"""What is wrong with a file that is no golden, and the command that mends it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from jaxcheck.errors import GoldenError

HEAD_BYTES = 1024
_SHOWN = 5
_PICKLE_PROTOCOLS = range(2, 6)


class DamagedError(GoldenError):
    """A file of which nothing can be kept; other GoldenErrors are of one that may be whole, but not here or now."""


def damaged(path: Path, what: str, hint: str | None = None) -> DamagedError:
    """The error of a file that was a golden once: `what` completes a sentence that begins with the path."""
    mend = f"git checkout -- {_quoted(path)}, or delete it and {bless_hint(path)}"
    return DamagedError(f"{path} {what}", hint or mend)


def cannot_read(path: Path, error: OSError) -> GoldenError:
    """What the system said where a golden should be."""
    if isinstance(error, FileNotFoundError):
        return GoldenError(f"{path} does not exist", bless_hint(path))
    if isinstance(error, IsADirectoryError):
        return GoldenError(f"{path} is a folder, not a golden", f"mv {_quoted(path)} {_quoted(path)}.old")
    return GoldenError(f"{path} cannot be read: {error.strerror or error}", f"chmod u+r {_quoted(path)}")


def not_an_archive(path: Path, head: bytes) -> GoldenError | None:
    """What a file is that begins with `head`, where that is no zip archive; None where it may be one."""
    if not head:
        return damaged(path, "is empty")
    if head.startswith(b"PK"):
        return None
    if re.search(rb"^<{7} ", head, re.MULTILINE):  # before LFS: git merges pointers as text, too
        hint = f"git checkout --ours -- {_quoted(path)}, or git checkout --theirs -- {_quoted(path)}"
        return GoldenError(f"{path} holds merge conflict markers", hint)
    if head.startswith(b"version https://git-lfs"):
        return GoldenError(f"{path} is a git LFS pointer: the golden itself was not fetched", "git lfs pull")
    if head[0] == 0x80 and head[1:2] and head[1] in _PICKLE_PROTOCOLS:
        return damaged(path, "is a pickle, which jaxcheck never loads: loading one runs code")
    if not re.search(rb"[^\t\n\r\x20-\x7e]", head):
        return damaged(path, f"is text, not a golden: it begins with {head[:40].decode('ascii')!r}")
    return damaged(path, f"is no zip archive: it begins with the bytes {head[:8].hex(' ')}")


def listing(names: Iterable[str]) -> str:
    """The first few names, quoted, and how many more there are."""
    quoted = [repr(name) for name in names]
    more = f" and {len(quoted) - _SHOWN} more" if len(quoted) > _SHOWN else ""
    return ", ".join(quoted[:_SHOWN]) + more


def bless_hint(path: Path) -> str:
    """The command that makes what a run produced the golden at `path`."""
    from urllib.parse import unquote  # only an error needs it

    recipe = unquote(path.name.removesuffix(".npz").partition("@")[0])
    return f"jaxcheck bless {shlex.quote(recipe)} --reason '...'"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
