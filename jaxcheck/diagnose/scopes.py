"""Scopes as the user wrote them: `jax.named_scope` labels, and JAX's own marks of a gradient."""

from __future__ import annotations

import re

GRADIENTS = "gradients"
# A function's name in `jit(f)` is no label, and what JAX itself writes into a name stack is none either.
_FUNCTION = re.compile(r"\b(?:p?jit|pmap|shard_map|custom_jvp_call|custom_vjp_call|closed_call)\([^()]*\)")
_MARKS = frozenset(
    {"jvp", "transpose", "vmap", "jit", "pjit", "while", "scan", "cond", "body", "body_fun", "cond_fun", "closed_call"}
    | {"remat", "checkpoint", "rematted_computation", "custom_jvp_call", "custom_vjp_call", "shard_map", "pmap"}
)
_BRANCH = re.compile(r"branch_\d+_fun")


def labels(scope: str) -> tuple[str, ...]:
    """`jvp(forward)/attention` -> ("forward", "attention")."""
    parts = re.split(r"[/()]", _FUNCTION.sub("", scope))
    return tuple(part for part in parts if part and part not in _MARKS and not _BRANCH.fullmatch(part))


def is_gradient(scope: str) -> bool:
    """Whether the equation is of a reverse pass."""
    return "transpose(" in scope


def stage(scope: str) -> str:
    """The rung that an equation belongs to: `gradients`, its outermost label, or nothing."""
    if is_gradient(scope):
        return GRADIENTS
    return next(iter(labels(scope)), "")


def place(scope: str) -> tuple[str, ...]:
    """Where it stands in the tree of scopes."""
    return ((GRADIENTS,) if is_gradient(scope) else ()) + labels(scope)
