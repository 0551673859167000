"""Two traced programs side by side: the equations that differ, and those that are lowered to other operations.

Equations are aligned by primitive, shapes and scope, not by source line: those move without meaning anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from jaxcheck.compare.alignment import aligned

SHOWN = 8
EQUATIONS_SHOWN = 6
# Parameters that say how an operation is carried out or stored, not what it computes, or that releases have renamed.
UNTOLD = frozenset(
    {"accuracy", "ctx_mesh", "compiler_options_kvs", "ft_in", "ft_out", "linear", "name", "num_carry", "num_consts"}
    | {"out_sharding", "sharding", "unroll", "_split_transpose"}
)


@dataclass(frozen=True)
class Equation:
    """One equation, as the worker reads it; `path` is the loop or branch that it is in, `package` whose line made it
    (`user`: the user's own, empty: nobody's), `lowered` its StableHLO operations."""

    primitive: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    path: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    package: str = ""
    lowered: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Equation:
        return cls(**{**row, "inputs": tuple(row["inputs"]), "outputs": tuple(row["outputs"])})

    @property
    def key(self) -> tuple[Any, ...]:
        return self.primitive, self.outputs, self.path, self.scope

    @property
    def place(self) -> str:
        """Where it is: loop, scope and line, as far as there are any."""
        line = f"{self.file}:{self.line}" if self.file else ""
        return ", ".join(filter(None, (self.path, self.scope.strip("/"), line)))

    def __str__(self) -> str:
        return f"{self.primitive} {' '.join(self.outputs)}".rstrip()


@dataclass(frozen=True)
class Program:
    """A traced program: its equations in order, and the StableHLO operations of the whole."""

    equations: tuple[Equation, ...]
    operations: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Program:
        """From a worker's reply."""
        return cls(tuple(map(Equation.of, reply["equations"])), dict(reply["operations"]))


@dataclass(frozen=True)
class Window:
    """Neighbouring equations of which the other program has others, or none."""

    old: tuple[Equation, ...]
    new: tuple[Equation, ...]

    def __str__(self) -> str:
        place = (self.old or self.new)[0].place
        text = f"{_listed(self.old)} | {_listed(self.new)}"
        return f"{place}: {text}" if place else text


@dataclass(frozen=True)
class Change:
    """The same equation with other parameters, or lowered to other operations."""

    old: Equation
    new: Equation

    def __str__(self) -> str:
        said = [f"{name} {was} | {now}" for name, (was, now) in sorted(_parameters_apart(self.old, self.new).items())]
        mix = operations_apart(self.old.lowered, self.new.lowered)
        if mix:
            said.append(f"lowered to other operations: {mix_words(mix)}")
        return f"{self.old}: {'; '.join(said)}"


@dataclass(frozen=True)
class Difference:
    """What differs between two programs. `operations` is {StableHLO operation: (how many before, how many now)}."""

    windows: tuple[Window, ...] = ()
    changes: tuple[Change, ...] = ()
    operations: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.windows or self.changes or self.operations)

    @property
    def packages(self) -> frozenset[str]:
        """Whose lines made the equations that differ."""
        found = [equation for window in self.windows for equation in (*window.old, *window.new)]
        found += [equation for change in self.changes for equation in (change.old, change.new)]
        return frozenset(equation.package for equation in found if equation.package)

    def lines(self, most: int = SHOWN) -> tuple[str, ...]:
        """`where: old equations | new equations`, the same difference once; at the end what is not shown."""
        said = [*map(str, self.windows), *map(str, self.changes)]
        if self.operations and not self.changes:
            said.append(f"StableHLO operations: {mix_words(self.operations)}")
        counted = Counter(said)
        texts = [f"{text} (x{times})" if times > 1 else text for text, times in counted.items()]
        more = len(texts) - most
        return tuple(texts) if more <= 0 else (*texts[:most], f"and {more} more differences")


def compare_programs(old: Program, new: Program) -> Difference:
    windows: list[Window] = []
    changes: list[Change] = []
    for before, after in _aligned(old.equations, new.equations):
        if len(before) == len(after) and all(a.key == b.key for a, b in zip(before, after, strict=True)):
            pairs = zip(before, after, strict=True)
            changes += [Change(a, b) for a, b in pairs if _parameters_apart(a, b) or a.lowered != b.lowered]
        else:
            windows.append(Window(tuple(before), tuple(after)))
    return Difference(tuple(windows), tuple(changes), operations_apart(old.operations, new.operations))


def _aligned(
    old: Sequence[Equation], new: Sequence[Equation]
) -> Iterator[tuple[Sequence[Equation], Sequence[Equation]]]:
    """Runs of equal keys and, between them, what has no counterpart."""
    for before, after in aligned([equation.key for equation in old], [equation.key for equation in new]):
        yield old[before], new[after]


def _parameters_apart(old: Equation, new: Equation) -> dict[str, tuple[str, str]]:
    """Parameters that both have, with other values: what only one release knows is no difference of the program."""
    shared = (old.params.keys() & new.params.keys()) - UNTOLD
    return {name: (old.params[name], new.params[name]) for name in shared if old.params[name] != new.params[name]}


def operations_apart(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """{operation: (before, now)} of those that occur another number of times."""
    names = sorted({*old, *new})
    return {name: (old.get(name, 0), new.get(name, 0)) for name in names if old.get(name, 0) != new.get(name, 0)}


def mix_words(mix: Mapping[str, tuple[int, int]]) -> str:
    """`add 3 -> 4, chlo.lgamma 1 -> 0`, the largest changes first."""
    ordered = sorted(mix.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0]))
    said = [f"{name.removeprefix('stablehlo.')} {was} -> {now}" for name, (was, now) in ordered]
    gone = [text for text in said if text.endswith(" -> 0")]  # what vanished says most
    said = [*gone, *(text for text in said if text not in gone)]
    more = len(said) - EQUATIONS_SHOWN
    return ", ".join(said[:EQUATIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _listed(equations: Iterable[Equation]) -> str:
    """The primitives in order, neighbours that are equal counted."""
    runs = [(text, len(list(run))) for text, run in groupby(map(str, equations))]
    said = [f"{text} x{times}" if times > 1 else text for text, times in runs]
    more = len(said) - EQUATIONS_SHOWN
    return (", ".join(said[:EQUATIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")) or "nothing"
