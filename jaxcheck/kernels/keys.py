"""Random keys as an explicit stream: every subkey feeds one random operation, and none is used again."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxcheck.kernels.properties import Inputs, require


def noise_and_mask(key: jax.Array, batch: jax.Array) -> dict[str, jax.Array]:
    """Adds standard normal noise to a batch of any shape, and draws a mask that keeps half of it.

    `key` is a typed key. Returns {"noisy": as `batch`, "kept": bool of its shape, "next_key": the key to go on
    with}. Raises TypeError for what is not a key.
    """
    next_key, noise_key, mask_key = jax.random.split(key, 3)
    with jax.named_scope("noise"):
        noisy = batch + jax.random.normal(noise_key, batch.shape, batch.dtype)
    with jax.named_scope("dropout"):
        kept = jax.random.bernoulli(mask_key, 0.5, batch.shape)
    return {"noisy": noisy, "kept": kept, "next_key": next_key}


def key_stream(key: jax.Array, steps: int) -> dict[str, jax.Array]:
    """`steps` uniform draws, the key carried through a scan and split in every step; `steps` is static.

    Returns {"draws": float32 (steps,), "next_key": a typed key}.
    """

    def step(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        carry, subkey = jax.random.split(carry)
        return carry, jax.random.uniform(subkey)

    next_key, draws = jax.lax.scan(step, key, None, length=steps)
    return {"draws": draws, "next_key": next_key}


def key_used_twice(key: jax.Array) -> dict[str, jax.Array]:
    """One key for two draws, which therefore repeat each other: KeyReuseError under `jax.debug_key_reuse`."""
    return {"first": jax.random.normal(key, (3,)), "second": jax.random.normal(key, (3,))}


def key_used_after_split(key: jax.Array) -> dict[str, jax.Array]:
    """A parent key that draws after it was split: KeyReuseError under `jax.debug_key_reuse`."""
    first, _ = jax.random.split(key)
    return {"child": jax.random.normal(first, (3,)), "parent": jax.random.normal(key, (3,))}


def key_words(key: Any) -> list[int]:
    """The words of a key. Looking at it is not a use of it."""
    with jax.debug_key_reuse(False):
        return np.asarray(jax.random.key_data(key)).ravel().tolist()


def next_key_is_new(inputs: Inputs, outputs: Any) -> None:
    """The key handed on is not the one that came in."""
    before, after = key_words(inputs["key"]), key_words(outputs["next_key"])
    require(before != after, f"the key handed on is the one that came in: {before}")


def noise_and_mask_look_random(inputs: Inputs, outputs: Any) -> None:
    """Mean of the noise and share of the mask are within five standard errors of 0 and one half."""
    noise = np.asarray(outputs["noisy"], np.float64) - np.asarray(inputs["batch"], np.float64)
    error = 5 / np.sqrt(noise.size)
    require(abs(noise.mean()) <= error, f"the noise has the mean {noise.mean()}, allowed {error}")
    share = np.asarray(outputs["kept"]).mean()
    require(abs(share - 0.5) <= error / 2, f"the mask keeps {share}, expected 0.5 within {error / 2}")


def draws_are_distinct(inputs: Inputs, outputs: Any) -> None:
    """No two steps drew the same number, and every draw is in [0, 1)."""
    draws = np.asarray(outputs["draws"])
    require(len(draws) == inputs["steps"], f"{len(draws)} draws in {inputs['steps']} steps")
    require(len(np.unique(draws)) == len(draws), f"draws repeat: {draws}")
    require(np.all((draws >= 0) & (draws < 1)), f"draws leave [0, 1): {draws}")


def draws_repeat(inputs: Inputs, outputs: Any) -> None:
    """Both draws from the key are the same: what its second use costs."""
    first, second = np.asarray(outputs["first"]), np.asarray(outputs["second"])
    require(np.array_equal(first, second), f"one key gave two draws: {first} and {second}")
