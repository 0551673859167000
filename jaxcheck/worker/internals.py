"""Everything of JAX that is private or differs between supported versions, in one place.

Verified on jax 0.10.2, 0.11.2 and 0.12.0.1 by the self-test in tests/worker/test_internals.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import monitoring
from jax._src import api, pjit, source_info_util, xla_bridge
from jax._src.core import Literal, eval_jaxpr
from jax._src.interpreters import partial_eval
from jax._src.lru_cache import LRUCache
from jaxlib import _jax

CACHE_EVENTS = {"/jax/compilation_cache/cache_hits": "hits", "/jax/compilation_cache/cache_misses": "misses"}
DURATIONS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/backend_compile_duration": "compile",
}
IMPORTED_CONFIG = dict(jax.config.values)
REVERSE_ENTERS_JIT = jax.__version_info__ < (0, 12)
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
            self.seconds[phase] += max(duration_secs, 0.0)  # of the time of day, which may be set meanwhile
            self.compiles += phase == "compile"


class CompiledPrograms:
    """JAX's persistent compilation cache: how many programs came out of it, and how many had to be compiled."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(CACHE_EVENTS.values(), 0)
        monitoring.register_event_listener(self._record)

    def _record(self, event: str, **_: str | int) -> None:
        if event in CACHE_EVENTS:
            self._counts[CACHE_EVENTS[event]] += 1

    def taken(self) -> dict[str, int]:
        """{"hits": n, "misses": n} since the last call."""
        counts = dict(self._counts)
        self._counts = dict.fromkeys(counts, 0)
        return counts

    def keep_in(self, folder: str) -> None:
        """Every program compiled from now on is kept in the folder, and taken from there where it is.

        JAX writes its entries in place and reads them unchecked: a process killed meanwhile would leave half a
        program. Here they appear whole, with a digest, and one that does not match is compiled again.
        """
        LRUCache.put = _put  # type: ignore[method-assign,assignment]
        LRUCache.get = _get  # type: ignore[method-assign,assignment]
        set_config(
            {
                "jax_compilation_cache_dir": folder,
                "jax_persistent_cache_min_compile_time_secs": 0.0,
                "jax_persistent_cache_min_entry_size_bytes": -1,
                "jax_persistent_cache_enable_xla_caches": "none",
            }
        )


def _entry(cache: LRUCache, key: str) -> str:
    return os.path.join(str(cache._path), hashlib.sha256(key.encode()).hexdigest()[:40])


def _put(cache: LRUCache, key: str, value: bytes) -> None:
    entry = _entry(cache, key)
    new = f"{entry}.{os.getpid()}"
    with contextlib.suppress(OSError):  # a full disk costs time, not the run
        with open(new, "wb") as file:
            file.write(hashlib.sha256(value).digest() + value)
        os.replace(new, entry)


def _get(cache: LRUCache, key: str) -> bytes | None:
    try:
        with open(_entry(cache, key), "rb") as file:
            data = file.read()
    except OSError:
        return None
    digest, value = data[:32], data[32:]
    return value if hashlib.sha256(value).digest() == digest else None


def has_cpu_collectives() -> bool:
    """Whether this jaxlib was built with Gloo, by which CPU processes run collective operations."""
    return hasattr(_jax, "make_gloo_tcp_collectives")


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


def same_structure(one: Any, other: Any) -> bool:
    """Whether two pytrees have equal structures; a node's static data may be equal to nothing, itself included."""
    structure: Any = jax.tree.structure
    return bool(structure(one) == structure(other))


def is_key(leaf: Any) -> bool:
    """A typed PRNG key array (`jax.random.key`), not the raw uint32 kind."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def key_impl(leaf: Any) -> str | None:
    """The implementation of typed keys, of arrays, tracers or shapes; None for anything else."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    return str(dtype._impl.name)


def backends() -> list[str]:
    """The names of the backends that this JAX can start here. (`jax.extend` has it too, and imports Pallas.)"""
    return sorted(xla_bridge.backends())


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


def primitive_home(primitive: Any) -> tuple[str, str] | None:
    """(module, name) that a script can import the primitive by: from JAX's public list, else from where it is."""
    from jax.extend.core import primitives

    for module in (primitives, *(m for name, m in sorted(sys.modules.items()) if name.startswith("jax._src."))):
        for name, value in list(vars(module).items()):
            if value is primitive:
                return module.__name__, name
    return None


def literal_value(atom: Any) -> Any:
    """The value of a literal, or NotImplemented for a variable."""
    return atom.val if isinstance(atom, Literal) else NotImplemented


def scope(equation: Any) -> str:
    """The `jax.named_scope` labels around an equation, with JAX's own jvp and transpose marks."""
    return str(equation.source_info.name_stack)


def source_line(equation: Any) -> str:
    """`file:line` of the user's code that made the equation."""
    return str(source_info_util.summarize(equation.source_info)).split(" ")[0]


def frame(equation: Any) -> tuple[str, int, str] | None:
    """(file, line, function) of the innermost frame that is not JAX's own, Python's or the harness's."""
    return next(frames(equation), None)


def frames(equation: Any) -> Iterator[tuple[str, int, str]]:
    """As `frame`, and those around it, outwards."""
    library = os.path.join(os.path.dirname(os.__file__), "")
    for found in source_info_util.user_frames(equation.source_info.traceback):
        name = found.file_name
        if not name.startswith(library) or "site-packages" in name or "dist-packages" in name:
            yield name, int(found.start_line), found.function_name.rpartition(".")[2]


def shard_map(params: dict[str, Any], body: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """Another function over the shards of a `shard_map` equation."""
    names = {"mesh": params["mesh"], "in_specs": params["in_specs"], "out_specs": params["out_specs"]}
    mapped = jax.shard_map(body, **names, axis_names=params["newly_manual_axes"], check_vma=params["check_vma"])
    return list(mapped(*values))


def evaluate(jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """An open jaxpr at other constants than it was traced with."""
    return list(eval_jaxpr(jaxpr, list(constants), *inputs))


def holds_code(value: Any) -> bool:
    """Whether a parameter of an equation is, or holds, a jaxpr or a function: what has no text of its own."""
    if isinstance(value, tuple | list):
        return any(map(holds_code, value))
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns") or callable(value)


@contextlib.contextmanager
def jitted_stays_jitted() -> Iterator[None]:
    """Meanwhile a trace holds every jitted function as one equation, also those that JAX marks to be inlined: a plain
    call dispatches each of them as one program."""
    rule = partial_eval.custom_staging_rules[pjit.jit_p]
    kept = api.Inline.AUTO if hasattr(api, "Inline") else False

    def stay(trace: Any, source_info: Any, *args: Any, **params: Any) -> Any:
        return rule(trace, source_info, *args, **{**params, "inline": kept})

    jax.clear_caches()  # what was traced before, and then what was traced meanwhile, is of the other kind
    partial_eval.custom_staging_rules[pjit.jit_p] = stay
    try:
        yield
    finally:
        partial_eval.custom_staging_rules[pjit.jit_p] = rule
        jax.clear_caches()


def dispatched_apart(equation: Any) -> bool:
    """Whether a plain call dispatches what is inside the equation by itself, instead of the equation as one.

    Before jax 0.12 the reverse pass of a plain `jax.grad` enters what is jitted, operation by operation.
    """
    if equation.primitive.name in ("jit", "pjit"):
        return REVERSE_ENTERS_JIT and "transpose(" in scope(equation)
    return equation.primitive.name in CALLS
