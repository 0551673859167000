"""JSON lines over two file descriptors that kernels cannot reach by accident (no child inherits them)."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Channel:
    """The worker's end. `receive` gives None once the parent is gone."""

    def __init__(self, requests: int, replies: int) -> None:
        for descriptor in (requests, replies):
            os.set_inheritable(descriptor, False)
        self._requests = os.fdopen(requests, "rb")
        self._replies = replies

    def receive(self) -> dict[str, Any] | None:
        line = self._requests.readline()
        return json.loads(line) if line else None

    def send(self, message: dict[str, Any]) -> None:
        """What the kernel printed goes out first, so that the parent finds it beside the reply."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # the kernel closed it: its own affair
                continue
        line = memoryview(json.dumps(message).encode() + b"\n")
        while line:
            line = line[os.write(self._replies, line) :]
