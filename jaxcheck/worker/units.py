"""A program that another JAX can run as this one did: exported units, and the order in which they are called.

Under jit the whole kernel is one unit. A plain call has one for each operation, as it is dispatched: an operation, or
a function that is jitted already. So the same bits come out, which an export of the whole would not give.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, write_archive
from jaxcheck.goldens.leaf import Leaf, json_field
from jaxcheck.worker import internals
from jaxcheck.worker.program import serialised, words_of
from jaxcheck.worker.trees import leaf_of, restore

KEPT_CALLS = 64
LOCATION = re.compile(r'^#loc.*\n|\s*loc\((?:#loc\d*|"[^"]*"|unknown)\)', re.MULTILINE)
_calls: dict[Any, Callable[..., Any]] = {}


@functools.lru_cache(KEPT_CALLS)
def _exported(code: bytes) -> tuple[Any, str]:
    """(an export, what it computes: its text without places in source files)."""
    exported = export.deserialize(bytearray(code))
    return exported, LOCATION.sub("", exported.mlir_module())


def _call(code: bytes) -> Callable[..., Any]:
    """A jitted call of an export. Exports of one text share it: cases of the same shapes, and often both sides of an
    upgrade, so that each is compiled once. What is kept is a program, not its outputs: it runs every time."""
    exported, text = _exported(code)
    key = (text, exported.in_avals, exported.out_avals, exported.calling_convention_version)
    if key not in _calls:
        if len(_calls) >= KEPT_CALLS:
            del _calls[next(iter(_calls))]
        _calls[key] = jax.jit(exported.call)
    return _calls[key]


@dataclass(frozen=True)
class Step:
    """A call: which unit, at which values (by number), and the numbers of what it gives."""

    unit: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Units:
    """`values` are the inputs and the constants: numbers 0 and up. Typed keys are their key data throughout."""

    exports: tuple[bytes, ...]
    values: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def run(self) -> list[Any]:
        """The outputs, flat; raises what JAX raises for an export that it cannot load or run."""
        calls = [_call(code) for code in self.exports]
        known: dict[int, Any] = {number: words_of(restore(leaf)) for number, leaf in enumerate(self.values)}
        for step in self.steps:
            results = calls[step.unit](*[known[number] for number in step.inputs])
            known.update(zip(step.outputs, results, strict=True))
        return [known[number] for number in self.outputs]

    def text(self) -> str:
        """A digest of what is computed: the text of each unit as this JAX reads it, the order of the calls, and the
        values that they begin with (constants are among them). Two programs that were exported by different versions
        have the same where they are the same."""
        texts, values = [_exported(code)[1] for code in self.exports], [leaf.digest for leaf in self.values]
        return hashlib.sha256(repr((texts, values, self.steps, self.outputs)).encode()).hexdigest()

    def write(self, path: Path) -> str:
        """Its file's sha256, without which nobody runs it."""
        arrays = {f"unit/{i}": np.frombuffer(code, np.uint8) for i, code in enumerate(self.exports)}
        arrays |= {f"value/{i}": leaf.words for i, leaf in enumerate(self.values)}
        meta = {
            "units": len(self.exports),
            "values": [leaf.meta() for leaf in self.values],
            "steps": [[step.unit, list(step.inputs), list(step.outputs)] for step in self.steps],
            "outputs": list(self.outputs),
        }
        write_archive(path, arrays, meta, durable=False)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    @classmethod
    def read(cls, path: Path, sha256: str) -> Units:
        """What `write` wrote; GoldenError where the file is another."""
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise GoldenError(f"{path} does not match its digest: it is not run", "run the gate again")
        with Archive(path) as archive:
            meta = archive.meta
            values = json_field(meta, "values", list)
            return cls(
                tuple(archive.read(f"unit/{i}").tobytes() for i in range(json_field(meta, "units", int))),
                tuple(Leaf.restore(said, archive.read(f"value/{i}")) for i, said in enumerate(values)),
                tuple(Step(unit, tuple(given), tuple(gives)) for unit, given, gives in meta["steps"]),
                tuple(meta["outputs"]),
            )


