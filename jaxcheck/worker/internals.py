"""Everything of JAX that is private or differs between supported versions, in one place.

Verified on jax 0.10.2, 0.11.2 and 0.12.0.1 by the self-test in tests/worker/test_internals.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import monitoring
from jax._src import source_info_util
from jax.extend.core import Literal

DURATIONS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/backend_compile_duration": "compile",
}
IMPORTED_CONFIG = dict(jax.config.values)
# The harness's own frames are as little the user's code as JAX's are.
source_info_util.register_exclusion(os.path.dirname(__file__))


class CompileClock:
    """Seconds spent tracing and compiling, and the number of compilations, since `reset`."""

    def __init__(self) -> None:
        self.reset()
        monitoring.register_event_duration_secs_listener(self._record)

    def reset(self) -> None:
        self.seconds = {"trace": 0.0, "compile": 0.0}
        self.compiles = 0

    def _record(self, event: str, duration_secs: float, **_: str | int) -> None:
        phase = DURATIONS.get(event)
        if phase:
            self.seconds[phase] += duration_secs
            self.compiles += phase == "compile"


def config_values() -> dict[str, Any]:
    return dict(jax.config.values)


def config_name(name: str) -> str:
    """`enable_x64` and `jax_enable_x64` are the same option; ValueError for one that this JAX does not have."""
    known = jax.config.values
    for candidate in (f"jax_{name}", name):
        if candidate in known:
            return candidate
    raise ValueError(f"jax.config has no option {name!r} in jax {jax.__version__}")


def set_config(values: dict[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)


def config_changes(before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """{option: (value before, value now)} of every option that changed."""
    now = jax.config.values
    return {name: (old, now[name]) for name, old in before.items() if name in now and now[name] != old}


@contextlib.contextmanager
def configured(values: dict[str, Any]) -> Iterator[None]:
    """Sets options for a while. What else the body changes is the caller's to find and to put back.

    Options that have a context manager (`jax.debug_nans`) are set by it: JAX itself turns some of them off locally,
    and from then on `jax.config.update` no longer reaches the thread (all supported versions: after a `while_loop`
    was differentiated, `jax_debug_nans` set globally checks nothing).
    """
    names = {config_name(name): value for name, value in values.items()}
    managers = {name: manager for name in names if (manager := _context_manager(name)) is not None}
    globally = {name: value for name, value in names.items() if name not in managers}
    before = {name: jax.config.values[name] for name in globally}
    with contextlib.ExitStack() as stack:
        for name, manager in managers.items():
            stack.enter_context(manager(names[name]))
        set_config(globally)
        try:
            yield
        finally:
            set_config(before)


def _context_manager(name: str) -> Any:
    """JAX's public context manager of an option, or None."""
    manager = getattr(jax, name.removeprefix("jax_"), None)
    return manager if isinstance(manager, type(jax.debug_nans)) else None


def non_default_config() -> dict[str, Any]:
    """Options set through the environment, or changed since JAX was imported."""
    values = jax.config.values
    from_environment = {name for name in values if name.upper() in os.environ}
    changed = {name for name, value in values.items() if IMPORTED_CONFIG.get(name, value) != value}
    return {name: plain(values[name]) for name in sorted(from_environment | changed)}


def plain(value: Any) -> Any:
    """A config value as JSON can hold it."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def is_key(leaf: Any) -> bool:
    """A typed PRNG key array (`jax.random.key`), not the raw uint32 kind."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def backends() -> list[str]:
    """The names of the backends that this JAX can start here."""
    from jax.extend.backend import backends as started

    return sorted(started())


@contextlib.contextmanager
def portable_locations() -> Iterator[None]:
    """Source locations in an export without the folders of this machine and the frames around the kernel."""
    with configured(
        {
            "jax_hlo_source_file_canonicalization_regex": r".*/",
            "jax_include_full_tracebacks_in_locations": False,
        }
    ):
        yield


# --- jaxprs --------------------------------------------------------------------------------------------------------

# Primitives that only call another jaxpr, and the parameter that holds it; the names of all supported versions.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


def opened(jaxpr: Any) -> tuple[Any, list[Any]]:
    """(jaxpr, constants) of a jaxpr that may be open or closed (from jax 0.11.2 one class is both)."""
    constants = list(getattr(jaxpr, "consts", ()))
    return (jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr), constants


def inner_jaxprs(equation: Any) -> list[Any]:
    """Every jaxpr among the equation's parameters: bodies of calls, loops and branches."""
    values = [value for value in equation.params.values() if value is not None]
    flat = [item for value in values for item in (value if isinstance(value, tuple | list) else (value,))]
    return [item for item in flat if hasattr(item, "eqns") or hasattr(getattr(item, "jaxpr", None), "eqns")]


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """(number of constants, number of carries) of a scan equation."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = [len(part) for part in params["ft_in"].unpack()]
    return consts, carry


def bind(equation: Any, values: list[Any], params: dict[str, Any]) -> list[Any]:
    """The equation's primitive at other values and parameters."""
    with equation.ctx.manager:
        outputs = equation.primitive.bind(*values, **equation.primitive.get_bind_params(params))
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def literal_value(atom: Any) -> Any:
    """The value of a literal, or NotImplemented for a variable."""
    return atom.val if isinstance(atom, Literal) else NotImplemented


def scope(equation: Any) -> str:
    """The `jax.named_scope` labels around an equation, with JAX's own jvp and transpose marks."""
    return str(equation.source_info.name_stack)


def source_line(equation: Any) -> str:
    """`file:line` of the user's code that made the equation."""
    return str(source_info_util.summarize(equation.source_info)).split(" ")[0]
