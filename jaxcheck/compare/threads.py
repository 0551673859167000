"""How many threads large arrays are compared by, and which blocks each of them takes."""

from __future__ import annotations

import os
from itertools import pairwise

# NumPy lets other threads run while it computes. A thread is worth its start from so many elements on.
MOST_THREADS, ELEMENTS_A_THREAD = 4, 1 << 21


def cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stretches(size: int, block: int) -> list[range]:
    """Where blocks start, for each thread its own: one stretch, so that positions stay in order."""
    starts = range(0, size, block)
    threads = max(1, min(cores(), MOST_THREADS, size // ELEMENTS_A_THREAD))
    bounds = [thread * len(starts) // threads for thread in range(threads + 1)]
    return [starts[first:stop] for first, stop in pairwise(bounds)]
