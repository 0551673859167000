"""Loops whose length depends on data: forward mode works, reverse mode must fail with a clear error."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def double_until(x):
    return lax.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, x)


def forward(x):
    return jax.jacfwd(double_until)(x)


def reverse(x):
    return jax.grad(double_until)(x)


def fixed_count(x):
    return jax.grad(lambda x: lax.fori_loop(0, 5, lambda i, v: v * x, jnp.float32(1)))(x)


def dynamic_count(x, n):
    """The same loop with its count as an argument: concrete in a plain call, traced under jit."""
    return jax.grad(lambda x: lax.fori_loop(0, n, lambda i, v: v * x, jnp.float32(1)))(x)


def newton(a):
    return lax.scan(lambda r, _: (0.5 * (r + a / r), None), a, None, length=12)[0]


def newton_slope(a):
    return jax.grad(newton)(a)


def double_until_reference(x):
    return x * 2.0 ** np.ceil(np.log2(100 / x))


def forward_reference(x):
    return 2.0 ** np.ceil(np.log2(100 / x))


def fixed_count_reference(x):
    return 5 * x**4


def dynamic_count_reference(x, n):
    return n * x ** (n - 1)


def newton_reference(a):
    return np.sqrt(a)


def newton_slope_reference(a):
    return 0.5 / np.sqrt(a)
