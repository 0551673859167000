"""Pieces of neural networks and their gradients: activations, attention, convolution, and training steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]  # optax ships no type information

from jaxcheck.kernels.numerics.reductions import normalise, softmax_of, stable_log_sum
from jaxcheck.kernels.numerics.special import scalarwise
from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Tree = dict[str, Any]
EPSILON = 1e-5
RATE, DECAY, ADAM_EPSILON = 0.01, 0.1, 1e-3


def activations(x: jax.Array) -> Leaves:
    """x (n,): activations that go through exp, erf or tanh, and the derivatives of some, element by element."""

    def slope(function: Callable[[jax.Array], jax.Array]) -> jax.Array:
        found: jax.Array = jax.grad(lambda z: jnp.sum(function(z)))(x)
        return found

    return {
        "gelu": jax.nn.gelu(x, approximate=False),
        "gelu_tanh": jax.nn.gelu(x, approximate=True),
        "sigmoid": jax.nn.sigmoid(x),
        "silu": jax.nn.silu(x),
        "softplus": jax.nn.softplus(x),
        "elu": jax.nn.elu(x),
        "gelu_slope": slope(jax.nn.gelu),
        "silu_slope": slope(jax.nn.silu),
        "tanh_slope": slope(jnp.tanh),
    }


def activations_reference(x: Any) -> Tree:
    sigmoid = np.exp(-np.logaddexp(0, -x))
    return {
        "gelu": x * scalarwise(math.erfc, -x / np.sqrt(2)) / 2,
        "gelu_tanh": gelu(x),
        "sigmoid": sigmoid,
        "silu": x * sigmoid,
        "softplus": np.logaddexp(0, x),
        "elu": np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "gelu_slope": gelu_slope(x),
        "silu_slope": sigmoid * (1 + x * np.exp(-np.logaddexp(0, x))),
        "tanh_slope": 1 / np.cosh(x) ** 2,
    }


def gelu(x: Any) -> Any:
    """By tanh, written as a logistic function, which keeps its tail."""
    return x * np.exp(-np.logaddexp(0, -2 * gelu_argument(x)))


def gelu_slope(x: Any) -> Any:
    argument = gelu_argument(x)
    share = np.exp(-np.logaddexp(0, -2 * argument))
    inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return share + x * inner / (2 * np.cosh(argument) ** 2)


def gelu_argument(x: Any) -> Any:
    return np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)


def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> Leaves:
    """(batch, time, heads, size) each: attention over everything, over the past, and its gradients for the past."""

    def causal(*arguments: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(*arguments, is_causal=True)

    with jax.named_scope("forward"):
        full, past = jax.nn.dot_product_attention(query, key, value), causal(query, key, value)
    # Compiled in every mode: operation by operation the backward pass would be most of the battery's time.
    gradient = jax.jit(jax.grad(lambda *given: jnp.sum(causal(*given) ** 2) / 2, argnums=(0, 1, 2)))
    gradients = gradient(query, key, value)
    return {"full": full, "past": past} | dict(zip(("d_query", "d_key", "d_value"), gradients, strict=True))


def attention_reference(query: Any, key: Any, value: Any) -> Tree:
    scale = 1 / np.sqrt(query.shape[-1])
    scores = np.einsum("bthd,bshd->bhts", query, key) * scale
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    everything, weights = row_softmax(scores), row_softmax(np.where(mask, scores, -np.inf))
    past = np.einsum("bhts,bshd->bthd", weights, value)
    d_weights = np.einsum("bthd,bshd->bhts", past, value)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True)) * scale
    return {
        "full": np.einsum("bhts,bshd->bthd", everything, value),
        "past": past,
        "d_query": np.einsum("bhts,bshd->bthd", d_scores, key),
        "d_key": np.einsum("bhts,bthd->bshd", d_scores, query),
        "d_value": np.einsum("bhts,bthd->bshd", weights, past),
    }


def row_softmax(scores: Any) -> Any:
    flat = softmax_of(scores.reshape(-1, scores.shape[-1]))
    return flat.reshape(scores.shape)


def first_step_sees_itself(inputs: Inputs, outputs: Any) -> None:
    """Over the past alone, the first step can only return its own value."""
    first, value = np.asarray(outputs["past"])[:, 0], np.asarray(inputs["value"])[:, 0]
    require(np.allclose(first, value, 1e-5, 1e-6), "the first step saw more than itself")


def convolutions(x: jax.Array, kernel: jax.Array) -> Leaves:
    """x (batch, channels, height, width), kernel (out, channels, 3, 3): padded, strided and dilated, with gradients."""

    def convolve(image: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(image, weights, (1, 1), "SAME")

    gradients = jax.grad(lambda *given: jnp.sum(convolve(*given) ** 2) / 2, argnums=(0, 1))(x, kernel)
    return {
        "same": convolve(x, kernel),
        "strided": jax.lax.conv_general_dilated(x, kernel, (2, 2), "VALID"),
        "dilated": jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", rhs_dilation=(2, 2)),
        "d_x": gradients[0],
        "d_kernel": gradients[1],
    }


def convolutions_reference(x: Any, kernel: Any) -> Tree:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    same = correlate(padded, kernel)
    mirrored = kernel[:, :, ::-1, ::-1].swapaxes(0, 1)
    d_kernel = correlate(padded.swapaxes(0, 1), same.swapaxes(0, 1)).swapaxes(0, 1)
    return {
        "same": same,
        "strided": correlate(x, kernel)[:, :, ::2, ::2],
        "dilated": correlate(x, kernel, spread=2),
        "d_x": correlate(np.pad(same, ((0, 0), (0, 0), (1, 1), (1, 1))), mirrored),
        "d_kernel": d_kernel,
    }


def correlate(image: Any, kernel: Any, spread: int = 1) -> Any:
    """The sum over the kernel's places of shifted images, without padding."""
    rows, columns = (
        image.shape[axis] - spread * (kernel.shape[axis] - 1) for axis in (2, 3)
    )  # fmt: skip
    total = np.zeros((len(image), len(kernel), rows, columns))
    for i in range(kernel.shape[2]):
        for j in range(kernel.shape[3]):
            part = image[:, :, i * spread : i * spread + rows, j * spread : j * spread + columns]
            total += np.einsum("bchw,oc->bohw", part, kernel[:, :, i, j])
    return total


