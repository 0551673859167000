"""A worker's code runs in the worker alone, whatever a kernel forks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_process() -> Iterator[None]:
    """Around what is not ours: a child that it forked and let return (or raise) ends here. It would write the same
    files as the worker, remove them and answer for it."""
    worker = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != worker:
            os._exit(0)
