"""What `eigh`, `svd` and `qr` have in common: orthogonality, clusters of close values, and angles between subspaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.plain import at
from jaxcheck.compare.subject import Measure, ParameterError, Subject, ratios

# Values are close where a change of the matrix by the tolerance can turn their vectors by more than 1 / CLOSE.
CLOSE = 10.0
TINY = float(np.finfo(np.float64).tiny)


def relative(subject: Subject) -> float:
    """How far the matrix may seem to have moved, relative to its norm. Vectors have length 1: atol and rtol add up."""
    return subject.tolerance.atol + subject.tolerance.rtol


def stacked(subject: Subject) -> Iterator[tuple[Any, str]]:
    """(index, words for it) of every matrix in the leaf."""
    for index in np.ndindex(subject.golden.shape[:-2]):
        yield index, f" of matrix{at(index).removeprefix(' at')}" if index else ""


def need_shape(what: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape != shape:
        raise ParameterError(f"{what} has shape {list(array.shape)}, not {list(shape)}")
    return array


def all_finite(*arrays: Array) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def element_by_element(subject: Subject, golden: Array, actual: Array, where: Any, words: str) -> Measure:
    """Of a decomposition with NaN or infinity, nothing else can be said."""
    worst = float(ratios(golden, actual, subject.tolerance).max(initial=0.0))
    return Measure(f"beside NaN or infinity, the largest difference{words} / tolerance", worst, 1.0, where)


def orthogonality(columns: Array, allowed: float, symbol: str, where: Any, words: str) -> Measure:
    """The largest element of |QᴴQ - I|."""
    gram = columns.conj().T @ columns
    value = float(np.abs(gram - np.eye(len(gram))).max(initial=0.0))
    return Measure(f"loss of orthogonality |{symbol}ᴴ{symbol} - I|{words}", value, allowed, where)


def clusters(values: Array, close: float) -> list[tuple[Array, float]]:
    """(positions, distance to the nearest value outside) of each group of values with gaps of at most `close`."""
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order])
    breaks = np.flatnonzero(gaps > close)
    edges = [np.inf, *gaps[breaks], np.inf]
    groups = np.split(order, breaks + 1) if len(order) else []
    return [(group, float(min(edges[i], edges[i + 1]))) for i, group in enumerate(groups)]


def sine(golden: Array, actual: Array) -> float:
    """Of the largest angle between the spaces that the columns span: those of golden are orthonormal."""
    outside = actual - golden @ (golden.conj().T @ actual)
    return float(np.linalg.norm(outside, 2))


def turned(golden: Array, actual: Array, group: Array, allowed: float) -> Measure:
    """The angle between the spaces that the vectors of a group span."""
    value = sine(golden[:, group], actual[:, group])
    return Measure(f"sine of the angle to {of_columns(group)}", value, allowed, (slice(None), group))


def turn(relative: float, scale: float, gap: float) -> float:
    """The sine of the angle by which a relative change of the matrix can turn vectors.

    After Davis and Kahan (1970) and, for singular vectors, Wedin (1972): |E| / gap.
    """
    return relative * max(1.0, scale / gap)


def of_columns(group: Array) -> str:
    """`column 2`, `columns 2, 3 (a cluster)`."""
    if len(group) == 1:
        return f"column {group[0]}"
    shown = ", ".join(str(position) for position in sorted(group)[:6]) + (", …" if len(group) > 6 else "")
    return f"columns {shown} (close values: their subspace)"
