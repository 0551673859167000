"""Sums, moments, softmax and normalisation: where cancellation, overflow and masks decide.

Kernels take float32 arrays (rows, columns) and reduce along the columns.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxcheck.kernels.numerics.special import float32_range
from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]
EPSILON = 1e-5


def sums_and_moments(x: jax.Array) -> Leaves:
    """Sum, product, mean, Euclidean norm, variance and median of every row."""
    return {
        "sum": jnp.sum(x, axis=1),
        "product": jnp.prod(x, axis=1),
        "mean": jnp.mean(x, axis=1),
        "norm": jnp.linalg.norm(x, axis=1),
        "variance": jnp.var(x, axis=1),
        "median": jnp.median(x, axis=1),
    }


def sums_and_moments_reference(x: Any) -> Doubles:
    found = {
        "sum": x.sum(1),
        "product": x.prod(1),
        "mean": x.mean(1),
        "variance": x.var(1),
        "median": np.median(x, axis=1),
    }
    squares = float32_range((x * x).sum(1))
    return {name: float32_range(value) for name, value in found.items()} | {"norm": np.sqrt(squares)}


def cumulative(x: jax.Array) -> Leaves:
    """Running sum, product, maximum and logsumexp of every row; the running sum in reverse as well."""
    return {
        "sum": jnp.cumsum(x, axis=1),
        "product": jnp.cumprod(x, axis=1),
        "maximum": jax.lax.cummax(x, axis=1),
        "logsumexp": jax.lax.cumlogsumexp(x, axis=1),
        "reverse": jax.lax.cumsum(x, axis=1, reverse=True),
    }


def cumulative_reference(x: Any) -> Doubles:
    return {
        "sum": np.cumsum(x, axis=1),
        "product": np.cumprod(x, axis=1),
        "maximum": np.maximum.accumulate(x, axis=1),
        "logsumexp": np.logaddexp.accumulate(x, axis=1),
        "reverse": np.cumsum(x[:, ::-1], axis=1)[:, ::-1],
    }


def running_values_end_in_the_total(inputs: Inputs, outputs: Any) -> None:
    """The running maximum never falls, and ends in the maximum of the row."""
    maximum, x = np.asarray(outputs["maximum"]), np.asarray(inputs["x"])
    require(np.all(np.diff(maximum, axis=1) >= 0), "the running maximum falls")
    require(np.array_equal(maximum[:, -1], x.max(1)), "the running maximum does not end in the maximum")


def softmax(x: jax.Array, weights: jax.Array) -> Leaves:
    """softmax and its logarithm, logsumexp, and logsumexp with weights >= 0 of the shape of x, by row."""
    return {
        "softmax": jax.nn.softmax(x, axis=1),
        "log_softmax": jax.nn.log_softmax(x, axis=1),
        "logsumexp": jax.nn.logsumexp(x, axis=1),
        "weighted": jax.nn.logsumexp(x, axis=1, b=weights),
    }


def softmax_reference(x: Any, weights: Any) -> Doubles:
    total = stable_log_sum(x, np.ones_like(x))
    return {
        "softmax": softmax_of(x),
        "log_softmax": x - total[:, None],
        "logsumexp": total,
        "weighted": stable_log_sum(x, weights),
    }


def stable_log_sum(x: Any, weights: Any) -> Any:
    """log(sum(weights * exp(x))) of every row, the largest x taken out; -inf where nothing is left."""
    top = x.max(1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log((weights * np.exp(x - top)).sum(1)) + top[:, 0]


def softmax_of(x: Any) -> Any:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def masked_softmax(x: jax.Array, mask: jax.Array) -> Leaves:
    """Softmax over the entries that the bool mask keeps: by the argument `where`, and by adding -inf.

    A row that keeps nothing is 0 by `where` and NaN by -inf.
    """
    added = jnp.where(mask, x, -jnp.inf)
    return {"where": jax.nn.softmax(x, axis=1, where=mask), "added": jax.nn.softmax(added, axis=1)}


def masked_softmax_reference(x: Any, mask: Any) -> Doubles:
    top = np.where(mask, x, -np.inf).max(1, keepdims=True, initial=-1e300)
    weights = np.where(mask, np.exp(np.where(mask, x - top, 0)), 0)
    total = weights.sum(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        added = weights / total
    return {"where": np.where(total > 0, added, 0), "added": added}


def weights_sum_to_one(inputs: Inputs, outputs: Any) -> None:
    """Softmax weights are in [0, 1] and sum to one in every row; a row that is masked entirely may be 0 or NaN."""
    mask = np.asarray(inputs.get("mask", np.ones(np.shape(inputs["x"]), bool)))
    for name in outputs.keys() & {"softmax", "where", "added"}:
        weights = np.asarray(outputs[name], np.float64)[mask.any(1)]
        require(np.all((weights >= 0) & (weights <= 1 + 1e-6)), f"{name}: weights leave [0, 1]")
        total = weights.sum(1)
        require(np.all(np.abs(total - 1) <= 1e-5), f"{name}: the rows sum to {total}")


def poisoned_exponential(x: jax.Array, scale: jax.Array) -> Leaves:
    """exp and softmax of a product with NaN, by a constant and by a value: NaN everywhere, whatever x holds.

    `scale` is a float32 scalar. jax 0.10.2 returns uninitialised memory for the constant, under jit.
    """
    return {
        "constant": jnp.exp(x * jnp.nan),
        "value": jnp.exp(x * scale),
        "softmax": jax.nn.softmax(x * jnp.nan, axis=1),
    }


def poisoned_exponential_reference(x: Any, scale: Any) -> Doubles:
    return {"constant": x * np.nan, "value": np.exp(x * scale), "softmax": x * np.nan}


def layer_norm(x: jax.Array, gain: jax.Array, bias: jax.Array) -> Leaves:
    """Layer normalisation of every row with epsilon 1e-5, and the gradients of its squared sum weighted by column.

    x (rows, columns), gain and bias (columns,). Returns {"normal": as x, "d_x": as x, "d_gain": (columns,)}.
    """

    def loss(rows: jax.Array, scale: jax.Array) -> jax.Array:
        column = jnp.arange(x.shape[1], dtype=x.dtype)
        return jnp.sum(column * normalise(rows, scale, bias) ** 2) / x.size

    with jax.named_scope("forward"):
        normal = normalise(x, gain, bias)
    # Compiled in every mode: operation by operation the backward pass would be most of the battery's time.
    d_x, d_gain = jax.jit(jax.grad(loss, argnums=(0, 1)))(x, gain)
    return {"normal": normal, "d_x": d_x, "d_gain": d_gain}


def normalise(x: jax.Array, gain: ArrayLike, bias: ArrayLike) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * gain + bias


def layer_norm_reference(x: Any, gain: Any, bias: Any) -> Doubles:
    inverse = 1 / np.sqrt(x.var(1, keepdims=True) + EPSILON)
    whitened = (x - x.mean(1, keepdims=True)) * inverse
    normal = whitened * gain + bias
    d_normal = 2 * np.arange(x.shape[1]) * normal / x.size
    return {
        "normal": normal,
        "d_x": layer_norm_pullback(d_normal * gain, whitened, inverse),
        "d_gain": (d_normal * whitened).sum(0),
    }


def layer_norm_pullback(d_whitened: Any, whitened: Any, inverse: Any) -> Any:
    """The gradient by the input of a normalisation, from that by its whitened output (rows, columns)."""
    centred = d_whitened - d_whitened.mean(-1, keepdims=True)
    return inverse * (centred - whitened * (d_whitened * whitened).mean(-1, keepdims=True))
