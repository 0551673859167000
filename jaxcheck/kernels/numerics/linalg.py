"""Products, factorisations and transforms, as quantities that signs and bases of subspaces do not change."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Doubles = dict[str, Any]


def products(a: jax.Array, b: jax.Array, v: jax.Array) -> Leaves:
    """a (m, k), b (k, n), v (k,): matrix, transposed, vector and outer products, and a batched contraction."""
    return {
        "matrix": a @ b,
        "transposed": jnp.einsum("ik,jk->ij", a, b),
        "vector": a @ v,
        "gram": a.T @ a,
        "contraction": jnp.einsum("ik,kj,k->ij", a, b, v),
    }


def products_reference(a: Any, b: Any, v: Any) -> Doubles:
    return {
        "matrix": a @ b,
        "transposed": a @ b.T,
        "vector": a @ v,
        "gram": a.T @ a,
        "contraction": a @ (b * v[:, None]),
    }


def fourier(x: jax.Array) -> Leaves:
    """x (rows, columns), float32: transforms of the rows, of the whole, and back again."""
    spectrum = jnp.fft.fft(x, axis=1)
    return {
        "fft": spectrum,
        "rfft": jnp.fft.rfft(x, axis=1),
        "fft2": jnp.fft.fft2(x),
        "back": jnp.fft.ifft(spectrum, axis=1).real,
    }


def fourier_reference(x: Any) -> Doubles:
    """The sum over roots of unity, as a matrix."""

    def roots(size: int) -> Any:
        return np.exp(-2j * np.pi * (np.outer(np.arange(size), np.arange(size)) % size) / size)

    rows, columns = x.shape
    spectrum = x @ roots(columns)
    return {
        "fft": spectrum,
        "rfft": spectrum[:, : columns // 2 + 1],
        "fft2": roots(rows) @ spectrum,
        "back": x,
    }


def energy_is_kept(inputs: Inputs, outputs: Any) -> None:
    """Parseval: the spectrum's squared length is that of the rows times their size; the way back is the identity."""
    x = np.asarray(inputs["x"], np.float64)
    expected = (x**2).sum(1) * x.shape[1]
    found = (np.abs(np.asarray(outputs["fft"], np.complex128)) ** 2).sum(1)
    require(np.allclose(found, expected, 1e-5, 0), f"the spectra have the energies {found}, expected {expected}")
    wrong = np.abs(np.asarray(outputs["back"], np.float64) - x).max()
    require(wrong <= 1e-5 * np.abs(x).max(), f"forth and back moves values by {wrong}")


def positive_definite(a: jax.Array, b: jax.Array) -> Leaves:
    """The factor of a symmetric positive definite a (n, n), the solution of a x = b (n, m) and log|a|."""
    factor = jnp.linalg.cholesky(a)
    half = jax.lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)
    solution = jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)
    return {"factor": factor, "solution": solution, "log_determinant": 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))}


def positive_definite_reference(a: Any, b: Any) -> Doubles:
    return {
        "factor": np.linalg.cholesky(a),
        "solution": np.linalg.solve(a, b),
        "log_determinant": np.linalg.slogdet(a)[1],
    }


def symmetric_eigen(a: jax.Array) -> Leaves:
    """a (n, n), symmetrised: eigenvalues in ascending order, the projector onto the lowest two, the matrix rebuilt.

    The projector is unique where the second and the third eigenvalue differ, the eigenvectors are not.
    """
    values, vectors = jnp.linalg.eigh((a + a.T) / 2)
    low = vectors[:, :2]
    return {"values": values, "projector": low @ low.T, "rebuilt": (vectors * values) @ vectors.T}


def symmetric_eigen_reference(a: Any) -> Doubles:
    symmetric = (a + a.T) / 2
    values, vectors = np.linalg.eigh(symmetric)
    low = vectors[:, :2]
    return {"values": values, "projector": low @ low.T, "rebuilt": symmetric}


def projector_projects(inputs: Inputs, outputs: Any) -> None:
    """A projector is its own square, symmetric, and has the trace 2; eigenvalues ascend."""
    projector = np.asarray(outputs["projector"], np.float64)
    wrong = np.abs(projector @ projector - projector).max()
    require(wrong <= 1e-5, f"the projector differs from its square by {wrong}")
    require(np.array_equal(projector, projector.T) or np.allclose(projector, projector.T), "it is not symmetric")
    require(abs(np.trace(projector) - 2) <= 1e-5, f"the projector has the trace {np.trace(projector)}, expected 2")
    require(np.all(np.diff(outputs["values"]) >= 0), f"eigenvalues do not ascend: {outputs['values']}")


def orthogonal_factors(a: jax.Array) -> Leaves:
    """a (m, n), m >= n: singular values, |R|, and the products U S V^T, Q R, R^T R and Q^T Q.

    None of them depends on the signs of vectors; |R| is unique where a has full rank.
    """
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    q, r = jnp.linalg.qr(a)
    return {
        "singular_values": s,
        "from_svd": (u * s) @ vh,
        "size_of_r": jnp.abs(r),
        "gram": r.T @ r,
        "from_qr": q @ r,
        "unit": q.T @ q,
    }


def orthogonal_factors_reference(a: Any) -> Doubles:
    return {
        "singular_values": np.linalg.svd(a, compute_uv=False),
        "from_svd": a,
        "size_of_r": np.abs(np.linalg.qr(a)[1]),
        "gram": a.T @ a,
        "from_qr": a,
        "unit": np.eye(a.shape[1]),
    }


def linear_system(a: jax.Array, b: jax.Array) -> Leaves:
    """a (n, n), b (n, m): the solution of a x = b by LU, what is left of b, the inverse, and the determinant."""
    solution = jnp.linalg.solve(a, b)
    sign, log_size = jnp.linalg.slogdet(a)
    return {
        "solution": solution,
        "residual": a @ solution - b,
        "inverse": jnp.linalg.inv(a),
        "sign": sign,
        "log_size": log_size,
    }


def linear_system_reference(a: Any, b: Any) -> Doubles:
    sign, log_size = np.linalg.slogdet(a)
    return {
        "solution": np.linalg.solve(a, b),
        "residual": np.zeros_like(b),
        "inverse": np.linalg.inv(a),
        "sign": sign,
        "log_size": log_size,
    }


def matrices() -> dict[str, Any]:
    """Symmetric positive definite (8, 8), float32: ordinary, tiny and of unequal scale; and right sides (8, 4)."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((8, 8)).astype(np.float32)
    ordinary = root @ root.T / 8 + np.eye(8, dtype=np.float32)
    scales = np.float32(2.0) ** np.arange(-12, 12, 3, dtype=np.float32)
    return {
        "ordinary": ordinary,
        "tiny": np.float32(2.0**-80) * ordinary,
        "unequal": ordinary * scales * scales[:, None],
        "right": rng.standard_normal((8, 4)).astype(np.float32),
    }


def positive_definite_inputs() -> dict[str, dict[str, Any]]:
    given = matrices()
    return {name: {"a": given[name], "b": given["right"]} for name in ("ordinary", "unequal")} | {
        "tiny": {"a": given["tiny"], "b": np.float32(2.0**-80) * given["right"]},
    }
