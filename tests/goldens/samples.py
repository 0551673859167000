"""Leaves, trees, cases and files that the tests of the goldens share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from jaxcheck.goldens.archive import write_archive
from jaxcheck.goldens.golden import Blessing, Draft, ErrorRecord, GoldenCase
from jaxcheck.goldens.leaf import Array, Leaf, Tree

NATIVE_DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
EXTENDED_DTYPES = sorted(
    name for name, kind in vars(ml_dtypes).items() if isinstance(kind, type) and issubclass(kind, np.generic)
)

FIXED_ARRAYS: dict[str, Array] = {
    "standard/in/x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "standard/out/.": np.array([np.nan, -0.0, np.inf]),
    "standard/out/ŵ/[0]\n": np.zeros((0, 2), np.int8),
}
FIXED_META: dict[str, Any] = {"schema": 0, "b": [1, 2.5, None], "a": "ŵ"}


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(name if name in NATIVE_DTYPES else getattr(ml_dtypes, name))


def single(value: Any, path: str = ".") -> Tree:
    """A tree that is one leaf."""
    return Tree("*", (Leaf.of(path, value),))


def arguments(**values: Any) -> Tree:
    return Tree({"dict": dict.fromkeys(values, "*")}, tuple(Leaf.of(name, value) for name, value in values.items()))


def blessing(reason: str = "first", **changes: Any) -> Blessing:
    facts = {"who": "me", "when": "2026-01-02T03:04:05+00:00", "commit": None, "jaxcheck": "0.1.0"}
    return Blessing(**{**facts, "reason": reason, "environment": {"jax": "0.11.2"}, **changes})


def case(value: Any = 1.5, **changes: Any) -> GoldenCase:
    """A case whose output is `value`."""
    facts: dict[str, Any] = {
        "hash": "h",
        "contract": "eager",
        "inputs": arguments(x=np.arange(3, dtype=np.float32)),
        "outputs": single(np.asarray(value, np.float32)),
        "error": None,
        "tolerance": {".": {"rtol": 1e-6, "atol": 0.0, "source": "recipes.yaml:3:5"}},
        "blessing": blessing(),
    }
    return GoldenCase(**{**facts, **changes})


def rich_case() -> GoldenCase:
    """A case that has everything a golden can hold, but an error."""
    bfloat = np.array([1, np.nan, -0.0], ml_dtypes.bfloat16)
    keys = Leaf.of_key("['k']", np.arange(4, dtype=np.uint32).reshape(2, 2), "threefry2x32", "key<fry>", (2,))
    outputs = Tree({"dict": {"k": "*", "w": "*", "z": None}}, (keys, Leaf.of("['w']", bfloat, weak_type=True)))
    return case(
        outputs=outputs,
        truth=single(np.array([1.0, 2.0])),
        program=b"ML\xefR\0program",
        statics={"n": 3, "name": "é"},
        extra={"noise_floor": {".": 1e-7}},
    )


def raising_case() -> GoldenCase:
    error = ErrorRecord("builtins.ZeroDivisionError", ("builtins.ArithmeticError",), "division by zero")
    return case(outputs=None, error=error, tolerance={}, program_reason="it raises")


def write_golden(path: Path, recipe: str = "r", **cases: GoldenCase) -> Path:
    Draft.of(recipe, cases or {"standard": rich_case(), "raising": raising_case()}).write(path)
    return path


def rewrite(path: Path, meta: dict[str, Any], arrays: dict[str, Array]) -> Path:
    """A container that is sound, with content of which that need not be true."""
    write_archive(path, arrays, meta)
    return path
