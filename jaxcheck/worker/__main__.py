"""Entry point of a worker: `PYTHON -P -m jaxcheck.worker REQUESTS REPLIES`, two inherited file descriptors.

One request, one reply, until the requests end. Standard output and error belong to the kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
import sys

from jaxcheck.worker.channel import Channel
from jaxcheck.worker.processes import one_process

PR_SET_PDEATHSIG = 1
OOM_SCORE = "500"  # of 1000


def die_with_parent() -> None:
    """A worker never outlives its parent, not even inside a C loop that holds the GIL (Linux only)."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def die_before_parent() -> None:
    """Where memory runs out, a worker is what the system kills, and the run goes on (Linux only)."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(OOM_SCORE)


def main() -> None:
    die_with_parent()
    die_before_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the parent asks where a hanging kernel stands before it kills it
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    gc.disable()  # what is imported stays: to look for garbage in it, now and later, is a tenth of the start
    from jaxcheck.worker.service import Service

    gc.freeze()
    gc.enable()
    service = Service()
    while (request := channel.receive()) is not None:
        with one_process():
            reply = service.answer(request)
        channel.send(reply)


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing is left to do, and taking JAX down in good order costs a quarter of a second
