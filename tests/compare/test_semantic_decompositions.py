"""`eigh`, `svd`, `qr`: every decomposition of the matrix passes, and nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxcheck.compare.leaves import ParameterError
from jaxcheck.results import LeafResult
from tests.compare.semantic import Tolerance, compare

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")


def random(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Array:
    draw = np.random.default_rng(seed).standard_normal
    numbers = draw(shape) + (1j * draw(shape) if dtype.startswith("complex") else 0)
    return numbers.astype(dtype)


def unitary(n: int, dtype: str = "float64", seed: int = 1) -> Array:
    return np.linalg.qr(random((n, n), dtype, seed))[0].astype(dtype)


def with_eigenvalues(values: list[float], dtype: str = "float64") -> Array:
    vectors = unitary(len(values), "complex128" if dtype.startswith("complex") else "float64")
    matrix = (vectors * values) @ vectors.conj().T
    return ((matrix + matrix.conj().T) / 2).astype(dtype)


def decomposed(matrix: Array) -> dict[str, Array]:
    values, vectors = np.linalg.eigh(matrix)
    return {"w": values, "v": vectors}


def eigh(golden: dict[str, Array], actual: dict[str, Array], matrix: Array | None = None, **options: Any) -> LeafResult:
    named = {} if matrix is None else {"matrix": "a"}
    inputs = None if matrix is None else {"a": matrix}
    return compare("eigh", "v", golden, actual, inputs, values="w", **named, **options)


APART = [-0.8, 1.0, 1.3, 2.9, 4.2, 5.3]
CLUSTER = [1.0, 1.0, 1.0, 3.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("known", [True, False], ids=["matrix", "no matrix"])
def test_eigenvectors_pass_with_any_sign_or_phase(dtype: str, known: bool) -> None:
    matrix = with_eigenvalues(APART, dtype)
    golden = decomposed(matrix)
    turn = np.exp(1j * np.arange(6)) if dtype.startswith("complex") else np.array([-1, 1, -1, -1, 1, 1])
    turned = {**golden, "v": (golden["v"] * turn).astype(dtype)}
    leaf = eigh(golden, turned, matrix if known else None)

    assert leaf.reason is None
    assert leaf.violation_ratio < 1
    assert leaf.mismatched == 0
    assert leaf.max_abs > 0.1
    assert leaf.bit_equal < leaf.size


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_of_a_cluster_pass_in_any_rotation(dtype: str) -> None:
    matrix = with_eigenvalues(CLUSTER, dtype)
    golden = decomposed(matrix)
    rotated = golden["v"].copy()
    rotated[:, :3] = rotated[:, :3] @ unitary(3, dtype)

    assert eigh(golden, {**golden, "v": rotated}, matrix).reason is None
    assert eigh(golden, {**golden, "v": rotated}).reason is None


def test_eigenvalues_that_are_close_for_the_tolerance_form_a_cluster() -> None:
    matrix = with_eigenvalues([1.0, 1.0 + 1e-6, 3.0])
    golden = decomposed(matrix)
    rotated = golden["v"].copy()
    rotated[:, :2] = rotated[:, :2] @ unitary(2)
    turned = {**golden, "v": rotated}

    assert eigh(golden, turned, matrix).reason is None
    strict = eigh(golden, turned, matrix, tolerance=Tolerance(1e-10, 0))
    assert strict.reason is not None
    assert strict.mismatched == 6


@pytest.mark.parametrize("known", [True, False], ids=["matrix", "no matrix"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_wrong_eigenvector_fails(dtype: str, known: bool) -> None:
    matrix = with_eigenvalues(APART, dtype)
    golden = decomposed(matrix)
    swapped = golden["v"][:, [0, 2, 1, 3, 4, 5]]
    leaf = eigh(golden, {**golden, "v": swapped}, matrix if known else None)

    assert leaf.reason is not None
    assert "sine of the angle to column 1 is 1, allowed" in leaf.reason or "residual |A v - w v|" in leaf.reason
    assert leaf.mismatched == 12
    assert leaf.violation_ratio > 100
    assert leaf.worst is None
    assert leaf.histogram["0"] + leaf.histogram["<=1"] <= 24


def test_a_vector_outside_its_cluster_fails() -> None:
    golden = decomposed(with_eigenvalues(CLUSTER))
    mixed = golden["v"] @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0.8, 0.6], [0, 0, -0.6, 0.8]])
    leaf = eigh(golden, {**golden, "v": mixed})

    assert leaf.reason is not None
    assert leaf.mismatched == 16


def test_lost_orthogonality_fails_in_words_of_the_field() -> None:
    golden = decomposed(np.diag([1.0, 1.0]))
    skewed = np.array([[1.0, 0.6], [0.0, 0.8]])
    leaf = eigh(golden, {**golden, "v": skewed}, np.eye(2))

    assert leaf.reason == "loss of orthogonality |VᴴV - I| is 0.6, allowed 2e-05"
    assert leaf.violation_ratio == pytest.approx(3e4)


def test_a_vector_of_wrong_length_fails() -> None:
    golden = decomposed(with_eigenvalues(APART))

    assert eigh(golden, {**golden, "v": golden["v"] * 1.1}).reason is not None
    assert eigh(golden, {**golden, "v": golden["v"] * 0}).reason is not None


def test_the_residual_is_taken_with_the_input() -> None:
    """A golden that was wrong itself agrees with its like, and not with the matrix."""
    matrix = with_eigenvalues(APART)
    wrong = decomposed(np.diag(APART))

    assert eigh(wrong, wrong).reason is None
    against_matrix = eigh(wrong, wrong, matrix)
    assert against_matrix.reason is not None
    assert against_matrix.reason.startswith("residual |A v - w v| of column ")


def test_the_matrix_counts_by_its_hermitian_part() -> None:
    matrix = with_eigenvalues(APART)
    golden = decomposed(matrix)

    assert eigh(golden, golden, matrix + np.triu(random((6, 6)), 1) - np.triu(random((6, 6)), 1).T).reason is None


def test_batched_matrices_are_compared_one_by_one() -> None:
    matrices = np.stack([with_eigenvalues(APART), np.eye(6), with_eigenvalues(APART[::-1])]).reshape(3, 1, 6, 6)
    golden = decomposed(matrices)
    vectors = golden["v"] * np.array([1, -1, 1, -1, 1, -1])
    vectors[1, 0] = vectors[1, 0] @ unitary(6)
    assert eigh(golden, {**golden, "v": vectors}, matrices).reason is None

    vectors[2, 0] = vectors[2, 0][:, ::-1]
    leaf = eigh(golden, {**golden, "v": vectors}, matrices)
    assert leaf.reason is not None
    assert "of matrix [2, 0]" in leaf.reason
    assert leaf.mismatched == 36


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_nothing_is_equal_to_nothing(shape: tuple[int, ...]) -> None:
    golden = {"w": np.zeros(shape[:-1]), "v": np.zeros(shape)}
    leaf = eigh(golden, golden, np.zeros(shape))

    assert (leaf.reason, leaf.size, leaf.violation_ratio) == (None, 0, 0)


def test_the_zero_matrix_takes_any_basis() -> None:
    golden = {"w": np.zeros(3), "v": np.eye(3)}

    assert eigh(golden, {"w": np.zeros(3), "v": unitary(3)}, np.zeros((3, 3))).reason is None


def test_a_nan_must_meet_a_nan() -> None:
    golden = decomposed(with_eigenvalues(APART))
    broken = {"w": golden["w"], "v": golden["v"].copy()}
    broken["v"][2, 3] = np.nan
    leaf = eigh(golden, broken)
    assert leaf.reason is not None
    assert leaf.reason.startswith("NaN at [2, 3] where golden has ")
    assert leaf.nonfinite == 1

    nothing = {"w": np.full(6, np.nan), "v": np.full((6, 6), np.nan)}
    assert eigh(nothing, nothing).reason is None


def test_beside_nan_the_elements_count() -> None:
    golden = {"w": np.ones(2), "v": np.array([[np.nan, 1.0], [0.0, 1.0]])}
    moved = {"w": np.ones(2), "v": np.array([[np.nan, -1.0], [0.0, 1.0]])}
    leaf = eigh(golden, moved)

    assert leaf.reason == "beside NaN or infinity, the largest difference / tolerance is 1e+05, allowed 1"


@pytest.mark.parametrize(
    ("golden", "inputs", "parameters", "words"),
    [
        ({"v": np.eye(2)}, {}, {"values": "w"}, "values: there is no output leaf w; leaves: v"),
        ({"v": np.eye(2), "w": np.ones(3)}, {}, {"values": "w"}, r"values has shape \[3\], not \[2\]"),
        ({"v": np.ones((3, 2)), "w": np.ones(2)}, {}, {"values": "w"}, r"shape \[..., n, n\], v has \[3, 2\]"),
        ({"v": np.eye(2), "w": np.ones(2)}, {"x": 0}, {"values": "w", "matrix": "a"}, "no input a; inputs: x"),
        (
            {"v": np.eye(2), "w": np.ones(2)},
            {"a": np.ones(2)},
            {"values": "w", "matrix": "a"},
            r"matrix has shape \[2\], not \[2, 2\]",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    golden: dict[str, Array], inputs: dict[str, Any], parameters: dict[str, str], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        compare("eigh", "v", golden, golden, inputs, **parameters)


# svd


def svd(path: str, golden: dict[str, Array], actual: dict[str, Array], matrix: Array | None = None) -> LeafResult:
    named = {} if matrix is None else {"matrix": "a"}
    inputs = None if matrix is None else {"a": matrix}
    return compare("svd", path, golden, actual, inputs, u="u", s="s", vh="vh", **named)


def factors(matrix: Array, full: bool = False) -> dict[str, Array]:
    return dict(zip(("u", "s", "vh"), np.linalg.svd(matrix, full_matrices=full), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 5, 3)])
@pytest.mark.parametrize("full", [False, True], ids=["reduced", "full"])
def test_singular_vectors_pass_with_signs_that_they_share(dtype: str, shape: tuple[int, ...], full: bool) -> None:
    matrix = random(shape, dtype)
    golden = factors(matrix, full)
    k = min(shape[-2:])
    phase = np.exp(1j * np.arange(k)) if dtype.startswith("complex") else np.resize([-1, 1], k)
    u, vh = golden["u"].copy(), golden["vh"].copy()
    u[..., :k] = u[..., :k] * phase
    vh[..., :k, :] = vh[..., :k, :] * phase.conj()[:, None]
    u[..., k:], vh[..., k:, :] = -u[..., k:], -vh[..., k:, :]
    for known in (matrix, None):
        for path in ("u", "s", "vh"):
            leaf = svd(path, golden, {"u": u, "s": golden["s"], "vh": vh}, known)
            assert (leaf.reason, leaf.mismatched) == (None, 0), (path, known is None)


@pytest.mark.parametrize("path", ["u", "vh"])
def test_a_sign_of_one_side_alone_fails(path: str) -> None:
    matrix = random((5, 3))
    golden = factors(matrix)
    u = golden["u"] * np.array([1, -1, 1])
    leaf = svd(path, golden, {**golden, "u": u}, matrix)

    assert leaf.reason is not None
    assert leaf.reason.startswith(f"residual {'|A v - s u|' if path == 'u' else '|Aᴴu - s v|'} of vector 1 is ")
    assert leaf.mismatched == (5 if path == "u" else 3)


def test_singular_vectors_of_a_cluster_rotate_together() -> None:
    rotation = unitary(2, seed=4)
    golden = {"u": unitary(3), "s": np.array([2.0, 2.0, 1.0]), "vh": unitary(3, seed=2)}
    u, vh = golden["u"].copy(), golden["vh"].copy()
    u[:, :2], vh[:2] = u[:, :2] @ rotation, rotation.T @ vh[:2]
    together = {**golden, "u": u, "vh": vh}

    assert svd("u", golden, together).reason is None
    assert svd("vh", golden, together).reason is None
    assert svd("u", golden, {**golden, "u": u}).reason is not None


def test_the_null_space_of_a_reduced_decomposition_is_arbitrary() -> None:
    matrix = np.outer([1.0, 2, 3, 4, 5], [1.0, 0, -1])
    golden = factors(matrix)
    complement = np.linalg.qr(np.column_stack([golden["u"][:, :1], random((5, 2), seed=9)]))[0]
    other = {**golden, "u": np.column_stack([golden["u"][:, :1], complement[:, 1:]])}
    assert svd("u", golden, other, matrix).reason is None

    other["u"] = golden["u"][:, [0, 1, 1]]
    leaf = svd("u", golden, other, matrix)
    assert leaf.reason == "loss of orthogonality |UᴴU - I| is 1, allowed 2e-05"


def test_wrong_singular_vectors_and_values_fail() -> None:
    matrix = random((5, 3))
    golden = factors(matrix)

    assert svd("u", golden, {**golden, "u": golden["u"][:, ::-1]}, matrix).reason is not None
    assert svd("vh", golden, {**golden, "vh": golden["vh"][::-1]}, matrix).reason is not None
    assert svd("s", golden, {**golden, "s": golden["s"] * 1.001}, matrix).reason is not None


def test_svd_refuses_what_is_no_decomposition() -> None:
    golden = factors(random((5, 3)))
    with pytest.raises(ParameterError, match=r"no singular value decomposition has the shapes u \[5, 2\], s \[3\]"):
        svd("vh", {**golden, "u": golden["u"][:, :2]}, {**golden, "u": golden["u"][:, :2]})
    with pytest.raises(ParameterError, match="x is none of u, s and vh"):
        svd("x", {**golden, "x": np.ones(1)}, {**golden, "x": np.ones(1)})


def test_svd_of_nothing_and_of_nan() -> None:
    nothing = {"u": np.zeros((3, 0)), "s": np.zeros(0), "vh": np.zeros((0, 0))}
    assert svd("u", nothing, nothing, np.zeros((3, 0))).reason is None
    broken = {"u": np.full((2, 2), np.nan), "s": np.full(2, np.nan), "vh": np.full((2, 2), np.nan)}
    assert svd("vh", broken, broken).reason is None


# qr


def qr(path: str, golden: dict[str, Array], actual: dict[str, Array], matrix: Array | None = None) -> LeafResult:
    named = {} if matrix is None else {"matrix": "a"}
    inputs = None if matrix is None else {"a": matrix}
    return compare("qr", path, golden, actual, inputs, q="q", r="r", **named)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "mode"), [((5, 3), "reduced"), ((5, 3), "complete"), ((3, 5), "reduced")])
def test_qr_passes_with_any_signs_and_fails_with_one_side_alone(dtype: str, shape: tuple[int, int], mode: Any) -> None:
    matrix = random(shape, dtype)
    golden = dict(zip("qr", np.linalg.qr(matrix, mode), strict=True))
    k = golden["q"].shape[1]
    phase = np.exp(1j * np.arange(k)) if dtype.startswith("complex") else np.resize([-1, 1], k)
    q, r = (golden["q"] * phase).astype(dtype), (golden["r"] * phase.conj()[:, None]).astype(dtype)
    for path in "qr":
        for known in (matrix, None):
            assert qr(path, golden, {"q": q, "r": r}, known).reason is None
            leaf = qr(path, golden, {"q": q, "r": golden["r"]}, known)
            assert leaf.reason is not None
            assert leaf.reason.startswith("residual |A - QR| of the worst column is ")


def test_qr_needs_orthogonal_and_triangular_factors() -> None:
    golden = dict(zip("qr", np.linalg.qr(random((3, 3))), strict=True))
    turn = unitary(3, seed=5)
    not_triangular = qr("r", golden, {"q": golden["q"] @ turn, "r": turn.T @ golden["r"]})
    assert not_triangular.reason is not None
    assert not_triangular.reason.startswith("what is below the diagonal of R is ")
    not_orthogonal = qr("q", golden, {"q": golden["q"] * 2, "r": golden["r"] / 2})
    assert not_orthogonal.reason == "loss of orthogonality |QᴴQ - I| is 3, allowed 2e-05"
    assert not_orthogonal.mismatched == 9


def test_qr_of_stacks_of_nan_and_of_nothing() -> None:
    matrices = random((2, 4, 3))
    golden = dict(zip("qr", np.linalg.qr(matrices), strict=True))
    flipped = {"q": -golden["q"], "r": -golden["r"]}
    assert qr("q", golden, flipped, matrices).reason is None
    flipped["r"] = flipped["r"].copy()
    flipped["r"][1, 0, 0] += 1
    leaf = qr("r", golden, flipped, matrices)
    assert leaf.reason is not None
    assert "of matrix [1]" in leaf.reason
    assert leaf.mismatched == 9
    broken = {"q": np.full((2, 2), np.nan), "r": np.full((2, 2), np.nan)}
    assert qr("q", broken, broken).reason is None
    nothing = {"q": np.zeros((0, 3, 3)), "r": np.zeros((0, 3, 3))}
    assert qr("q", nothing, nothing).reason is None


def test_qr_refuses_what_is_no_decomposition() -> None:
    leaves = {"q": np.ones((3, 2)), "r": np.ones((3, 3)), "x": np.ones(1)}
    with pytest.raises(ParameterError, match=r"no QR decomposition has the shapes q \[3, 2\], r \[3, 3\]"):
        qr("q", leaves, leaves)
    with pytest.raises(ParameterError, match="x is neither q nor r"):
        qr("x", leaves, leaves)
