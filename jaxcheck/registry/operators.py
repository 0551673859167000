"""The operators of argument values (`{$zeros: [2, 2]}`): what each may say, whether it fits, what it means.

To add one, add an entry to `OPERATORS`. Checks are plain Python; builders are given the module `numpy`. Random
numbers come from `numpy.random.Generator(PCG64(seed))`, whose streams NumPy may change between releases: runs use
the inputs stored in the golden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxcheck.errors import UsageError
from jaxcheck.registry.dtypes import DTYPES, FLOATS, INTEGERS, by_content, numpy_dtype
from jaxcheck.registry.literals import (
    MAX_DIMENSIONS,
    Context,
    Keys,
    Problem,
    Problems,
    build_literal,
    check_fit,
    check_literal,
    is_number,
)
from jaxcheck.registry.words import did_you_mean, show

Said = Mapping[str, Any]
Check = Callable[[Any, Keys, Context], Problems]

MAX_ELEMENTS = 2**31
KEY_IMPLS = ("threefry2x32", "rbg", "unsafe_rbg")
_FARTHEST_DRAW = 10  # standard deviations: of 1e22 normal draws, one lies beyond
_REQUIRED = object()


@dataclass(frozen=True)
class KeySpec:
    """A typed PRNG key that the worker makes: `jax.random.key(seed, impl=impl)`."""

    seed: int
    impl: str | None = None


@dataclass(frozen=True)
class Parameter:
    """What an operator may be told: its check and, where it can be left out, its default."""

    check: Check
    default: Any = _REQUIRED


@dataclass(frozen=True)
class Operator:
    """`fits` checks the parameters together, once each is right by itself; `bare` is what a lone value means."""

    parameters: Mapping[str, Parameter]
    build: Callable[[Any, Said, Path], Any]
    fits: Callable[[Said, Keys, Context], Problems] = lambda said, path, context: iter(())
    bare: str | None = None

    def required(self) -> list[str]:
        return [name for name, parameter in self.parameters.items() if parameter.default is _REQUIRED]

    def said(self, body: Any) -> Said:
        """Every parameter by name, defaults included."""
        given = body if isinstance(body, dict) else {self.bare: body}
        return {name: given.get(name, parameter.default) for name, parameter in self.parameters.items()}


def check_operator(name: str, body: Any, path: Keys, context: Context) -> Problems:
    """Every problem of `{name: body}`; `path` ends with the operator's name."""
    operator = OPERATORS[name]
    if isinstance(body, dict):
        problems = list(_parameter_problems(name, body, path, context))
    elif operator.bare:
        problems = list(operator.parameters[operator.bare].check(body, path, context))
    else:
        problems = [Problem(path, f"{name} needs a mapping, not {show(body)}", _keys_of(operator))]
    yield from problems or operator.fits(operator.said(body), path, context)


def _keys_of(operator: Operator) -> str:
    return f"keys: {', '.join(operator.parameters)}"


def _parameter_problems(name: str, body: Mapping[str, Any], path: Keys, context: Context) -> Problems:
    operator = OPERATORS[name]
    for key in body:
        if key not in operator.parameters:
            hint = did_you_mean(key, operator.parameters)
            yield Problem((*path, key), f"{name} has no {show(key)}", hint, at_key=True)
    for key, parameter in operator.parameters.items():
        if key in body:
            yield from parameter.check(body[key], (*path, key), context)
        elif parameter.default is _REQUIRED:
            yield Problem(path, f"{name} needs {key}", _keys_of(operator), at_key=True)


def build_operator(np: Any, name: str, body: Any, root: Path) -> Any:
    """What the checked `{name: body}` means: an array, or a `KeySpec`."""
    operator = OPERATORS[name]
    return operator.build(np, operator.said(body), root)


# Parameters, each by itself


def _checked_by_fits(data: Any, path: Keys, context: Context) -> Problems:
    yield from ()


def _scalar(data: Any, path: Keys, context: Context) -> Problems:
    if not isinstance(data, bool | int | float):
        yield Problem(path, f"must be a number, true or false, not {show(data)}")


