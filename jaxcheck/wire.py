"""What goes over a worker's channel: one line each way, JSON behind the number of the request.

The number is drawn anew for each request and the reply repeats it: kernels are somebody's code in the same process, and
what one of them writes there is no reply, however well formed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

NUMBER_BYTES = 8
MOST_BYTES = 128 << 20  # of one reply: the noise floors of 100,000 leaves and of their gradients take 28 MiB


class ForeignBytes(Exception):
    """What came is not the reply that was asked for."""

    def __init__(self, where: str = "") -> None:
        super().__init__(f"{where}something other than the worker wrote into its private channel")


def line(number: bytes, message: Mapping[str, Any]) -> bytes:
    return number + b" " + json.dumps(message).encode() + b"\n"


class Replies:
    """The asking end of a channel: bytes as they come, and the one reply that they are."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._head = b""
        self._searched = 0

    def expect(self) -> bytes:
        """The number of a new request."""
        number = os.urandom(NUMBER_BYTES).hex().encode()
        self._head, self._searched = number + b" ", 0
        return number

    def feed(self, data: bytes) -> None:
        if len(self._bytes) <= MOST_BYTES:
            self._bytes += data

    @property
    def waiting(self) -> bool:
        """Whether something came that nobody took."""
        return bool(self._bytes)

    def ended(self) -> None:
        """ForeignBytes where more came than the reply that was taken."""
        if self.waiting:
            raise ForeignBytes

    def take(self) -> dict[str, Any] | None:
        """The reply once all of it is there; ForeignBytes as soon as what there is cannot become it."""
        head = len(self._head)
        if not self._head.startswith(self._bytes[:head]) or len(self._bytes) > MOST_BYTES:
            raise ForeignBytes
        end = self._bytes.find(b"\n", self._searched)
        self._searched = len(self._bytes)
        if end < 0:
            return None
        if end + 1 < len(self._bytes):
            raise ForeignBytes
        try:
            reply = json.loads(self._bytes[head:end])
        except (ValueError, RecursionError):
            reply = None
        self._bytes.clear()
        if not isinstance(reply, dict):
            raise ForeignBytes
        return reply
