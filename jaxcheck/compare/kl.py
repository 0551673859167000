"""`kl`: distributions whose Kullback-Leibler divergence is small."""

from __future__ import annotations

import numpy as np

from jaxcheck.compare.distances import Array
from jaxcheck.compare.plain import at, by_ratio
from jaxcheck.compare.subject import Judgement, ParameterError, Subject, wide
from jaxcheck.results import ToleranceUsed


def kl(subject: Subject) -> Judgement:
    """KL(golden || actual) of each distribution along `axis` is at most `max_kl` nats.

    `of: logits` takes exp(x) / sum(exp(x)), so that a constant added to all logits changes nothing; log probabilities
    are logits. `of: probabilities` takes the numbers as they are: sum(p log(p/q) - p + q), which is the divergence
    where both sum to 1 and positive where they do not. A distribution with a NaN is held to equality.
    """
    bound, axis, of = subject.parameters["max_kl"], subject.parameters.get("axis", -1), subject.parameters["of"]
    if subject.golden.dtype.kind == "c" or not -subject.golden.ndim <= axis < subject.golden.ndim:
        array = f"{subject.golden.dtype} of shape {list(subject.golden.shape)}"
        raise ParameterError(f"no distribution along axis {axis} of {array}")
    used = ToleranceUsed(rtol=0.0, atol=0.0, source=f"comparator: kl, max_kl {bound:g}")
    golden, actual = wide(subject.golden), wide(subject.actual)
    with np.errstate(all="ignore"):
        divergence = (_of_logits if of == "logits" else _of_probabilities)(golden, actual, axis)
        equal = ((golden == actual) | (np.isnan(golden) & np.isnan(actual))).all(axis=axis)
        divergence = np.where(equal, 0.0, np.where(np.isnan(divergence), np.inf, divergence))
        ratio = np.where(divergence > 0, divergence / bound, 0.0)
    spread = np.broadcast_to(np.expand_dims(ratio, axis), golden.shape)
    return by_ratio(subject, spread, used, _reason(divergence, bound))


def _of_logits(golden: Array, actual: Array, axis: int) -> Array:
    log_p, log_q = _log_softmax(golden, axis), _log_softmax(actual, axis)
    p, q = np.exp(log_p), np.exp(log_q)
    return _divergence(p, q, log_p - log_q, axis)


def _log_softmax(logits: Array, axis: int) -> Array:
    shifted = logits - logits.max(axis=axis, keepdims=True, initial=-np.inf)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return found


def _of_probabilities(p: Array, q: Array, axis: int) -> Array:
    divergence = _divergence(p, q, np.log(p / q), axis)
    negative = ((p < 0) | (q < 0)).any(axis=axis)
    return np.where(negative, np.inf, divergence)


def _divergence(p: Array, q: Array, log_ratio: Array, axis: int) -> Array:
    """Each term is >= 0: nothing cancels, however close the two are."""
    terms = np.where(p > 0, p * log_ratio - p + q, q)
    found: Array = np.maximum(terms, 0.0, where=~np.isnan(terms), out=terms).sum(axis=axis)
    return found


def _reason(divergence: Array, bound: float) -> str | None:
    beyond = int(np.count_nonzero(divergence > bound))
    if not beyond:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(divergence)), divergence.shape))
    many = f"{beyond:,} of {divergence.size:,} distributions" if divergence.size > 1 else "the distribution"
    worst = f"worst{at(index)}: " if divergence.size > 1 else ""
    return f"{many} moved, {worst}KL divergence {divergence[index]:.3g}, allowed {bound:.2g} nats"
