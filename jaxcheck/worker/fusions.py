"""Where the compiled function leaves the equations: one intermediate value at a time, read out of the compiled program.

The carrier is the program with its calls inlined under one `jit`, which gives the bits of the ordinary function. To
make an intermediate an output of it changes what is fused: a reading counts only where the ordinary outputs keep their
bits. Whether a value is wrong is not monotone along a program (`exp(x * nan)` may be finite, `exp(x * nan) + 1` not),
so a place that bisection finds is confirmed by its neighbours, and read more than once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxcheck.worker import errors, internals
from jaxcheck.worker.errors import Format
from jaxcheck.worker.following import same_bits
from jaxcheck.worker.interpreter import Place, is_discrete
from jaxcheck.worker.walker import Budget, OutOfBudget, static_row

NOTABLE = 8.0  # eps of the largest element; where nothing is so far off, the first other bits are taken
BLOCK_CHARACTERS = 4000
REPEATS = 3
TRIES = 8  # calls for a reading where every call gives other values: any of them may be right by chance
HEADER = re.compile(r"^%?(?P<name>[\w.-]*fus[\w.-]*) \(", re.MULTILINE)

Row = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """One intermediate value inside the compiled program against what the equations give by themselves.

    `error` is the largest of its calls, in eps of the largest element; `perturbed`: to read it changed the ordinary
    outputs; `stable`: every call gave the same.
    """

    error: float
    same: bool
    perturbed: bool
    stable: bool = True


class NotCarriedError(Exception):
    """The inlined program does not have the bits of the compiled function: nothing can be read out of it."""


class Carrier:
    """A program with its calls inlined; loops and branches are one equation each."""

    def __init__(self, function: Callable[..., Any], flat: Sequence[Any], budget: Budget) -> None:
        self._body, constants = internals.opened(jax.make_jaxpr(function)(*flat))
        self.places: list[tuple[Any, Place]] = []
        self._given, self._constants, self._budget, self._probes = [*constants, *flat], len(constants), budget, 0
        compiled = jax.jit(function)
        self.plain = jax.tree.leaves(compiled(*flat))
        again = (jax.tree.leaves(compiled(*flat)) for _ in range(REPEATS))
        self.repeatable = all(all(map(same_bits, self.plain, outputs)) for outputs in again)
        self.apart = self._run(None, self._given)[0]
        self.text = compiled.lower(*flat).compile().as_text() or ""
        self._check_carried()

    def _check_carried(self) -> None:
        """Raises NotCarriedError. By chance a function that gives other values at every call gave the same ones so far,
        and does not once it is inlined."""
        program = jax.jit(lambda *given: self._run(None, given)[0])
        found = [program(*self._given) for _ in range(REPEATS)]
        self.repeatable = self.repeatable and all(all(map(same_bits, found[0], outputs)) for outputs in found)
        if not any(map(self.keeps, found)):
            raise NotCarriedError("the inlined program does not have the compiled function's bits")

    def keeps(self, outputs: Sequence[Any]) -> bool:
        """Whether these are the compiled function's outputs; of a function that gives others at every call, whether
        they are as far from the equations'."""
        if self.repeatable:
            return all(map(same_bits, outputs, self.plain))
        return not all(map(same_bits, outputs, self.apart))

    def _run(self, take: int | None, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(the outputs, those of the equation that has this number)."""
        self.places.clear()
        taken: list[Any] = []
        constants, inputs = given[: self._constants], given[self._constants :]
        return self._inlined(self._body, constants, inputs, Place(), take, taken), taken

    def _inlined(
        self,
        body: Any,
        constants: Sequence[Any],
        inputs: Sequence[Any],
        place: Place,
        take: int | None,
        taken: list[Any],
    ) -> list[Any]:
        known = dict(zip([*body.constvars, *body.invars], [*constants, *inputs], strict=True))

        def read(atom: Any) -> Any:
            literal = internals.literal_value(atom)
            return known[atom] if literal is NotImplemented else literal

        for number, equation in enumerate(body.eqns):
            scope = "/".join(filter(None, (place.scope, internals.scope(equation))))
            position = f"{place.position}.{number}" if place.position else str(number)
            here = Place(position, scope, place.path, (), place.around)
            values = list(map(read, equation.invars))
            name = equation.primitive.name
            if name in internals.CALLS:
                inner, held = internals.opened(equation.params[internals.CALLS[name]])
                outputs = self._inlined(inner, held, values, here.inside(equation), take, taken)
            else:
                outputs = internals.bind(equation, values, equation.params)
                if len(self.places) == take:
                    taken += outputs
                self.places.append((equation, here))
            known.update(zip(equation.outvars, outputs, strict=True))
        return list(map(read, body.outvars))

    def read(self, number: int) -> Reading:
        """Raises OutOfBudget."""
        self._budget.check(self._probes)
        self._probes += 1
        _, expected = self._run(number, self._given)
        program = jax.jit(lambda *given: self._run(number, given))
        runs = [program(*self._given) for _ in range(2 if self.repeatable else TRIES)]
        first = runs[0][1]
        return Reading(
            max((error for _, values in runs for error in map(_error, values, expected)), default=0.0),
            all(all(map(same_bits, values, expected)) for _, values in runs),
            not any(self.keeps(outputs) for outputs, _ in runs),
            all(all(map(same_bits, first, values)) for _, values in runs),
        )


def inside(
    function: Callable[..., Any], flat: Sequence[Any], most_probes: int | None = None, seconds: float | None = None
) -> Row:
    """The first equation whose value inside the compiled function is another than by itself.

    Returns `apart` (whether the outputs differ at all), `repeatable` (whether every call gives the same), `first` (a
    line as the walker's, with `error`, `stable`, `confirmed`, `fusion` and its `hlo`, or None), `perturbed` (how many
    readings did not count) and `partial`. Raises NotCarriedError, and what JAX raises.
    """
    carrier = Carrier(function, flat, Budget(most_probes, seconds))
    wrong = [_error(mine, theirs) for mine, theirs in zip(carrier.plain, carrier.apart, strict=True)]
    if carrier.repeatable and all(map(same_bits, carrier.plain, carrier.apart)):
        return {"apart": False, "repeatable": True, "first": None, "perturbed": 0, "partial": None}
    readings: dict[int, Reading] = {}
    notable = not carrier.repeatable or max(wrong, default=0.0) > NOTABLE
    partial, first = None, None
    try:
        first = _first(carrier, readings, notable)
        if first is None and notable:
            first = _first(carrier, readings, notable=False)
    except OutOfBudget as out:
        partial = str(out)
    row = None if first is None else _row(carrier, first, readings)
    lost = sum(reading.perturbed for reading in readings.values())
    said = {"apart": True, "repeatable": carrier.repeatable, "first": row}
    return {**said, "perturbed": lost, "partial": partial}


def _first(carrier: Carrier, readings: dict[int, Reading], notable: bool) -> int | None:
    """By bisection, and from there backwards as long as those before it are wrong as well."""

    def is_wrong(number: int) -> bool | None:
        if number not in readings:
            readings[number] = carrier.read(number)
        reading = readings[number]
        return None if reading.perturbed else (reading.error > NOTABLE if notable else not reading.same)

    low, high, found = 0, len(carrier.places), None
    while low < high:
        middle = (low + high) // 2
        counted = next((number for number in range(middle, high) if is_wrong(number) is not None), None)
        if counted is None:  # nothing in the upper half can be read
            high = middle
        elif is_wrong(counted):
            found, high = counted, middle
        else:
            low = counted + 1
    while found and is_wrong(found - 1):
        found -= 1
    return found


def _row(carrier: Carrier, number: int, readings: dict[int, Reading]) -> Row:
    equation, place = carrier.places[number]
    name, hlo = fusion_of(carrier.text, place.scope, equation.primitive.name)
    reading = readings[number]
    before = readings.get(number - 1)
    return {
        **static_row(equation, place),
        "error": reading.error,
        "stable": reading.stable,
        "confirmed": number == 0 or (before is not None and not before.perturbed),
        "fusion": name,
        "hlo": hlo,
    }


def _error(value: Any, expected: Any) -> float:
    if internals.is_key(expected) or is_discrete(expected):
        return 0.0 if same_bits(value, expected) else float("inf")
    exact = errors.wide(expected)
    return errors.measured(errors.wide(value), exact, Format.of(np.asarray(expected).dtype), errors.size(exact)).error


def fusion_of(text: str, scope: str, primitive: str) -> tuple[str, str]:
    """(name, HLO) of the fused computation that the equation went into; empty where it is in none."""
    last = scope.rpartition("/")[2]
    blocks = {match["name"]: _block(text, match.start()) for match in HEADER.finditer(text)}
    for wanted in (f"{last}/{primitive}" if last else primitive, primitive):
        for name, block in blocks.items():
            if re.search(rf'op_name="[^"]*{re.escape(wanted)}"', block):
                return name, block[:BLOCK_CHARACTERS]
    return "", ""


def _block(text: str, start: int) -> str:
    return text[start : text.find("\n}", start) + 2]
