"""The memory of a worker that serves many recipes: what JAX compiled for them is of no use to the next."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys

import jax

MOST_GROWTH = 512 << 20


class Memory:
    """JAX keeps every program that it compiled, of eager operations one for each shape: one to two megabytes a recipe.

    The rule: where this process holds MOST_GROWTH bytes more than after it last let go of something, or than at its
    first recipe, it lets go of all of them.
    """

    def __init__(self, most_growth: int = MOST_GROWTH) -> None:
        self._most_growth = most_growth
        self._least: int | None = None

    def release(self) -> bool:
        """To be called between recipes; whether the rule applied."""
        now = resident()
        if self._least is None:
            self._least = now
        if now - self._least < self._most_growth:
            return False
        jax.clear_caches()
        gc.collect()
        _return_to_the_system()
        self._least = resident()
        return True


def resident() -> int:
    """Bytes that this process holds; where the system does not tell, the most that it ever held."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _return_to_the_system() -> None:
    """glibc keeps what was freed in its own lists; other C libraries have no such call and need none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
