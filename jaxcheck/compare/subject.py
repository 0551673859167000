"""What a comparator is given, and what it says: the interface between a leaf and the ways to compare it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.distances import Array, is_extended
from jaxcheck.results import Statistics, ToleranceUsed

Pair = tuple[Array, Array]


class Tolerance(Protocol):
    """What a comparator may allow, and who said so."""

    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...
    @property
    def source(self) -> str: ...


class ParameterError(ValueError):
    """A comparator's parameters do not fit the outputs or inputs: a leaf that is not there, or of another shape."""


def _no_tolerance(path: str, dtype: str) -> Tolerance | None:
    return None


@dataclass(frozen=True)
class Surroundings:
    """What a comparator may look at besides its own leaf.

    `golden` and `actual` are the outputs by key path. `inputs` are those that both were computed from, by path
    (`x`, `params['w']`), or None where they are not known. `tolerance` gives the one in force for a leaf's path and
    dtype, None where nobody set one.
    """

    golden: Mapping[str, Array] = field(default_factory=dict)
    actual: Mapping[str, Array] = field(default_factory=dict)
    inputs: Mapping[str, Array] | None = None
    tolerance: Callable[[str, str], Tolerance | None] = _no_tolerance


@dataclass(frozen=True)
class Among:
    """The elements at hand are those at `positions`, in C order, of an array of `shape`."""

    shape: tuple[int, ...]
    positions: Array

    def told(self, found: Statistics) -> Statistics:
        """Statistics of the elements at hand as those of the array."""
        worst = found.worst
        if worst is not None:
            index = np.unravel_index(int(self.positions[worst.index[0]]), self.shape)
            worst = worst.model_copy(update={"index": tuple(map(int, index))})
        size = math.prod(self.shape)
        return found.model_copy(update={"size": size, "compared": found.size, "worst": worst})


@dataclass(frozen=True)
class Subject:
    """A leaf to be compared: arrays of one shape and dtype. `against` is what `golden` is called in words.

    Where they are only some elements of a leaf, `among` says which; comparators of single elements take these.
    """

    path: str
    golden: Array
    actual: Array
    tolerance: Tolerance
    against: str = "golden"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    around: Surroundings = Surroundings()
    among: Among | None = None

    def statistics(self, *, rtol: float, atol: float) -> Statistics:
        """How far the elements moved."""
        found = compare_arrays(self.golden, self.actual, rtol=rtol, atol=atol)
        return found if self.among is None else self.among.told(found)

    def output(self, parameter: str) -> Pair:
        """(golden, actual) of the output leaf that the parameter names."""
        path = self.parameters[parameter]
        if path == self.path:
            return self.golden, self.actual
        missing = next((leaves for leaves in (self.around.golden, self.around.actual) if path not in leaves), None)
        if missing is not None:
            raise ParameterError(f"{parameter}: there is no output leaf {path}; leaves: {', '.join(missing) or 'none'}")
        golden, actual = self.around.golden[path], self.around.actual[path]
        if golden.shape != actual.shape:
            shapes = f"{list(actual.shape)}, {self.against} has {list(golden.shape)}"
            raise ParameterError(f"{parameter}: the output leaf {path} has shape {shapes}")
        return golden, actual

    def input(self, parameter: str) -> Array | None:
        """The input that the parameter names; None where it names none, or where no inputs are known."""
        path = self.parameters.get(parameter)
        if path is None or self.around.inputs is None:
            return None
        if path not in self.around.inputs:
            inputs = ", ".join(self.around.inputs) or "none"
            raise ParameterError(f"{parameter}: there is no input {path}; inputs: {inputs}")
        return self.around.inputs[path]

    def under(self, path: str, dtype: np.dtype[Any]) -> Subject:
        """With the tolerance of another leaf: indices are held to that of the values that they stand for."""
        found = self.around.tolerance(path, dtype.name)
        if found is None:
            raise ParameterError(f"no tolerance for {dtype.name}, the dtype of the values that the indices stand for")
        return replace(self, tolerance=found)

    def used(self) -> ToleranceUsed:
        return ToleranceUsed(rtol=self.tolerance.rtol, atol=self.tolerance.atol, source=self.tolerance.source)


@dataclass(frozen=True)
class Judgement:
    """What a comparator says of two arrays; `reason` is None where they are equal enough."""

    statistics: Statistics
    tolerance: ToleranceUsed
    reason: str | None


Comparator = Callable[[Subject], Judgement]


@dataclass(frozen=True)
class Measure:
    """One number that is held to an allowance; `where` indexes the elements of the leaf that it speaks of."""

    words: str
    value: float
    allowed: float
    where: Any = ...

    @property
    def ratio(self) -> float:
        if not self.value:
            return 0.0
        return self.value / self.allowed if self.allowed else float("inf")

    def of(self, words: str, where: Any) -> Measure:
        """The same of one matrix in a stack."""
        return Measure(self.words + words, self.value, self.allowed, where)


def wide(array: Array) -> Array:
    """In float64 or complex128, where sums of products lose nothing that a comparator would see."""
    if not is_extended(array.dtype) and array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64)


def ratios(golden: Array, actual: Array, tolerance: Tolerance) -> Array:
    """|actual - golden| / (atol + rtol * |golden|), element by element.

    0 for equal numbers, infinities included, and for two NaNs; infinite where a NaN or an infinity meets anything else.
    """
    with np.errstate(all="ignore"):
        delta = np.abs(actual - golden)
        ratio = delta / (tolerance.atol + tolerance.rtol * np.abs(golden))
        same = (golden == actual) | (np.isnan(golden) & np.isnan(actual))
        finite = np.isfinite(golden) & np.isfinite(actual)
    found: Array = np.where(same, 0.0, np.where(finite, ratio, np.inf))
    return found


def combined(measures: Sequence[Measure], shape: tuple[int, ...]) -> Array:
    """The violation ratio of every element: that of the worst measure which speaks of it."""
    ratio = np.zeros(shape)
    for measure in measures:
        ratio[measure.where] = np.maximum(ratio[measure.where], measure.ratio)
    return ratio


def worst_of(measures: Sequence[Measure]) -> str | None:
    """In words, the measure that is furthest beyond its allowance; None where all are within."""
    beyond = [measure for measure in measures if measure.ratio > 1]
    if not beyond:
        return None
    worst = max(beyond, key=lambda measure: measure.ratio)
    more = f"; {len(beyond) - 1:,} more beyond" if len(beyond) > 1 else ""
    return f"{worst.words} is {worst.value:.3g}, allowed {worst.allowed:.2g}{more}"