def tanh_network_gradient(params: Tree, x: jax.Array, targets: jax.Array) -> tuple[jax.Array, Tree]:
    """Loss and gradients of a tanh layer and a linear one: "w" (inputs, hidden), "v" (hidden, outputs).

    x (n, inputs), targets (n, outputs). jax 0.11 changed how the slope of tanh is computed.
    """

    def loss(given: Tree) -> jax.Array:
        with jax.named_scope("forward"):
            predictions = jnp.tanh(x @ given["w"]) @ given["v"]
        with jax.named_scope("loss"):
            return jnp.mean((predictions - targets) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return value, gradients


def tanh_network_gradient_reference(params: Any, x: Any, targets: Any) -> tuple[Any, Tree]:
    """The slope of tanh is 1 / cosh**2, which does not cancel."""
    argument = x @ params["w"]
    hidden = np.tanh(argument)
    residual = hidden @ params["v"] - targets
    d_predictions = 2 * residual / residual.size
    d_argument = d_predictions @ params["v"].T / np.cosh(argument) ** 2
    return np.mean(residual**2), {"v": hidden.T @ d_predictions, "w": x.T @ d_argument}


def block_step(params: Tree, x: jax.Array, labels: jax.Array) -> Tree:
    """One adamw step of layer norm, linear, gelu, linear and cross-entropy; x (8, 32), labels int32 (8,).

    `params` holds "w" and "v" (32, 32). Returns {"loss": scalar, "gradients" and "params": as `params`}. Adam's
    epsilon is 1e-3: with 1e-8 its first step is the gradient's sign, which noise decides where that is small.
    """

    def loss(given: Tree) -> jax.Array:
        with jax.named_scope("forward"):
            logits = jax.nn.gelu(normalise(x, 1.0, 0.0) @ given["w"]) @ given["v"]
        with jax.named_scope("loss"):
            return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    value, gradients = jax.value_and_grad(loss)(params)
    with jax.named_scope("update"):
        optimizer = optax.adamw(RATE, eps=ADAM_EPSILON, weight_decay=DECAY)
        updates, _ = optimizer.update(gradients, optimizer.init(params), params)
        updated = optax.apply_updates(params, updates)
    return {"loss": value, "gradients": gradients, "params": updated}


def block_step_reference(params: Any, x: Any, labels: Any) -> Tree:
    """Backpropagation written out. The first step of Adam divides a gradient by its own size plus epsilon."""
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPSILON)
    argument = normal @ params["w"]
    hidden = gelu(argument)
    logits = hidden @ params["v"]
    chosen = (labels[:, None] == np.arange(logits.shape[1])).astype(np.float64)
    d_logits = (softmax_of(logits) - chosen) / len(x)
    d_argument = d_logits @ params["v"].T * gelu_slope(argument)
    gradients = {"v": hidden.T @ d_logits, "w": normal.T @ d_argument}
    directions = {name: each / (np.abs(each) + ADAM_EPSILON) for name, each in gradients.items()}
    return {
        "loss": np.mean(stable_log_sum(logits, np.ones_like(logits)) - (logits * chosen).sum(1)),
        "gradients": gradients,
        "params": {name: params[name] - RATE * (directions[name] + DECAY * params[name]) for name in gradients},
    }


def step_is_bounded(inputs: Inputs, outputs: Any) -> None:
    """Adam's first step moves no parameter by more than the learning rate, and decay by a share of its size."""
    for name, before in inputs["params"].items():
        moved = np.abs(np.asarray(outputs["params"][name], np.float64) - np.asarray(before, np.float64))
        allowed = RATE * (1 + DECAY * np.abs(np.asarray(before, np.float64))) + 1e-5
        require(np.all(moved <= allowed), f"{name} moved by up to {moved.max()}, allowed {allowed.max()}")


def block_inputs() -> dict[str, dict[str, Any]]:
    """Cases of `block_step`: ordinary activations, a large mean, a tiny scale, and logits that are certain."""

    def case(seed: int, scale: float = 1.0, shift: float = 0.0, weights: float = 1.0) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        params = {name: np.float32(weights / 6) * normal(rng, 32, 32) for name in ("w", "v")}
        x = np.float32(scale) * normal(rng, 8, 32) + np.float32(shift)
        return {"params": params, "x": x, "labels": rng.integers(0, 32, 8, np.int32)}

    def normal(rng: np.random.Generator, *shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "ordinary": case(1),
        "large-mean": case(2, shift=16.0),
        "tiny-scale": case(3, scale=1e-3),
        "certain": case(4, weights=4.0),
    }