def _finite(data: Any, path: Keys, context: Context) -> Problems:
    largest = FLOATS["float64"].largest
    if not is_number(data):
        yield Problem(path, f"must be a number, not {show(data)}")
    elif not -largest <= data <= largest:
        yield Problem(path, f"must be finite, not {show(data)}")


def _whole(low: int, high: int) -> Check:
    def check(data: Any, path: Keys, context: Context) -> Problems:
        if not isinstance(data, int) or isinstance(data, bool):
            yield Problem(path, f"must be a whole number, not {show(data)}")
        elif not low <= data <= high:
            yield Problem(path, f"must be between {low} and {high}, not {show(data)}")

    return check


def _shape(data: Any, path: Keys, context: Context) -> Problems:
    """A length, or a list of them."""
    length = _whole(0, MAX_ELEMENTS)
    if not isinstance(data, list):
        yield from length(data, path, context)
        return
    problems = [problem for i, item in enumerate(data) for problem in length(item, (*path, i), context)]
    if problems:
        yield from problems
    elif len(data) > MAX_DIMENSIONS:
        yield Problem(path, f"has {len(data)} dimensions, more than {MAX_DIMENSIONS}")
    elif math.prod(data) > MAX_ELEMENTS:
        yield Problem(path, f"has {math.prod(data)} elements, more than {MAX_ELEMENTS}")


def _one_of(valid: tuple[str, ...], what: str) -> Check:
    def check(data: Any, path: Keys, context: Context) -> Problems:
        if data not in valid:
            hint = did_you_mean(data if isinstance(data, str) else "", valid)
            yield Problem(path, f"must be {what}, not {show(data)}", hint)

    return check


def _text(data: Any, path: Keys, context: Context) -> Problems:
    if not isinstance(data, str):
        yield Problem(path, f"must be text, not {show(data)}")


# What the parameters mean together


def _array_fits(said: Said, path: Keys, context: Context) -> Problems:
    yield from check_literal(said["value"], (*path, "value"), said["dtype"], context)


def _array(np: Any, said: Said, root: Path) -> Any:
    return build_literal(np, said["value"], said["dtype"])


def _filled(np: Any, said: Said, root: Path) -> Any:
    value = build_literal(np, said["value"], said["dtype"])
    return np.full(_dimensions(said), value, value.dtype)


def _filled_with(value: float) -> Callable[[Any, Said, Path], Any]:
    return lambda np, said, root: _filled(np, {**said, "value": value}, root)


def _dimensions(said: Said) -> tuple[int, ...]:
    shape = said["shape"]
    return tuple(shape) if isinstance(shape, list) else (shape,)


def _range(said: Said) -> tuple[Any, Any, Any]:
    """Start, stop and step: all whole numbers, or all floats."""
    numbers = (said["start"], said["stop"], said["step"])
    whole = all(isinstance(number, int) for number in numbers)
    return numbers if whole else (float(numbers[0]), float(numbers[1]), float(numbers[2]))


def _range_fits(said: Said, path: Keys, context: Context) -> Problems:
    start, stop, step = _range(said)
    dtype = said["dtype"] or by_content((start, stop, step), wide=context.x64)
    if dtype == "bool":
        yield Problem((*path, "dtype"), "a range cannot be of dtype bool")
    elif step == 0:
        yield Problem((*path, "step"), "must not be 0")
    elif not abs(stop - start) <= min(MAX_ELEMENTS * abs(step), FLOATS["float64"].largest):
        yield Problem(path, f"has more than {MAX_ELEMENTS} elements")
    elif isinstance(start, int) and not all(abs(number) < 2**63 for number in (start, stop, step)):
        yield Problem(path, "reaches beyond int64")
    else:
        yield from _range_ends(start, stop, step, dtype, path)


