"""A training step with all that a diagnosis has to look through: scopes, a scan over layers, a branch, own derivatives.

Two layers of attention and an MLP, causal, in float32: loss and gradients by `value_and_grad`, the update by Adam with
weight decay, and a branch that clips long gradients.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

LAYERS, LENGTH, WIDTH, HEADS, HIDDEN, WORDS = 2, 5, 8, 2, 12, 11
LONG = 0.5  # gradients longer than that are clipped

Params = dict[str, Any]


@jax.custom_jvp
def squared_relu(x: jax.Array) -> jax.Array:
    with jax.named_scope("activation"):
        return jnp.square(jnp.maximum(x, 0.0))


@squared_relu.defjvp
def _squared_relu_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    with jax.named_scope("activation_rule"):
        return squared_relu(x), 2.0 * jnp.maximum(x, 0.0) * tangent


@jax.custom_vjp
def normalised(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Each row at root mean square 1."""
    return _normalised_forward(x, gain)[0]


def _normalised_forward(x: jax.Array, gain: jax.Array) -> tuple[jax.Array, Any]:
    with jax.named_scope("norm"):
        inverse = jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5)
        return x * inverse * gain, (x, inverse, gain)


def _normalised_backward(saved: Any, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, inverse, gain = saved
    with jax.named_scope("norm_rule"):
        scaled = cotangent * gain
        mean = jnp.mean(scaled * x, axis=-1, keepdims=True)
        return inverse * (scaled - x * jnp.square(inverse) * mean), jnp.sum(cotangent * x * inverse, axis=0)


normalised.defvjp(_normalised_forward, _normalised_backward)


def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
    """(length, width) to (length, width)."""
    with jax.named_scope("attention"):
        read = normalised(x, weights["gain"]) @ weights["read"]
        query, key, value = jnp.moveaxis(read.reshape(LENGTH, 3, HEADS, -1), 1, 0)
        scores = jnp.einsum("qhd,khd->hqk", query, key) / np.sqrt(WIDTH / HEADS)
        seen = jnp.where(np.tri(LENGTH, dtype=bool), scores, -1e9)
        mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(seen), value).reshape(LENGTH, WIDTH)
        x = x + mixed @ weights["write"]
    with jax.named_scope("mlp"):
        return x + squared_relu(normalised(x, weights["gain"]) @ weights["up"]) @ weights["down"], None


def loss(params: Params, words: jax.Array) -> jax.Array:
    """Mean cross entropy of each word given those before it."""
    with jax.named_scope("forward"):
        x, _ = jax.lax.scan(layer, params["embedding"][words[:-1]], params["layers"])
        logits = x @ params["embedding"].T
    with jax.named_scope("loss"):
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, words[1:]))


def train_step(params: Params, words: jax.Array) -> tuple[Params, jax.Array]:
    """(new parameters, the loss before)."""
    value, gradients = jax.value_and_grad(loss)(params, words)
    with jax.named_scope("update"):
        length = optax.global_norm(gradients)
        gradients = jax.lax.cond(
            length > LONG, lambda g: jax.tree.map(lambda each: each * (LONG / length), g), lambda g: g, gradients
        )
        optimiser = optax.adamw(1e-2)
        updates, _ = optimiser.update(gradients, optimiser.init(params), params)
        return optax.apply_updates(params, updates), value


def inputs() -> dict[str, dict[str, Any]]:
    """The cases `standard`, whose gradients are long, and `short`, where they are not."""
    return {"standard": {**_given(1.0)}, "short": {**_given(0.05)}}


def _given(scale: float) -> dict[str, Any]:
    random = np.random.RandomState(0)

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        return (scale * random.randn(*shape) / np.sqrt(shape[-2])).astype(np.float32)

    layers = {
        "gain": np.ones((LAYERS, WIDTH), np.float32),
        "read": drawn(LAYERS, WIDTH, 3 * WIDTH),
        "write": drawn(LAYERS, WIDTH, WIDTH),
        "up": drawn(LAYERS, WIDTH, HIDDEN),
        "down": drawn(LAYERS, HIDDEN, WIDTH),
    }
    words = random.randint(WORDS, size=LENGTH + 1).astype(np.int32)
    return {"params": {"embedding": drawn(WORDS, WIDTH), "layers": layers}, "words": words}
