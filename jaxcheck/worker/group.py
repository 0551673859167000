"""Processes that run one check together, as `jax.distributed` has it. Each is a worker like any other, with a channel
of its own; the worker that started them hands its requests on and watches over them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jaxcheck.wire import ForeignBytes, Replies, line

START_SECONDS = 100.0
ATTEMPTS = 3
WATCH_SECONDS = 0.5  # a process that ends without closing its channel is noticed after so long
STACK_SECONDS = 0.3
STACKS = 4
EXIT_SECONDS = 5.0
ALONE_SECONDS = 10.0
READ_BYTES = 1 << 16
HOST = "127.0.0.1"

Reply = dict[str, Any]


class EndedError(Exception):
    """All of the processes were killed: one had died (`crash`; `codes` says how, by number) or was late (`timeout`).

    `replies` are those that had come, by number.
    """

    def __init__(self, kind: str, reason: str, replies: Mapping[int, Reply], codes: Mapping[int, int]) -> None:
        super().__init__(reason)
        self.kind, self.replies, self.codes = kind, replies, codes


class Member:
    """One of the processes. It is in the worker's process group, prints where the worker prints and dies with it."""

    def __init__(self, number: int) -> None:
        self.number = number
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._come = Replies()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "jaxcheck.worker", str(requests), str(replies)],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "JAX_PLATFORMS": "cpu", "no_grpc_proxy": HOST},
                pass_fds=(requests, replies),
            )
        finally:
            os.close(requests)
            os.close(replies)

    def fileno(self) -> int:
        """What becomes readable when a reply comes."""
        return self._replies

    def send(self, message: Mapping[str, Any]) -> None:
        rest = memoryview(line(self._come.expect(), message))
        with contextlib.suppress(BrokenPipeError):  # dead: whoever waits for the reply finds out how
            while rest:
                rest = rest[os.write(self._requests, rest) :]

    def read(self) -> Reply | None:
        """The reply, once all of it has come; EOFError where none can come any more; ForeignBytes."""
        data = os.read(self._replies, READ_BYTES)
        if not data:
            raise EOFError
        self._come.feed(data)
        return self._come.take()

    def lives(self) -> bool:
        return self._process.poll() is None

    def show_stack(self) -> None:
        """Lets it print where it stands, beside what the others print."""
        os.write(2, f"process_index {self.number}:\n".encode())
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(STACK_SECONDS)

    def exit_code(self) -> int:
        """Of one that has closed its channel."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        self.kill()
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """After it was killed."""
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)


class Group:
    """So many processes, started and connected with one another; `known` are the recipes that they know."""

    def __init__(self, size: int, start: Mapping[str, Any]) -> None:
        """`start` is the request that the worker itself was started with. EndedError where they do not get ready."""
        self.size = size
        self.known: dict[str, Any] = {}
        # gRPC shares a port with whoever asks for it: this socket, which never listens, keeps other groups off it.
        self._port = reserved_port()
        address = f"{HOST}:{self._port.getsockname()[1]}"
        self._members = [Member(number) for number in range(size)]
        joins = [{"address": address, "processes": size, "process": number} for number in range(size)]
        starts = [{**start, "op": "start", "backend": "cpu", "join": join} for join in joins]
        for number, reply in enumerate(self.ask(starts, START_SECONDS)):
            if "unavailable" in reply:
                raise self._ended("crash", f"process_index {number}: {reply['unavailable']}", {})

    def lives(self) -> bool:
        return all(member.lives() for member in self._members)

    def ask(self, requests: Sequence[Mapping[str, Any]], limit: float) -> list[Reply]:
        """The reply of each process to the request of its own, in their order, or EndedError.

        Once one has raised, the others may wait for it in a collective operation for ever: they have ALONE_SECONDS.
        """
        for member, request in zip(self._members, requests, strict=True):
            member.send(request)
        replies: dict[int, Reply] = {}
        deadline = time.monotonic() + limit
        while waiting := [member for member in self._members if member.number not in replies]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self._late(waiting, replies, limit)
            try:
                come, gone = _read(waiting, min(remaining, WATCH_SECONDS))
            except ForeignBytes as error:
                raise self._ended("crash", str(error), replies) from error
            if gone:
                codes = {member.number: member.exit_code() for member in gone}
                raise self._ended("crash", "", replies | come, codes)
            if any("unavailable" in reply or reply.get("outcome") == "raised" for reply in come.values()):
                deadline = min(deadline, time.monotonic() + ALONE_SECONDS)
            replies |= come
        return [replies[member.number] for member in self._members]

    def end(self) -> None:
        """All at once: one that outlives another would only complain of it."""
        for member in self._members:
            member.kill()
        for member in self._members:
            member.close()
        self._port.close()

    def _late(self, waiting: Sequence[Member], replies: Mapping[int, Reply], limit: float) -> EndedError:
        for member in waiting[:STACKS]:
            member.show_stack()
        late = ", ".join(str(member.number) for member in waiting)
        words = f"no answer within {limit:g} s from process_index {late}; all {self.size} processes were killed"
        return self._ended("timeout", words, replies)

    def _ended(
        self, kind: str, reason: str, replies: Mapping[int, Reply], codes: Mapping[int, int] | None = None
    ) -> EndedError:
        self.end()
        return EndedError(kind, reason, replies, codes or {})


def _read(waiting: Sequence[Member], seconds: float) -> tuple[dict[int, Reply], list[Member]]:
    """(the replies that have come by now, those who died without one); ForeignBytes where no reply came."""
    dead = [member for member in waiting if not member.lives()]
    with selectors.DefaultSelector() as selector:
        for member in waiting:
            selector.register(member, selectors.EVENT_READ, member)
        ready: list[Member] = [key.data for key, _ in selector.select(0 if dead else seconds)]
    gone = [member for member in dead if member not in ready]
    come: dict[int, Reply] = {}
    for member in ready:
        try:
            reply = member.read()
        except EOFError:
            gone.append(member)
            continue
        except ForeignBytes as error:
            raise ForeignBytes(f"process_index {member.number}: ") from error
        if reply is not None:
            come[member.number] = reply
    return come, gone


def started(size: int, start: Mapping[str, Any]) -> Group:
    """A group; a port that is taken meanwhile, or another accident, costs an attempt. EndedError after the last one."""
    deadline = time.monotonic() + START_SECONDS
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return Group(size, start)
        except EndedError as error:
            if attempt == ATTEMPTS or error.kind == "timeout" or time.monotonic() > deadline:
                raise
    raise AssertionError("unreachable")


def reserved_port() -> socket.socket:
    """A socket at a port that nobody else has, and that only this user's servers can share."""
    reserved = socket.socket()
    if hasattr(socket, "SO_REUSEPORT"):
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind((HOST, 0))
    return reserved


def join(address: str, processes: int, process: int) -> None:
    """Makes this process one of several, before its backend starts. Nobody from outside can reach them."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        processes,
        process,
        cluster_detection_method="deactivate",
        initialization_timeout=int(START_SECONDS),
        coordinator_bind_address=address,
    )


def meet() -> None:
    """A first collective operation of all processes: one that cannot do it says so at its start."""
    from jax.experimental import multihost_utils  # most workers are alone

    multihost_utils.sync_global_devices("jaxcheck")
