"""`qr`: an orthogonal and a triangular factor, unique up to the sign or phase of each column of q and row of r."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.plain import by_ratio
from jaxcheck.compare.subject import Judgement, Measure, ParameterError, Subject, combined, wide, worst_of
from jaxcheck.compare.subspaces import (
    TINY,
    all_finite,
    element_by_element,
    need_shape,
    orthogonality,
    relative,
    stacked,
)


def qr(subject: Subject) -> Judgement:
    """`q` `[..., m, k]` and `r` `[..., k, n]` name the leaves of a decomposition, reduced or complete.

    With t = atol + rtol: |A - QR| <= t |A| in every column, |QᴴQ - I| <= t, and nothing below the diagonal of R beyond
    t |A|: together they leave nothing open but signs. A is the input that `matrix` names, else the product of
    golden's own factors.
    """
    if subject.path not in (subject.parameters["q"], subject.parameters["r"]):
        raise ParameterError(f"{subject.path} is neither q nor r")
    parts = [tuple(map(wide, subject.output(name))) for name in ("q", "r")]
    q, r = parts[0][0], parts[1][0]
    if min(q.ndim, r.ndim) < 2 or q.shape[:-2] != r.shape[:-2] or q.shape[-1] != r.shape[-2]:
        raise ParameterError(f"no QR decomposition has the shapes q {list(q.shape)}, r {list(r.shape)}")
    matrix = subject.input("matrix")
    if matrix is not None:
        matrix = need_shape("matrix", wide(matrix), (*q.shape[:-1], r.shape[-1]))
    measures: list[Measure] = []
    for index, words in stacked(subject):
        golden, actual = ([part[which][index] for part in parts] for which in (0, 1))
        whole = golden[0] @ golden[1] if matrix is None else matrix[index]
        if not all_finite(*golden, *actual, whole):
            own = 0 if subject.path == subject.parameters["q"] else 1
            measures.append(element_by_element(subject, golden[own], actual[own], index, words))
            continue
        measures += (measure.of(words, index) for measure in _measures(actual, whole, relative(subject)))
    return by_ratio(subject, combined(measures, subject.golden.shape), subject.used(), worst_of(measures))


def _measures(factors: list[Array], matrix: Array, allowed: float) -> Iterator[Measure]:
    """Of one matrix."""
    q, r = factors
    scale = max(allowed * float(np.linalg.norm(matrix, axis=0).max(initial=0.0)), TINY)
    yield orthogonality(q, allowed, "Q", ..., "")
    residual = np.linalg.norm(matrix - q @ r, axis=0).max(initial=0.0)
    yield Measure("residual |A - QR| of the worst column", float(residual), scale)
    yield Measure("what is below the diagonal of R", float(np.abs(np.tril(r, -1)).max(initial=0.0)), scale)
