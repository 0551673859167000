"""bfloat16, float16 and float8: casts, sums and chains with few bits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")


def narrow_chain(x: jax.Array, weights: jax.Array) -> Leaves:
    """x (rows, k) and weights (k, columns) of one narrow dtype: product, softmax, normalisation and running sum.

    Sums accumulate in float32 inside an operation; what an operation hands on is rounded.
    """
    product = x @ weights
    return {
        "product": product,
        "wide_product": jnp.matmul(x, weights, preferred_element_type=jnp.float32),
        "softmax": jax.nn.softmax(product, axis=1),
        "tanh": jnp.tanh(product),
        "mean": jnp.mean(x, axis=1),
        "running": jnp.cumsum(x, axis=1),
    }


def narrow_chain_reference(x: Any, weights: Any) -> Doubles:
    """Without rounding in between, so only the outputs that one operation makes."""
    return {"product": x @ weights, "wide_product": x @ weights, "mean": x.mean(1)}


def narrow_residual(x: jax.Array, y: jax.Array) -> Leaves:
    """What a sum of two narrow numbers lost of the second, exactly; and their product, rounded once."""
    total = jax.lax.reduce_precision(x + y, 8, 7) if x.dtype == jnp.bfloat16 else x + y
    kept = jax.lax.reduce_precision(total - x, 8, 7) if x.dtype == jnp.bfloat16 else total - x
    return {"total": total, "lost": y - kept, "product": x * y}


def eight_bit_casts(x: jax.Array) -> Leaves:
    """x (n,) float32 to each float8 dtype, and back to float32; beyond the largest value NaN or infinity."""
    cast = {name: x.astype(name) for name in EIGHT_BITS}
    return cast | {f"{name}_back": value.astype(jnp.float32) for name, value in cast.items()}


def eight_bit_casts_reference(x: Any) -> Doubles:
    """To the nearest number that the format has, the even one of two."""
    return {
        "float8_e4m3fn_back": nearest(x, 3, -6, 448.0, np.nan),
        "float8_e5m2_back": nearest(x, 2, -14, 57344.0, np.inf),
    }


def nearest(x: Any, bits: int, least: int, largest: float, beyond: float) -> Any:
    """x rounded to `bits` after the point of the significand, with exponents from `least`; `beyond` past `largest`."""
    _, exponent = np.frexp(x)
    step = 2.0 ** (np.maximum(exponent - 1, least) - bits)
    rounded = np.round(x / step) * step
    return np.where(np.abs(rounded) > largest, np.copysign(beyond, x), rounded)


def casts_are_idempotent(inputs: Inputs, outputs: Any) -> None:
    """A number that was rounded to float8 is within half a step of the original, wherever it is finite."""
    x = np.asarray(inputs["x"], np.float64)
    for name, relative in zip(EIGHT_BITS, (2**-4, 2**-3, 2**-4), strict=True):
        back = np.asarray(outputs[f"{name}_back"], np.float64)
        near = np.isnan(back) | np.isinf(back) | (np.abs(back - x) <= relative * np.abs(x) + 2**-10)
        require(np.all(near), f"{name} turns {x} into {back}")


def eight_bit_product(x: jax.Array, weights: jax.Array) -> Leaves:
    """x (rows, k), weights (k, columns), float32: scaled to float8, multiplied with float32 sums, scaled back."""
    with jax.named_scope("quantise"):
        x_scale, w_scale = jnp.max(jnp.abs(x)) / 448, jnp.max(jnp.abs(weights)) / 448
        left, right = (x / x_scale).astype(jnp.float8_e4m3fn), (weights / w_scale).astype(jnp.float8_e4m3fn)
    product = jnp.matmul(left, right, preferred_element_type=jnp.float32) * (x_scale * w_scale)
    return {"left": left, "right": right, "product": product}


def product_is_close(inputs: Inputs, outputs: Any) -> None:
    """Rounding to 3 bits costs each factor up to 1/16 of itself, and what is far below the largest a step of it."""
    x, weights = (np.asarray(inputs[name], np.float64) for name in ("x", "weights"))
    wrong = np.abs(np.asarray(outputs["product"], np.float64) - x @ weights)
    allowed = 0.14 * (np.abs(x) @ np.abs(weights)) + 1e-4 * np.abs(x).max() * np.abs(weights).max() * len(weights)
    require(np.all(wrong <= allowed), f"the product is wrong by {wrong.max()}, allowed {allowed.max()}")
