"""The walk: each equation of a program against the exact result, at the device's inputs and at the exact ones.

With `y = op(x)` as the device computes it, `exact = op64(x)` at the same inputs and `ideal = op64(x*)` at the shadow's:
the *local* error is `y - exact`, the *inherited* one `exact - ideal`, the *amplification* the inherited relative error
by that of the inputs. An *origin* is wrong by itself (beyond the bound in `bounds`); a *flip* is an integer, a boolean
or a branch that is right for its inputs, which were wrong enough; an *amplifier* makes an error that it was given more
than ten times as large.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from jaxcheck.worker import bounds, equations, errors, internals
from jaxcheck.worker.errors import Array, Format, Measured
from jaxcheck.worker.interpreter import Place, is_discrete
from jaxcheck.worker.primitives import AMBIGUOUS
from jaxcheck.worker.shadow import FOREIGN, Pair, Policy, Shadow, in_float64, lifted, policy_of, wide_dtype
from jaxcheck.worker.trees import key_path, unique

AMPLIFIES = 10.0
SEEN = 16.0  # eps of inherited error below which no amplification is told: it is rounding, divided by rounding
ZERO = 2.0**-40  # of the terms that cancelled: float64 has 12 bits more
INPUTS_SHOWN = 4
# Opaque to the shadow: Python functions and kernels. What comes out is taken as exact.
OPAQUE = FOREIGN - {"shard_map"}

Intervene = Callable[[int, Any, list[Any], list[Any]], list[Any]]
Row = dict[str, Any]


class OutOfBudget(Exception):
    """The walk stopped before the program's end; the message says at which budget."""


@dataclass(frozen=True)
class Budget:
    """Executions of equations, and seconds; None: as many as there are."""

    equations: int | None = None
    seconds: float | None = None
    start: float = field(default_factory=time.monotonic)

    def check(self, count: int) -> None:
        if self.equations is not None and count >= self.equations:
            raise OutOfBudget(f"after {count} equations, as many as allowed")
        if self.seconds is not None and (spent := time.monotonic() - self.start) > self.seconds:
            raise OutOfBudget(f"after {spent:.0f} s and {count} equations; {self.seconds:g} s are allowed")


@dataclass(frozen=True)
class Known:
    """What is the same for every execution of an equation."""

    row: Row
    kind: bounds.Class
    bound: float
    arbitrary: tuple[int, ...]  # outputs that are not unique: they are compared with nothing


