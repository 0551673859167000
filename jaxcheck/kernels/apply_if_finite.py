"""`optax.apply_if_finite`: a few NaN or infinite gradients in a row are skipped, more of them come through.

After the guide for Optax 0.2.6 and JAX 0.11.2: [1, 2] gives the update [-0.1, -0.2], a gradient with NaN
gives zeros and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]  # optax ships no type information

from jaxcheck.kernels.properties import Inputs, require

Tree = dict[str, Any]
LEARNING_RATE = 0.1


def guarded_updates(params: Tree, gradients: Tree, max_consecutive_errors: int, momentum: float = 0.0) -> Tree:
    """Feeds gradients to a guarded SGD one after the other: a stack (steps, ...) for every leaf of `params`.

    `momentum` must be static under jit. Returns, with leading axis `steps`: "updates" (as `gradients`),
    "last_finite" (bool), "notfinite_count" (int32, bad gradients in a row), "total_notfinite" (int32) and
    "norm_before" (float32, global norm of the last good gradient: on a bad step, the one before the failure);
    and "skipped_share" (float32 scalar, the steps that moved nothing), "params" (after the last step). Raises
    ValueError where gradients do not match the parameters. Source: `optax.apply_if_finite`, which gives up
    and lets a bad gradient through after more than `max_consecutive_errors` of them in a row.
    """
    check_stack(params, gradients)
    optimizer = optax.apply_if_finite(optax.sgd(LEARNING_RATE, momentum or None), max_consecutive_errors)

    def step(carry: Any, gradient: Tree) -> tuple[Any, Tree]:
        current, state, norm_before = carry
        with jax.named_scope("update"):
            updates, state = optimizer.update(gradient, state, current)
            current = optax.apply_updates(current, updates)
        with jax.named_scope("monitor"):
            norm_before = jnp.where(state.last_finite, global_norm(gradient), norm_before)
            skipped = ~state.last_finite & (state.notfinite_count <= max_consecutive_errors)
        return (current, state, norm_before), {
            "updates": updates,
            "last_finite": state.last_finite,
            "notfinite_count": state.notfinite_count,
            "total_notfinite": state.total_notfinite,
            "norm_before": norm_before,
            "skipped": skipped,
        }

    start = (params, optimizer.init(params), jnp.zeros((), jnp.float32))
    (params, _, _), history = jax.lax.scan(step, start, gradients)
    skipped = history.pop("skipped")
    share = jnp.sum(skipped, dtype=jnp.float32) / max(len(skipped), 1)
    return {**history, "skipped_share": share, "params": params}


def global_norm(tree: Any) -> jax.Array:
    """Euclidean norm over all leaves, a float32 scalar."""
    squares = [jnp.sum(jnp.square(leaf), dtype=jnp.float32) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(jnp.sum(jnp.stack(squares)))


def check_stack(params: Any, gradients: Any) -> None:
    """One gradient per step and parameter; another shape might broadcast, and move what it should not."""

    def check(parameter: jax.Array, stack: jax.Array) -> None:
        if not stack.ndim or stack.shape[1:] != parameter.shape:
            wanted = ", ".join(["steps", *map(str, parameter.shape)])
            raise ValueError(
                f"gradients of a parameter of shape {parameter.shape} have shape ({wanted}), not {stack.shape}"
            )

    jax.tree.map(check, params, gradients)


def guarded_updates_reference(params: Any, gradients: Any, max_consecutive_errors: int, momentum: float = 0.0) -> Tree:
    current = {name: np.float64(value) for name, value in params.items()}
    history = list(simulate(current, gradients, max_consecutive_errors, momentum))

    def column(name: str, dtype: Any) -> Any:
        return np.array([row[name] for row in history], dtype)

    def updates(name: str) -> Any:
        return np.array([row["updates"][name] for row in history]).reshape(gradients[name].shape)

    return {
        "updates": {name: updates(name) for name in params},
        "last_finite": column("last_finite", np.bool_),
        "notfinite_count": column("notfinite_count", np.int32),
        "total_notfinite": column("total_notfinite", np.int32),
        "norm_before": column("norm_before", np.float64),
        "skipped_share": column("skipped", np.float64).sum() / max(len(history), 1),
        "params": history[-1]["params"] if history else current,
    }


def simulate(current: Tree, gradients: Tree, max_consecutive_errors: int, momentum: float) -> Iterator[Tree]:
    """The documented behaviour, step by step: skip until more than the allowed number are bad in a row."""
    trace = {name: np.zeros_like(value) for name, value in current.items()}
    in_a_row = total = 0
    norm_before = 0.0
    for index in range(len(next(iter(gradients.values())))):
        gradient = {name: stack[index] for name, stack in gradients.items()}
        finite = all(np.isfinite(value).all() for value in gradient.values())
        in_a_row, total = (0, total) if finite else (in_a_row + 1, total + 1)
        skipped = not finite and in_a_row <= max_consecutive_errors
        if finite:
            norm_before = np.sqrt(sum(np.sum(value**2) for value in gradient.values()))
        if not skipped:  # without momentum the past must not be multiplied in: 0 * NaN is NaN
            trace = {n: value + momentum * trace[n] if momentum else value for n, value in gradient.items()}
        updates = {n: np.zeros_like(value) if skipped else -LEARNING_RATE * value for n, value in trace.items()}
        current = {name: value + updates[name] for name, value in current.items()}
        yield {
            "updates": updates,
            "last_finite": finite,
            "notfinite_count": in_a_row,
            "total_notfinite": total,
            "norm_before": norm_before,
            "skipped": skipped,
            "params": current,
        }


def finite_steps(stacks: Any) -> Any:
    """For every step, whether all leaves (steps, ...) are finite in it: bool (steps,)."""
    return np.all([np.isfinite(each).all(axis=inner_axes(each)) for each in jax.tree.leaves(stacks)], axis=0)


def inner_axes(stack: Any) -> tuple[int, ...]:
    """Every axis but the leading one."""
    return tuple(range(1, np.ndim(stack)))


def counters_follow_the_flags(inputs: Inputs, outputs: Any) -> None:
    """The flag tells finite gradients, a good one resets the counter of the row, the total only grows."""
    good = np.asarray(outputs["last_finite"])
    finite = finite_steps(inputs["gradients"])
    require(np.array_equal(good, finite), f"last_finite is {good}, the gradients are finite at {finite}")
    total = np.asarray(outputs["total_notfinite"])
    require(np.array_equal(total, np.cumsum(~good)), f"total_notfinite is {total} for last_finite {good}")
    row, expected = 0, []
    for each in good:
        row = 0 if each else row + 1
        expected.append(row)
    count = np.asarray(outputs["notfinite_count"])
    require(np.array_equal(count, expected), f"notfinite_count is {count}, expected {expected}")


def skipped_steps_move_nothing(inputs: Inputs, outputs: Any) -> None:
    """On a bad step within the limit every update is zero; beyond it what is not finite comes through."""
    bad = ~np.asarray(outputs["last_finite"])
    skipped = bad & (np.asarray(outputs["notfinite_count"]) <= inputs["max_consecutive_errors"])
    share = np.float64(outputs["skipped_share"])
    require(
        abs(share - skipped.mean()) < 1e-6 if len(skipped) else share == 0,
        f"skipped_share is {share}, but {skipped.sum()} of {len(skipped)} steps were skipped",
    )
    updates = jax.tree.leaves(outputs["updates"])
    moved = skipped & np.any([np.any(each != 0, axis=inner_axes(each)) for each in updates], axis=0)
    require(not np.any(moved), f"steps {np.flatnonzero(moved)} were skipped, but moved parameters")
    hidden = bad & ~skipped & finite_steps(updates)
    require(not np.any(hidden), f"steps {np.flatnonzero(hidden)} are past the limit, but have finite updates")
