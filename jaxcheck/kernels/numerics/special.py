"""Elementwise functions near their roots, poles, branch points and the ends of float32.

Every kernel takes float32 arrays of one shape and returns a dict of float32 arrays of that shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]


def gamma_functions(x: jax.Array) -> Leaves:
    """Logarithm of |gamma(x)|, and its derivative, which has a root at 1.4616321; poles at 0, -1, -2, ..."""
    return {"lgamma": lax.lgamma(x), "digamma": lax.digamma(x)}


def gamma_functions_reference(x: Any) -> Doubles:
    return {"lgamma": scalarwise(math.lgamma, x), "digamma": scalarwise(digamma, x)}


def log_gamma(x: jax.Array) -> jax.Array:
    """Logarithm of |gamma(x)|, for points near its roots 1 and 2: the result is small, its relative error shows."""
    return lax.lgamma(x)


def log_gamma_reference(x: Any) -> Any:
    return scalarwise(math.lgamma, x)


def error_functions(x: jax.Array) -> Leaves:
    return {"erf": lax.erf(x), "erfc": lax.erfc(x)}


def error_functions_reference(x: Any) -> Doubles:
    return {"erf": scalarwise(math.erf, x), "erfc": scalarwise(math.erfc, x)}


def inverse_error_function(x: jax.Array) -> jax.Array:
    """The number whose erf is x, for -1 <= x <= 1; infinite at the ends, and steep before them."""
    return lax.erf_inv(x)


def inverse_error_function_reference(x: Any) -> Any:
    return scalarwise(erf_inv, x)


def exponentials(x: jax.Array) -> Leaves:
    """Results beyond the largest float32 are infinite; those below the smallest normal one may be flushed to zero."""
    return {
        "exp": jnp.exp(x),
        "exp2": jnp.exp2(x),
        "expm1": jnp.expm1(x),
        "sinh": jnp.sinh(x),
        "cosh": jnp.cosh(x),
        "tanh": jnp.tanh(x),
    }


def exponentials_reference(x: Any) -> Doubles:
    functions = (np.exp, np.exp2, np.expm1, np.sinh, np.cosh, np.tanh)
    return {function.__name__: float32_range(function(x)) for function in functions}


def logarithms(x: jax.Array) -> Leaves:
    """log, log2, log10, log1p, the roots and the reciprocal root, for x >= 0."""
    return {
        "log": jnp.log(x),
        "log2": jnp.log2(x),
        "log10": jnp.log10(x),
        "log1p": jnp.log1p(x),
        "sqrt": jnp.sqrt(x),
        "cbrt": jnp.cbrt(x),
        "rsqrt": lax.rsqrt(x),
    }


def logarithms_reference(x: Any) -> Doubles:
    functions = (np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Doubles = {function.__name__: function(x) for function in functions}
        return {**found, "rsqrt": 1 / np.sqrt(x)}


def trigonometric(x: jax.Array) -> Leaves:
    return {"sin": jnp.sin(x), "cos": jnp.cos(x), "tan": jnp.tan(x), "sinc": jnp.sinc(x)}


def trigonometric_reference(x: Any) -> Doubles:
    return {function.__name__: function(x) for function in (np.sin, np.cos, np.tan, np.sinc)}


def inverse_functions(x: jax.Array, y: jax.Array) -> Leaves:
    """Inverses of circular and hyperbolic functions for -1 <= x <= 1, log1p, and the angle of the point (x, y)."""
    return {
        "arcsin": jnp.arcsin(x),
        "arccos": jnp.arccos(x),
        "arctan": jnp.arctan(x),
        "arctan_large": jnp.arctan(1 / x),
        "arctan2": jnp.arctan2(y, x),
        "arcsinh": jnp.arcsinh(x),
        "arctanh": jnp.arctanh(x),
        "log1p": jnp.log1p(x),
    }


def inverse_functions_reference(x: Any, y: Any) -> Doubles:
    functions = (np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arctanh, np.log1p)
    with np.errstate(divide="ignore"):
        found: Doubles = {function.__name__: function(x) for function in functions}
        return {**found, "arctan_large": np.arctan(1 / x), "arctan2": np.arctan2(y, x)}


def powers(x: jax.Array, y: jax.Array) -> Leaves:
    """Functions of two numbers: power of |x|, whole powers, hypotenuse, logaddexp, and both remainders."""
    return {
        "power": jnp.abs(x) ** y,
        "cube": lax.integer_pow(x, 3),
        "hypot": jnp.hypot(x, y),
        "logaddexp": jnp.logaddexp(x, y),
        "fmod": jnp.fmod(x, y),
        "remainder": jnp.remainder(x, y),
    }


def powers_reference(x: Any, y: Any) -> Doubles:
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = {
            "power": np.abs(x) ** y,
            "cube": x**3,
            "hypot": np.hypot(x, y),
            "logaddexp": np.logaddexp(x, y),
            "fmod": np.fmod(x, y),
            "remainder": np.remainder(x, y),
        }
    return {name: float32_range(value) for name, value in found.items()}


def scalarwise(function: Callable[[float], float], x: Any) -> Any:
    return np.array([function(value) for value in x.ravel().tolist()]).reshape(x.shape)


def float32_range(values: Any) -> Any:
    """float64 values with those infinite that round to an infinite float32."""
    with np.errstate(over="ignore"):
        return np.where(np.isinf(values.astype(np.float32)), np.copysign(np.inf, values), values)


def digamma(x: float) -> float:
    """By reflection below 0, recurrence up to 20 and the asymptotic series there."""
    if x <= 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 20:
        total -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return total + math.log(x) - 0.5 / x - series


def erf_inv(x: float) -> float:
    """Newton's method from Winitzki's approximation (2008); towards the ends on erfc, which does not cancel."""
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    size = abs(x)
    log = math.log1p(-size * size)
    half = 2 / (math.pi * 0.147) + log / 2
    root = math.sqrt(math.sqrt(half * half - log / 0.147) - half) if size else 0.0
    if size < 1e-6:
        root = size * math.sqrt(math.pi) / 2
    for _ in range(4):
        wrong = (1 - size) - math.erfc(root) if size > 0.5 else size - math.erf(root)
        step = wrong * math.sqrt(math.pi) / 2 * math.exp(root * root)
        root += -step if size > 0.5 else step
    return math.copysign(root, x)
