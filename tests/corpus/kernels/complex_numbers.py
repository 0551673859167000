"""Complex numbers: the conjugate convention of gradients, and branch cuts."""

import jax
import jax.numpy as jnp
import numpy as np


def conjugate_slope(z):
    return jax.grad(lambda z: jnp.real(z) ** 2 + 3 * jnp.imag(z) ** 2)(z)


def holomorphic_slope(z):
    return jax.grad(lambda z: z * z, holomorphic=True)(z)


def plain_slope(z):
    """`holomorphic=True` is missing."""
    return jax.grad(lambda z: z * z)(z)


def modulus_slope(z):
    return jax.grad(jnp.abs)(z)


def modulus(z):
    return jnp.abs(z)


def roots(z):
    return {"sqrt": jnp.sqrt(z), "log": jnp.log(z)}


def half_nan(z):
    """NaN in one component only."""
    return jax.lax.complex(jnp.real(z), jnp.imag(z) * jnp.nan)


def other_half_nan(z):
    return jax.lax.complex(jnp.real(z) * jnp.nan, jnp.imag(z))


def conjugate_slope_reference(z):
    """JAX's convention: df/dx - i df/dy."""
    return 2 * z.real - 6j * z.imag


def holomorphic_slope_reference(z):
    return 2 * z


def modulus_slope_reference(z):
    return np.conj(z) / np.abs(z)


def modulus_reference(z):
    return np.abs(z)


def roots_reference(z):
    """The branch cut follows the sign of zero: the root of -4-0j is -2j here, and +2j in JAX."""
    return {"sqrt": np.sqrt(z), "log": np.log(z)}


def half_nan_reference(z):
    expected = np.array(z, np.complex128)
    expected.imag = np.nan
    return expected


def point():
    return {"point": {"z": np.complex64(3 + 4j)}}


def origin():
    return {"origin": {"z": np.complex64(0)}}


def far():
    return {"far": {"z": np.complex64(3e30 + 4e30j)}}


def infinite():
    return {"infinite": {"z": np.complex64(complex(np.inf, 0))}}


def branch_cut():
    return {"cut": {"z": np.array([-4 + 0j, complex(-4.0, -0.0), 1e-3 + 2j], np.complex64)}}
