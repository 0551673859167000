"""A run that another JAX can follow equation by equation: what each was given and what it gave, on disk.

`program.json` holds the equations, `steps.jsonl` one line for each execution with the numbers of its values, and
`values-*.npz` the values, each once. Nothing of it is code.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, write_archive
from jaxcheck.goldens.leaf import Leaf, json_field
from jaxcheck.worker import equations, internals
from jaxcheck.worker.interpreter import Interpreter, Place
from jaxcheck.worker.trees import leaf_of, restore
from jaxcheck.worker.walker import Budget, OutOfBudget

CHUNK_VALUES = 256
CHUNK_BYTES = 32 * 2**20
CHUNKS_OPEN = 4
PROGRAM, STEPS = "program.json", "steps.jsonl"


@dataclass(frozen=True)
class Step:
    """One execution: its number in the recorded run, and the numbers of what it was given and gave."""

    n: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(eq=False)
class Numbered:
    """A value, and its number once it is on disk."""

    value: Any
    number: int | None = None


class Recorder(Interpreter):
    """The device's values, which go to disk as equations use and make them."""

    def __init__(self, folder: Path, lines: IO[str], budget: Budget) -> None:
        super().__init__()
        self._folder, self._lines, self._budget = folder, lines, budget
        self._pending: list[Leaf] = []
        self._bytes = 0
        self._starts: list[int] = []
        self._stored = 0

    def constant(self, value: Any) -> Numbered:
        return Numbered(value)

    def apply(self, function: Callable[..., Any], *values: Any) -> Numbered:
        return Numbered(function(*[each.value for each in values]))

    def device(self, value: Any) -> Any:
        return value.value

    def chosen(self, equation: Any, place: Place, value: Any) -> None:
        self._budget.check(self.count)

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        self._budget.check(self.count)
        outputs = [Numbered(o) for o in internals.bind(equation, [v.value for v in values], equation.params)]
        row = {
            "n": self.count,
            "position": place.position,
            "iteration": list(place.iteration),
            "in": [self.store(value) for value in values],
            "out": [self.store(value) for value in outputs],
        }
        self._lines.write(json.dumps(row) + "\n")
        return list(outputs)

    def store(self, numbered: Numbered) -> int:
        if numbered.number is None:
            value = numbered.value
            leaf = leaf_of(".", value if internals.is_key(value) else np.asarray(value))
            numbered.number = self._stored
            self._stored += 1
            self._pending.append(leaf)
            self._bytes += leaf.words.nbytes
            if len(self._pending) >= CHUNK_VALUES or self._bytes >= CHUNK_BYTES:
                self.flush()
        return numbered.number

    def flush(self) -> None:
        """Writes what is pending."""
        if self._pending:
            start = self._stored - len(self._pending)
            arrays = {f"value/{i}": leaf.words for i, leaf in enumerate(self._pending)}
            meta = {"start": start, "values": [leaf.meta() for leaf in self._pending]}
            write_archive(self._folder / chunk_name(len(self._starts)), arrays, meta, durable=False)
            self._starts.append(start)
            self._pending, self._bytes = [], 0

    @property
    def starts(self) -> list[int]:
        """The number of the first value of each file."""
        return self._starts


def chunk_name(number: int) -> str:
    return f"values-{number:05}.npz"


def record(
    function: Callable[..., Any],
    flat: Sequence[Any],
    folder: Path,
    most_equations: int | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Runs the program of a function of array leaves and writes a recording of it into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    jaxpr = jax.make_jaxpr(function)(*flat)
    with open(folder / STEPS, "w", encoding="utf-8") as lines:
        recorder = Recorder(folder, lines, Budget(most_equations, seconds))
        partial, outputs = None, None
        try:
            outputs = [recorder.store(o) for o in recorder.evaluate(jaxpr, list(map(Numbered, flat)))]
        except OutOfBudget as out:
            partial = str(out)
        recorder.flush()
    rows = [{**equations.row_of(e, scope, path), "position": at} for at, e, scope, path in equations.placed(jaxpr)]
    content = {"jax": jax.__version__, "rows": rows, "starts": recorder.starts, "outputs": outputs, "partial": partial}
    (folder / PROGRAM).write_text(json.dumps(content), encoding="utf-8")
    return {"recording": str(folder), "executed": recorder.count, "partial": partial}


class Recording:
    """What `record` wrote. GoldenError for files that are damaged or of something else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            content = json.loads((folder / PROGRAM).read_text(encoding="utf-8"))
            self.rows: list[dict[str, Any]] = json_field(content, "rows", list)
            self.jax: str = json_field(content, "jax", str)
            self._starts: list[int] = json_field(content, "starts", list)
            self.outputs: list[int] | None = content["outputs"]
            self.partial: str | None = content["partial"]
            with open(folder / STEPS, encoding="utf-8") as lines:
                self._steps = dict(map(_step, lines))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GoldenError(f"{folder} holds no recording of a run: {error}", "diagnose again") from error
        self._chunks: OrderedDict[int, Archive] = OrderedDict()

    def step(self, position: str, iteration: tuple[int, ...]) -> Step | None:
        return self._steps.get((position, iteration))

    def value(self, number: int) -> Any:
        """The value as a JAX array."""
        chunk = bisect_right(self._starts, number) - 1
        if chunk not in self._chunks:
            if len(self._chunks) >= CHUNKS_OPEN:
                self._chunks.popitem(last=False)[1].close()
            self._chunks[chunk] = Archive(self._folder / chunk_name(chunk))
        archive = self._chunks[chunk]
        within = number - self._starts[chunk]
        meta = json_field(archive.meta, "values", list)[within]
        return restore(Leaf.restore(meta, archive.read(f"value/{within}")))

    def close(self) -> None:
        while self._chunks:
            self._chunks.popitem()[1].close()


def _step(line: str) -> tuple[tuple[str, tuple[int, ...]], Step]:
    row = json.loads(line)
    return (row["position"], tuple(row["iteration"])), Step(row["n"], tuple(row["in"]), tuple(row["out"]))
