"""Jitted kernels, kept."""

from __future__ import annotations

from typing import Any

import jax

from jaxcheck.worker.subject import Call


class Jitted:
    """One jitted function a kernel, so that cases of the same shapes share a compilation."""

    def __init__(self) -> None:
        self._functions: dict[tuple[Call, tuple[str, ...]], Any] = {}

    def __call__(self, kernel: Call, static: tuple[str, ...]) -> Any:
        key = (kernel, static)
        if key not in self._functions:
            self._functions[key] = jax.jit(kernel, static_argnames=static or None)
        return self._functions[key]


JITTED = Jitted()
