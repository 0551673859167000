"""A training step, `jax.value_and_grad` and the update in one function, made to be compiled by `jax.jit`.

After the guide on compiling a train step for JAX 0.11.2: the plain and the compiled step agree in the loss and
in every leaf of the new parameters.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxcheck.kernels.properties import Inputs, require, same_contract
from jaxcheck.kernels.value_and_grad import LEARNING_RATE, descend, linear_gradients, loss

Tree = dict[str, Any]
Layers = list[dict[str, Any]]


def train_step(
    params: Tree, features: jax.Array, targets: jax.Array, learning_rate: ArrayLike = LEARNING_RATE
) -> tuple[Tree, jax.Array]:
    """params {"w": (d,), "b": ()}, features (n, d), targets (n,) -> (new params, loss before the step).

    Raises ValueError for a batch of wrong shape, TypeError where `w` does not fit it.
    """
    value, gradients = jax.value_and_grad(loss)(params, features, targets)
    return descend(params, gradients, learning_rate), value


def train_step_reference(
    params: Any, features: Any, targets: Any, learning_rate: Any = LEARNING_RATE
) -> tuple[Tree, np.float64]:
    value, gradients = linear_gradients(params, features, targets)
    return {name: params[name] - learning_rate * gradients[name] for name in ("w", "b")}, value


def parameters_keep_their_contract(inputs: Inputs, outputs: Any) -> None:
    """The new parameters have the structure, shapes and dtypes of the old, and the loss is a scalar."""
    updated, value = outputs
    same_contract("params", updated, inputs["params"])
    require(np.shape(value) == (), f"the loss has shape {np.shape(value)}, expected a scalar")


def step_lowers_the_loss(inputs: Inputs, outputs: Any) -> None:
    """The new parameters' loss, computed anew in float64, is below the reported one, or equal at a minimum."""
    updated, value = outputs
    # np.float64(array) would turn an array of one element into a scalar (NumPy before 2.4).
    wide = partial(jax.tree.map, partial(np.asarray, dtype=np.float64))
    after, gradients = linear_gradients(wide(updated), wide(inputs["features"]), wide(inputs["targets"]))
    flat = all(np.all(np.asarray(leaf) == 0) for leaf in gradients.values())
    require(after < value or (flat and np.isclose(after, value)), f"the loss went from {value} to {after}")


def clipped_train_step(
    params: Tree, features: jax.Array, targets: jax.Array, max_norm: float
) -> tuple[Tree, jax.Array]:
    """`train_step` with the gradient scaled down to a global norm of `max_norm`; 0 turns clipping off.

    `max_norm` chooses the code by a Python `if`: it must be static under jit, where a traced value raises
    TracerBoolConversionError.
    """
    value, gradients = jax.value_and_grad(loss)(params, features, targets)
    if max_norm > 0:
        with jax.named_scope("clip"):
            norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients)))
            scale = jnp.minimum(1.0, max_norm / jnp.maximum(norm, max_norm))
            gradients = jax.tree.map(lambda leaf: leaf * scale, gradients)
    return descend(params, gradients, LEARNING_RATE), value


def clipped_train_step_reference(params: Any, features: Any, targets: Any, max_norm: Any) -> tuple[Tree, np.float64]:
    value, gradients = linear_gradients(params, features, targets)
    norm = np.sqrt(np.sum(gradients["w"] ** 2) + gradients["b"] ** 2)
    scale = max_norm / norm if 0 < max_norm < norm else 1.0
    return {name: params[name] - LEARNING_RATE * scale * gradients[name] for name in ("w", "b")}, value


def update_is_clipped(inputs: Inputs, outputs: Any) -> None:
    """The parameters move by no more than learning rate times `max_norm`."""
    updated, limit = outputs[0], float(inputs["max_norm"])
    moved = [np.float64(updated[name]) - np.float64(inputs["params"][name]) for name in ("w", "b")]
    length = np.sqrt(sum(np.sum(np.square(each)) for each in moved))
    require(
        limit <= 0 or length <= LEARNING_RATE * limit * (1 + 1e-5),
        f"the step is {length} long, allowed {LEARNING_RATE * limit}",
    )


