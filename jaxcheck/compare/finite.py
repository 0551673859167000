"""Where an array stops being finite."""

from __future__ import annotations

import numpy as np

BLOCK = 1 << 18


def first_nonfinite(array: np.ndarray) -> tuple[tuple[int, ...], str] | None:
    """(index, "nan" | "inf" | "-inf" | complex text) of the first non-finite element of a float or complex array.

    None for integers, booleans and arrays that are finite throughout. Works in blocks, in constant memory.
    """
    if array.dtype.kind in "biu" or not _has_nonfinite(array.dtype):
        return None
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        finite = np.isfinite(flat[start : start + BLOCK])
        if not finite.all():
            position = start + int(np.argmin(finite))
            index = tuple(int(i) for i in np.unravel_index(position, array.shape))
            return index, str(flat[position])
    return None


def _has_nonfinite(dtype: np.dtype) -> bool:
    """int4 and its like are kind V in NumPy's eyes, and no ufunc asks them whether they are finite."""
    return dtype.kind in "fc" or not dtype.name.startswith(("int", "uint"))
