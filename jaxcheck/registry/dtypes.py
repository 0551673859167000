"""The dtypes of arrays by name: what each can hold, without importing NumPy.

The limits are those of IEEE 754 and of ml_dtypes (https://github.com/jax-ml/ml_dtypes); the tests compare them
with `numpy.finfo` and `ml_dtypes.finfo`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Number = int | float


@dataclass(frozen=True)
class Integer:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True)
class Floating:
    """Binary floating point: bits of the significand (the hidden one included), largest and smallest magnitude."""

    digits: int
    largest: float
    smallest: float
    infinity: bool = True
    nan: bool = True

    @cached_property
    def overflow(self) -> float:
        """From here on a number rounds to more than the largest."""
        return self.largest + math.ldexp(1.0, math.frexp(self.largest)[1] - self.digits - 1)


def _signed(bits: int) -> Integer:
    return Integer(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> Integer:
    return Integer(0, 2**bits - 1)


INTEGERS: Mapping[str, Integer] = {
    **{f"int{bits}": _signed(bits) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": _unsigned(bits) for bits in (2, 4, 8, 16, 32, 64)},
}
FLOATS: Mapping[str, Floating] = {
    "float16": Floating(11, 65504.0, 2.0**-24),
    "bfloat16": Floating(8, float.fromhex("0x1.fep127"), 2.0**-133),
    "float32": Floating(24, float.fromhex("0x1.fffffep127"), 2.0**-149),
    "float64": Floating(53, float.fromhex("0x1.fffffffffffffp1023"), 2.0**-1074),
    "float8_e3m4": Floating(5, 15.5, 2.0**-6),
    "float8_e4m3": Floating(4, 240.0, 2.0**-9),
    "float8_e4m3fn": Floating(4, 448.0, 2.0**-9, infinity=False),
    "float8_e4m3fnuz": Floating(4, 240.0, 2.0**-10, infinity=False),
    "float8_e4m3b11fnuz": Floating(4, 30.0, 2.0**-13, infinity=False),
    "float8_e5m2": Floating(3, 57344.0, 2.0**-16),
    "float8_e5m2fnuz": Floating(3, 57344.0, 2.0**-17, infinity=False),
    "float4_e2m1fn": Floating(2, 6.0, 0.5, infinity=False, nan=False),
}
COMPLEX: Mapping[str, str] = {"complex64": "float32", "complex128": "float64"}
DTYPES: tuple[str, ...] = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
NOT_IN_NUMPY = frozenset(DTYPES) & {"bfloat16", "int2", "int4", "uint2", "uint4"} | {
    name for name in FLOATS if name.startswith(("float8", "float4"))
}


def by_content(values: Iterable[object], *, wide: bool = False) -> str:
    """The dtype of an array that names none: bool or int32 where all of its values are, else float32.

    With `wide`, whole numbers beyond int32 make it int64: nothing else holds them.
    """
    seen = list(values)
    if seen and all(isinstance(value, bool) for value in seen):
        return "bool"
    if not seen or not all(isinstance(value, int) for value in seen):
        return "float32"
    narrow = INTEGERS["int32"]
    fits = all(narrow.low <= value <= narrow.high for value in seen if isinstance(value, int))
    return "int32" if fits or not wide else "int64"


def misfit(value: bool | Number, dtype: str) -> str | None:
    """What the dtype would lose of the value, or None. A float is rounded to the dtype: that is no loss."""
    if isinstance(value, bool) or dtype == "bool":
        return None if isinstance(value, bool) and dtype == "bool" else f"is not a {_kind(dtype)}"
    if dtype in INTEGERS:
        return _integer_misfit(value, INTEGERS[dtype])
    limits = FLOATS[COMPLEX.get(dtype, dtype)]
    return _integer_in_float_misfit(value, limits) if isinstance(value, int) else _float_misfit(value, limits)


def _kind(dtype: str) -> str:
    return "truth value (true or false)" if dtype == "bool" else "number"


def _integer_misfit(value: Number, limits: Integer) -> str | None:
    if isinstance(value, float) and not value.is_integer():
        return "has a fraction" if math.isfinite(value) else "is not a whole number"
    if limits.low == 0 and value < 0:
        return "is negative"
    return None if limits.low <= value <= limits.high else f"is not between {limits.low} and {limits.high}"


def _integer_in_float_misfit(value: int, limits: Floating) -> str | None:
    if abs(value) > limits.largest:
        return f"is beyond its largest number, {limits.largest:.8g}"
    significand = abs(value) >> max((value & -value).bit_length() - 1, 0)
    return None if significand.bit_length() <= limits.digits else "would be rounded to another whole number"


def _float_misfit(value: float, limits: Floating) -> str | None:
    if math.isnan(value):
        return None if limits.nan else "has no place in it"
    if math.isinf(value):
        return None if limits.infinity else "has no place in it"
    if abs(value) >= limits.overflow:
        return f"is beyond its largest number, {limits.largest:.8g}"
    return "would be rounded to 0" if 0 < abs(value) <= limits.smallest / 2 else None


def numpy_dtype(name: str) -> Any:
    """The `numpy.dtype` of this name; those that NumPy lacks come from ml_dtypes."""
    import numpy as np

    if name not in NOT_IN_NUMPY:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))
