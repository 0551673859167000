"""A worker process and its private channel: requests with a time limit, and a name for every way it can die."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jaxcheck.execution.session import Session

from jaxcheck.execution.memory import LOOK_SECONDS, MemoryWatch, in_words
from jaxcheck.wire import ForeignBytes, Replies, line

TAIL_BYTES = 16_384
STACK_SECONDS = 0.5
QUIET_SECONDS = 0.05  # after which a stack is taken for complete
MEMORY_STACK_SECONDS = 0.05  # meanwhile it takes more
SEND_MILLISECONDS = 50
CLOSE_SECONDS, DYING_SECONDS = 2.0, 5.0
READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Needs:
    """What a worker must be started with; checks that need the same share a process.

    `resources` are those of the node that it is to be on, in a cluster; this machine is taken as it is.
    """

    env: tuple[tuple[str, str], ...] = ()
    devices: int | None = None
    x64: bool = False
    cores: int | None = None  # of those that there are: how many it may use
    resources: tuple[tuple[str, float], ...] = ()

    @property
    def plain(self) -> bool:
        """Whether such a worker runs in the environment that all the others have as well."""
        return not self.env and self.devices is None and not self.x64 and self.cores is None


@dataclass(frozen=True)
class Death:
    """A worker that did not answer: `kind` is crash or timeout, `reason` says how it went."""

    kind: str
    reason: str


class Elsewhere(Protocol):
    """Machines on which workers can be kept."""

    def session(self, launch: Launch, needs: Needs) -> Session:
        """A worker on one of them that has what is needed."""

    def room(self, needs: Needs) -> int:
        """How many such workers they hold at once; 1 where there is no place for any, which its session then says."""


@dataclass(frozen=True)
class Launch:
    """How workers are started: interpreter, backend (None: what JAX picks), folders of the user's modules.

    `harness` is a folder that holds this jaxcheck and nothing else, for interpreters that have none of their own.
    Without `cache`, JAX's persistent compilation cache is off: it has given one version the executables of another.
    `compiled` is a folder for it, in which each environment has one of its own; None leaves it to the user's settings.
    `elsewhere` are the machines that they are started on; None is this one.
    """

    python: str = sys.executable
    backend: str | None = None
    paths: tuple[str, ...] = ()
    harness: str | None = None
    cache: bool = True
    compiled: str | None = None
    elsewhere: Elsewhere | None = None

    def environment(self, needs: Needs) -> dict[str, str]:
        env = dict(os.environ)
        # Workers share a GPU's memory: JAX would take three quarters of it at the first operation.
        env.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if self.backend == "cpu":
            env["JAX_PLATFORMS"] = "cpu"
        elif self.backend is not None:
            env.pop("JAX_PLATFORMS", None)
        env.update(needs.env)
        if not self.cache:
            env.pop("JAX_COMPILATION_CACHE_DIR", None)
        if self.harness:
            env["PYTHONPATH"] = os.pathsep.join([self.harness, *filter(None, [env.get("PYTHONPATH")])])
        return env


class Tail:
    """The last bytes of a stream; `total` is how many there were."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._bytes += data
        del self._bytes[:-TAIL_BYTES]

    def take(self) -> str:
        text = self._bytes.decode("utf-8", "replace")
        self._bytes.clear()
        return text


