"""What a kernel can change in its process, beside jax.config, the environment and the folder, and what it can leave
running: both would touch the checks that come after it."""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np


class Setting(NamedTuple):
    """How it is read and put back. What is read must be equal to itself."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _umask() -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    return f"{mask:03o}"


def _collect(on: bool) -> None:
    (gc.enable if on else gc.disable)()


def _stream(name: str) -> Setting:
    return Setting(partial(getattr, sys, name), partial(setattr, sys, name))


def _handler(number: signal.Signals) -> Setting:
    return Setting(partial(signal.getsignal, number), partial(_handle, number))


def _handle(number: signal.Signals, handler: Any) -> None:
    signal.signal(number, handler)
    if number == signal.SIGUSR1:  # the parent asks by it where a kernel stands
        faulthandler.unregister(number)
        faulthandler.register(number)


def _timer(which: int) -> Setting:
    """Whether it is armed: a signal that nobody handles kills, and it may come during another check."""
    return Setting(lambda: signal.getitimer(which)[0] > 0, lambda armed: signal.setitimer(which, 0))


def _descriptor(number: int) -> Setting:
    """Which file it is: None for a closed one."""
    kept = os.dup(number)
    return Setting(partial(_file, number), lambda file: os.dup2(kept, number))


def _file(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _limit(name: str) -> Setting:
    kind = getattr(resource, name)
    return Setting(lambda: resource.getrlimit(kind), lambda limits: resource.setrlimit(kind, limits))


_SIGNALS = [number for number in signal.valid_signals() if isinstance(number, signal.Signals)]
_FIXED = (signal.SIGKILL, signal.SIGSTOP)
SETTINGS: Mapping[str, Setting] = {
    "the umask": Setting(_umask, lambda mask: os.umask(int(mask, 8))),
    "the recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    "the garbage collector": Setting(gc.isenabled, _collect),
    "NumPy's errors": Setting(np.geterr, lambda errors: np.seterr(**errors)),
    "sys.stdout": _stream("stdout"),
    "sys.stderr": _stream("stderr"),
    "descriptor 1": _descriptor(1),
    "descriptor 2": _descriptor(2),
    "the real timer": _timer(signal.ITIMER_REAL),
    "the processor's timer": _timer(signal.ITIMER_VIRTUAL),
    "the profiling timer": _timer(signal.ITIMER_PROF),
    **{f"the handler of {number.name}": _handler(number) for number in _SIGNALS if number not in _FIXED},
    **{name: _limit(name) for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE")},
}


def settings() -> dict[str, Any]:
    return {name: setting.read() for name, setting in SETTINGS.items()}


def put_back(before: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name, before, after) of each that was changed since; one that cannot be put back stays as it is."""
    for name, old in before.items():
        new = SETTINGS[name].read()
        if new != old:
            try:
                SETTINGS[name].write(old)
            except (OSError, ValueError):  # a hard limit that was lowered
                new = f"{new} (for good)"
            yield name, old, new


class Running:
    """The threads and processes that there were; `left` names those that came since and are there still."""

    def __init__(self) -> None:
        self._threads = set(_threads())
        self._children = _children()

    def left(self) -> list[str]:
        threads = [f"the thread {thread.name}" for thread in _threads() if thread not in self._threads]
        new = {pid: name for pid, name in _children().items() if pid not in self._children}
        return threads + [f"the process {pid} ({name})" for pid, name in new.items()]


def _threads() -> Iterator[threading.Thread]:
    """Those that Python code started: callbacks run on threads of XLA's, which show up as dummies."""
    return (thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread))


def _children() -> dict[int, str]:
    """{pid: name} of living children. To ask whether there is any costs nothing; to find them takes milliseconds."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}
    return {pid: name for pid, name, parent in _processes() if parent == os.getpid()}


def _processes() -> Iterator[tuple[int, str, int]]:
    """(pid, name, parent) of every process that is not a zombie; nothing where there is no /proc."""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{int(entry)}/stat", encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except (ValueError, OSError):  # no process, or one that is gone
            continue
        state, parent, *_ = rest.split()
        if state != "Z":
            yield int(entry), head.partition("(")[2], int(parent)
