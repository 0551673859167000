"""A worker that comes back: after a crash, a hang or an exit the next request finds a fresh process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from jaxcheck.errors import Unavailable
from jaxcheck.execution import replies
from jaxcheck.execution.nodes import Stay
from jaxcheck.execution.process import Death, Launch, Needs, WorkerProcess
from jaxcheck.results import Environment
from jaxcheck.wire import ForeignBytes

START_SECONDS = 300.0
INSTALL = {
    "gpu": "pip install -U 'jax[cuda13]' (NVIDIA) or see JAX's installation page for AMD",
    "cuda": "pip install -U 'jax[cuda13]'",
    "rocm": "see JAX's installation page for AMD",
    "tpu": "pip install -U 'jax[tpu]' on a TPU VM",
}


class Interrupted(Exception):
    """The run is being stopped: nothing more is to be started."""


class NoPlace(Unavailable):
    """No machine of a cluster has what a worker needs."""


class DidNotStart(Unavailable):
    """The worker died before it could say what there is."""


class Session:
    """Starts a worker when one is needed. `environment` is known once one has started.

    `stays` are its times on machines of a cluster, the present one last; none on this machine. `littered` says that
    kernels left something running in the present worker.
    """

    def __init__(self, launch: Launch, needs: Needs, worker: WorkerProcess | None = None) -> None:
        self._launch, self._needs = launch, needs
        self._worker = worker
        self._started = False
        self._lock = threading.Lock()
        self._stopped = False
        self._folders: set[str] = set()  # in which workers were told to write
        self.generation = 0
        self.littered = False
        self.environment: Environment | None = None
        self.backends: list[str] = []
        self.programs: Counter[str] = Counter()
        self.stays: list[Stay] = []

    @property
    def lost(self) -> bool:
        """Whether a machine went away under it."""
        return any(stay.lost for stay in self.stays)

    def start(self) -> None:
        """Makes sure that a worker runs; Unavailable where the backend, or JAX itself, does not start."""
        if self._started and self._worker is not None and not self._worker.lives():
            self.drop()  # it died between two requests: that is no check's fault
        if self._worker is None or not self._started:
            death = self._start()
            if death and death.kind == "crash":  # what kills a process by chance does not do so twice
                death = self._start()
            if death:
                raise DidNotStart(
                    f"the worker ({self._launch.python}) did not start: {death.reason}{self._last_words}",
                    hint="jaxcheck doctor",
                )

    def _start(self) -> Death | None:
        with self._lock:
            if self._stopped:
                raise Interrupted
            self._worker = self._worker or WorkerProcess(self._launch, self._needs)
        self._started = True
        self.generation += 1
        request = {
            "op": "start",
            "backend": self._launch.backend,
            "devices": self._needs.devices,
            "x64": self._needs.x64,
            "cores": self._needs.cores,
            "paths": list(self._launch.paths),
            "compiled": self._launch.compiled,
        }
        reply = self.request(request, START_SECONDS)
        if isinstance(reply, Death):
            return reply
        if "unavailable" in reply:
            self.drop()
            raise unavailable(reply)
        self.environment = Environment.model_validate(reply["environment"])
        self.backends = reply["backends"]
        return None

    def request(self, message: Mapping[str, Any], timeout: float, memory: int | None = None) -> dict[str, Any] | Death:
        """One request to the running worker. After a death the next `start` makes a new one."""
        worker = self._worker
        if worker is None:
            raise Interrupted
        reply = self._checked(message, worker.request(message, timeout, memory))
        if isinstance(reply, Death):
            self._last_words = "\n" + worker.stderr.take().strip()
            self._last_output = worker.stdout.take()
            self.drop()
            if self._stopped:
                raise Interrupted
        else:
            self.programs.update(reply.pop("programs", {}))
            self.littered |= bool(reply.get("left"))
        return reply

    def _checked(self, message: Mapping[str, Any], reply: dict[str, Any] | Death) -> dict[str, Any] | Death:
        """The reply, where it is one to this request; else what wrote it has killed the worker."""
        if "folder" in message:
            self._folders.add(os.path.realpath(message["folder"]))
        if isinstance(reply, Death):
            return reply
        root = message["recipe"]["root"] if message["op"] == "prepare" else ""
        fault = replies.fault(message["op"], reply, replies.Allowed(self._folders, root))
        return Death("crash", f"{ForeignBytes()} ({message['op']}: {fault})") if fault else reply

    def output(self) -> tuple[str, str]:
        """(stdout, stderr) since the last call: what kernels printed, or a dead worker's last words."""
        if self._worker is None:
            return self._last_output, self._last_words.strip()
        return self._worker.stdout.take(), self._worker.stderr.take()

    def tidy(self) -> None:
        """What a kernel left running ends here: it must not touch those that come after it."""
        if self.littered:
            self.drop()

    def drop(self) -> None:
        with self._lock:
            worker, self._worker, self._started, self.littered = self._worker, None, False, False
        if worker is not None:
            worker.kill()
            worker.close()

    def stop(self) -> None:
        """From another thread: kills the worker and lets no new one start."""
        with self._lock:
            self._stopped = True
            worker = self._worker
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        with self._lock:
            worker, self._worker, self._started = self._worker, None, False
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.close()

    _last_words = ""
    _last_output = ""


def open_session(launch: Launch, needs: Needs) -> Session:
    """A worker that is started when it is needed, on this machine or where the launch says."""
    return Session(launch, needs) if launch.elsewhere is None else launch.elsewhere.session(launch, needs)


class Spare:
    """Workers for recipes that need nothing special, for whoever needs one next: started early, or, where it `keeps`,
    left by those who are done with them. Importing JAX is most of what a small command takes."""

    def __init__(self, workers: Iterable[WorkerProcess] = (), *, keeps: bool = False) -> None:
        self._workers, self._keeps = list(workers), keeps
        self._sessions: list[Session] = []

    def take(self, launch: Launch) -> Session:
        """A session that runs already, or one with a worker that does, if there is any; else a new one."""
        if self._sessions:
            return self._sessions.pop()
        return Session(launch, Needs(), self._workers.pop(0) if self._workers else None)

    def leave(self, session: Session) -> None:
        """Keeps it for the next one, or closes it."""
        if self._keeps:
            self._sessions.append(session)
        else:
            session.close()

    def end(self) -> None:
        """Nobody needs one any more."""
        for session in self._sessions:
            session.close()
        for worker in self._workers:
            worker.kill()


def unavailable(reply: Mapping[str, Any]) -> Unavailable:
    """What is missing, what there is instead, and how to get what is missing."""
    backend, present = reply["backend"], reply["backends"]
    if backend is None:
        return Unavailable(f"JAX does not start here: {reply['unavailable']}", hint="jaxcheck doctor")
    there = ", ".join(present) or "none"
    install = INSTALL.get(backend, "install the JAX plugin of that platform")
    return Unavailable(
        f"backend {backend!r} is not available here: {reply['unavailable']}. Backends here: {there}",
        hint=f"to get it: {install}; or run with --backend {present[0] if present else 'cpu'}",
    )
