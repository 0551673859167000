"""The same check several times over: what a kernel gives must not change from call to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.worker import checks, internals
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.trees import tree_of

Finding = dict[str, str]


def differences(
    subject: Subject,
    mode: str,
    times: int,
    first: Mapping[str, Any],
    produced: Produced | None,
    clock: internals.CompileClock,
) -> list[Finding]:
    """Calls again, `times` in all, with fresh inputs; one finding for the first call that is not as the first was."""
    reference = _came_out(first, produced)
    for call in range(2, times + 1):
        text = difference(reference, _came_out(*checks.execute(subject, mode, clock)))
        if text:
            return [{"kind": "determinism", "message": f"call {call} of {times} differs from call 1: {text}"}]
    return []


def _came_out(facts: Mapping[str, Any], produced: Produced | None) -> Tree | str:
    """The outputs, or the error's class: its message may hold addresses, and JAX's holds numbers of tracers."""
    return str(facts["error"]["type"]) if produced is None else tree_of(produced.outputs)


def difference(first: Tree | str, later: Tree | str) -> str:
    """How a later outcome (outputs, or the class of an error) is not as the first, bit for bit; nothing where it is."""
    if isinstance(first, str) or isinstance(later, str):
        was, now = (outcome if isinstance(outcome, str) else "a value" for outcome in (first, later))
        return "" if was == now else f"{now} instead of {was}"
    if first.structure != later.structure:
        return "its outputs have another structure"
    pairs = zip(first.leaves, later.leaves, strict=True)
    return ", ".join(text for before, after in pairs if (text := _leaf_difference(before, after)))


def _leaf_difference(before: Leaf, after: Leaf) -> str:
    """Bit for bit, so that NaN equals itself and -0 is not 0."""
    if (before.dtype, before.shape, before.impl) != (after.dtype, after.shape, after.impl):
        return f"{after.path} is {after.dtype}{list(after.shape)}, was {before.dtype}{list(before.shape)}"
    bits = [np.ascontiguousarray(leaf.words).reshape(-1).view(np.uint8) for leaf in (before, after)]
    size = int(np.prod(before.shape, dtype=np.int64))
    if not size:
        return ""
    apart = int(np.count_nonzero((bits[0] != bits[1]).reshape(size, -1).any(axis=1)))
    return f"{after.path} {apart:,} of {size:,} elements" if apart else ""
