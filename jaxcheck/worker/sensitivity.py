"""Which equations an outcome hangs on: one ULP on the outputs of one of them at a time, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxcheck.worker import errors, internals
from jaxcheck.worker.errors import Format
from jaxcheck.worker.interpreter import Place, Plain, is_discrete, is_float
from jaxcheck.worker.trees import key_path, unique
from jaxcheck.worker.truth import one_ulp
from jaxcheck.worker.walker import Budget, OutOfBudget, static_row

Row = dict[str, Any]
MOST_SHOWN = 20


class _Listed(Plain):
    """Notes what is executed, and where."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._budget = budget

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        self._budget.check(0)  # a program that takes longer once can be moved nowhere
        outputs = super().operate(equation, place, values)
        if any(is_float(output) for output in outputs):
            here = {"path": place.path, "iteration": list(place.iteration) or None}
            self.rows.append({"n": self.count, **static_row(equation, place), **here})
        return outputs


def sensitivity(
    function: Callable[..., Any],
    flat: Sequence[Any],
    steps: Path,
    most_equations: int | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Moves every element of one equation's outputs by one ULP, up or down at random with a fixed seed, and runs the
    rest; one line of JSON for each equation goes to `steps`.

    `effect` is how far the worst output leaf moved, in eps of its largest element; infinite where an integer, a
    boolean or a non-finite element changed. `scopes` is {scope: largest effect}, `largest` the lines with the largest
    effects. With a budget the equations are drawn evenly over the program.
    """
    jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*flat)
    paths = unique([key_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]])
    budget = Budget(None, seconds)
    listed, partial = _Listed(budget), None
    scopes: dict[str, float] = {}
    largest: list[Row] = []
    moved = 0
    with open(steps, "w", encoding="utf-8") as lines:
        try:
            base = listed.evaluate(jaxpr, flat)
            for number in _evenly(len(listed.rows)):
                budget.check(moved)
                if most_equations is not None and moved >= most_equations:
                    raise OutOfBudget(f"after {moved} equations, as many as allowed")
                row = listed.rows[number]
                outputs = Plain(_moving(row["n"])).evaluate(jaxpr, flat)
                effect, leaf = max(zip(map(_effect, outputs, base), paths, strict=True), default=(0.0, ""))
                row |= {"effect": effect, "leaf": leaf}
                moved += 1
                lines.write(json.dumps(row) + "\n")
                scopes[row["scope"]] = max(scopes.get(row["scope"], 0.0), effect)
                largest = sorted([*largest, row], key=lambda each: -each["effect"])[:MOST_SHOWN]
        except OutOfBudget as out:
            partial = f"{out} ({len(listed.rows)} to be moved)"
    return {
        "steps": str(steps),
        "equations": len(listed.rows),
        "moved": moved,
        "scopes": scopes,
        "largest": largest,
        "partial": partial,
    }


def _evenly(count: int) -> Iterator[int]:
    """Every number below `count` once, each part of them spread over the whole: 0, 1/2, 1/4, 3/4, 1/8, …"""
    bits = max(0, (count - 1).bit_length())
    for number in range(1 << bits):
        turned = int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
        if turned < count:
            yield turned


def _moving(step: int) -> Callable[[int, Any, list[Any], list[Any]], list[Any]]:
    def move(number: int, equation: Any, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        return [one_ulp(value, np.random.default_rng(71)) for value in outputs] if number == step else outputs

    return move


def _effect(moved: Any, base: Any) -> float:
    if internals.is_key(base):
        return _effect(jax.random.key_data(moved), jax.random.key_data(base))
    if is_discrete(base):
        return 0.0 if np.array_equal(np.asarray(moved), np.asarray(base)) else float("inf")
    one, other = errors.wide(moved), errors.wide(base)
    if np.isinf(errors.distances(one, other)).any():
        return float("inf")
    return errors.relative(one, other) / Format.of(base.dtype).eps
