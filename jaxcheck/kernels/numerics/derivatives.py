"""Complex functions, and derivatives at kinks, poles and ties, and by complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]


def complex_functions(z: jax.Array) -> Leaves:
    """z (n,) complex64, not 0: functions with a branch cut along the negative reals, and entire ones of z / |z|."""
    unit = z / jnp.abs(z)
    return {
        "sqrt": jnp.sqrt(z),
        "log": jnp.log(z),
        "abs": jnp.abs(z),
        "angle": jnp.angle(z),
        "reciprocal": 1 / z,
        "exp": jnp.exp(unit),
        "sin": jnp.sin(unit),
        "tanh": jnp.tanh(unit),
    }


def complex_functions_reference(z: Any) -> Doubles:
    functions: dict[str, Callable[[Any], Any]] = {
        "sqrt": np.sqrt,
        "log": np.log,
        "abs": np.abs,
        "angle": np.angle,
        "reciprocal": np.reciprocal,
    }
    entire: dict[str, Callable[[Any], Any]] = {"exp": np.exp, "sin": np.sin, "tanh": np.tanh}
    return {name: function(z) for name, function in functions.items()} | {
        name: function(z / np.abs(z)) for name, function in entire.items()
    }


def complex_gradients(z: jax.Array) -> Leaves:
    """z (n,) complex64: JAX's gradients (the conjugate of the steepest ascent) of real functions of z."""

    def gradient(function: Any) -> jax.Array:
        found: jax.Array = jax.grad(lambda each: jnp.sum(function(each)))(z)
        return found

    return {
        "energy": gradient(lambda each: jnp.real(each) ** 2 + 3 * jnp.imag(each) ** 2),
        "modulus": gradient(jnp.abs),
        "real_log": gradient(lambda each: jnp.real(jnp.log(each))),
        "spectrum": gradient(lambda each: jnp.abs(jnp.fft.fft(each)) ** 2),
        "holomorphic": jax.grad(lambda each: jnp.sum(each**3), holomorphic=True)(z),
    }


def complex_gradients_reference(z: Any) -> Doubles:
    """For f(x + i y) JAX gives df/dx - i df/dy."""
    return {
        "energy": 2 * z.real - 6j * z.imag,
        "modulus": np.conj(z) / np.abs(z),
        "real_log": 1 / z,
        "spectrum": 2 * len(z) * np.conj(z),
        "holomorphic": 3 * z**2,
    }


def gradients_at_kinks(x: jax.Array) -> Leaves:
    """x (n,): gradients where the derivative jumps or has a pole next to it; ties share or choose."""

    def gradient(function: Any) -> jax.Array:
        found: jax.Array = jax.grad(lambda each: jnp.sum(function(each)))(x)
        return found

    return {
        "abs": gradient(jnp.abs),
        "max": jax.grad(jnp.max)(x),
        "clip": gradient(lambda each: jnp.clip(each, -1.0, 1.0)),
        "guarded_root": gradient(lambda each: jnp.where(each > 0, jnp.sqrt(jnp.where(each > 0, each, 1.0)), 0.0)),
        "logsumexp": jax.grad(jax.nn.logsumexp)(x),
        "cumprod": gradient(jnp.cumprod),
        "sort": gradient(lambda each: jnp.sort(each) * jnp.arange(x.size)),
    }


def gradients_at_kinks_reference(x: Any) -> Doubles:
    """At a kink: 1 for abs, equal shares for max, 1 inside the closed interval and a half at its ends for clip."""
    largest = x == x.max()
    inside = (np.abs(x) < 1).astype(np.float64)
    weights = np.exp(x - x.max())
    return {
        "abs": np.where(x >= 0, 1.0, -1.0),
        "max": largest / largest.sum(),
        "clip": np.where(np.abs(x) == 1, 0.5, inside),
        "guarded_root": np.where(x > 0, 0.5 / np.sqrt(np.where(x > 0, x, 1)), 0),
        "logsumexp": weights / weights.sum(),
        "cumprod": products_without(x),
        "sort": np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(np.float64),
    }


def products_without(x: Any) -> Any:
    """The derivative of the sum of running products: for each factor, the products that hold it, without it."""
    found = np.zeros_like(x)
    for place in range(len(x)):
        others = x.copy()
        others[place] = 1.0
        found[place] = np.cumprod(others)[place:].sum()
    return found


def complex_inputs() -> dict[str, dict[str, Any]]:
    """Cases of `complex_functions`: ordinary, along the branch cut from both sides, and of extreme modulus."""

    def case(values: list[complex]) -> dict[str, Any]:
        return {"z": np.array(values, np.complex64)}

    return {
        "ordinary": case([1 + 2j, -1 + 0.5j, 0.3 - 0.7j, -0.5 - 0.5j, 2 - 1j, 0.1 + 0.1j, -2 + 2j, 1 - 1j]),
        "branch-cut": case(
            [complex(-1, 1e-5), complex(-1, -1e-5), complex(-4, 1e-10), complex(-4, -1e-10), 4, 1e-3, 2j, -2j]
        ),
        "scales": case([1e-15 + 1e-15j, 1e15 * 1j, 3e10 * (1 + 1j) * 1j, 1e-10, -1e10, 1e-12j, -1e-12j, 1e5j]),
    }


def complex_gradient_inputs() -> dict[str, dict[str, Any]]:
    """Cases of `complex_gradients`: as above, without the branch cut."""
    given = complex_inputs()
    axes = {"z": np.array([1, -1, 1j, -1j, 2, 0.5j, 1 + 1e-6j, 1e-3 + 1j], np.complex64)}
    return {"ordinary": given["ordinary"], "axes": axes}
