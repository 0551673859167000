"""A recorded run of one JAX followed in another: old inputs into new operations.

The two programs are aligned by primitive, output shapes and scope. An equation with a counterpart is given what that
was given, and what follows gets what that gave: so the first that differs differs by itself. Equations without a
counterpart (a rewritten *window*) run on the old values around them, and are compared where an aligned equation takes
what they made. There it must be nearly what the old program had: otherwise the aligned equation is only of the same
name (`1 - y` has become `1 - y**2`), and belongs to the window as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from jaxcheck.compare.alignment import aligned
from jaxcheck.worker import bounds, equations, errors, internals
from jaxcheck.worker.errors import Format
from jaxcheck.worker.interpreter import TOP, Interpreter, Place, is_discrete
from jaxcheck.worker.recordings import Recording, Step
from jaxcheck.worker.shadow import in_float64, lifted
from jaxcheck.worker.walker import Budget, OutOfBudget, static_row

Row = dict[str, Any]
SHOWN = ("primitive", "scope", "path", "file", "line", "inputs", "outputs", "position")


@dataclass(frozen=True, eq=False)
class Fed:
    """A value; `window` is the number of the unmatched run of equations that made it, None for old values."""

    value: Any
    window: int | None = None


@dataclass(frozen=True)
class Alignment:
    """`old` is {position in the new program: in the old}; `window` {position in the new: number of its window}."""

    old: dict[str, str]
    window: dict[str, int]
    windows: tuple[tuple[list[Row], list[Row]], ...]

    @classmethod
    def of(cls, before: Sequence[Row], after: Sequence[Row]) -> Alignment:
        old: dict[str, str] = {}
        window: dict[str, int] = {}
        windows: list[tuple[list[Row], list[Row]]] = []
        for one, other in aligned([_key(row) for row in before], [_key(row) for row in after]):
            left, right = list(before[one]), list(after[other])
            if [_key(row) for row in left] == [_key(row) for row in right]:
                old |= {new["position"]: was["position"] for was, new in zip(left, right, strict=True)}
            else:
                window |= {row["position"]: len(windows) for row in right}
                windows.append((left, right))
        return cls(old, window, tuple(windows))


def _key(row: Row) -> tuple[Any, ...]:
    return row["primitive"], tuple(row["outputs"]), row["path"], row["scope"]


class Follower(Interpreter):
    """Writes one line for each equation that was compared. Lines are numbered as the recorded run is."""

    def __init__(self, recording: Recording, alignment: Alignment, lines: IO[str], budget: Budget) -> None:
        super().__init__()
        self.first: Row | None = None
        self.differ = self.compared = 0
        self._recording, self._alignment, self._lines, self._budget = recording, alignment, lines, budget
        self._n = 0

    def constant(self, value: Any) -> Fed:
        return Fed(value)

    def apply(self, function: Callable[..., Any], *values: Any) -> Fed:
        windows = [each.window for each in values if each.window is not None]
        return Fed(function(*[each.value for each in values]), windows[0] if windows else None)

    def device(self, value: Any) -> Any:
        return value.value

    def chosen(self, equation: Any, place: Place, value: Any) -> None:
        self._budget.check(self.count)

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        self._budget.check(self.count)
        step = self._counterpart(place, values)
        if step is None:
            outputs = internals.bind(equation, [each.value for each in values], equation.params)
            return [Fed(output, self._alignment.window.get(place.position)) for output in outputs]
        inputs, before = (list(map(self._recording.value, numbers)) for numbers in (step.inputs, step.outputs))
        moved = [
            (number, value, old)
            for number, (value, old) in enumerate(zip(values, inputs, strict=True))
            if not same_bits(value.value, old)
        ]
        windows = [self._window_of(value, place) for _, value, _ in moved]
        far = [window for window, (_, value, old) in zip(windows, moved, strict=True) if not _near(value.value, old)]
        if any(window is not None for window in far):
            return self._absorbed(equation, values, next(window for window in far if window is not None))
        self._n = step.n
        for window, (number, value, old) in zip(windows, moved, strict=True):
            self._boundary(equation, place, number, window, value, old)
        outputs = internals.bind(equation, inputs, equation.params)
        self.compared += 1
        if all(map(same_bits, outputs, before)):
            self._write(place, static_row(equation, place), {"local": 0.0, "kind": None})
        else:
            self._differs(equation, place, inputs, before, outputs)
        return list(map(Fed, before))

    def _absorbed(self, equation: Any, values: Sequence[Fed], window: int) -> list[Any]:
        """Of the same name, but what it is given is something else: it belongs to the window."""
        outputs = internals.bind(equation, [each.value for each in values], equation.params)
        return [Fed(output, window) for output in outputs]

    def _window_of(self, value: Fed, place: Place) -> int | None:
        return value.window if value.window is not None else self._removed_before(place)

    def _counterpart(self, place: Place, values: Sequence[Fed]) -> Step | None:
        old = self._alignment.old.get(place.position)
        step = None if old is None else self._recording.step(old, place.iteration)
        if step is None or len(step.inputs) != len(values):
            return None
        pairs = zip(values, map(self._recording.value, step.inputs), strict=True)
        return step if all(_alike(fed.value, value) for fed, value in pairs) else None

    def _differs(
        self, equation: Any, place: Place, inputs: list[Any], before: Sequence[Any], after: Sequence[Any]
    ) -> None:
        try:
            exact = in_float64(equation, [x if internals.is_key(x) else lifted(x) for x in inputs], "exact")
        except Exception:  # it has no float64 counterpart
            exact = [None] * len(before)
        each = list(map(_difference, [equation] * len(before), before, after, exact))
        worst = max(each, key=lambda row: row["local"])
        self._write(place, static_row(equation, place), {"kind": "origin", **worst})

    def _boundary(self, equation: Any, place: Place, number: int, window: int | None, value: Fed, old: Any) -> None:
        """What a window made differs from what the old program made in its place; `window` says which of `windows`,
        None for a constant or an input of the program."""
        row = self._of_window(window) if window is not None else static_row(equation, place)
        found = {"kind": "origin", "window": window, "taken by": f"input {number} of {equation.primitive.name}"}
        self._write(place, row, {**found, **_difference(None, old, value.value, None)})

    def _of_window(self, number: int) -> Row:
        """A line for the window as a whole: what stands first in the new program, else in the old."""
        left, right = self._alignment.windows[number]
        first = (right or left)[0]
        names = ("scope", "position", "file", "line", "function")
        text = " | ".join(", ".join(row["primitive"] for row in rows) or "nothing" for rows in (left, right))
        return {
            "primitive": first["primitive"],
            **{name: first[name] for name in names},
            "in": first["inputs"],
            "out": first["outputs"],
            "rewritten": text,
        }

    def _removed_before(self, place: Place) -> int | None:
        """The last window before the equation of which nothing is left in the new program."""
        old = self._alignment.old.get(place.position)
        found = None
        for number, (left, right) in enumerate(self._alignment.windows):
            if left and not right and old is not None and _order(left[0]["position"]) < _order(old):
                found = number
        return found

    def outputs(self, values: Sequence[Fed]) -> None:
        """What a window has made of the program's outputs."""
        for number, (value, stored) in enumerate(zip(values, self._recording.outputs or (), strict=False)):
            old = self._recording.value(stored)
            if value.window is not None and not same_bits(value.value, old):
                found = {"kind": "origin", "window": value.window, "taken by": f"output {number}"}
                self._write(TOP, self._of_window(value.window), {**found, **_difference(None, old, value.value, None)})

    def _write(self, place: Place, row: Row, found: Row) -> None:
        here = {"path": place.path, "iteration": list(place.iteration) or None, "inherited": 0.0}
        line = {"n": self._n, **row, **here, "amplification": None, "bound": 0.0, **found}
        if found["kind"] is not None:
            self.differ += 1
            self.first = self.first or line
        self._lines.write(json.dumps(line) + "\n")


