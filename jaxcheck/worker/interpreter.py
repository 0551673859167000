"""A jaxpr run equation by equation, over whatever a subclass holds for a value.

Calls are inlined, `scan` is unrolled by iteration; `while` and `cond` follow the values that the device computes. Of
the values only those are held that an equation still needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxcheck.worker import internals

SOLVES = frozenset({"linear_solve", "custom_linear_solve"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where an equation is. `position` is its number within each jaxpr around it: that of the program, the same for
    every execution; `path` names the calls, loops (with iterations) and branches around it, `around` holds them."""

    position: str = ""
    scope: str = ""
    path: str = ""
    iteration: tuple[int, ...] = ()
    around: tuple[Any, ...] = ()

    def inside(self, equation: Any, part: str = "", iteration: int | None = None) -> Place:
        """Within a jaxpr of the equation that is here."""
        step = "" if iteration is None else f"[{iteration}]"
        path = "/".join(filter(None, (self.path, f"{equation.primitive.name}{part}{step}")))
        steps = self.iteration if iteration is None else (*self.iteration, iteration)
        return Place(self.position + part, self.scope, path, steps, (*self.around, equation))


TOP = Place()


class Interpreter(ABC):
    """Subclasses say what a value is: `constant` makes one, `apply` maps arrays to arrays in it, `device` is what
    control flow goes by, and `operate` carries out an equation that holds no other equations.

    `count` numbers executions in order: of each such equation, of each choice of a branch and of each test of a loop.
    """

    def __init__(self) -> None:
        self.count = 0
        self._dying: dict[int, tuple[Any, list[list[Any]]]] = {}
        self._literals: dict[int, tuple[Any, Any]] = {}
        self._scopes: dict[str, str] = {}

    @abstractmethod
    def constant(self, value: Any) -> Any: ...

    @abstractmethod
    def apply(self, function: Callable[..., Any], *values: Any) -> Any: ...

    def device(self, value: Any) -> Any:
        return value

    @abstractmethod
    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]: ...

    def chosen(self, equation: Any, place: Place, value: Any) -> None:  # noqa: B027 - most have nothing to do here
        """Called with the value that decides a branch or whether a loop goes on."""

    def evaluate(self, jaxpr: Any, values: Sequence[Any], place: Place = TOP) -> list[Any]:
        """The outputs of a closed jaxpr."""
        return self._body(jaxpr, list(values), place)

    def _body(self, jaxpr: Any, values: list[Any], place: Place) -> list[Any]:
        """Empties `values`: who calls must not keep alive what is no longer needed."""
        body, constants = internals.opened(jaxpr)
        known: dict[Any, Any] = dict(
            zip([*body.constvars, *body.invars], [*map(self.constant, constants), *values], strict=True)
        )
        values.clear()
        for number, (equation, dying) in enumerate(zip(body.eqns, self._last_uses(body), strict=True)):
            inputs = [self._read(atom, known) for atom in equation.invars]
            unused = [known.pop(atom, None) is None for atom in dying]
            outputs = self._equation(equation, inputs, self._at(place, number, equation))
            known.update(zip(equation.outvars, outputs, strict=True))
            for atom, fresh in zip(dying, unused, strict=True):
                if fresh:
                    known.pop(atom, None)
        return [self._read(atom, known) for atom in body.outvars]

    def _last_uses(self, body: Any) -> list[list[Any]]:
        """What is not needed after each equation: inputs read for the last time, and outputs that nobody reads."""
        if id(body) not in self._dying:
            last: dict[Any, int] = {}
            for number, equation in enumerate(body.eqns):
                atoms = [*equation.invars, *equation.outvars]
                last |= {atom: number for atom in atoms if internals.literal_value(atom) is NotImplemented}
            kept = {atom for atom in body.outvars if internals.literal_value(atom) is NotImplemented}
            dying: list[list[Any]] = [[] for _ in body.eqns]
            for atom, number in last.items():
                if atom not in kept:
                    dying[number].append(atom)
            self._dying[id(body)] = body, dying  # with the body, so that no other gets its id
        return self._dying[id(body)][1]

    def _at(self, place: Place, number: int, equation: Any) -> Place:
        position = f"{place.position}.{number}" if place.position else str(number)
        if position not in self._scopes:
            self._scopes[position] = "/".join(filter(None, (place.scope, internals.scope(equation))))
        return Place(position, self._scopes[position], place.path, place.iteration, place.around)

    def _read(self, atom: Any, known: dict[Any, Any]) -> Any:
        literal = internals.literal_value(atom)
        if literal is NotImplemented:
            return known[atom]
        if id(atom) not in self._literals:
            # A Python number is kept unrounded beside its dtype. With the atom, so that no other gets its id.
            self._literals[id(atom)] = atom, self.constant(_typed(literal, atom.aval))
        return self._literals[id(atom)][1]

    def _equation(self, equation: Any, values: list[Any], place: Place) -> list[Any]:
        name = equation.primitive.name
        if name in internals.CALLS:
            return self._body(equation.params[internals.CALLS[name]], values, place.inside(equation))
        if name == "scan":
            return self._scan(equation, values, place)
        if name == "while":
            return self._while(equation, values, place)
        if name == "cond":
            return self._cond(equation, values, place)
        if name in SOLVES:
            return self._linear_solve(equation, values, place)
        outputs = self.operate(equation, place, values)
        self.count += 1
        return outputs

    def _scan(self, equation: Any, values: list[Any], place: Place) -> list[Any]:
        params = equation.params
        consts, carries = internals.scan_counts(params)
        carry, rows = values[consts : consts + carries], values[consts + carries :]
        columns: list[list[Any]] = []
        steps = range(params["length"])
        for step in reversed(steps) if params["reverse"] else steps:
            row = [self.apply(_row(step), value) for value in rows]
            given = [*values[:consts], *carry, *row]
            outputs = self._body(params["jaxpr"], given, place.inside(equation, iteration=step))
            carry = outputs[:carries]
            columns.append(outputs[carries:])
        if params["reverse"]:
            columns.reverse()
        if not columns:
            avals = [atom.aval for atom in internals.opened(params["jaxpr"])[0].outvars[carries:]]
            return [*carry, *(self.constant(jnp.zeros((0, *aval.shape), aval.dtype)) for aval in avals)]
        return [*carry, *(self.apply(_stacked, *column) for column in zip(*columns, strict=True))]

    def _while(self, equation: Any, values: list[Any], place: Place) -> list[Any]:
        params = equation.params
        split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        tests, bodies, carry = values[: split[0]], values[split[0] : split[1]], values[split[1] :]
        values.clear()
        step = 0
        while True:
            test = place.inside(equation, ".cond", step)
            (go,) = self._body(params["cond_jaxpr"], [*tests, *carry], test)
            self.chosen(equation, place, go)
            self.count += 1
            going = np.asarray(self.device(go))
            if not going.any():
                return carry
            new = self._body(params["body_jaxpr"], [*bodies, *carry], place.inside(equation, ".body", step))
            if going.ndim and not going.all():
                new = [
                    self.apply(lambda a, b, g=going: _where(g, a, b), *pair) for pair in zip(new, carry, strict=True)
                ]
            carry = new
            step += 1

    def _cond(self, equation: Any, values: list[Any], place: Place) -> list[Any]:
        self.chosen(equation, place, values[0])
        self.count += 1
        taken = int(self.device(values.pop(0)))
        return self._body(equation.params["branches"][taken], values, place.inside(equation, f"[{taken}]"))

    def _linear_solve(self, equation: Any, values: list[Any], place: Place) -> list[Any]:
        """Only its `solve` computes: the other jaxprs are for derivatives, which are equations of their own by then."""
        counts = equation.params["const_lengths"]
        start = counts.matvec + counts.vecmat
        total = start + counts.solve + counts.transpose_solve
        given = [*values[start : start + counts.solve], *values[total:]]
        return self._body(equation.params["jaxprs"].solve, given, place.inside(equation, ".solve"))


