"""Jitted kernels, kept, and how often JAX has traced them."""

from __future__ import annotations

import functools
from typing import Any

import jax

from jaxcheck.worker.subject import Call


class Jitted:
    """One jitted function a kernel, so that cases of the same shapes share a compilation."""

    def __init__(self) -> None:
        self._functions: dict[tuple[Call, tuple[str, ...]], tuple[Any, Traced]] = {}

    def __call__(self, kernel: Call, static: tuple[str, ...]) -> Any:
        return self._of(kernel, static)[0]

    def traces(self, kernel: Call, static: tuple[str, ...]) -> int:
        """How often the jitted function's Python has run so far."""
        return self._of(kernel, static)[1].times

    def forget(self) -> None:
        """For other recipes: what is jitted is kept alive by nothing but this."""
        self._functions.clear()

    def _of(self, kernel: Call, static: tuple[str, ...]) -> tuple[Any, Traced]:
        key = (kernel, static)
        if key not in self._functions:
            self._functions[key] = jitted(kernel, static)
        return self._functions[key]


class Traced:
    """Counts the runs of a function's Python: under jit it runs only where JAX traces it.

    The count is this program's own, so that no version's events or caches have a say in it.
    """

    def __init__(self, function: Call) -> None:
        self.times = 0

        @functools.wraps(function)  # its name and signature: static arguments and messages go by them
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.times += 1
            return function(*args, **kwargs)

        self.function = counted


def jitted(kernel: Call, static: tuple[str, ...]) -> tuple[Any, Traced]:
    """The kernel under jit, with nothing traced yet, and the count of its traces."""
    traced = Traced(kernel)
    return jax.jit(traced.function, static_argnames=static or None), traced


JITTED = Jitted()
