"""Optax: parameters after a few steps of every common optimiser, and learning-rate schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import optax  # type: ignore[import-untyped]  # optax ships no type information

from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]
RATE = 0.1


def steps(optimizers: Mapping[str, Any], params: jax.Array, gradients: jax.Array) -> Leaves:
    """Parameters (n,) after a step for each of the gradients (steps, n), by every optimiser."""

    def last(optimizer: Any) -> jax.Array:
        current, state = params, optimizer.init(params)
        for gradient in gradients:
            updates, state = optimizer.update(gradient, state, current)
            current = optax.apply_updates(current, updates)
        return current

    with jax.named_scope("update"):
        return {name: last(optimizer) for name, optimizer in optimizers.items()}


def simple_optimisers(params: jax.Array, gradients: jax.Array) -> Leaves:
    """Optimisers that add up, take signs, or scale by sums of squares and norms: params (n,), gradients (steps, n)."""
    return steps(
        {
            "sgd": optax.sgd(RATE),
            "momentum": optax.sgd(RATE, momentum=0.9),
            "nesterov": optax.sgd(RATE, momentum=0.9, nesterov=True),
            "lion": optax.lion(RATE, weight_decay=0.1),
            "sign_sgd": optax.sign_sgd(RATE),
            "rmsprop": optax.rmsprop(RATE),
            "adagrad": optax.adagrad(RATE),
            "adadelta": optax.adadelta(RATE),
            "lamb": optax.lamb(RATE),
            "lars": optax.lars(RATE),
            "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(RATE)),
        },
        params,
        gradients,
    )


def simple_optimisers_reference(params: Any, gradients: Any) -> Doubles:
    rules = (sgd, momentum, nesterov, lion, sign_sgd, rmsprop, adagrad, clipped)
    return run_rules({rule.__name__: rule for rule in rules}, params, gradients)


def adam_optimisers(params: jax.Array, gradients: jax.Array) -> Leaves:
    """Adam and its relatives, which divide by the root of a second moment."""
    return steps(
        {
            "adam": optax.adam(RATE),
            "adamw": optax.adamw(RATE, weight_decay=0.1),
            "nadam": optax.nadam(RATE),
            "adamax": optax.adamax(RATE),
            "amsgrad": optax.amsgrad(RATE),
            "adabelief": optax.adabelief(RATE),
            "yogi": optax.yogi(RATE),
            "radam": optax.radam(RATE),
        },
        params,
        gradients,
    )


def adam_optimisers_reference(params: Any, gradients: Any) -> Doubles:
    return run_rules({"adam": adam, "adamw": adamw, "adamax": adamax}, params, gradients)


def steps_go_downhill(inputs: Inputs, outputs: Any) -> None:
    """Where every gradient of a parameter has one sign, no optimiser moves it with the gradient, but by decay."""
    before, gradients = np.asarray(inputs["params"], np.float64), np.asarray(inputs["gradients"])
    up, down = np.all(gradients > 0, axis=0), np.all(gradients < 0, axis=0)
    decay = 0.1 * np.abs(before) + 1e-6
    for name, after in outputs.items():
        moved = np.asarray(after, np.float64) - before
        wrong = (up & (moved > decay)) | (down & (moved < -decay))
        require(not np.any(wrong), f"{name} moved {np.flatnonzero(wrong)} along their gradients")


Rule = Callable[[Any, Any, dict[str, Any], int], Any]


def run_rules(rules: Mapping[str, Rule], params: Any, gradients: Any) -> Doubles:
    """A rule takes (params, gradient, its state, number of the step from 1) and returns what to add."""
    found = {}
    for name, rule in rules.items():
        current, state = params, {"m": np.zeros_like(params), "v": np.zeros_like(params)}
        for number, gradient in enumerate(gradients, 1):
            current = current + rule(current, gradient, state, number)
        found[name] = current
    return found


def sgd(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    return -RATE * gradient


def momentum(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    state["m"] = gradient + 0.9 * state["m"]
    return -RATE * state["m"]


def nesterov(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    state["m"] = gradient + 0.9 * state["m"]
    return -RATE * (gradient + 0.9 * state["m"])


def sign_sgd(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    return -RATE * np.sign(gradient)


def lion(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    """Chen et al., 2023: the sign of one average, while another is kept."""
    direction = np.sign(0.9 * state["m"] + 0.1 * gradient)
    state["m"] = 0.99 * state["m"] + 0.01 * gradient
    return -RATE * (direction + 0.1 * params)


def adam(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    """Kingma and Ba, 2015, with optax's constants 0.9, 0.999 and 1e-8."""
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = 0.999 * state["v"] + 0.001 * gradient**2
    return -RATE * (state["m"] / (1 - 0.9**number)) / (np.sqrt(state["v"] / (1 - 0.999**number)) + 1e-8)


def adamw(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    return adam(params, gradient, state, number) - RATE * 0.1 * params


def adamax(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    """The largest gradient so far, fading, in place of the second moment."""
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = np.maximum(0.999 * state["v"], np.abs(gradient) + 1e-8)
    return -RATE * state["m"] / (1 - 0.9**number) / state["v"]


def rmsprop(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    """optax puts its 1e-8 below the root."""
    state["v"] = 0.9 * state["v"] + 0.1 * gradient**2
    return -RATE * gradient / np.sqrt(state["v"] + 1e-8)


def adagrad(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    """Duchi et al., 2011; the sum of squares starts at 0.1, and 1e-7 is below the root."""
    state["v"] = state["v"] + gradient**2
    total = state["v"] + 0.1
    return -RATE * gradient / np.sqrt(total + 1e-7)


def clipped(params: Any, gradient: Any, state: dict[str, Any], number: int) -> Any:
    norm = np.sqrt((gradient**2).sum())
    return -RATE * gradient / max(norm, 1.0)


def schedules(step: jax.Array) -> Leaves:
    """Learning rates at int32 steps (n,), from 0 to beyond the end of each schedule."""
    found = {
        "linear": optax.linear_schedule(1.0, 0.1, 100),
        "cosine": optax.cosine_decay_schedule(1.0, 100, alpha=0.1),
        "exponential": optax.exponential_decay(1.0, 10, 0.5),
        "staircase": optax.exponential_decay(1.0, 10, 0.5, staircase=True),
        "polynomial": optax.polynomial_schedule(1.0, 0.1, 3, 100),
        "warmup_cosine": optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100, 0.1),
        "piecewise": optax.piecewise_constant_schedule(1.0, {10: 0.5, 50: 0.1}),
    }
    return {name: jax.vmap(schedule)(step) for name, schedule in found.items()}


def schedules_reference(step: Any) -> Doubles:
    share = np.clip(step / 100, 0, 1)
    warm = np.clip((step - 10) / 90, 0, 1)
    return {
        "linear": 1 - 0.9 * share,
        "cosine": 0.1 + 0.9 * (1 + np.cos(np.pi * share)) / 2,
        "exponential": 0.5 ** (step / 10),
        "staircase": 0.5 ** (step // 10),
        "polynomial": 0.1 + 0.9 * (1 - share) ** 3,
        "warmup_cosine": np.where(step < 10, step / 10, 0.1 + 0.9 * (1 + np.cos(np.pi * warm)) / 2),
        "piecewise": np.where(step >= 10, 0.5, 1.0) * np.where(step >= 50, 0.1, 1.0),
    }