def _range_ends(start: Any, stop: Any, step: Any, dtype: str, path: Keys) -> Problems:
    """The first and the last element bound all others; whole numbers may be rounded, as by any float dtype."""
    size = len(range(start, stop, step)) if isinstance(start, int) else math.ceil((stop - start) / step)
    if size <= 0:
        return
    number = float if dtype not in INTEGERS or isinstance(start, float) else int
    yield from check_fit(number(start), (*path, "start"), dtype)
    yield from check_fit(number(start + (size - 1) * step), (*path, "stop"), dtype)
    if dtype in INTEGERS and not float(step).is_integer():
        yield Problem((*path, "step"), f"{show(step)} does not fit {dtype}: it has a fraction")


def _arange(np: Any, said: Said, root: Path) -> Any:
    start, stop, step = _range(said)
    dtype = said["dtype"] or by_content((start, stop, step), wide=True)
    carrier = np.int64 if isinstance(start, int) else np.float64
    return np.arange(start, stop, step, dtype=carrier).astype(numpy_dtype(dtype))


def _linspace_fits(said: Said, path: Keys, context: Context) -> Problems:
    yield from _ends_fit(said, path, "start", "stop")


def _ends_fit(said: Said, path: Keys, low: str, high: str) -> Problems:
    """Both ends fit the floating dtype, and so does the distance between them in float64."""
    for name in (low, high):
        yield from check_fit(float(said[name]), (*path, name), said["dtype"])
    if math.isinf(float(said[high]) - float(said[low])):
        yield Problem((*path, high), f"is too far from {low} for float64")


def _linspace(np: Any, said: Said, root: Path) -> Any:
    line = np.linspace(float(said["start"]), float(said["stop"]), said["num"])
    return line.astype(numpy_dtype(said["dtype"]))


def _generator(np: Any, said: Said) -> Any:
    return np.random.Generator(np.random.PCG64(said["seed"]))


def _normal_fits(said: Said, path: Keys, context: Context) -> Problems:
    if said["scale"] < 0:
        yield Problem((*path, "scale"), f"must not be negative, is {show(said['scale'])}")
        return
    farthest = abs(float(said["loc"])) + _FARTHEST_DRAW * float(said["scale"])
    limit = FLOATS[said["dtype"]].largest
    if farthest > limit:
        message = f"draws may reach {farthest:.3g}, beyond the largest {said['dtype']}, {limit:.8g}"
        yield Problem((*path, "scale"), message)


def _normal(np: Any, said: Said, root: Path) -> Any:
    draws = _generator(np, said).normal(float(said["loc"]), float(said["scale"]), _dimensions(said))
    return np.asarray(draws).astype(numpy_dtype(said["dtype"]))


def _uniform_fits(said: Said, path: Keys, context: Context) -> Problems:
    yield from _in_order(said, path)
    yield from _ends_fit(said, path, "low", "high")


def _in_order(said: Said, path: Keys) -> Problems:
    if said["low"] >= said["high"]:
        message = f"must be greater than low, {show(said['low'])}, and is {show(said['high'])}"
        yield Problem((*path, "high"), message)


def _uniform(np: Any, said: Said, root: Path) -> Any:
    draws = _generator(np, said).uniform(float(said["low"]), float(said["high"]), _dimensions(said))
    return np.asarray(draws).astype(numpy_dtype(said["dtype"]))


def _integers_fit(said: Said, path: Keys, context: Context) -> Problems:
    yield from _in_order(said, path)
    yield from check_fit(said["low"], (*path, "low"), said["dtype"])
    yield from check_fit(said["high"] - 1, (*path, "high"), said["dtype"])


def _integers(np: Any, said: Said, root: Path) -> Any:
    carrier = np.uint64 if said["dtype"] == "uint64" else np.int64
    draws = _generator(np, said).integers(said["low"], said["high"], _dimensions(said), dtype=carrier)
    return np.asarray(draws).astype(numpy_dtype(said["dtype"]))


def _key(np: Any, said: Said, root: Path) -> KeySpec:
    return KeySpec(said["seed"], said["impl"])


def _npz_fits(said: Said, path: Keys, context: Context) -> Problems:
    given, at = said["path"], (*path, "path")
    file = context.root / given
    try:
        inside = file.resolve().is_relative_to(context.root.resolve()) and not Path(given).is_absolute()
        if not inside:
            yield Problem(at, f"{show(given)} leaves the folder of the registry", "write a path below it")
        elif not file.is_file():
            yield Problem(at, f"there is no file {show(given)}", "paths begin at the main registry's folder")
        else:
            yield from _member_problems(file, said["name"], path)
    except ValueError:
        yield Problem(at, f"{show(given)} is not a path")
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        yield Problem(at, f"{show(given)} cannot be read: {error}")


