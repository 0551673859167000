"""How a kernel is executed: one function a mode, `(kernel, static names, positional, keyword) -> outputs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

Call = Callable[..., Any]


class Jitted:
    """One jitted function a kernel, so that cases of the same shapes share a compilation."""

    def __init__(self) -> None:
        self._functions: dict[tuple[Call, tuple[str, ...]], Call] = {}

    def __call__(self, kernel: Call, static: tuple[str, ...]) -> Call:
        key = (kernel, static)
        if key not in self._functions:
            self._functions[key] = jax.jit(kernel, static_argnames=static or None)
        return self._functions[key]


JITTED = Jitted()


def eager(kernel: Call, static: tuple[str, ...], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The plain call: what a user gets who writes `kernel(x)`."""
    return kernel(*args, **kwargs)


def jit(kernel: Call, static: tuple[str, ...], args: list[Any], kwargs: dict[str, Any]) -> Any:
    return JITTED(kernel, static)(*args, **kwargs)


def disable_jit(kernel: Call, static: tuple[str, ...], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Operation by operation, also inside what is jitted already."""
    with jax.disable_jit():
        return kernel(*args, **kwargs)


MODES: Mapping[str, Call] = {"eager": eager, "jit": jit, "disable_jit": disable_jit}
