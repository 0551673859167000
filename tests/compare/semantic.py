"""What tests of the comparators share: an output with several leaves, compared at one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxcheck.compare.leaves import Surroundings, compare_leaf
from jaxcheck.results import LeafResult

Leaves = Mapping[str, Any]


@dataclass(frozen=True)
class Tolerance:
    rtol: float = 1e-5
    atol: float = 1e-5
    source: str = "recipes.yaml:12:5"


def compare(
    comparator: str,
    path: str,
    golden: Leaves,
    actual: Leaves,
    inputs: Leaves | None = None,
    tolerance: Tolerance | None = Tolerance(),
    **parameters: Any,
) -> LeafResult:
    """The leaf at `path`, as a run compares it."""
    before, after = ({name: np.asarray(leaf) for name, leaf in leaves.items()} for leaves in (golden, actual))
    around = Surroundings(before, after, inputs, lambda path, dtype: tolerance)
    dtype = before[path].dtype.name
    used = tolerance or Tolerance(0, 0)
    return compare_leaf(path, dtype, before[path], after[path], used, comparator, parameters=parameters, around=around)