class WorkerProcess:
    """One process in a session of its own, so that killing it takes along what its kernels started."""

    def __init__(self, launch: Launch, needs: Needs) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        command = [launch.python, "-P", "-m", "jaxcheck.worker", str(requests), str(replies)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=launch.environment(needs),
                pass_fds=(requests, replies),
                start_new_session=True,
            )
        finally:
            os.close(requests)
            os.close(replies)
        self.stdout, self.stderr = Tail(), Tail()
        self._come = Replies()
        self._ended = False  # its end of the channel is gone
        os.set_blocking(self._requests, False)
        self._selector = selectors.DefaultSelector()
        self._exit = _exit_descriptor(self._process.pid)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = {self._process.stdout.fileno(): self.stdout, self._process.stderr.fileno(): self.stderr}
        for descriptor in [self._replies, *self._streams, *([self._exit] if self._exit is not None else [])]:
            if descriptor != self._exit:
                os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    def request(self, message: Mapping[str, Any], timeout: float, memory: int | None = None) -> dict[str, Any] | Death:
        """The reply to one request, or how the worker died of it; one that is late, or takes more than `memory` bytes
        over it, is killed with its group."""
        watch = None if memory is None else MemoryWatch(self._process.pid, memory)
        deadline = time.monotonic() + timeout
        self._send(line(self._come.expect(), message), deadline)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return self._stopped(Death("timeout", f"no answer within {timeout:g} s; the worker was killed"))
            self._read(min(remaining, LOOK_SECONDS if watch else 1.0))
            if (reply := self._reply()) is not None:
                return reply
            if self._ended or self._process.poll() is not None:
                return self._died()
            if watch and (taken := watch.excess()):
                return self._stopped(Death("crash", excess_reason(taken, watch.limit)), MEMORY_STACK_SECONDS)

    def lives(self) -> bool:
        """Whether it can be asked: it runs, and nobody has written into its channel since it answered."""
        self._read(0)
        return not self._ended and not self._come.waiting and self._process.poll() is None

    def _send(self, request: bytes, deadline: float) -> None:
        """Gives up at the deadline: a worker that is stopped reads nothing, and a pipe holds 64 KiB."""
        rest = memoryview(request)
        writable = select.poll()
        writable.register(self._requests, select.POLLOUT)
        while rest and time.monotonic() < deadline:
            try:
                rest = rest[os.write(self._requests, rest) :]
            except BlockingIOError:
                self._read(0)
                writable.poll(SEND_MILLISECONDS)
            except BrokenPipeError:
                return  # dead: the one who waits for the reply finds out how

    def _read(self, wait: float) -> None:
        """Takes in what there is."""
        for key, _ in self._selector.select(wait):
            if key.fd == self._exit:
                self._ended = True
                continue
            data = _read_available(key.fd)
            if data is None:
                self._selector.unregister(key.fd)
                self._ended |= key.fd == self._replies
            elif key.fd == self._replies:
                self._come.feed(data)
            else:
                self._streams[key.fd].feed(data)

    def _reply(self) -> dict[str, Any] | Death | None:
        """What was asked for, once all of it is there; a death where something else came."""
        try:
            reply = self._come.take()
            if reply is not None:
                self._read(0)  # what the kernel printed before it answered
                self._come.ended()
            return reply
        except ForeignBytes as error:
            self.kill()
            return Death("crash", str(error))

    def _stopped(self, death: Death, stack_seconds: float = STACK_SECONDS) -> Death:
        """Kills the worker, once it has printed where it stands."""
        self._process.send_signal(signal.SIGUSR1)
        before, end = self.stderr.total, time.monotonic() + stack_seconds
        while time.monotonic() < end and self._process.poll() is None:
            printed = self.stderr.total
            self._read(min(QUIET_SECONDS, max(0.0, end - time.monotonic())))
            if before < printed == self.stderr.total:
                break
        self.kill()
        return death

    def _died(self) -> Death:
        try:
            code = self._wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return Death("crash", "the worker closed its channel and went on; it was killed")
        for _ in range(64):  # the last words
            self._read(0)
        self.kill()
        return Death("crash", exit_reason(code))

    def _wait(self, seconds: float) -> int:
        """Its exit status; TimeoutExpired. Without polling, where the system can tell."""
        if self._exit is not None:
            ended = select.poll()
            ended.register(self._exit, select.POLLIN)
            ended.poll(1000 * seconds)
            seconds = 0
        return self._process.wait(seconds)

    def kill(self) -> None:
        """Kills the process group and closes everything; safe to call twice and from another thread."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Lets an idle worker go: at the end of its requests it exits by itself."""
        os.close(self._requests)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(CLOSE_SECONDS)
        self.kill()
        self._selector.close()
        os.close(self._replies)
        if self._exit is not None:
            os.close(self._exit)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def exit_reason(code: int) -> str:
    """An exit status in words."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown signal"
        why = "; the system sends it where memory runs out (`memory:` sets a limit)" if name == "SIGKILL" else ""
        return f"the worker was killed by signal {-code} ({name}){why}"
    return f"the worker exited with status {code} in the middle of the check"


def excess_reason(taken: int, limit: int) -> str:
    """What a check took, and what it may take."""
    return f"it took {in_words(taken)} of memory, its limit is {in_words(limit)}; the worker was killed"


def _exit_descriptor(pid: int) -> int | None:
    """Becomes readable when the process ends, even if a child of it holds the pipes open (Linux)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _read_available(descriptor: int) -> bytes | None:
    """Bytes that are there, or None at the end."""
    try:
        return os.read(descriptor, READ_BYTES) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
