"""A traced program as rows that two versions of JAX can be compared by, and what each operation is lowered to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from jaxcheck.worker import internals
from jaxcheck.worker.kernels import shortest

# Loops and branches have equations of their own, under the loop's name; calls are entered as if they were not there.
BODIES = {"cond_jaxpr": "cond", "body_jaxpr": "body"}
OPERATION = re.compile(r'(?<![#!\w.])"?((?:stablehlo|chlo|tpu)\.\w+)"?(?:[ (]*(@[\w.$]+))?')
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
INSTALLED = re.compile(r".*/(?:site|dist)-packages/([^/]+)")
USER = "user"
PARAMETER_CHARACTERS = 120
OPERANDS = "operands"  # among the parameters

Row = dict[str, Any]


def equations(function: Callable[..., Any], flat: Sequence[Any]) -> list[Row]:
    """Every equation, with the operations that it is lowered to on its own (none for loops and branches), and with the
    values of its operands where the program holds them: another literal or table makes another program."""
    jaxpr = jax.make_jaxpr(function)(*flat)
    lowered: dict[str, dict[str, int]] = {}
    constants: dict[Any, str] = {}
    _find_constants(jaxpr, (), constants)
    rows = []
    for _, equation, inside, around in placed(jaxpr):
        row = row_of(equation, inside, around)
        row["lowered"] = {} if any(bodies(equation)) else _lowered(equation, row, lowered)
        if held := [text for atom in equation.invars if (text := _value_of(atom, constants))]:
            row["params"][OPERANDS] = ", ".join(held)[:PARAMETER_CHARACTERS]
        rows.append(row)
    return rows


def _find_constants(jaxpr: Any, given: Sequence[str], found: dict[Any, str]) -> None:
    """{variable: its value, as text} of what the program closes over, also where it is handed on to a call."""
    body, constants = internals.opened(jaxpr)
    found.update({variable: _value_text(value) for variable, value in zip(body.constvars, constants, strict=True)})
    found.update({variable: text for variable, text in zip(body.invars, given, strict=False) if text})
    for equation in body.eqns:
        if equation.primitive.name in internals.CALLS:
            handed = [_value_of(atom, found) for atom in equation.invars]
            _find_constants(equation.params[internals.CALLS[equation.primitive.name]], handed, found)
        for _, inner in bodies(equation):
            _find_constants(inner, (), found)


def _value_of(atom: Any, constants: Mapping[Any, str]) -> str:
    """Of a literal or a constant; nothing for what is computed."""
    literal = internals.literal_value(atom)
    if literal is NotImplemented:
        return constants.get(atom, "")
    dtype = getattr(atom.aval, "dtype", None)
    return "" if dtype is None else _value_text(np.asarray(literal, dtype))


def _value_text(value: Any) -> str:
    """A number as it is, an array by its digest: in every version of JAX the same."""
    array = np.asarray(jax.random.key_data(value) if internals.is_key(value) else value)
    if array.ndim == 0:
        return repr(array.item())
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]}"


def placed(jaxpr: Any, scope: str = "", path: str = "", position: str = "") -> Iterator[tuple[str, Any, str, str]]:
    """(position as the interpreter has it, equation, scope, the loops and branches around it) of every equation but
    calls, those within loops and branches after these."""
    body, _ = internals.opened(jaxpr)
    for number, equation in enumerate(body.eqns):
        name = equation.primitive.name
        here = f"{position}.{number}" if position else str(number)
        inside = "/".join(filter(None, (scope, internals.scope(equation))))
        if name in internals.CALLS:
            yield from placed(equation.params[internals.CALLS[name]], inside, path, here)
            continue
        yield here, equation, inside, path
        for part, inner in bodies(equation):
            yield from placed(inner, inside, f"{path}/{name}{part}" if path else f"{name}{part}", here + part)


def bodies(equation: Any) -> Iterator[tuple[str, Any]]:
    """(its part's name, the jaxpr) of loops and branches; reducers and comparators are no programs of their own."""
    if equation.primitive.name == "cond":
        for number, branch in enumerate(equation.params["branches"]):
            yield f"[{number}]", branch
    elif equation.primitive.name == "while":
        for parameter, part in BODIES.items():
            yield f".{part}", equation.params[parameter]
    elif equation.primitive.name == "scan":
        yield "", equation.params["jaxpr"]
    elif equation.primitive.name in ("linear_solve", "custom_linear_solve"):
        yield ".solve", equation.params["jaxprs"].solve


def row_of(equation: Any, scope: str, path: str) -> Row:
    """All but what it is lowered to."""
    file, line, function = internals.frame(equation) or ("", 0, "")
    package = package_of(file) if file else ""
    return {
        "primitive": equation.primitive.name,
        "inputs": [aval_text(atom) for atom in equation.invars],
        "outputs": [aval_text(atom) for atom in equation.outvars],
        "params": parameters(equation.params),
        "scope": scope,
        "path": path,
        "file": file_text(file, package),
        "line": line,
        "function": function,
        "package": package,
    }


def aval_text(atom: Any) -> str:
    return str(getattr(atom.aval, "str_short", lambda: atom.aval)())


def parameters(params: Mapping[str, Any]) -> dict[str, str]:
    """The plain ones as text. Functions and jaxprs have none; nor has what has an address in it."""
    texts = {name: repr(value) for name, value in params.items() if not internals.holds_code(value)}
    return {name: text[:PARAMETER_CHARACTERS] for name, text in texts.items() if not ADDRESS.search(text)}


def _lowered(equation: Any, row: Row, known: dict[str, dict[str, int]]) -> dict[str, int]:
    """The StableHLO operations of an equation by itself, each kind of equation once; nothing where that fails."""
    code = [id(value) for value in equation.params.values() if internals.holds_code(value)]
    key = json.dumps([row["primitive"], row["inputs"], row["params"], code])
    if key not in known:
        shapes = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
        try:
            lowered = jax.jit(lambda *given: internals.bind(equation, list(given), equation.params)).lower(*shapes)
            known[key] = operations(lowered.as_text())
        except Exception:  # a token, an axis of a vmap, a callback: it has no meaning by itself
            known[key] = {}
    return known[key]


def operations(text: str) -> dict[str, int]:
    """{operation of StableHLO: how often it occurs}; custom calls with their targets."""
    found = (name + (target if name.endswith(".custom_call") else "") for name, target in OPERATION.findall(text))
    return dict(sorted(Counter(found).items()))


def operations_of(function: Callable[..., Any], flat: Sequence[Any]) -> dict[str, int]:
    """The operations of the whole lowered program."""
    return operations(jax.jit(function).lower(*flat).as_text())


def package_of(file: str) -> str:
    """The distribution that installed a source file, or `user` for a file of the user's own."""
    found = INSTALLED.match(file)
    if found is None or "/jaxcheck/kernels/" in file:
        return USER
    top = found[1].removesuffix(".py")
    return _distributions().get(top, top)


@cache
def _distributions() -> dict[str, str]:
    """{what is imported: the distribution that has it}."""
    return {
        top: names[0].lower().replace("_", "-") for top, names in importlib.metadata.packages_distributions().items()
    }


def file_text(file: str, package: str) -> str:
    """A file of the user's from the current folder, one of a package within that."""
    if package in (USER, ""):
        return shortest(file)
    found = INSTALLED.match(file)
    return file[found.start(1) :] if found else os.path.basename(file)
