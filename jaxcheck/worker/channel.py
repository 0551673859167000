"""The worker's end of its channel: two file descriptors that no child inherits. See `jaxcheck.wire`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from jaxcheck.wire import line


class Channel:
    """`receive` gives None once the parent is gone."""

    def __init__(self, requests: int, replies: int) -> None:
        for descriptor in (requests, replies):
            os.set_inheritable(descriptor, False)
        self._requests = os.fdopen(requests, "rb")
        self._replies = replies
        self._number = b""

    def receive(self) -> dict[str, Any] | None:
        self._number, _, text = self._requests.readline().partition(b" ")
        return json.loads(text) if text else None

    def line(self, message: dict[str, Any]) -> bytes:
        """The reply to what was received last."""
        return line(self._number, message)

    def send(self, message: dict[str, Any]) -> None:
        """What the kernel printed goes out first, so that the parent finds it beside the reply."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # the kernel closed it: its own affair
                continue
        rest = memoryview(self.line(message))
        while rest:
            rest = rest[os.write(self._replies, rest) :]