def _member_problems(file: Path, name: str, path: Keys) -> Problems:
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            members = [member.removesuffix(".npy") for member in archive.namelist()]
    except (zipfile.BadZipFile, NotImplementedError):
        yield Problem((*path, "path"), f"{file.name} is not an .npz archive", "numpy.savez writes one")
        return
    if name not in members:
        yield Problem((*path, "name"), f"{file.name} has no array {show(name)}", did_you_mean(name, members))


def _npz(np: Any, said: Said, root: Path) -> Any:
    file, name = root / said["path"], said["name"]
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            array = archive[name]
    except Exception as error:  # a damaged archive raises whatever the layer raises that notices it
        raise UsageError(f"{file}: the array {name} cannot be read: {error}") from error
    if array.dtype.kind not in "biufc":
        hint = "store numbers of NumPy's own dtypes, or make the value in a function (inputs:)"
        raise UsageError(f"{file}: the array {name} has dtype {array.dtype}", hint)
    return array


_SHAPE = Parameter(_shape)
_NUMBER = Parameter(_finite)
_DTYPE = Parameter(_one_of(DTYPES, "a dtype"), None)
_FLOATING = Parameter(_one_of(tuple(FLOATS), "a floating dtype"), "float32")
_SEED = Parameter(_whole(0, 2**64 - 1))
_KEY_SEED = Parameter(_whole(0, 2**32 - 1))  # beyond, jax.random.key keeps the low 32 bits unless x64 is enabled
_BOUND = _whole(-(2**63), 2**64)

OPERATORS: Mapping[str, Operator] = {
    "$array": Operator({"value": Parameter(_checked_by_fits), "dtype": _DTYPE}, _array, _array_fits),
    "$zeros": Operator({"shape": _SHAPE, "dtype": _DTYPE}, _filled_with(0.0), bare="shape"),
    "$ones": Operator({"shape": _SHAPE, "dtype": _DTYPE}, _filled_with(1.0), bare="shape"),
    "$full": Operator({"shape": _SHAPE, "value": Parameter(_scalar), "dtype": _DTYPE}, _filled, _array_fits),
    "$arange": Operator(
        {"stop": _NUMBER, "start": Parameter(_finite, 0), "step": Parameter(_finite, 1), "dtype": _DTYPE},
        _arange,
        _range_fits,
    ),
    "$linspace": Operator(
        {"start": _NUMBER, "stop": _NUMBER, "num": Parameter(_whole(0, MAX_ELEMENTS)), "dtype": _FLOATING},
        _linspace,
        _linspace_fits,
    ),
    "$normal": Operator(
        {
            "shape": _SHAPE,
            "seed": _SEED,
            "scale": Parameter(_finite, 1),
            "loc": Parameter(_finite, 0),
            "dtype": _FLOATING,
        },
        _normal,
        _normal_fits,
    ),
    "$uniform": Operator(
        {
            "shape": _SHAPE,
            "seed": _SEED,
            "low": Parameter(_finite, 0),
            "high": Parameter(_finite, 1),
            "dtype": _FLOATING,
        },
        _uniform,
        _uniform_fits,
    ),
    "$integers": Operator(
        {
            "shape": _SHAPE,
            "seed": _SEED,
            "low": Parameter(_BOUND),
            "high": Parameter(_BOUND),
            "dtype": Parameter(_one_of(tuple(INTEGERS), "an integer dtype"), "int32"),
        },
        _integers,
        _integers_fit,
    ),
    "$key": Operator({"seed": _KEY_SEED, "impl": Parameter(_one_of(KEY_IMPLS, "a PRNG implementation"), None)}, _key),
    "$npz": Operator({"path": Parameter(_text), "name": Parameter(_text)}, _npz, _npz_fits),
}
