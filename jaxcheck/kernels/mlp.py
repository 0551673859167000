"""A two-layer network without a framework: a key for every layer, scaled weights, ReLU.

It takes one object or a batch of them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

Tree = dict[str, dict[str, Any]]


def initialise(key: jax.Array, inputs: int, hidden: int, outputs: int) -> Tree:
    """He initialisation from a typed key: normal weights of scale sqrt(2 / fan-in), zero biases, all float32.

    Sizes are static. Returns {"hidden": {"w": (inputs, hidden), "b": (hidden,)}, "output": {"w": (hidden,
    outputs), "b": (outputs,)}}. Raises ValueError for a size below 1, TypeError for what is not a key. Source
    of the scale: He et al., 2015, "Delving Deep into Rectifiers".
    """
    if min(inputs, hidden, outputs) < 1:
        raise ValueError(f"layer sizes must be positive, got {inputs}, {hidden}, {outputs}")
    hidden_key, output_key = jax.random.split(key)
    with jax.named_scope("init"):
        return {"hidden": layer(hidden_key, inputs, hidden), "output": layer(output_key, hidden, outputs)}


def layer(key: jax.Array, rows: int, columns: int) -> dict[str, jax.Array]:
    """Weights (rows, columns) and biases (columns,) of one layer."""
    scale = (2 / rows) ** 0.5
    return {
        "w": scale * jax.random.normal(key, (rows, columns), jnp.float32),
        "b": jnp.zeros((columns,), jnp.float32),
    }


def weights_are_scaled(inputs: Inputs, outputs: Any) -> None:
    """Biases are zero; weights have mean 0 and the deviation sqrt(2 / fan-in), within five standard errors."""
    for name, params in outputs.items():
        weights, biases = np.asarray(params["w"], np.float64), np.asarray(params["b"])
        require(not biases.any(), f"biases of {name} are {biases}, expected zeros")
        scale, error = np.sqrt(2 / len(weights)), 5 / np.sqrt(weights.size)
        require(abs(weights.mean()) <= scale * error, f"weights of {name} have the mean {weights.mean()}")
        deviation = np.sqrt(np.mean(weights**2))
        require(
            abs(deviation - scale) <= scale * error,
            f"weights of {name} have the deviation {deviation}, expected {scale}",
        )


def layers_are_independent(inputs: Inputs, outputs: Any) -> None:
    """No layer repeats the draws of the other: each had a key of its own."""
    first, second = (
        np.ravel(outputs[name]["w"]) * np.sqrt(len(outputs[name]["w"]) / 2) for name in ("hidden", "output")
    )
    count = min(first.size, second.size)
    require(not np.allclose(first[:count], second[:count]), "both layers were drawn from the same key")


def forward(params: Tree, x: jax.Array) -> jax.Array:
    """x (inputs,) or (n, inputs) -> (outputs,) or (n, outputs); other features raise TypeError."""
    with jax.named_scope("forward"):
        hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
        outputs: jax.Array = hidden @ params["output"]["w"] + params["output"]["b"]
        return outputs


def forward_reference(params: Any, x: Any) -> Any:
    hidden = np.maximum(x @ params["hidden"]["w"] + params["hidden"]["b"], 0)
    return hidden @ params["output"]["w"] + params["output"]["b"]


def single_and_batch(params: Tree, batch: jax.Array) -> dict[str, jax.Array]:
    """The same objects (n, inputs) as one batch and one by one: {"batch", "single"}, both (n, outputs)."""
    return {
        "batch": forward(params, batch),
        "single": jax.lax.map(lambda x: forward(params, x), batch),
    }


def single_and_batch_reference(params: Any, batch: Any) -> dict[str, Any]:
    result = forward_reference(params, batch)
    return {"batch": result, "single": result}


def single_agrees_with_batch(inputs: Inputs, outputs: Any) -> None:
    """An object's outputs do not depend on its neighbours, up to rounding."""
    batch, single = (np.asarray(outputs[name], np.float64) for name in ("batch", "single"))
    require(batch.shape == single.shape, f"batch gives shape {batch.shape}, one by one {single.shape}")
    difference = np.abs(batch - single).max(initial=0)
    allowed = 2e-6 * max(1.0, np.abs(batch).max(initial=0))
    require(difference <= allowed, f"batch and single differ by {difference}, allowed {allowed}")
