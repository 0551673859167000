"""A leaf against the one it should equal: by which comparator, under which tolerance, and in one line why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jaxcheck.compare.distances import Array
from jaxcheck.compare.eigh import eigh
from jaxcheck.compare.kl import kl
from jaxcheck.compare.permutation import permutation
from jaxcheck.compare.plain import allclose, exact
from jaxcheck.compare.qr import qr
from jaxcheck.compare.subject import Among, Comparator, ParameterError, Subject, Surroundings, Tolerance
from jaxcheck.compare.svd import svd
from jaxcheck.compare.topk import topk
from jaxcheck.compare.ulp import ulp
from jaxcheck.results import LeafResult

__all__ = ["COMPARATORS", "Among", "ParameterError", "Surroundings", "compare_leaf", "signature_difference"]

# Their parameters are described, for the registry, by the blocks of the same names in jaxcheck/registry/comparators.py.
COMPARATORS: dict[str, Comparator] = {
    "allclose": allclose,
    "exact": exact,
    "ulp": ulp,
    "eigh": eigh,
    "svd": svd,
    "qr": qr,
    "topk": topk,
    "permutation": permutation,
    "kl": kl,
}


class Signature(Protocol):
    """What must be equal before values are looked at."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def weak_type(self) -> bool: ...


def compare_leaf(
    path: str,
    dtype_name: str,
    golden: Array,
    actual: Array,
    tolerance: Tolerance,
    comparator: str = "allclose",
    *,
    against: str = "golden",
    parameters: Mapping[str, Any] | None = None,
    around: Surroundings | None = None,
    among: Among | None = None,
) -> LeafResult:
    """The leaf at `path` compared with its golden: arrays of one shape and dtype (see `signature_difference`).

    `dtype_name` is JAX's name of the dtype, `against` what `golden` is called in the reason (`eager`, `reference`).
    `parameters` are the comparator's, `around` the other leaves and the inputs that these may name.
    `among` says which elements these are where the leaf has more, for comparators of BY_ELEMENT. Raises ValueError
    for an unknown comparator, ParameterError for parameters that do not fit, and what `compare_arrays` raises.
    """
    if comparator not in COMPARATORS:
        raise ValueError(f"{path}: no comparator {comparator!r}; valid: {', '.join(COMPARATORS)}")
    subject = Subject(path, golden, actual, tolerance, against, parameters or {}, around or Surroundings(), among)
    judgement = COMPARATORS[comparator](subject)
    return LeafResult(
        path=path,
        dtype=dtype_name,
        shape=golden.shape if among is None else among.shape,
        tolerance=judgement.tolerance,
        reason=judgement.reason,
        **dict(judgement.statistics),
    )


def signature_difference(golden: Signature, actual: Signature, *, against: str = "golden") -> str | None:
    """In words, how dtype, shape and weak type differ; None where they are equal."""
    differences = []
    if str(golden.dtype) != str(actual.dtype):
        differences.append(f"dtype is {actual.dtype}, {against} has {golden.dtype}")
    if tuple(golden.shape) != tuple(actual.shape):
        differences.append(f"shape is {list(actual.shape)}, {against} has {list(golden.shape)}")
    if bool(golden.weak_type) != bool(actual.weak_type):
        weak = "is weakly typed, {} is not" if actual.weak_type else "is not weakly typed, {} is"
        differences.append(weak.format(against))
    return "; ".join(differences) or None