def _order(position: str) -> list[int]:
    return [int("".join(filter(str.isdigit, part)) or 0) for part in position.split(".")]


def _near(new: Any, old: Any) -> bool:
    """Whether they can be the same quantity, rounded otherwise: within the square root of eps."""
    if internals.is_key(old) or is_discrete(old):
        return same_bits(new, old)
    one, other = errors.wide(new), errors.wide(old)
    finite = np.array_equal(np.isfinite(one), np.isfinite(other))
    return finite and errors.relative(one, other) <= Format.of(_dtype(old)).eps ** 0.5


def _alike(one: Any, other: Any) -> bool:
    return bool(np.shape(one) == np.shape(other) and _dtype(one) == _dtype(other))


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def same_bits(one: Any, other: Any) -> bool:
    """Equal in every bit, but for which NaN it is."""
    if internals.is_key(one) or internals.is_key(other):
        return internals.is_key(one) and internals.is_key(other) and same_bits(*map(jax.random.key_data, (one, other)))
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if is_discrete(a):
        return bool(np.array_equal(a, b))
    missing = np.isnan(a)
    if not np.array_equal(missing, np.isnan(b)):
        return False
    a, b = (np.where(missing, np.zeros((), x.dtype), x) for x in (a, b))
    return a.tobytes() == b.tobytes()


