"""Numbers below the smallest normal float32: XLA on a CPU flushes them, op by op, unless it removed the operation."""

import jax.numpy as jnp
import numpy as np


def keep(x):
    return x


def times_one(x):
    return x * jnp.float32(1.0)


def halve(x):
    return x * jnp.float32(0.5)


def is_zero(x):
    return x == 0


def log_of(x):
    return jnp.log(x)


def split_exponent(x):
    return jnp.frexp(x)


def negate(x):
    return -x


# The references are IEEE arithmetic.


def same_reference(x):
    return x


def halve_reference(x):
    return x * 0.5


def is_zero_reference(x):
    return x == 0


def log_reference(x):
    return np.log(x)


def split_exponent_reference(x):
    return np.frexp(x)


def negate_reference(x):
    return -x


def both_signs():
    return {"ends": {"x": np.array([1.1754944e-38, 1e-40, 1.4e-45, -1e-42], np.float32)}}


def positive():
    return {"ends": {"x": np.array([1.1754944e-38, 1e-40, 1.4e-45], np.float32)}}
