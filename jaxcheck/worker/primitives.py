"""Which outputs of a kernel are not unique, read off its equations: nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jaxcheck.worker import internals
from jaxcheck.worker.subject import Subject
from jaxcheck.worker.trees import key_path, restore, unique

# {primitive: (positions of the outputs that are arbitrary, what they are, the comparator that knows it)}
AMBIGUOUS: dict[str, tuple[tuple[int, ...], str, str]] = {
    "eigh": ((0,), "eigenvectors, unique up to sign or phase", "eigh"),
    "svd": ((1, 2), "singular vectors, unique up to sign or phase", "svd"),
    "qr": ((0, 1), "a factor of a QR decomposition, unique up to signs", "qr"),
    "householder_product": ((0,), "a factor of a QR decomposition, unique up to signs", "qr"),
    "top_k": ((1,), "indices of top_k, arbitrary where elements tie", "topk"),
    "argmax": ((0,), "indices of argmax, arbitrary where elements tie", "topk"),
    "argmin": ((0,), "indices of argmin, arbitrary where elements tie", "topk"),
}
SORTED = ("values sorted by others (argsort), in arbitrary order where the others tie", "topk")
# Primitives that only move what they are given, and how many of their operands are data (None: all).
MOVING: dict[str, int | None] = {
    "broadcast_in_dim": None,
    "complex": None,
    "concatenate": None,
    "conj": None,
    "convert_element_type": None,
    "copy": None,
    "dynamic_slice": 1,
    "expand_dims": None,
    "gather": 1,
    "imag": None,
    "neg": None,
    "real": None,
    "reshape": None,
    "rev": None,
    "select_n": None,
    "sharding_constraint": None,
    "slice": None,
    "squeeze": None,
    "transpose": None,
}

Kind = tuple[str, str]


def ambiguous_outputs(subject: Subject) -> dict[str, Kind]:
    """{key path of an output: (what it holds, the comparator to use)}. Raises what the kernel raises when traced."""
    leaves = [restore(leaf) for leaf in subject.arguments.leaves]
    jaxpr, shapes = jax.make_jaxpr(subject.call_leaves, return_shape=True)(leaves)
    paths = unique([key_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]])
    kinds = _outputs(jaxpr, [None] * len(leaves))
    return {path: kind for path, kind in zip(paths, kinds, strict=True) if kind}


def _outputs(jaxpr: Any, inputs: Sequence[Kind | None]) -> list[Kind | None]:
    """What each output of a jaxpr is, given what its inputs are. Loops and branches are not looked into."""
    body, _ = internals.opened(jaxpr)
    kinds: dict[int, Kind | None] = dict(zip(map(id, body.invars), inputs, strict=True))
    for equation in body.eqns:
        given = [kinds.get(id(atom)) for atom in equation.invars]
        kinds |= zip(map(id, equation.outvars), _equation(equation, given), strict=True)
    return [kinds.get(id(atom)) for atom in body.outvars]


def _equation(equation: Any, given: list[Kind | None]) -> list[Kind | None]:
    name, count = equation.primitive.name, len(equation.outvars)
    if name in internals.CALLS:
        inner = equation.params[internals.CALLS[name]]
        return _outputs(inner, given)
    if name in AMBIGUOUS:
        positions, what, comparator = AMBIGUOUS[name]
        return [(what, comparator) if position in positions else None for position in range(count)]
    if name == "sort":
        return [SORTED if position >= equation.params["num_keys"] else None for position in range(count)]
    if name in MOVING:
        return [next((kind for kind in given[: MOVING[name]] if kind), None)] * count
    return [None] * count