def whole(code: bytes, inputs: Sequence[Leaf], outputs: int) -> Units:
    """One export, called once."""
    given = tuple(range(len(inputs)))
    gives = tuple(range(len(inputs), len(inputs) + outputs))
    return Units((code,), tuple(inputs), (Step(0, given, gives),), gives)


def exported_whole(function: Callable[..., Any], flat: Sequence[Any]) -> Units:
    """The function as one unit. Arrays that it closes over are values as its inputs are: a constant in a program is
    computed with by another evaluator."""
    jaxpr = jax.make_jaxpr(function)(*flat)
    body, constants = internals.opened(jaxpr)
    inputs = [*constants, *flat]

    def unit(*values: Any) -> list[Any]:
        return internals.evaluate(body, values[: len(constants)], values[len(constants) :])

    return whole(serialised(unit, inputs), [_leaf(value) for value in inputs], len(body.outvars))


def exported_steps(function: Callable[..., Any], flat: Sequence[Any]) -> Units:
    """The function operation by operation, as a plain call dispatches it."""
    with internals.jitted_stays_jitted():
        jaxpr = jax.make_jaxpr(function)(*flat)
    recorder = _Recorder()
    outputs = recorder.jaxpr(jaxpr, [recorder.value(leaf) for leaf in flat])
    return recorder.units(outputs)


class _Recorder:
    """Numbers the values of a jaxpr and exports its operations, each kind once."""

    def __init__(self) -> None:
        self._exports: list[bytes] = []
        self._known: dict[Any, int] = {}
        self._values: dict[int, Leaf] = {}
        self._steps: list[Step] = []
        self._count = 0

    def value(self, given: Any) -> int:
        self._values[number := self._next()] = _leaf(given)
        return number

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def jaxpr(self, jaxpr: Any, inputs: Sequence[int]) -> list[int]:
        body, constants = internals.opened(jaxpr)
        numbers: dict[Any, int] = dict(
            zip([*body.constvars, *body.invars], [*map(self.value, constants), *inputs], strict=True)
        )
        for equation in body.eqns:
            given = [self._atom(atom, numbers) for atom in equation.invars]
            if internals.dispatched_apart(equation):
                gives = self.jaxpr(equation.params[internals.CALLS[equation.primitive.name]], given)
            else:
                gives = [self._next() for _ in equation.outvars]
                self._steps.append(Step(self._unit(equation), tuple(given), tuple(gives)))
            numbers.update(zip(equation.outvars, gives, strict=True))
        return [self._atom(atom, numbers) for atom in body.outvars]

    def _atom(self, atom: Any, numbers: dict[Any, int]) -> int:
        literal = internals.literal_value(atom)
        if literal is NotImplemented:
            return numbers[atom]
        return self.value(np.asarray(literal, atom.aval.dtype))

    def _unit(self, equation: Any) -> int:
        avals = [atom.aval for atom in equation.invars]
        key = (equation.primitive.name, json.dumps([str(aval) for aval in avals]), _identity(equation.params))
        if key not in self._known:
            self._known[key] = len(self._exports)
            shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
            self._exports.append(
                serialised(lambda *given: internals.bind(equation, list(given), equation.params), shapes)
            )
        return self._known[key]

    def units(self, outputs: Sequence[int]) -> Units:
        """With the inputs' and constants' numbers first."""
        order = [*self._values, *(n for n in range(self._count) if n not in self._values)]
        new = {number: position for position, number in enumerate(order)}
        steps = tuple(
            Step(s.unit, tuple(new[n] for n in s.inputs), tuple(new[n] for n in s.outputs)) for s in self._steps
        )
        return Units(tuple(self._exports), tuple(self._values.values()), steps, tuple(new[n] for n in outputs))


def _identity(params: dict[str, Any]) -> str:
    """Equal for parameters that make the same operation; jaxprs and functions are equal only to themselves."""
    return repr([(name, id(value) if internals.holds_code(value) else value) for name, value in sorted(params.items())])


def _leaf(value: Any) -> Leaf:
    return leaf_of(".", value if internals.is_key(value) else np.asarray(value))
