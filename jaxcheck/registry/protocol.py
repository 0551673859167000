"""The protocol: six kinds of cases that every recipe should have, and which of them a registry's cases are.

A case is told by its name, and by its arguments where these stand in the registry. Nothing is executed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jaxcheck.registry.dtypes import FLOATS, INTEGERS
from jaxcheck.registry.model import Case, Recipe
from jaxcheck.registry.values import KeySpec, PythonValue, build_value

# {kind: whole names that mean it}; so does a name that begins with the kind and a hyphen.
PROTOCOL: Mapping[str, frozenset[str]] = {
    "standard": frozenset({"ordinary", "typical", "usual", "normal", "basic", "default", "plain", "example"}),
    "single": frozenset({"singleton", "one", "one-element", "scalar", "batch-of-one"}),
    "zeros": frozenset({"zero", "all-zero", "all-zeros"}),
    "boundary": frozenset(
        {"boundaries", "edge", "edges", "ends", "limit", "limits", "extreme", "extremes", "largest", "smallest"}
        | {"huge", "tiny", "subnormal", "subnormals", "infinite", "infinity", "infinities", "overflow", "underflow"}
        | {"overflowing", "underflowing", "saturated"}
    ),
    "asymmetric": frozenset(
        {"skew", "skewed", "non-square", "rectangular", "wide", "tall", "uneven", "signs", "mixed-signs"}
    ),
    "invalid-shape": frozenset(
        {"invalid", "wrong-shape", "bad-shape", "other-shape", "shape-mismatch", "mismatched-shapes", "wrong-length"}
        | {"wrong-size", "wrong-rank", "wrong-batch", "wrong-features"}
    ),
}
MAX_ELEMENTS = 1_000_000  # arguments of a case that are larger are not made for this
_SHAPES = re.compile(r"\b(shapes?|dim(ension)?s?|ranks?|sizes?|broadcast\w*|axis|axes|scalars?)\b", re.IGNORECASE)


class Facts(NamedTuple):
    """The arrays among the arguments of a case, by argument: all that content is judged by."""

    arrays: Mapping[str, tuple[Any, ...]]

    def all(self) -> list[Any]:
        return [array for arrays in self.arrays.values() for array in arrays]

    def ranks(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(array.ndim for array in arrays) for name, arrays in self.arrays.items()}


def coverage(recipe: Recipe, root: str) -> dict[str, tuple[str, ...]]:
    """{kind: the cases that are of it}, for every kind; UsageError where an .npz file cannot be read.

    Of a factory's cases only the names are known, and only of those that the registry names.
    """
    facts = {name: found for name, case in recipe.cases.items() if (found := facts_of(recipe, case, root))}
    working = [facts[name].ranks() for name, case in recipe.cases.items() if name in facts and case.raises is None]
    return {
        kind: tuple(name for name, case in recipe.cases.items() if _is(kind, case, facts.get(name), working))
        for kind in PROTOCOL
    }


def _is(kind: str, case: Case, facts: Facts | None, working: list[dict[str, tuple[int, ...]]]) -> bool:
    named = names(kind, case.name)
    if kind == "invalid-shape":
        return case.raises is not None and (named or _about_shapes(case, facts, working))
    return named or (case.raises is None and facts is not None and kind in CONTENT and CONTENT[kind](facts.all()))


def names(kind: str, case: str) -> bool:
    """Whether a case's name says that it is of the kind; underscores are hyphens, and case does not matter."""
    name = case.casefold().replace("_", "-")
    return name == kind or name.startswith(f"{kind}-") or name in PROTOCOL[kind]


def _about_shapes(case: Case, facts: Facts | None, working: list[dict[str, tuple[int, ...]]]) -> bool:
    """The message that is expected speaks of shapes; or an argument has a number of axes that no working case has."""
    if case.raises and case.raises.match and _SHAPES.search(case.raises.match.replace(r"\b", " ")):
        return True
    ranks = facts.ranks() if facts else {}
    others = [[ranks_there[name] for ranks_there in working if name in ranks_there] for name in ranks]
    return any(there and own not in there for own, there in zip(ranks.values(), others, strict=True))


# Arguments


