"""Where a NaN is born: functions that make one, which `jax.debug_nans` stops at, and their safe forms.

The safe forms avoid the forbidden argument before the function sees it. Replacing NaN afterwards
(`nan_to_num`) would hide the defect, and its gradient would still be NaN.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

SMALLEST = 1e-6


def logarithm(x: jax.Array) -> jax.Array:
    """log(x), elementwise: NaN below zero, -inf (which is not a NaN) at zero."""
    with jax.named_scope("forward"):
        return jnp.log(x)


def logarithm_reference(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.log(x)


def safe_logarithm(x: jax.Array) -> jax.Array:
    """log(max(x, 1e-6)), elementwise: finite for every finite x."""
    with jax.named_scope("forward"):
        return jnp.log(jnp.maximum(x, SMALLEST))


def safe_logarithm_reference(x: Any) -> Any:
    return np.log(np.maximum(x, SMALLEST))


def share_of_total(x: jax.Array) -> jax.Array:
    """x / sum(x) for x (n,): 0 / 0 where nothing is there to share."""
    with jax.named_scope("forward"):
        return x / jnp.sum(x)


def share_of_total_reference(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return x / np.sum(x)


def masked_root_gradient(x: jax.Array) -> jax.Array:
    """Gradient of sum(where(x > 0, sqrt(x), 0)): NaN at 0, although the value there is 0.

    The derivative of the branch not taken is infinite, and 0 * inf is NaN.
    """

    def total(values: jax.Array) -> jax.Array:
        with jax.named_scope("loss"):
            return jnp.sum(jnp.where(values > 0, jnp.sqrt(values), 0.0))

    gradient: jax.Array = jax.grad(total)(x)
    return gradient


def safe_root_gradient(x: jax.Array) -> jax.Array:
    """The same gradient with the argument made safe first: 1 / (2 sqrt(x)) above zero, 0 elsewhere."""

    def total(values: jax.Array) -> jax.Array:
        with jax.named_scope("loss"):
            positive = values > 0
            return jnp.sum(jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0))

    gradient: jax.Array = jax.grad(total)(x)
    return gradient


def safe_root_gradient_reference(x: Any) -> Any:
    result = np.zeros_like(x)
    result[x > 0] = 0.5 / np.sqrt(x[x > 0])
    return result


def masked_elements_have_no_gradient(inputs: Inputs, outputs: Any) -> None:
    """Elements that the mask leaves out have the gradient 0, all others a positive one."""
    positive, gradient = np.asarray(inputs["x"]) > 0, np.asarray(outputs)
    require(np.array_equal(gradient > 0, positive), f"gradient {gradient} for x {inputs['x']}")
    require(np.all(gradient[~positive] == 0), f"gradient of masked elements: {gradient[~positive]}")
