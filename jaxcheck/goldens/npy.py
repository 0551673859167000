"""The bytes of a `.npy` entry, both ways, for the dtypes that a golden stores.

Reading follows a grammar instead of NumPy's evaluated literal, so that no header can be more than it seems.
"""

from __future__ import annotations

import io
import math
import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LONGEST = 10_000  # bytes; NumPy's own limit
_START = struct.Struct("<6sBBH")
_TEXT = re.compile(
    r"\{'descr': '(?P<descr>[<>|][biufcU]\d{1,9})', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n"
)


def can_name(dtype: np.dtype[Any]) -> bool:
    """Whether `.npy` can name the dtype so that it comes back as itself; it cannot for those of ml_dtypes."""
    return dtype.kind in "biufcU" and dtype.isbuiltin != 2


def write_header(array: Array) -> bytes:
    """The header of a C-contiguous array, as np.save writes it."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return buffer.getvalue()


def read_array(content: memoryview | bytes) -> Array:
    """The array that an entry's bytes are, a read-only view; ValueError or OverflowError says why they are none."""
    text, start = _header_text(bytes(content[:_LONGEST]))
    if "'|O'" in text:
        raise ValueError("it holds pickled objects, which jaxcheck never loads: loading one runs code")
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"its header says {text[:80].strip()!r}")
    dtype, shape = _dtype(match["descr"]), tuple(map(int, re.findall(r"\d+", match["shape"])))
    size = start + math.prod(shape) * dtype.itemsize
    if size != len(content):
        raise ValueError(f"its header wants {size} bytes, and there are {len(content)}")
    return np.ndarray(shape, dtype, content, start, order="F" if match["fortran"] == "True" else "C")


def _header_text(head: bytes) -> tuple[str, int]:
    """The header's text, and where behind it the data begin."""
    if len(head) < _START.size:
        raise ValueError(f"it has only {len(head)} bytes")
    magic, major, _, length = _START.unpack_from(head)
    if magic != b"\x93NUMPY" or major != 1:
        raise ValueError(f"it begins with the bytes {head[:8].hex(' ')}")
    stop = _START.size + length
    return head[_START.size : stop].decode("latin-1"), stop


def _dtype(descr: str) -> np.dtype[Any]:
    try:
        return np.dtype(descr)
    except TypeError:
        raise ValueError(f"its header says dtype {descr!r}") from None
