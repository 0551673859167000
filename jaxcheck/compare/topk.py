"""`topk`: indices of the largest, smallest or sorted elements, which are arbitrary where elements tie."""

from __future__ import annotations

import numpy as np

from jaxcheck.compare.distances import Array, is_integer
from jaxcheck.compare.plain import allclose, at, by_ratio, exact
from jaxcheck.compare.subject import Judgement, ParameterError, Subject, ratios, wide
from jaxcheck.results import ToleranceUsed


def topk(subject: Subject) -> Judgement:
    """Indices may differ from golden's where the elements that they stand for are equal within their tolerance.

    Indices of `top_k`, `argsort`, `argmax` and the like. `operand` names the input that they index along `axis`
    (without that axis, and of a scalar index flattened, for `argmax`). `values` names the output that holds the
    elements themselves: at that leaf this is `allclose`. Without `operand`, an index that golden lacks altogether is
    accepted only in place of the last value and its ties, since nothing else is known of the element. No index may
    occur twice in a line where golden has none twice.
    """
    if subject.parameters.get("values") == subject.path:
        return allclose(subject)
    if not is_integer(subject.golden.dtype):
        raise ParameterError(f"it compares indices, not {subject.golden.dtype} (is that leaf the `values`?)")
    golden, actual = subject.golden.astype(np.int64), subject.actual.astype(np.int64)
    operand = subject.input("operand")
    if operand is not None:
        subject = subject.under(subject.path, operand.dtype)
        theirs, mine, length = _elements(subject, operand, golden, actual)
    elif "values" not in subject.parameters:  # no inputs are known: nothing says which elements tie
        return exact(subject)
    else:
        values = subject.output("values")[0]
        subject = subject.under(subject.parameters["values"], values.dtype)
        theirs, mine, length = _from_values(subject, wide(values), golden, actual)
    ratio = np.where(golden == actual, 0.0, ratios(theirs, mine, subject.tolerance))
    outside = (actual < 0) | (actual >= length)
    twice = _repeated(actual, _axis(subject, actual)) & ~_repeated(golden, _axis(subject, golden))
    ratio = np.where(outside | twice, np.inf, ratio)
    said = f"comparator: topk, ties within rtol {subject.tolerance.rtol:g}, atol {subject.tolerance.atol:g}"
    used = ToleranceUsed(rtol=0.0, atol=0.0, source=f"{said} ({subject.tolerance.source})")
    return by_ratio(subject, ratio, used, _reason(ratio, outside, twice, golden, actual, theirs, mine))


def _axis(subject: Subject, indices: Array) -> int | None:
    """The axis along which indices form a line; None for those of argmax, which stand alone."""
    operand = subject.input("operand")
    axis: int = subject.parameters.get("axis", -1)
    return None if operand is not None and indices.ndim < operand.ndim else axis


def _elements(subject: Subject, operand: Array, golden: Array, actual: Array) -> tuple[Array, Array, float]:
    """(elements at golden's indices, at actual's, how many there are to choose from)."""
    axis, name = subject.parameters.get("axis", -1), subject.parameters["operand"]
    elements, alone = wide(operand), _axis(subject, golden) is None
    if golden.ndim == 0:
        elements, axis = elements.reshape(-1), 0
    if not -elements.ndim <= axis < elements.ndim:
        raise ParameterError(f"axis {axis} of {name}, which has shape {list(operand.shape)}")
    indices = [np.expand_dims(array, axis) if alone else array for array in (golden, actual)]
    if indices[0].ndim != elements.ndim or _without(axis, indices[0]) != _without(axis, elements):
        shapes = f"{list(golden.shape)} do not index {name}, {list(operand.shape)}"
        raise ParameterError(f"indices of shape {shapes}, along axis {axis}")
    length = elements.shape[axis]
    if not length and golden.size:
        raise ParameterError(f"indices of shape {list(golden.shape)} into {name}, which is empty along axis {axis}")
    found = [np.take_along_axis(elements, np.clip(array, 0, length - 1), axis) for array in indices]
    return found[0].reshape(golden.shape), found[1].reshape(golden.shape), length


def _without(axis: int, array: Array) -> list[int]:
    lengths: list[int] = np.delete(array.shape, axis).tolist()
    return lengths


def _from_values(subject: Subject, values: Array, golden: Array, actual: Array) -> tuple[Array, Array, float]:
    """Likewise, where only the chosen elements are known."""
    if values.shape != golden.shape or not golden.ndim:
        shapes = f"of shape {list(golden.shape)}, values {subject.parameters['values']} of {list(values.shape)}"
        raise ParameterError(f"indices {shapes}: name the operand instead")
    axis = subject.parameters.get("axis", -1)
    lines = [np.moveaxis(array, axis, -1) for array in (values, golden, actual)]
    known = lines[2][..., :, None] == lines[1][..., None, :]
    if not golden.size:
        return values, values, np.inf
    elements = np.take_along_axis(lines[0], known.argmax(-1), -1)
    mine = np.where(known.any(-1), elements, lines[0][..., -1:])
    return values, np.moveaxis(mine, -1, axis), np.inf


def _repeated(indices: Array, axis: int | None) -> Array:
    """Where an index has been in its line before."""
    if axis is None or not indices.size:
        return np.zeros(indices.shape, bool)
    lines = np.moveaxis(indices, axis, -1)
    order = np.argsort(lines, axis=-1, kind="stable")
    ordered = np.take_along_axis(lines, order, -1)
    again = np.zeros(lines.shape, bool)
    np.put_along_axis(again, order[..., 1:], ordered[..., 1:] == ordered[..., :-1], -1)
    return np.moveaxis(again, -1, axis)


def _reason(
    ratio: Array, outside: Array, twice: Array, golden: Array, actual: Array, theirs: Array, mine: Array
) -> str | None:
    beyond = int(np.count_nonzero(ratio > 1))
    if not beyond:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    if outside[index]:
        what = f"{actual[index]}, which is out of range"
    elif twice[index]:
        what = f"{actual[index]} for the second time"
    else:
        what = f"{actual[index]} (element {mine[index]:.8g}) was {golden[index]} (element {theirs[index]:.8g})"
    return f"{beyond:,} of {ratio.size:,} indices differ where the elements do not tie, worst{at(index)}: {what}"
