"""The standard streams, whatever the one who called us made of them: closed, full, or unable to show a character."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Mapping

# What the system refuses is no bug of ours: {errno: what to do}.
REFUSALS: Mapping[int, str] = {
    errno.ENOSPC: "free some space: df -h",
    errno.EDQUOT: "free some space: quota",
    errno.EFBIG: "raise the limit on the size of files: ulimit -f",
    errno.EROFS: "give a folder that can be written: --state FOLDER, --goldens FOLDER",
    errno.EACCES: "give a folder that can be written: --state FOLDER, --goldens FOLDER",
    errno.EPERM: "give a folder that can be written: --state FOLDER, --goldens FOLDER",
    errno.ENAMETOOLONG: "a shorter path, or a shorter name",
    errno.EMFILE: "raise the limit on open files: ulimit -n",
    errno.ENFILE: "close some programs",
    errno.EAGAIN: "close some programs, or raise the limit on processes: ulimit -u",
    errno.ENOMEM: "close some programs",
    errno.EIO: "look at the disk, or at the terminal: dmesg",
}


def make_usable() -> None:
    """Opens those that are closed: what a pipe to a worker would get their numbers otherwise. Characters that an
    encoding lacks are spelled out, where they would stop the report."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 -- for as long as the process lives
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def silence() -> None:
    """What is printed from now on, or was not written yet, goes nowhere."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Around what is printed: whoever closes the pipe early has read enough, and the exit code stays what it is."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # `jaxcheck run | head`; the second is Rich's answer to the first
        silence()
