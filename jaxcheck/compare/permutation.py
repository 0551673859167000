"""`permutation`: the same values in another order, or the numbers 0 to n-1 in any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.distances import Array, is_extended
from jaxcheck.compare.plain import allclose, at, by_ratio
from jaxcheck.compare.subject import Judgement, ParameterError, Subject, wide


def permutation(subject: Subject) -> Judgement:
    """Along `axis`, each line of actual is a permutation: with `of: values`, of golden's line, within tolerance;
    with `of: range`, of 0 to n-1, whatever golden holds.

    Complex numbers have no order: there the nearest are partners (n² pairs a line).
    """
    axis, dimensions = subject.parameters.get("axis", -1), subject.golden.ndim
    if not -dimensions <= axis < dimensions:
        raise ParameterError(f"axis {axis} of an array of shape {list(subject.golden.shape)}")
    return _of_range(subject, axis) if subject.parameters.get("of") == "range" else _of_values(subject, axis)


def _of_values(subject: Subject, axis: int) -> Judgement:
    """As `allclose` sees it once golden's values stand where their partners do."""
    golden, actual = (np.moveaxis(_ordered(array), axis, -1) for array in (subject.golden, subject.actual))
    partners = np.empty(golden.shape, int)
    for line in np.ndindex(golden.shape[:-1]):
        partners[line] = (_nearest if golden.dtype.kind == "c" else _by_rank)(golden[line], actual[line])
    beside = np.take_along_axis(subject.golden, np.moveaxis(partners, -1, axis), axis)
    judgement = allclose(replace(subject, golden=beside))
    in_place = compare_arrays(subject.golden, subject.actual, rtol=0.0, atol=0.0).bit_equal
    reason = judgement.reason and f"not a permutation of {subject.against}: {judgement.reason}"
    return Judgement(judgement.statistics.model_copy(update={"bit_equal": in_place}), judgement.tolerance, reason)


def _ordered(array: Array) -> Array:
    return wide(array) if is_extended(array.dtype) else array


def _by_rank(golden: Array, actual: Array) -> Array:
    """Positions in golden of the partners of actual's: the n-th smallest for the n-th smallest, NaNs last."""
    partners = np.empty(len(golden), int)
    partners[np.argsort(actual, kind="stable")] = np.argsort(golden, kind="stable")
    return partners


def _nearest(golden: Array, actual: Array) -> Array:
    """Likewise for complex numbers: the closest pair first, then the closest of what is left."""
    mine, theirs = actual[:, None], golden[None, :]
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(mine - theirs), nan=np.inf)
    apart[(mine == theirs) | (np.isnan(mine) & np.isnan(theirs))] = -1.0
    partners, taken = np.full(len(golden), -1), np.zeros(len(golden), bool)
    for pair in np.argsort(apart, axis=None, kind="stable"):
        position, partner = divmod(int(pair), len(golden))
        if partners[position] < 0 and not taken[partner]:
            partners[position], taken[partner] = partner, True
    return partners


def _of_range(subject: Subject, axis: int) -> Judgement:
    lines = np.moveaxis(subject.actual, axis, -1)
    wrong = np.zeros(lines.shape, bool)
    for line in np.ndindex(lines.shape[:-1]):
        wrong[line] = ~_numbers_once(lines[line])
    wrong = np.moveaxis(wrong, -1, axis)
    reason = None
    if wrong.any():
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        count = f"{np.count_nonzero(wrong):,} of {wrong.size:,} lie outside or occur before"
        reason = f"not a permutation of 0 to {lines.shape[-1] - 1}: {count}, first{at(index)}: {subject.actual[index]}"
    return by_ratio(subject, np.where(wrong, np.inf, 0.0), subject.used(), reason)


def _numbers_once(values: Array) -> Array:
    """True where a number of 0 to n-1 occurs for the first time."""
    first = np.zeros(len(values), bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first & (values >= 0) & (values < len(values))