class Walker(Shadow):
    """The shadow that judges each equation as it passes, and writes one line of JSON for each."""

    def __init__(
        self,
        policy: Policy,
        lines: IO[str] | None = None,
        budget: Budget | None = None,
        intervene: Intervene | None = None,
    ) -> None:
        super().__init__(policy)
        self.kinds: dict[str, int] = {}
        self.first: dict[str, Row] = {}
        self.opaque: set[str] = set()
        self._lines, self._budget, self._intervene = lines, budget or Budget(), intervene
        self._known: dict[str, Known] = {}
        self._local: Policy = "declared" if policy == "declared" else "exact"

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        self._budget.check(self.count)
        start = time.perf_counter()
        low = [pair.low for pair in values]
        outputs = internals.bind(equation, low, equation.params)
        if self._intervene is not None:
            outputs = self._intervene(self.count, equation, low, outputs)
        if not outputs:  # a callback for its effect: once is enough
            return []
        exact = self._wide(equation, [self._raised(value) for value in low], self._local)
        ideal = None if exact is None else self._wide(equation, [pair.high for pair in values], self.policy)
        if exact is None or ideal is None:
            self.opaque.add(equation.primitive.name)
            self._write(place, equation, {"local": None, "inherited": None, "amplification": None, "kind": None}, start)
            return [Pair(output, self.lift(output)) for output in outputs]
        self._write(place, equation, self._judge(equation, place, values, outputs, exact, ideal), start)
        return list(map(Pair, outputs, ideal))

    def _raised(self, value: Any) -> Any:
        return value if self._local == "declared" or internals.is_key(value) else lifted(value)

    def _wide(self, equation: Any, values: list[Any], policy: Policy) -> list[Any] | None:
        """None where it has no float64 counterpart."""
        if equation.primitive.name in OPAQUE:
            return None
        try:
            return in_float64(equation, values, policy)
        except Exception:  # a kernel for one dtype, a primitive of a library: there is no list of them
            return None

    def chosen(self, equation: Any, place: Place, value: Any) -> None:
        self._budget.check(self.count)
        if not np.array_equal(np.asarray(value.low), np.asarray(value.high)):
            self.flipped(equation, place)
            self._write(
                place, equation, {"local": 0.0, "inherited": None, "amplification": None, "kind": "flip", "bound": 0.0}
            )

    # --- one step ---------------------------------------------------------------------------------------------------

    def _judge(
        self,
        equation: Any,
        place: Place,
        values: Sequence[Pair],
        outputs: Sequence[Any],
        exact: Sequence[Any],
        ideal: Sequence[Any],
    ) -> Row:
        known = self._static(equation, place)
        judged: Row = {"local": 0.0, "inherited": 0.0, "amplification": None, "kind": None, "bound": known.bound}
        flip = False
        for number, (output, at_inputs, shadow) in enumerate(zip(outputs, exact, ideal, strict=True)):
            if number in known.arbitrary or internals.is_key(output):
                continue
            if is_discrete(output):
                mine, here = np.asarray(output), np.asarray(at_inputs)
                if known.kind != "decomposition" and not np.array_equal(mine, here):
                    worst = tuple(int(i) for i in np.argwhere(mine != here)[0]) if mine.shape == here.shape else ()
                    self._origin(judged, Measured(float("inf"), worst), known.bound, values, mine, here)
                flip = flip or not np.array_equal(mine, np.asarray(shadow))
                continue
            mine, here, there = errors.wide(output), errors.wide(at_inputs), errors.wide(shadow)
            held = Format.of(output.dtype)
            found, bound = self._local_error(equation, known, values, number, mine, here, held)
            if found.error > judged["local"] or "worst" not in judged:
                judged |= {"local": found.error, "worst": _shown(found.worst, values, mine, here)}
            if found.error > bound:
                judged |= {"kind": "origin", "bound": bound, "worst": _shown(found.worst, values, mine, here)}
            inherited = errors.relative(here, there)
            judged["inherited"] = max(judged["inherited"], inherited)
            if inherited > SEEN * held.eps and not self._is_zero(equation, values, number, there):
                self._amplified(judged, inherited, values, held)
        if flip and not any(map(_flipped, values)):  # otherwise it only passes on what was decided before
            self.flipped(equation, place)
            judged["kind"] = judged["kind"] or "flip"
        if judged["kind"] is None and (judged["amplification"] or 0) > AMPLIFIES:
            judged["kind"] = "amplifier"
        return judged

    def _origin(
        self, judged: Row, found: Measured, bound: float, values: Sequence[Pair], mine: Array, here: Array
    ) -> None:
        shown = _shown(found.worst, values, mine, here)
        judged |= {"local": found.error, "kind": "origin", "bound": bound, "worst": shown}

    def _is_zero(self, equation: Any, values: Sequence[Pair], number: int, ideal: Array) -> bool:
        """Whether the ideal result is 0 but for float64's own rounding: relative to that there is no error."""
        name = equation.primitive.name
        if name in bounds.PAIRS:
            terms = max(errors.size(errors.wide(pair.high)) for pair in values)
        elif name in bounds.SUMS:
            sums = self._exact(equation, [_magnitude(pair.high) for pair in values], number)
            terms = 0.0 if sums is None else errors.size(sums)
        else:
            return False
        return errors.size(ideal) < ZERO * terms

    def _amplified(self, judged: Row, inherited: float, values: Sequence[Pair], held: Format) -> None:
        given = [
            errors.relative(errors.wide(pair.low), errors.wide(pair.high))
            for pair in values
            if not internals.is_key(pair.low) and wide_dtype(_dtype(pair.low)) is not None
        ]
        error = max(given, default=0.0)
        if error > held.eps / 8:
            judged["amplification"] = max(judged["amplification"] or 0.0, inherited / error)

    def _local_error(
        self,
        equation: Any,
        known: Known,
        values: Sequence[Pair],
        number: int,
        mine: Array,
        exact: Array,
        held: Format,
    ) -> tuple[Measured, float]:
        """(the error, the bound that holds here); what costs another evaluation only where the error is large."""
        eps = bounds.eps_of_product(equation, jax.default_backend(), held.eps)
        held = replace(held, eps=eps)
        each = known.kind in ("moving", "elementwise")
        found, bound = errors.measured(mine, exact, held, None if each else errors.size(exact)), known.bound
        if found.error <= bound or self._local == "declared":
            return found, bound
        low = [pair.low for pair in values]
        if equation.primitive.name in bounds.SUMS:
            terms = self._exact(equation, list(map(_magnitude, low)), number)
            if terms is not None:
                found = errors.measured(mine, exact, held, errors.size(terms))
        elif bounds.is_pointwise(equation):
            found, times = errors.conditioned(mine, exact, self._moved_each(equation, low, number, exact), held)
            bound *= times
        elif not each:
            bound *= 1 + self._moved(equation, low, number, exact, held)
        if found.error > bound and any(_has_subnormals(value) for value in low):
            other = self._exact(equation, [_changed(value, _flush(value)) for value in low], number)
            if other is not None:
                again = errors.measured(mine, other, held, None if each else errors.size(other))
                found = min(found, again, key=lambda measure: measure.error)
        return found, bound

    def _moved(self, equation: Any, low: list[Any], number: int, exact: Array, held: Format) -> float:
        """How far the exact result moves, in eps of its scale, as each input moves by half an eps of its own."""
        moved = 0.0
        for sign in (1, -1):
            other = self._exact(equation, [_changed(value, _nudge(value, sign)) for value in low], number)
            if other is not None and np.isfinite(other).any():
                distance = errors.size(other - exact)
                moved = max(moved, distance / max(errors.size(exact) * held.eps, held.tiny))
        return moved

    def _moved_each(self, equation: Any, low: list[Any], number: int, exact: Array) -> Array:
        """How far each element moves as one input after the other moves by half an eps; infinite where it becomes, or
        is no longer, infinite or NaN."""
        total = np.zeros(exact.shape)
        for position, value in enumerate(low):
            moved = np.zeros(exact.shape)
            for sign in (1, -1):
                nudged = [*low[:position], _changed(value, _nudge(value, sign)), *low[position + 1 :]]
                other = self._exact(equation, list(map(self._raised, nudged)), number)
                if other is not None:
                    moved = np.maximum(moved, errors.distances(other, exact))
            total += moved
        return total

    def _exact(self, equation: Any, values: list[Any], number: int) -> Array | None:
        outputs = self._wide(equation, values, "exact")
        return None if outputs is None else errors.wide(outputs[number])

    # --- what is written --------------------------------------------------------------------------------------------

    def _static(self, equation: Any, place: Place) -> Known:
        if place.position not in self._known:
            kind, bound = bounds.class_of(equation), bounds.bound_of(equation)
            row = {**static_row(equation, place), "class": kind}
            positions = AMBIGUOUS.get(equation.primitive.name, ((), "", ""))[0]
            arbitrary = tuple(positions) if kind == "decomposition" else ()
            self._known[place.position] = Known(row, kind, bound, arbitrary)
        return self._known[place.position]

    def _write(self, place: Place, equation: Any, judged: Row, start: float | None = None) -> None:
        kind = judged["kind"]
        known = self._static(equation, place)
        if kind is None and self._lines is None:
            return
        row = {
            "n": self.count,
            **known.row,
            "path": place.path,
            "iteration": list(place.iteration) or None,
            "bound": known.bound,
            **judged,
            "seconds": 0.0 if start is None else time.perf_counter() - start,
        }
        if kind is not None:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.first.setdefault(kind, row)
        if self._lines is not None:
            self._lines.write(json.dumps(row) + "\n")