def mlp_train_step(
    params: Layers, features: jax.Array, targets: jax.Array, learning_rate: ArrayLike = LEARNING_RATE
) -> tuple[Layers, jax.Array]:
    """One step of a tanh network with one hidden layer and mean squared error.

    `params` is a list of two layers {"w": (inputs, outputs), "b": (outputs,)}; features (n, inputs), targets
    (n, outputs). Returns (new params, loss). Raises ValueError where the targets do not match the
    predictions, TypeError where the features do not fit the first layer.
    """

    def mlp_loss(layers: Layers) -> jax.Array:
        hidden_layer, output_layer = layers
        with jax.named_scope("forward"):
            hidden = jnp.tanh(features @ hidden_layer["w"] + hidden_layer["b"])
            predictions = hidden @ output_layer["w"] + output_layer["b"]
        if predictions.shape != targets.shape:
            raise ValueError(f"predictions have shape {predictions.shape}, targets {targets.shape}")
        with jax.named_scope("loss"):
            return jnp.mean((predictions - targets) ** 2)

    value, gradients = jax.value_and_grad(mlp_loss)(params)
    return descend(params, gradients, learning_rate), value


def mlp_train_step_reference(
    params: Any, features: Any, targets: Any, learning_rate: Any = LEARNING_RATE
) -> tuple[Layers, np.float64]:
    """Backpropagation written out; the derivative of tanh is 1 - tanh**2."""
    first, second = params
    hidden = np.tanh(features @ first["w"] + first["b"])
    residual = hidden @ second["w"] + second["b"] - targets
    d_predictions = 2 * residual / residual.size
    d_hidden = d_predictions @ second["w"].T * (1 - hidden**2)
    gradients = [
        {"w": features.T @ d_hidden, "b": d_hidden.sum(axis=0)},
        {"w": hidden.T @ d_predictions, "b": d_predictions.sum(axis=0)},
    ]
    updated = [
        {name: layer[name] - learning_rate * gradient[name] for name in ("w", "b")}
        for layer, gradient in zip(params, gradients, strict=True)
    ]
    return updated, np.mean(residual**2)


def mlp_inputs() -> dict[str, dict[str, Any]]:
    """The cases of `mlp_train_step`: pytrees of several leaves, drawn from a fixed NumPy stream."""

    def case(seed: int, batch: int, sizes: tuple[int, int, int], hidden_scale: float = 1.0) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        inputs, hidden, outputs = sizes
        params = [layer(rng, inputs, hidden, hidden_scale), layer(rng, hidden, outputs)]
        return {"params": params, "features": normal(rng, batch, inputs), "targets": normal(rng, batch, outputs)}

    def layer(rng: np.random.Generator, rows: int, columns: int, scale: float = 1.0) -> dict[str, Any]:
        return {"w": np.float32(scale) * normal(rng, rows, columns), "b": normal(rng, columns)}

    def normal(rng: np.random.Generator, *shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    standard = case(seed=1, batch=8, sizes=(4, 16, 2))
    return {
        "standard": standard,
        "single": case(seed=2, batch=1, sizes=(4, 16, 2)),
        "zeros": jax.tree.map(np.zeros_like, standard),
        # Most units sit where 1 - tanh**2 is lost in rounding; jax 0.11 changed how it is computed.
        "saturated": case(seed=3, batch=8, sizes=(4, 16, 2), hidden_scale=8.0),
        "asymmetric": case(seed=4, batch=5, sizes=(7, 3, 1)),
        "wrong-targets": {**standard, "targets": standard["targets"][:, :1]},
        "wrong-features": {**standard, "features": standard["features"][:, :3]},
    }
