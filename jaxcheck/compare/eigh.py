"""`eigh`: eigenvectors of a Hermitian matrix, which are unique up to sign or phase, and in a cluster up to rotation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.plain import by_ratio
from jaxcheck.compare.subject import Judgement, Measure, ParameterError, Subject, combined, wide, worst_of
from jaxcheck.compare.subspaces import (
    CLOSE,
    TINY,
    all_finite,
    clusters,
    element_by_element,
    need_shape,
    orthogonality,
    relative,
    stacked,
    turn,
    turned,
)


def eigh(subject: Subject) -> Judgement:
    """Eigenvectors in columns, `[..., n, n]`; `values` names the leaf `[..., n]` of their eigenvalues.

    With t = atol + rtol and |A| the largest |eigenvalue|: |A v - w v| <= t |A|; |VᴴV - I| <= t; and the space of each
    group of close eigenvalues is golden's up to an angle of t |A| / gap. A is the input that `matrix` names (its
    Hermitian part, as `jnp.linalg.eigh` takes it), else the product of golden's own decomposition. The eigenvalues
    are their own leaf's matter.
    """
    shape = subject.golden.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ParameterError(f"eigenvectors have shape [..., n, n], {subject.path} has {list(shape)}")
    values = tuple(need_shape("values", wide(one), shape[:-1]) for one in subject.output("values"))
    matrix = subject.input("matrix")
    if matrix is not None:
        matrix = need_shape("matrix", wide(matrix), shape)
    golden, actual = wide(subject.golden), wide(subject.actual)
    measures: list[Measure] = []
    for index, words in stacked(subject):
        whole = None if matrix is None else matrix[index]
        pairs = (golden[index], actual[index], values[0][index].real, values[1][index].real)
        if not all_finite(*pairs, *(() if whole is None else (whole,))):
            measures.append(element_by_element(subject, golden[index], actual[index], index, words))
            continue
        found = _measures(*pairs, whole, relative(subject))
        measures += (measure.of(words, (*index, *measure.where)) for measure in found)
    return by_ratio(subject, combined(measures, shape), subject.used(), worst_of(measures))


def _measures(
    golden: Array, actual: Array, golden_values: Array, values: Array, matrix: Array | None, allowed: float
) -> Iterator[Measure]:
    """Of one matrix."""
    everything, scale = slice(None), float(np.abs(golden_values).max(initial=0.0))
    yield orthogonality(actual, allowed, "V", (everything, everything), "")
    if matrix is None:
        matrix = (golden * golden_values) @ golden.conj().T
    hermitian = (matrix + matrix.conj().T) / 2
    residuals = np.linalg.norm(hermitian @ actual - actual * values, axis=0)
    for column, residual in enumerate(residuals):
        words = f"residual |A v - w v| of column {column}"
        yield Measure(words, float(residual), max(allowed * scale, TINY), (everything, column))
    for group, gap in clusters(golden_values, CLOSE * allowed * scale):
        yield turned(golden, actual, group, turn(allowed, scale, gap))