def _difference(equation: Any, before: Any, after: Any, exact: Any) -> Row:
    """`local`: how far an output moved, in eps of its scale; `before` and `after`: its error in either version."""
    if internals.is_key(before) or not _alike(before, after) or is_discrete(before):
        same = _alike(before, after) and same_bits(before, after)
        return {"local": 0.0 if same else float("inf"), "before": None, "after": None, "worst": None}
    one, other = errors.wide(before), errors.wide(after)
    held = Format.of(_dtype(before))
    each = equation is not None and bounds.class_of(equation) in ("moving", "elementwise")
    moved = errors.measured(other, one, held, None if each else errors.size(one))
    worst = {"index": list(moved.worst), "old": _element(one, moved.worst), "new": _element(other, moved.worst)}
    row: Row = {"local": moved.error, "before": None, "after": None}
    if exact is not None:
        truth = errors.wide(exact)
        scale = None if each else errors.size(truth)
        row["before"], row["after"] = (errors.measured(x, truth, held, scale).error for x in (one, other))
        worst["exact"] = _element(truth, moved.worst)
    return {**row, "worst": worst}


def _element(array: errors.Array, index: tuple[int, ...]) -> Any:
    if len(index) != array.ndim or not array.size:
        return None
    value = array[index]
    return str(value) if array.dtype.kind == "c" or not np.isfinite(value) else float(value)


def follow(
    function: Callable[..., Any],
    flat: Sequence[Any],
    recorded: Path,
    steps: Path,
    most_equations: int | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Follows a recording with this JAX's program of a function, and writes a line for each comparison to `steps`.

    Returns `aligned` and `equations` (how many have a counterpart, of how many), `windows` [{"old": rows, "new":
    rows}], `compared` and `differ` (executions), `first` (the first line that differs) and `partial`.
    """
    jaxpr = jax.make_jaxpr(function)(*flat)
    recording = Recording(recorded)
    rows = [{**equations.row_of(e, scope, path), "position": at} for at, e, scope, path in equations.placed(jaxpr)]
    alignment = Alignment.of(recording.rows, rows)
    partial = recording.partial
    try:
        with open(steps, "w", encoding="utf-8") as lines:
            follower = Follower(recording, alignment, lines, Budget(most_equations, seconds))
            try:
                follower.outputs(follower.evaluate(jaxpr, list(map(Fed, flat))))
            except OutOfBudget as out:
                partial = str(out)
    finally:
        recording.close()
    windows = [{"old": _shown(left), "new": _shown(right)} for left, right in alignment.windows]
    return {
        "steps": str(steps),
        "from": recording.jax,
        "aligned": len(alignment.old),
        "equations": len(rows),
        "windows": windows,
        "compared": follower.compared,
        "differ": follower.differ,
        "first": follower.first,
        "partial": partial,
    }


def _shown(rows: Sequence[Row]) -> list[Row]:
    return [{name: row[name] for name in SHOWN} for row in rows]
