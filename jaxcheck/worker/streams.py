"""Fingerprints of the random streams: the raw bits first, then what the samplers make of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

SHAPE = (64,)
# In the order in which one depends on the other.
STREAMS: dict[str, Callable[[Any], Any]] = {
    "raw bits": lambda key: jax.random.bits(key, SHAPE),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 4)),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 7)),
    "uniform": lambda key: jax.random.uniform(key, SHAPE),
    "normal": lambda key: jax.random.normal(key, SHAPE),
    "permutation": lambda key: jax.random.permutation(key, 64),
}


def fingerprints() -> dict[str, str]:
    """{stream: sha256 of what it gives for one key}; a stream that this JAX does not have is left out."""
    found = {}
    for name, draw in STREAMS.items():
        try:
            array = np.asarray(draw(jax.random.key(0)))
        except (AttributeError, TypeError):
            continue
        found[name] = hashlib.sha256(str(array.dtype).encode() + array.tobytes()).hexdigest()
    return found
