"""Random streams: key arithmetic and bits against Threefry written out, and the draws of every sampler.

Kernels take the two uint32 words of a threefry2x32 key, so that a reference can compute with them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Arrays = dict[str, Any]
COUNT = 8


def typed_key(words: jax.Array) -> jax.Array:
    key: jax.Array = random.wrap_key_data(words, impl="threefry2x32")
    return key


def threefry_stream(words: jax.Array) -> Leaves:
    """Of a key: the words after splits in 2 and in 8, folding in, and a chain of splits; bits, and uniform floats."""
    chain = typed_key(words)
    for _ in range(3):
        chain = random.split(chain)[1]
    return {
        "two": random.key_data(random.split(typed_key(words))),
        "eight": random.key_data(random.split(typed_key(words), COUNT)),
        "folded": random.key_data(random.fold_in(typed_key(words), 7)),
        "chain": random.key_data(chain),
        "bits": random.bits(typed_key(words), (COUNT,)),
        "uniform": random.uniform(typed_key(words), (COUNT,)),
        "interval": random.uniform(typed_key(words), (COUNT,), minval=-3.0, maxval=5.0),
    }


def threefry_stream_reference(words: Any) -> Arrays:
    chain = words
    for _ in range(3):
        chain = split_words(chain, 2)[1]
    bits = threefry_bits(words, COUNT)
    return {
        "two": split_words(words, 2),
        "eight": split_words(words, COUNT),
        "folded": folded_words(words, 7),
        "chain": chain,
        "bits": bits,
        "uniform": unit_floats(bits),
        "interval": unit_floats(bits) * 8 - 3,
    }


def keys_are_distinct(inputs: Inputs, outputs: Any) -> None:
    """No two children of a key are the same, and none is its parent."""
    children = [tuple(inputs["words"].tolist()), *map(tuple, np.asarray(outputs["eight"]).tolist())]
    require(len(set(children)) == len(children), f"keys repeat among {children}")


def discrete_draws(words: jax.Array) -> Leaves:
    """Draws of whole numbers, permutations, choices and counts, (8,) each, from a key for every sampler.

    Poisson's rates are small and large, which are two algorithms.
    """
    keys = random.split(typed_key(words), 11)
    logits = jnp.linspace(-1.0, 1.0, COUNT)
    rates = jnp.array([0.0, 0.1, 1.0, 5.0, 9.9, 10.1, 50.0, 1000.0])
    return {
        "bytes": random.bits(keys[0], (COUNT,), jnp.uint8),
        "randint": random.randint(keys[1], (COUNT,), -5, 1000),
        "permutation": random.permutation(keys[2], COUNT),
        "choice": random.choice(keys[3], COUNT, (COUNT,), replace=False),
        "weighted": random.choice(keys[4], COUNT, (COUNT,), p=jax.nn.softmax(logits)),
        "bernoulli": random.bernoulli(keys[5], 0.3, (COUNT,)),
        "categorical": random.categorical(keys[6], logits, shape=(COUNT,)),
        "rademacher": random.rademacher(keys[7], (COUNT,)),
        "geometric": random.geometric(keys[8], 0.2, (COUNT,)),
        "poisson": random.poisson(keys[9], rates),
        "binomial": random.binomial(keys[10], 20.0, jnp.linspace(0.0, 1.0, COUNT)),
    }


POSSIBLE = {
    "randint": (-5, 999),
    "weighted": (0, COUNT - 1),
    "categorical": (0, COUNT - 1),
    "geometric": (1, 10**6),
    "poisson": (0, 10**6),
    "binomial": (0, 20),
}


def discrete_draws_are_possible(inputs: Inputs, outputs: Any) -> None:
    """Every draw is one that its distribution can give; a rate of 0 gives 0."""
    for name in ("permutation", "choice"):
        require(sorted(outputs[name].tolist()) == list(range(COUNT)), f"{name} is {outputs[name]}: no permutation")
    for name, (low, high) in POSSIBLE.items():
        values = np.asarray(outputs[name], np.float64)
        possible = (values >= low) & (values <= high) & (values == np.floor(values))
        require(np.all(possible), f"{name} leaves the whole numbers from {low} to {high}: {values}")
    require(np.all(np.abs(outputs["rademacher"]) == 1), f"rademacher gives {outputs['rademacher']}")
    require(outputs["poisson"][0] == 0, f"a rate of 0 gives {outputs['poisson'][0]}")


def continuous_draws(words: jax.Array) -> Leaves:
    """Draws by transforming uniform or normal ones, (8,) float32 each, from a key for every sampler."""
    keys = random.split(typed_key(words), 15)
    shape = (COUNT,)
    return {
        "normal": random.normal(keys[0], shape),
        "truncated_normal": random.truncated_normal(keys[1], -1.0, 2.0, shape),
        "exponential": random.exponential(keys[2], shape),
        "laplace": random.laplace(keys[3], shape),
        "logistic": random.logistic(keys[4], shape),
        "gumbel": random.gumbel(keys[5], shape),
        "cauchy": random.cauchy(keys[6], shape),
        "pareto": random.pareto(keys[7], 2.5, shape),
        "rayleigh": random.rayleigh(keys[8], 1.5, shape),
        "weibull": random.weibull_min(keys[9], 2.0, 1.5, shape),
        "triangular": random.triangular(keys[10], -1.0, 0.5, 2.0, shape),
        "maxwell": random.maxwell(keys[11], shape),
        "double_maxwell": random.double_sided_maxwell(keys[12], 0.5, 2.0, shape),
        "lognormal": random.lognormal(keys[13], 0.7, shape),
        "wald": random.wald(keys[14], 1.5, shape),
    }


POSITIVE = ("exponential", "pareto", "rayleigh", "weibull", "maxwell", "lognormal", "wald")


def continuous_draws_are_possible(inputs: Inputs, outputs: Any) -> None:
    """Every draw is finite and within the support of its distribution."""
    for name, values in outputs.items():
        require(np.all(np.isfinite(values)), f"{name} gives {values}")
    ranges = {"truncated_normal": (-1, 2), "triangular": (-1, 2), "pareto": (1, np.inf)}
    for name, (low, high) in {**dict.fromkeys(POSITIVE, (0, np.inf)), **ranges}.items():
        values = np.asarray(outputs[name])
        require(np.all((values >= low) & (values <= high)), f"{name} leaves {low} to {high}: {values}")


def gamma_draws(words: jax.Array) -> Leaves:
    """Draws by rejection: gamma at small and large shapes, and what is built on it."""
    keys = random.split(typed_key(words), 4)
    a = jnp.array([1e-3, 0.05, 0.5, 1.0, 1.5, 5.0, 50.0, 1e4])
    return {
        "gamma": random.gamma(keys[0], a),
        "beta": random.beta(keys[1], a, jnp.flip(a)),
        "dirichlet": random.dirichlet(keys[2], a[2:]),
        "generalized_normal": random.generalized_normal(keys[3], 1.5, (COUNT,)),
    }


def gamma_draws_are_possible(inputs: Inputs, outputs: Any) -> None:
    """Gamma draws are not negative, beta draws in [0, 1], and a Dirichlet draw sums to 1."""
    for name in ("gamma", "beta", "dirichlet"):
        require(np.all(np.asarray(outputs[name]) >= 0), f"{name} gives {outputs[name]}")
    require(np.all(np.asarray(outputs["beta"]) <= 1), f"beta gives {outputs['beta']}")
    total = np.sum(outputs["dirichlet"], dtype=np.float64)
    require(abs(total - 1) <= 1e-5, f"the Dirichlet draw sums to {total}")


def vector_draws(words: jax.Array) -> Leaves:
    """A random rotation, and correlated normal vectors."""
    keys = random.split(typed_key(words))
    covariance = 0.5 * jnp.eye(4) + 0.5
    return {
        "orthogonal": random.orthogonal(keys[0], 4),
        "multivariate": random.multivariate_normal(keys[1], jnp.zeros(4), covariance, (COUNT,)),
    }


def rotation_is_orthogonal(inputs: Inputs, outputs: Any) -> None:
    """The rotation is orthogonal."""
    q = np.asarray(outputs["orthogonal"], np.float64)
    wrong = np.abs(q.T @ q - np.eye(len(q))).max()
    require(wrong <= 1e-5, f"Q^T Q differs from the identity by {wrong}")


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
MASK = 0xFFFFFFFF


def threefry(words: Any, high: int, low: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3")."""
    first, second = (int(word) for word in words)
    schedule = (first, second, first ^ second ^ 0x1BD11BDA)
    x, y = (high + schedule[0]) & MASK, (low + schedule[1]) & MASK
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = (x + y) & MASK
            y = ((y << turn | y >> (32 - turn)) & MASK) ^ x
        x = (x + schedule[(group + 1) % 3]) & MASK
        y = (y + schedule[(group + 2) % 3] + group + 1) & MASK
    return x, y


def split_words(words: Any, count: int) -> Any:
    """Child keys (count, 2): the blocks of the counters 0, 1, 2, ... (JAX's partitionable variant)."""
    return np.array([threefry(words, 0, index) for index in range(count)], np.uint32)


def folded_words(words: Any, data: int) -> Any:
    return np.array(threefry(words, 0, data), np.uint32)


def threefry_bits(words: Any, count: int) -> Any:
    """uint32 (count,): both words of a block, combined by exclusive or."""
    blocks = split_words(words, count)
    return blocks[:, 0] ^ blocks[:, 1]


def unit_floats(bits: Any) -> Any:
    """Numbers in [0, 1) from the upper 23 bits of a word."""
    return (bits >> 9).astype(np.float64) / 2**23
