"""Eigenvectors, singular vectors and QR factors: defined up to sign, or up to a rotation."""

import jax.numpy as jnp
import numpy as np

FLIPS = (1, 3)  # columns that the `_other_signs` variants turn round, as another LAPACK may


def modes_of(sym):
    w, v = jnp.linalg.eigh(sym)
    return {"w": w, "v": v * _canonical(v)}


def _canonical(vectors):
    """Signs that make the largest component of every column positive."""
    largest = jnp.take_along_axis(vectors, jnp.argmax(jnp.abs(vectors), axis=0)[None], axis=0)
    return jnp.sign(largest)


def _turned(n):
    return jnp.ones(n).at[jnp.array(FLIPS[: n - 2])].set(-1.0)


def modes_other_signs(sym):
    """The same answer, two columns turned round."""
    found = modes_of(sym)
    return {"w": found["w"], "v": found["v"] * _turned(len(sym))}


def modes_rotated(sym):
    """The same answer for a repeated eigenvalue: another basis of its plane."""
    found = modes_of(sym)
    c, s = 0.6, 0.8
    turn = jnp.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return {"w": found["w"], "v": jnp.matmul(found["v"], turn, precision="highest")}


def svd_of(mat):
    u, s, vh = jnp.linalg.svd(mat, full_matrices=False)
    sign = _canonical(u)
    return {"u": u * sign, "s": s, "vh": vh * sign.T}


def svd_other_signs(mat):
    found = svd_of(mat)
    sign = _turned(3)
    return {"u": found["u"] * sign, "s": found["s"], "vh": found["vh"] * sign[:, None]}


def qr_of(mat):
    q, r = jnp.linalg.qr(mat)
    sign = _canonical(q)
    return {"q": q * sign, "r": r * sign.T}


def qr_other_signs(mat):
    found = qr_of(mat)
    sign = _turned(3)
    return {"q": found["q"] * sign, "r": found["r"] * sign[:, None]}


def projector(sym):
    """The projector on the lowest two modes: no sign and no basis of the plane enters it."""
    v = modes_other_signs(sym)["v"][:, :2]
    return jnp.matmul(v, v.T, precision="highest")


def projector_rotated(sym):
    v = modes_rotated(sym)["v"][:, :2]
    return jnp.matmul(v, v.T, precision="highest")


def modes_reference(sym):
    w, v = np.linalg.eigh(sym)
    return {"w": w, "v": v * _canonical_reference(v)}


def _canonical_reference(vectors):
    return np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(0)[None], axis=0))


def svd_reference(mat):
    u, s, vh = np.linalg.svd(mat, full_matrices=False)
    sign = _canonical_reference(u)
    return {"u": u * sign, "s": s, "vh": vh * sign.T}


def qr_reference(mat):
    q, r = np.linalg.qr(mat)
    sign = _canonical_reference(q)
    return {"q": q * sign, "r": r * sign.T}


def projector_reference(sym):
    v = np.linalg.eigh(sym)[1][:, :2]
    return v @ v.T


def _noise(rows, columns, seed):
    k = (np.arange(rows * columns, dtype=np.int64) * 7919 + seed * 104729) % 65521
    return (((k * k) % 1009) / 504.5 - 1).reshape(rows, columns)


def _distinct():
    a = _noise(6, 6, 1)
    return ((a + a.T) / 2 + np.diag(np.arange(6))).astype(np.float32)


def _repeated():
    """Eigenvalues 1, 1, 3: the first two vectors are arbitrary within a plane."""
    n = np.array([1.0, 2.0, 2.0]) / 3
    return (np.eye(3) + 2 * np.outer(n, n)).astype(np.float32)


def distinct():
    return {"distinct": {"sym": _distinct()}}


def repeated():
    return {"repeated": {"sym": _repeated()}}


def rectangle():
    return {"rectangle": {"mat": (_noise(5, 3, 2) + np.eye(5, 3)).astype(np.float32)}}