def static_row(equation: Any, place: Place) -> Row:
    """What a line says of an equation whatever its values are."""
    file, line, function = own_frame(equation, place)
    return {
        "primitive": equation.primitive.name,
        "scope": place.scope,
        "position": place.position,
        "file": file,
        "line": line,
        "function": function,
        "in": [equations.aval_text(atom) for atom in equation.invars],
        "out": [equations.aval_text(atom) for atom in equation.outvars],
    }


def own_frame(equation: Any, place: Place) -> tuple[str, int, str]:
    """(file, line, function) of the innermost frame in the user's own code, else in a package's; what JAX has made
    without telling where is looked for in the calls and loops around it."""
    for each in (equation, *reversed(place.around)):
        found = [(*frame, equations.package_of(frame[0])) for frame in internals.frames(each)]
        if found:
            users = [frame for frame in found if frame[3] == equations.USER]
            file, line, function, package = (users or found)[0]
            return equations.file_text(file, package), line, function
    return "", 0, ""


def _shown(worst: tuple[int, ...], values: Sequence[Pair], mine: Array, exact: Array) -> Row:
    """The worst element, and the inputs at its index as far as they are of its shape; complex numbers, and what is not
    finite, as text."""
    inputs = [_at_index(pair.low, worst, exact.shape) for pair in values[:INPUTS_SHOWN]]
    at = worst if exact.size and len(worst) == exact.ndim else None
    return {
        "index": list(worst),
        "inputs": inputs,
        "value": None if at is None else _number(mine[at]),
        "exact": None if at is None else _number(exact[at]),
    }


