"""What a worker takes of the machine's memory, with what its kernels started, from /proc.

A limit on address space would say nothing: JAX maps a gigabyte or more before its first operation, and uses a fifth of
it. What counts is memory that nothing but swap could give back: anonymous and shared pages. Files that are mapped
(libraries, goldens) do not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

LOOK_SECONDS = 0.02
LOOK_AT_ALL = 15  # one look of so many is at the whole group: to find it takes some milliseconds
_TAKEN = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_SHARE = re.compile(rb"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s*(\d+) kB$", re.MULTILINE)


class MemoryWatch:
    """A limit on what the group of a process takes from now on; nothing is watched where there is no /proc."""

    def __init__(self, group: int, limit: int) -> None:
        self.limit = limit
        self._group = group
        self._looks = 0
        self._next = time.monotonic()
        self._before = _taken(group)
        self._all_before = _taken_by_group(group)

    def excess(self) -> int | None:
        """The bytes taken, where these are more than the limit; cheap enough to be asked at any time."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + LOOK_SECONDS
        self._looks += 1
        if _taken(self._group) - self._before <= self.limit and self._looks % LOOK_AT_ALL:
            return None
        taken = _taken_by_group(self._group) - self._all_before
        return taken if taken > self.limit else None


def _taken_by_group(group: int) -> int:
    """Pages that several processes share, as a fork does with its parent, count once."""
    members = list(_members(group))
    if len(members) == 1:
        return _taken(group)
    return sum(_kilobytes(f"/proc/{pid}/smaps_rollup", _SHARE) or _taken(pid) for pid in members)


def _taken(pid: int) -> int:
    return _kilobytes(f"/proc/{pid}/status", _TAKEN)


def _kilobytes(path: str, lines: re.Pattern[bytes]) -> int:
    """The lines' sum in bytes; 0 for a process that is gone."""
    return sum(map(int, lines.findall(_content(path)))) << 10


def _members(group: int) -> Iterator[int]:
    for name in _listing("/proc"):
        if name.isdecimal():
            fields = _content(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 2 and int(fields[2]) == group:
                yield int(name)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _listing(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def in_words(size: int) -> str:
    """`1.5 GiB`, `512 MiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size:,} bytes"
