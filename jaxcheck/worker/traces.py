"""How often a kernel is traced: a call with the same shapes and dtypes must not be traced, and compiled, again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax

from jaxcheck.worker import internals
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.jitted import JITTED, jitted
from jaxcheck.worker.kernels import bind, describe
from jaxcheck.worker.subject import Subject

# Under these JAX runs a function's Python at every call, whatever the function.
ALWAYS_TRACING = ("jax_disable_jit", "jax_check_tracer_leaks")
Examined = tuple[list[dict[str, str]], list[str]]


def examine(subject: Subject, allowed: int | None) -> Examined:
    """(findings, notes) on a kernel that was run under jit once. Calls are only traced: nothing is compiled or run.

    Where the recipe does not say what is `allowed`, the same call again must cost no trace; where it does, all of
    these together must cost no more: the call, the same again, and the call with arrays in place of `$python` values.
    """
    tracing = [name for name in ALWAYS_TRACING if jax.config.values.get(name)]
    if tracing:
        return [], [f"traces were not counted: under {tracing[0]} every call is traced"]
    try:
        message = _again(subject) if allowed is None else _budget(subject, allowed)
    except Exception as error:  # a kernel that cannot be traced twice
        message = f"the kernel cannot be traced again: {describe(error)}"
    return [{"kind": "traces", "message": message}] if message else [], []


def _again(subject: Subject) -> str:
    function, before = JITTED(subject.kernel, subject.static), JITTED.traces(subject.kernel, subject.static)
    trace(function, subject, subject.arguments.fresh())
    if JITTED.traces(subject.kernel, subject.static) == before:
        return ""
    why = "; ".join(_unequal_to_themselves(subject)) or _otherwise()
    return f"a call with the same shapes and dtypes is traced and compiled again: {why} (`traces: 2`, if that is meant)"


def _budget(subject: Subject, allowed: int) -> str:
    """Counted with a jitted function of its own: what other cases have traced already must not hide anything."""
    function, traced = jitted(subject.kernel, subject.static)
    costs = []
    signature: dict[str, tuple[Any, ...]] = {}
    config: dict[str, Any] = {}
    for words, given in _calls(subject):
        why, before = _otherwise(config), traced.times
        config = internals.config_values()
        trace(function, subject, given)
        previous, signature = signature, _signature(subject.arguments, given)
        if traced.times > before:
            why = "; ".join(_changes(previous, signature) or _unequal_to_themselves(subject)) or why
            costs.append(f"{words} ({why})" if previous else words)
    if traced.times <= allowed:
        return ""
    return f"traced {traced.times} times, {allowed} allowed: {', '.join(costs)}"


def _calls(subject: Subject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "the first call", subject.arguments.fresh()
    yield "the same call again", subject.arguments.fresh()
    if subject.arguments.python:
        yield "the call with arrays in place of Python numbers", _with_arrays(subject.arguments)


def _with_arrays(arguments: Arguments) -> Mapping[str, Any]:
    """With every `$python` value as an array of its own dtype, as other code might pass it."""
    return replace(arguments, python={}).fresh()


def trace(function: Any, subject: Subject, given: Mapping[str, Any]) -> None:
    """What a call would do before it compiles; it has the call's own cache."""
    args, kwargs = bind(subject.kernel, given)
    function.trace(*args, **kwargs)


def _signature(arguments: Arguments, given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """{leaf: (dtype, shape, whether weakly typed)}: what JAX traces a function for, besides static values."""
    leaves = jax.tree.leaves({name: value for name, value in given.items() if name not in arguments.statics})
    avals = [jax.typeof(leaf) for leaf in leaves]
    return {
        leaf.path: (aval.dtype.name, aval.shape, bool(getattr(aval, "weak_type", False)))
        for leaf, aval in zip(arguments.leaves, avals, strict=True)
    }


def _changes(before: Mapping[str, tuple[Any, ...]], now: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """What differs between two calls, leaf by leaf; nothing for a first call."""
    return [f"{path} {_spelled(before[path])} -> {_spelled(now[path])}" for path in before if before[path] != now[path]]


def _spelled(signature: tuple[Any, ...]) -> str:
    dtype, shape, weak = signature
    return f"{'weak ' if weak else ''}{dtype}{list(shape)}"


def _unequal_to_themselves(subject: Subject) -> list[str]:
    """Arguments that JAX cannot find again in its cache: it compares static values and tree structures by `==`."""
    mine, again = subject.arguments.fresh(), subject.arguments.fresh()
    found = []
    for name, value in mine.items():
        if name in subject.arguments.statics:
            if value != again[name]:
                found.append(f"the static argument {name} is not equal to itself ({value!r})")
        elif not internals.same_structure(value, again[name]):
            found.append(f"the tree structure of {name} is not equal to itself (static data of a node need __eq__)")
    return found


def _otherwise(before: dict[str, Any] | None = None) -> str:
    """Where no argument differs: an option of jax.config is part of what JAX traces a function for."""
    moved = internals.config_changes(before or {})
    told = ", ".join(f"{name} {old!r} -> {new!r}" for name, (old, new) in moved.items())
    return f"tracing it changes {told}" if told else "its arguments are the same, tracing it changes something else"