def facts_of(recipe: Recipe, case: Case, root: str) -> Facts | None:
    """The arrays of the case's arguments; None where a factory makes them, or where they are very large."""
    if case.args is None:
        return None
    dynamic = {name: value for name, value in case.args.items() if name not in recipe.static}
    if sum(_size(value) for value in dynamic.values()) > MAX_ELEMENTS:
        return None
    return Facts({name: tuple(_arrays(build_value(value, root))) for name, value in dynamic.items()})


def _size(data: Any) -> int:
    """The number of elements that a value will have, as far as the registry tells."""
    if isinstance(data, list):
        return sum(_size(item) for item in data)
    if not isinstance(data, dict):
        return 1
    sizes = []
    for key, body in data.items():
        said = body if isinstance(body, dict) else {"shape": body}
        if key in ("$zeros", "$ones", "$full", "$normal", "$uniform", "$integers"):
            shape = said["shape"]
            sizes.append(math.prod(shape) if isinstance(shape, list) else shape)
        elif key == "$linspace":
            sizes.append(said["num"])
        elif key == "$arange":
            sizes.append(math.ceil(abs((said["stop"] - said.get("start", 0)) / said.get("step", 1))))
        else:
            sizes.append(_size(body))
    return sum(sizes)


def _arrays(value: Any) -> Iterator[Any]:
    """Every array of a pytree; PRNG keys have no values to judge by."""
    import numpy as np

    if isinstance(value, dict):
        for inner in value.values():
            yield from _arrays(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _arrays(inner)
    elif isinstance(value, PythonValue):
        yield np.asarray(value.value)
    elif value is not None and not isinstance(value, KeySpec):
        yield value


# What content says


def is_single(arrays: list[Any]) -> bool:
    """Every array has one element."""
    return bool(arrays) and all(array.size == 1 for array in arrays)


def is_zeros(arrays: list[Any]) -> bool:
    """There are numbers, and all of them are 0."""
    numbers = [array for array in arrays if array.size and array.dtype != bool]
    return bool(numbers) and not any(_parts(array).any() for array in numbers)


def is_boundary(arrays: list[Any]) -> bool:
    """An element at the end of its dtype's range: infinite, of half the largest magnitude or more, the smallest normal
    number or below it, -0, or an integer's largest or (where that is negative) smallest.
    """
    return any(_at_a_limit(array) for array in arrays if array.size)


def _at_a_limit(array: Any) -> bool:
    import numpy as np

    name = array.dtype.name
    values = _parts(array)
    if name in INTEGERS:
        limits = INTEGERS[name]
        return bool((array == limits.high).any() or (limits.low < 0 and (array == limits.low).any()))
    if values.dtype != np.float64:
        return False
    floating = FLOATS[{"complex64": "float32", "complex128": "float64"}.get(name, name)]
    smallest_normal = math.ldexp(floating.smallest, floating.digits - 1)
    size = np.abs(values)
    ends = np.isinf(values) | (size >= floating.largest / 2) | ((size > 0) & (size <= smallest_normal))
    return bool((ends | (np.signbit(values) & (values == 0))).any())


def is_asymmetric(arrays: list[Any]) -> bool:
    """Rows and columns differ in number, a square matrix is not symmetric, or there are both signs in one array."""
    return any(_is_asymmetric(array) for array in arrays if array.size and array.dtype != bool)


def _is_asymmetric(array: Any) -> bool:
    values = _parts(array)
    if (values > 0).any() and (values < 0).any():
        return True
    if array.ndim < 2:
        return False
    if array.shape[-1] != array.shape[-2]:
        return True
    turned = array.swapaxes(-1, -2)
    return bool(((array != turned) & ~((array != array) & (turned != turned))).any())


def _parts(array: Any) -> Any:
    """Floats and complex numbers as float64, real parts before imaginary ones; all else as it is."""
    import numpy as np

    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag]).astype(np.float64)
    return array.astype(np.float64) if array.dtype.name in FLOATS else array


CONTENT: Mapping[str, Callable[[list[Any]], bool]] = {
    "single": is_single,
    "zeros": is_zeros,
    "boundary": is_boundary,
    "asymmetric": is_asymmetric,
}
