"""One equation as a script that needs only jax and numpy: its inputs, what it gave, what it gives, the exact result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.archive import write_archive
from jaxcheck.worker import equations, internals
from jaxcheck.worker.following import same_bits
from jaxcheck.worker.interpreter import Place, Plain
from jaxcheck.worker.program import serialised
from jaxcheck.worker.shadow import SCATTER_PARAMETERS, SCATTERS, in_float64, lifted
from jaxcheck.worker.trees import leaf_of
from jaxcheck.worker.walker import Budget, Intervene, OutOfBudget, own_frame

SCRIPT, DATA = "repro.py", "repro.npz"


class NoReproError(Exception):
    """There is no such equation, or it cannot stand by itself; the message says why."""


class _Unwritable(Exception):
    """A parameter that has no text."""


@dataclass(frozen=True)
class Captured:
    """One execution of an equation."""

    equation: Any
    place: Place
    inputs: list[Any]
    outputs: list[Any]


class _Found(Exception):
    def __init__(self, captured: Captured) -> None:
        self.captured = captured


class _Catcher(Plain):
    def __init__(self, number: int, budget: Budget, intervene: Intervene | None) -> None:
        super().__init__(intervene)
        self._number, self._budget = number, budget

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        self._budget.check(self.count)
        outputs = super().operate(equation, place, values)
        if self.count == self._number:
            raise _Found(Captured(equation, place, values, outputs))
        return outputs


def captured(
    function: Callable[..., Any],
    flat: Sequence[Any],
    number: int,
    seconds: float | None = None,
    intervene: Intervene | None = None,
) -> Captured:
    """The execution that has this number in a walk of the function. NoReproError where there is none."""
    catcher = _Catcher(number, Budget(None, seconds), intervene)
    try:
        catcher.evaluate(jax.make_jaxpr(function)(*flat), flat)
    except _Found as found:
        return found.captured
    except OutOfBudget as out:
        raise NoReproError(f"equation {number} was not reached: {out}") from out
    what = "chooses a branch or ends a loop" if 0 <= number < catcher.count else f"is none of the {catcher.count}"
    raise NoReproError(f"equation {number} {what}: there is nothing to run by itself")


def save(found: Captured, folder: Path) -> dict[str, Any]:
    """Writes `repro.py` and `repro.npz` into a folder; returns their paths as `script` and `data`, and `how` the script
    has the operation (`lax`: JAX's own function, `bind`: its primitive, `program`: lowered as this version lowers it).
    """
    folder.mkdir(parents=True, exist_ok=True)
    how, imports, operation = _operation(found)
    arrays: dict[str, np.ndarray] = {}
    inputs = [_stored(f"input_{i}", value, arrays) for i, value in enumerate(found.inputs)]
    recorded = [_stored(f"recorded_{i}", value, arrays) for i, value in enumerate(found.outputs)]
    for i, value in enumerate(_exact(found)):
        arrays[f"exact_{i}"] = value
    if how == "program":
        arrays["program"] = np.frombuffer(_program(found), np.uint8)
    write_archive(folder / DATA, arrays, {}, durable=False)
    text = TEMPLATE.format(
        title=_title(found),
        jax=jax.__version__,
        imports="\n".join(imports),
        config=_config(),
        inputs="\n".join(f"    {line}," for line in inputs),
        recorded="\n".join(f"    {line}," for line in recorded),
        operation=operation,
        data=DATA,
    )
    (folder / SCRIPT).write_text(text, encoding="utf-8")
    return {"script": str(folder / SCRIPT), "data": str(folder / DATA), "how": how}


TEMPLATE = '''"""{title}

Written by jaxcheck diagnose under jax {jax}. It prints, for each output, how far the recorded and the present result
are from the exact one, and the worst element.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
{imports}
{config}
DATA = np.load(Path(__file__).with_name("{data}"))


def array(name, dtype):
    stored = DATA[name]
    return jnp.asarray(stored if stored.dtype == dtype else stored.view(dtype))


def key(name, impl):
    return jax.random.wrap_key_data(jnp.asarray(DATA[name]), impl=impl)


def plain(value):
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        value = jax.random.key_data(value)
    wide = jnp.issubdtype(value.dtype, jnp.floating)
    return np.asarray(value).astype(np.float64) if wide else np.asarray(value)


INPUTS = [
{inputs}
]
RECORDED = [
{recorded}
]


def operation(*inputs):
{operation}


result = operation(*INPUTS)
results = list(result) if isinstance(result, (list, tuple)) else [result]
print(f"jax {{jax.__version__}} on {{jax.default_backend()}}; recorded with {jax}")
for number, (old, new) in enumerate(zip(RECORDED, results)):
    old, new = plain(old), plain(new)
    name = f"exact_{{number}}"
    exact = DATA[name] if name in DATA.files else None
    same = "the same bits" if old.tobytes() == new.tobytes() else "differs from the recorded one"
    print(f"output {{number}}: {{same}}")
    if not new.size:
        continue
    with np.errstate(all="ignore"):
        base = np.abs(old.astype(new.dtype) - (new if exact is None else exact)) if new.dtype != bool else old != new
    base = np.where(np.isnan(base), np.inf, base)
    at = np.unravel_index(np.argmax(base), new.shape)
    print(f"  at {{list(map(int, at))}}: old {{old[at]!r}}, new {{new[at]!r}}", end="")
    print("" if exact is None else f", truth {{exact[at]!r}}")
    if exact is not None and new.dtype.kind in "fc":
        scale = np.max(np.abs(exact), initial=0.0) or 1.0
        errors = [np.max(np.abs(value - exact), initial=0.0) / scale for value in (old, new)]
        print(f"  error relative to the largest element: old {{errors[0]:.3g}}, new {{errors[1]:.3g}}")
'''


def _title(found: Captured) -> str:
    file, line, _ = own_frame(found.equation, found.place)
    place = ", ".join(filter(None, (found.place.scope, found.place.path, f"{file}:{line}" if file else "")))
    shapes = " ".join(equations.aval_text(atom) for atom in found.equation.invars)
    return f"{found.equation.primitive.name} of {shapes or 'nothing'}" + (f" ({place})." if place else ".")


def _config() -> str:
    lines = []
    if jax.config.jax_enable_x64:
        lines.append('\njax.config.update("jax_enable_x64", True)')
    if precision := jax.config.jax_default_matmul_precision:
        lines.append(f'\njax.config.update("jax_default_matmul_precision", {str(precision)!r})')
    return "".join(lines) + ("\n" if lines else "")


def _stored(name: str, value: Any, arrays: dict[str, np.ndarray]) -> str:
    """The expression that reads the value again."""
    leaf = leaf_of(".", value if internals.is_key(value) else np.asarray(value))
    arrays[name] = leaf.words
    return f"key({name!r}, {leaf.impl!r})" if leaf.impl else f"array({name!r}, jnp.dtype({leaf.dtype!r}))"


def _exact(found: Captured) -> list[np.ndarray]:
    """In float64; nothing where that cannot be had."""
    values = [value if internals.is_key(value) else lifted(value) for value in found.inputs]
    try:
        outputs = in_float64(found.equation, values, "exact")
    except Exception:  # an operation for one dtype, a Python function
        return []
    return [np.asarray(jax.random.key_data(o) if internals.is_key(o) else o) for o in outputs]


# --- the operation as text -----------------------------------------------------------------------------------------


def _operation(found: Captured) -> tuple[str, list[str], str]:
    """(how, import lines, body of the function): the first text that gives the very bits that the equation gives."""
    expected = internals.bind(found.equation, found.inputs, found.equation.params)
    for how, imports, body in _texts(found):
        if how == "program" or _gives(imports, body, found.inputs, expected):
            return how, imports, body
    raise AssertionError("the last text is always taken")


def _texts(found: Captured) -> list[tuple[str, list[str], str]]:
    name, params = found.equation.primitive.name, found.equation.params
    texts: list[tuple[str, list[str], str]] = []
    if all(value is None for value in params.values()) and hasattr(jax.lax, name):
        texts.append(("lax", [], f"    return jax.lax.{name}(*inputs)"))
    if name in SCATTERS:
        given = ", ".join(f"{key}={written(params[key])}" for key in SCATTER_PARAMETERS)
        texts.append(("lax", [], f"    return jax.lax.{name.replace('-', '_')}(*inputs, {given})"))
    home = internals.primitive_home(found.equation.primitive)
    if home is not None:
        try:
            given = ", ".join(["*inputs", *(f"{key}={written(value)}" for key, value in params.items())])
            texts.append(
                ("bind", [f"from {home[0]} import {home[1]} as primitive"], f"    return primitive.bind({given})")
            )
        except _Unwritable:
            pass
    body = (
        '    program = jax.export.deserialize(bytearray(DATA["program"].tobytes()))\n'
        "    data = [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.extended) else x for x in inputs]\n"
        "    return program.call(*data)"
    )
    texts.append(("program", ["import jax.export"], body))
    return texts


def _gives(imports: list[str], body: str, inputs: list[Any], expected: Sequence[Any]) -> bool:
    source = "\n".join(["import jax", "import jax.numpy as jnp", "import numpy as np", *imports])
    namespace: dict[str, Any] = {}
    try:
        exec(f"{source}\ndef operation(*inputs):\n{body}\n", namespace)  # noqa: S102 - our own text, as the script has it
        result = namespace["operation"](*map(jnp.asarray, inputs))
        results = list(result) if isinstance(result, list | tuple) else [result]
    except Exception:  # a function of the same name that takes other arguments
        return False
    return len(results) == len(expected) and all(map(same_bits, results, expected))


def written(value: Any) -> str:
    """A parameter as Python; _Unwritable for what has no public name (a mesh, a function)."""
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return f"float({str(value)!r})"
    if isinstance(value, Enum):
        return f"{_public(type(value))}.{value.name}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inside = ", ".join(f"{name}={written(getattr(value, name))}" for name in value._fields)
        return f"{_public(type(value))}({inside})"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(written, value))
        return f"({inside}{',' if len(value) == 1 else ''})" if isinstance(value, tuple) else f"[{inside}]"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(f"{field.name}={written(getattr(value, field.name))}" for field in fields(value))
        return f"{_public(type(value))}({inside})"
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return f"jnp.dtype({np.dtype(value).name!r})"
    raise _Unwritable(repr(value))


def _public(kind: type) -> str:
    if getattr(jax.lax, kind.__name__, None) is not kind:
        raise _Unwritable(kind.__name__)
    return f"jax.lax.{kind.__name__}"


def _program(found: Captured) -> bytes:
    """Exported: the operation as this version lowers it."""

    def run(*values: Any) -> list[Any]:
        return internals.bind(found.equation, list(values), found.equation.params)

    try:
        return serialised(run, found.inputs)
    except Exception as error:
        name = found.equation.primitive.name
        raise NoReproError(f"{name} cannot stand by itself: {error}".splitlines()[0]) from error
