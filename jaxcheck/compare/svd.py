"""`svd`: singular vectors, unique up to a sign or phase that u and vh share, and in a cluster up to rotation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.plain import allclose, by_ratio
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


def svd(subject: Subject) -> Judgement:
    """`u` `[..., m, p]`, `s` `[..., k]` and `vh` `[..., q, n]` name the leaves of a decomposition, reduced or full.

    With t = atol + rtol and |A| the largest singular value: |A v - s u| <= t |A| at u, |Aᴴu - s v| <= t |A| at vh,
    which ties their signs; |UᴴU - I| <= t; and the space of each group of close singular values is golden's up to an
    angle of t |A| / gap. What a reduced decomposition shows of the null space is arbitrary, and only has to be
    orthogonal. A is the input that `matrix` names, else the product of golden's own decomposition. At the leaf `s`
    this is `allclose`.
    """
    if subject.path == subject.parameters["s"]:
        return allclose(subject)
    right = subject.path == subject.parameters["vh"]
    if not right and subject.path != subject.parameters["u"]:
        raise ParameterError(f"{subject.path} is none of u, s and vh")
    parts = [tuple(map(wide, subject.output(name))) for name in ("u", "s", "vh")]
    matrix = _checked(subject, parts, subject.input("matrix"))
    measures: list[Measure] = []
    for index, words in stacked(subject):
        golden, actual = ([part[which][index] for part in parts] for which in (0, 1))
        whole = None if matrix is None else matrix[index]
        own = 2 if right else 0
        if not all_finite(*golden, *actual, *(() if whole is None else (whole,))):
            measures.append(element_by_element(subject, golden[own], actual[own], index, words))
            continue
        if right:
            golden, actual = _mirrored(golden), _mirrored(actual)
            whole = None if whole is None else whole.conj().T
        for measure in _measures(golden, actual, whole, relative(subject), right):
            where = measure.where[::-1] if right else measure.where
            measures.append(measure.of(words, (*index, *where)))
    return by_ratio(subject, combined(measures, subject.golden.shape), subject.used(), worst_of(measures))


def _checked(subject: Subject, parts: list[tuple[Array, ...]], matrix: Array | None) -> Array | None:
    u, s, vh = (part[0] for part in parts)
    batch, k = s.shape[:-1], s.shape[-1] if s.ndim else 0
    fits = u.ndim == vh.ndim == s.ndim + 1 >= 2 and u.shape[:-2] == vh.shape[:-2] == batch
    if not fits or u.shape[-1] < k or vh.shape[-2] < k:
        shapes = ", ".join(f"{name} {list(part[0].shape)}" for name, part in zip(("u", "s", "vh"), parts, strict=True))
        raise ParameterError(f"no singular value decomposition has the shapes {shapes}")
    return None if matrix is None else need_shape("matrix", wide(matrix), (*batch, u.shape[-2], vh.shape[-1]))


def _mirrored(parts: list[Array]) -> list[Array]:
    """The decomposition of Aᴴ, whose left vectors are the right ones of A."""
    return [parts[2].conj().T, parts[1].real, parts[0].conj().T]


def _measures(
    golden: list[Array], actual: list[Array], matrix: Array | None, allowed: float, right: bool
) -> Iterator[Measure]:
    """Of the left vectors of one matrix."""
    (golden_u, golden_s, golden_vh), (u, s, vh) = golden, actual
    everything, k, scale = slice(None), len(s), float(golden_s.max(initial=0.0))
    yield orthogonality(u, allowed, "V" if right else "U", (everything, everything), "")
    if matrix is None:
        matrix = (golden_u[:, :k] * golden_s) @ golden_vh[:k]
    residuals = np.linalg.norm(matrix @ vh[:k].conj().T - u[:, :k] * s, axis=0)
    for column, residual in enumerate(residuals):
        words = f"residual {'|Aᴴu - s v|' if right else '|A v - s u|'} of vector {column}"
        yield Measure(words, float(residual), max(allowed * scale, TINY), (everything, column))
    close = CLOSE * allowed * scale
    all_values = np.concatenate([golden_s, np.zeros(u.shape[1] - k)])
    complete = u.shape[0] == u.shape[1]
    for group, gap in clusters(all_values, close):
        smallest = float(all_values[group].min())
        if not complete and smallest <= close:
            continue
        yield turned(golden_u, u, group, turn(allowed, scale, gap if complete else min(gap, smallest)))
