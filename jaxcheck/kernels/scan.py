"""State carried along a sequence by `jax.lax.scan`: a running total, and a recurrent cell.

After the guide on `scan` for JAX 0.11.2: from 0 over [1, 2, 3] the outputs are [1, 3, 6], the last carry is 6.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

Tree = dict[str, Any]


def cumulative_sum(init: jax.Array, xs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`init` and xs (n, ...) -> (final carry, outputs (n, ...)), all of one dtype; n may be 0.

    Raises TypeError where adding an element changes the dtype or the shape of the carry.
    """

    def step(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        with jax.named_scope("update"):
            total = total + x
        return total, total

    return jax.lax.scan(step, init, xs)


def cumulative_sum_reference(init: Any, xs: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    total, outputs = np.asarray(init), []
    for x in xs:
        total = total + x
        outputs.append(total)
    return total, np.array(outputs, total.dtype).reshape(np.shape(xs))


def carry_is_last_output(inputs: Inputs, outputs: Any) -> None:
    """There is an output for every element; the carry is the last of them, or the first carry if there is none."""
    carry, steps = map(np.asarray, outputs)
    xs = np.asarray(inputs["xs"])
    require(steps.shape == xs.shape, f"outputs have shape {steps.shape}, the sequence {xs.shape}")
    last = steps[-1] if len(steps) else np.asarray(inputs["init"])
    same = (carry == last) | (np.isnan(carry) & np.isnan(last))
    require(np.all(same), f"the carry is {carry}, the last output {last}")


def recurrent_cell(params: Tree, init: Tree, xs: jax.Array) -> Tree:
    """A tanh recurrent network over xs (time, batch, features).

    `params` holds "input" (features, units), "hidden" (units, units) and "bias" (units,); `init` holds
    "hidden" (batch, units) and the int32 count "steps". Returns {"carry": as `init`, "outputs": (time, batch,
    units)}. Raises TypeError where the carry's shape or dtype does not last, or the features do not fit.
    """

    def step(carry: Tree, x: jax.Array) -> tuple[Tree, jax.Array]:
        with jax.named_scope("forward"):
            hidden = jnp.tanh(x @ params["input"] + carry["hidden"] @ params["hidden"] + params["bias"])
        return {"hidden": hidden, "steps": carry["steps"] + 1}, hidden

    carry, outputs = jax.lax.scan(step, init, xs)
    return {"carry": carry, "outputs": outputs}


def recurrent_cell_reference(params: Any, init: Any, xs: Any) -> Tree:
    hidden, outputs = np.asarray(init["hidden"]), []
    for x in xs:
        hidden = np.tanh(x @ params["input"] + hidden @ params["hidden"] + params["bias"])
        outputs.append(hidden)
    steps = np.asarray(init["steps"]) + np.int32(len(xs))
    return {
        "carry": {"hidden": hidden, "steps": steps},
        "outputs": np.array(outputs, np.float64).reshape(len(xs), *hidden.shape),
    }


def cell_keeps_its_state(inputs: Inputs, outputs: Any) -> None:
    """Every step is counted, the carry is the last output, and tanh leaves nothing outside [-1, 1]."""
    carry, steps = outputs["carry"], np.asarray(outputs["outputs"])
    length = len(inputs["xs"])
    require(len(steps) == length, f"{len(steps)} outputs for a sequence of {length}")
    counted = int(carry["steps"]) - int(inputs["init"]["steps"])
    require(counted == length, f"{counted} steps counted over a sequence of {length}")
    last = steps[-1] if length else inputs["init"]["hidden"]
    require(np.array_equal(carry["hidden"], last), f"the carry is {carry['hidden']}, the last output {last}")
    require(np.all(np.abs(steps) <= 1), f"tanh gave values up to {np.abs(steps).max(initial=0)}")