def _at_index(value: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if internals.is_key(value):
        return None
    array = np.asarray(value)
    if array.ndim == 0:
        return _number(array[()])
    return _number(array[index]) if array.shape == shape and len(index) == array.ndim else None


def _number(value: Any) -> Any:
    value = np.asarray(value)
    if value.dtype.kind in "biu":
        return value.item()
    value = errors.wide(value)
    return str(value[()]) if value.dtype.kind == "c" or not np.isfinite(value) else float(value)


def _flipped(pair: Pair) -> bool:
    return is_discrete(pair.low) and not np.array_equal(np.asarray(pair.low), np.asarray(pair.high))


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.result_type(value)


def _changed(value: Any, change: Callable[[Array], Array]) -> Any:
    """A float input changed in float64; anything else as the shadow holds it."""
    if internals.is_key(value) or wide_dtype(_dtype(value)) is None:
        return value
    return change(errors.wide(value))


def _magnitude(value: Any) -> Any:
    return _changed(value, np.abs)


def _nudge(value: Any, sign: int) -> Callable[[Array], Array]:
    """Half an eps up or down, at random and always the same, so that not all terms move together."""
    if internals.is_key(value) or wide_dtype(_dtype(value)) is None:
        return lambda array: array
    step = sign * Format.of(_dtype(value)).eps / 2
    signs = np.random.default_rng(53).choice((-1.0, 1.0), size=np.shape(value))
    return lambda array: array * (1 + step * signs)


def _flush(value: Any) -> Callable[[Array], Array]:
    if internals.is_key(value) or wide_dtype(_dtype(value)) is None:
        return lambda array: array
    held = Format.of(_dtype(value))
    return lambda array: errors.flushed(array, held)


def _has_subnormals(value: Any) -> bool:
    if internals.is_key(value) or wide_dtype(_dtype(value)) is None:
        return False
    magnitudes = np.abs(errors.wide(value))
    return bool(((magnitudes > 0) & (magnitudes < Format.of(_dtype(value)).tiny)).any())


# --- a whole walk --------------------------------------------------------------------------------------------------


def walk(
    function: Callable[..., Any],
    flat: Sequence[Any],
    steps: Path,
    most_equations: int | None = None,
    seconds: float | None = None,
    intervene: Intervene | None = None,
) -> dict[str, Any]:
    """Walks the program of a function of array leaves, and writes one line of JSON for each equation to `steps`.

    Returns `steps`, `program` (how many equations there are, how many were executed, the policy, the flips, what was
    opaque), `kinds` {kind: how many}, `first` {kind: its first line}, `partial` (why the walk stopped early, or None)
    and `outputs` {leaf path: error relative to its largest element}.
    """
    jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*flat)
    with open(steps, "w", encoding="utf-8") as lines:
        walker = Walker(policy_of(jaxpr), lines, Budget(most_equations, seconds), intervene)
        partial: str | None = None
        outputs: Mapping[str, float] = {}
        try:
            low, high = walker.run(jaxpr, flat, [walker.lift(leaf) for leaf in flat])
            outputs = _output_errors(shapes, low, high)
        except OutOfBudget as out:
            partial = str(out)
    program = {
        "equations": sum(1 for _ in equations.placed(jaxpr)),
        "executed": walker.count,
        "policy": walker.policy,
        "opaque": sorted(walker.opaque),
        "flips": [f"{flip.primitive} in {flip.scope or 'no scope'} ({flip.line})" for flip in walker.flips],
    }
    found = {"kinds": walker.kinds, "first": walker.first}
    return {"steps": str(steps), "program": program, **found, "partial": partial, "outputs": outputs}


def _output_errors(shapes: Any, low: Sequence[Any], high: Sequence[Any]) -> Mapping[str, float]:
    paths = unique([key_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]])
    pairs = zip(paths, low, high, strict=True)
    return {path: _distance(mine, exact) for path, mine, exact in pairs if not internals.is_key(mine)}


def _distance(mine: Any, exact: Any) -> float:
    """Relative to the largest element; infinite where one is finite and the other is not."""
    one, other = errors.wide(mine), errors.wide(exact)
    if is_discrete(mine):
        return float(not np.array_equal(one, other))
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float("inf")
    return errors.relative(one, other)
