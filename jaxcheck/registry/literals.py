"""Arrays written out in the registry: numbers, truth values and nested lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxcheck.registry.dtypes import COMPLEX, INTEGERS, by_content, misfit, numpy_dtype
from jaxcheck.registry.words import show

Keys = tuple[str | int, ...]

MAX_DIMENSIONS = 32  # of NumPy before 2.0
MAX_REPORTED = 10
_RECTANGULAR = "an array is rectangular; for a pytree write {$list: [...]}"


class Problem(NamedTuple):
    """What is wrong at `path`; `at_key` where the key itself is wrong rather than its value."""

    path: Keys
    message: str
    hint: str | None = None
    at_key: bool = False


class Context(NamedTuple):
    """What a value is checked against: the registry's folder, and whether its recipe enables 64-bit types."""

    root: Path
    x64: bool = False


Problems = Iterator[Problem]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_literal(data: Any, path: Keys, dtype: str | None, context: Context) -> Problems:
    """Every problem of a literal as an array of this dtype (None: the one that its content gives it)."""
    shape = _shape_of_first(data)
    if len(shape) > MAX_DIMENSIONS:
        yield Problem(path, f"has {len(shape)} dimensions, more than {MAX_DIMENSIONS}")
        return
    problems = list(_irregular(data, path, shape)) or list(_unfit_elements(data, path, dtype, context))
    yield from problems[:MAX_REPORTED]
    if len(problems) > MAX_REPORTED:
        yield Problem(path, f"{len(problems) - MAX_REPORTED} more elements of this array are wrong")


def _shape_of_first(data: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(data, list):
        shape.append(len(data))
        data = data[0] if data else None
    return tuple(shape)


def _irregular(data: Any, path: Keys, shape: tuple[int, ...]) -> Problems:
    """Where the data are not an array of this shape, or hold what no array can."""
    if isinstance(data, dict):
        yield Problem(path, "a mapping cannot be an element of an array", "for a pytree write {$list: [...]}")
    elif data is None:
        yield Problem(path, "an empty value cannot be an element of an array", "NaN is written .nan")
    elif isinstance(data, str):
        yield Problem(path, f"the text {show(data)} cannot be an element of an array", "write numbers unquoted")
    elif isinstance(data, list) and not shape:
        yield Problem(path, "a list stands where a number is expected", _RECTANGULAR)
    elif not isinstance(data, list) and shape:
        yield Problem(path, f"{show(data)} stands where a list is expected", _RECTANGULAR)
    elif isinstance(data, list) and len(data) != shape[0]:
        yield Problem(path, f"a row of length {len(data)} where the first has {shape[0]}", _RECTANGULAR)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _irregular(item, (*path, index), shape[1:])


def _elements(data: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _elements(item, (*path, index))
    else:
        yield path, data


def _unfit_elements(data: Any, path: Keys, dtype: str | None, context: Context) -> Problems:
    elements = list(_elements(data, path))
    odd = next((p for p, value in elements if isinstance(value, bool) != isinstance(elements[0][1], bool)), None)
    if odd is not None:
        yield Problem(odd, "truth values and numbers are mixed", "write 0 and 1, or true and false")
        return
    target = dtype or by_content((value for _, value in elements), wide=context.x64)
    for place, value in elements:
        yield from check_fit(value, place, target, asked=dtype is not None)


def check_fit(value: Any, path: Keys, dtype: str, *, asked: bool = True) -> Problems:
    """The problem of a number in a dtype, if there is one; where nobody asked for the dtype, how to ask for another."""
    reason = misfit(value, dtype)
    if reason:
        yield Problem(path, f"{show(value)} does not fit {dtype}: it {reason}", None if asked else _wider(dtype))


def _wider(dtype: str) -> str:
    wide = {"int32": "int64", "float32": "float64"}.get(dtype, dtype)
    return f"write {{$array: {{value: ..., dtype: {wide}}}}} and config: {{enable_x64: true}}"


def build_literal(np: Any, data: Any, dtype: str | None) -> Any:
    """The `numpy.ndarray` of a checked literal, of exactly this dtype (None: the one that its content gives it)."""
    target = dtype or by_content((value for _, value in _elements(data)), wide=True)
    return np.asarray(data, _carrier(target)).astype(numpy_dtype(target))


def _carrier(dtype: str) -> str:
    """A dtype of NumPy's own that holds every value of this one."""
    if dtype in INTEGERS:
        return "uint64" if dtype == "uint64" else "int64"
    if dtype in COMPLEX or dtype == "bool":
        return dtype
    return "float64"