class Plain(Interpreter):
    """Values are the device's arrays. `intervene` may replace the outputs of an equation: it is called with its number
    in the order of execution, the equation, its inputs and its outputs."""

    def __init__(self, intervene: Callable[[int, Any, list[Any], list[Any]], list[Any]] | None = None) -> None:
        super().__init__()
        self._intervene = intervene

    def constant(self, value: Any) -> Any:
        return value

    def apply(self, function: Callable[..., Any], *values: Any) -> Any:
        return function(*values)

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        outputs = internals.bind(equation, values, equation.params)
        return outputs if self._intervene is None else self._intervene(self.count, equation, values, outputs)


def _typed(literal: Any, aval: Any) -> Any:
    return literal if internals.is_key(literal) else np.asarray(literal, aval.dtype)


def _row(step: int) -> Callable[[Any], Any]:
    """By NumPy: JAX would compile one program for each row."""
    return lambda value: value[step] if internals.is_key(value) else np.asarray(np.asarray(value)[step])


def _stacked(*column: Any) -> Any:
    """By NumPy: JAX would compile one program for all the rows of a scan, which takes seconds for a thousand."""
    if internals.is_key(column[0]):
        return jnp.stack(column)
    return jnp.asarray(np.stack([np.asarray(value) for value in column]))


def _where(going: np.ndarray, new: Any, old: Any) -> Any:
    """A loop under vmap has one predicate for each example: those that have stopped keep their carry."""
    return jnp.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)


def is_discrete(value: Any) -> bool:
    """Integers and booleans."""
    dtype = getattr(value, "dtype", None)
    return not internals.is_key(value) and dtype is not None and not jnp.issubdtype(dtype, jnp.inexact)


def is_float(value: Any) -> bool:
    """Real numbers in floating point."""
    return not internals.is_key(value) and bool(jnp.issubdtype(value.dtype, jnp.floating))
