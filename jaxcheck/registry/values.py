"""Argument values: what a registry may write for one, and the pytree of NumPy arrays that it means.

`check_*` run in the parent and import no NumPy; `build_*` run in the worker, on values that were checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxcheck.registry.literals import (
    Context,
    Keys,
    Problem,
    Problems,
    build_literal,
    check_fit,
    check_literal,
    is_number,
)
from jaxcheck.registry.operators import OPERATORS, KeySpec, build_operator, check_operator
from jaxcheck.registry.words import did_you_mean, show

__all__ = ["KeySpec", "Problem", "PythonValue", "build_value", "check_static", "check_value"]

_SEQUENCES = {"$tuple": tuple, "$list": list}
_ALL_OPERATORS = (*OPERATORS, *_SEQUENCES, "$python")


@dataclass(frozen=True)
class PythonValue:
    """A Python number that is passed to the kernel as it is: under jit, a weakly typed scalar."""

    value: Any


def check_value(data: Any, where: Keys, *, root: Path, x64: bool = False) -> list[Problem]:
    """Every problem of an argument's value, as (path, message, hint, at_key); the paths begin with `where`.

    `root` is the folder of the main registry file; with `x64`, whole numbers beyond int32 are int64.
    """
    return list(_check(data, where, Context(root, x64)))


def _check(data: Any, path: Keys, context: Context) -> Problems:
    if isinstance(data, dict):
        yield from _check_mapping(data, path, context)
    elif isinstance(data, str):
        hint = "name the argument under static:; numbers are written without quotes"
        yield Problem(path, f"the text {show(data)} is no array", hint)
    elif data is not None:
        yield from check_literal(data, path, None, context)


def _check_mapping(data: dict[str, Any], path: Keys, context: Context) -> Problems:
    operator = _operator(data)
    if operator is None:
        for key, value in data.items():
            if key.startswith("$"):
                yield _misplaced_operator(key, (*path, key))
            else:
                yield from _check(value, (*path, key), context)
    elif operator in OPERATORS:
        yield from check_operator(operator, data[operator], (*path, operator), context)
    elif operator in _SEQUENCES:
        yield from _check_sequence(operator, data[operator], (*path, operator), context)
    else:
        yield from _check_python(data[operator], (*path, operator), context)


def _operator(data: dict[str, Any]) -> str | None:
    """The operator that the mapping is: its one key, if that names one."""
    key = next(iter(data), "")
    return key if len(data) == 1 and key in _ALL_OPERATORS else None


def _misplaced_operator(key: str, path: Keys) -> Problem:
    if key in _ALL_OPERATORS:
        return Problem(path, f"{key} must be the only key of its mapping", at_key=True)
    return Problem(path, f"unknown operator {show(key)}", did_you_mean(key, _ALL_OPERATORS), at_key=True)


def _check_sequence(operator: str, items: Any, path: Keys, context: Context) -> Problems:
    if not isinstance(items, list):
        yield Problem(path, f"{operator} needs a list, not {show(items)}")
        return
    for index, item in enumerate(items):
        yield from _check(item, (*path, index), context)


def _check_python(value: Any, path: Keys, context: Context) -> Problems:
    """A Python number is traced as an array of the default type, weakly typed: it has to fit that."""
    if isinstance(value, bool):
        return
    if is_number(value):
        dtype = "int" if isinstance(value, int) else "float"
        yield from check_fit(value, path, f"{dtype}{64 if context.x64 else 32}")
    else:
        hint = "for other Python values name the argument under static:"
        yield Problem(path, f"$python needs a number, true or false, not {show(value)}", hint)


def build_value(data: Any, root: Path | str) -> Any:
    """The pytree of a checked value: dicts, lists, tuples and None, with leaves that are

    `numpy.ndarray` (of exactly the dtype said; float32, int32 or bool by content where none was), `KeySpec` for
    the worker to make a typed PRNG key of, or `PythonValue`. UsageError where an .npz file cannot be read.
    """
    import numpy as np

    def build(data: Any) -> Any:
        if data is None:
            return None
        if not isinstance(data, dict):
            return build_literal(np, data, None)
        operator = _operator(data)
        if operator is None:
            return {key: build(value) for key, value in data.items()}
        if operator == "$python":
            return PythonValue(data[operator])
        if operator in _SEQUENCES:
            return _SEQUENCES[operator](build(item) for item in data[operator])
        return build_operator(np, operator, data[operator], Path(root))

    return build(data)


def check_static(data: Any, where: Keys) -> list[Problem]:
    """Every problem of a static argument: a number, text, true, false, null or a list, which becomes a tuple."""
    return list(_check_static(data, where))


def _check_static(data: Any, path: Keys) -> Problems:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _check_static(item, (*path, index))
    elif isinstance(data, dict):
        operator = _operator(data)
        if operator in _SEQUENCES and not isinstance(data[operator], list):
            yield Problem((*path, operator), f"{operator} needs a list, not {show(data[operator])}")
        elif operator in (*_SEQUENCES, "$python"):
            yield from _check_static(data[operator], (*path, operator))
        else:
            hint = "jit needs it hashable: a number, text, true, false or a list, which becomes a tuple"
            yield Problem(path, "a static argument cannot be a mapping or an array", hint)
