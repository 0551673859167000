"""One equation in float64 by NumPy, where that is the same: nothing is compiled.

A walk needs each operation in float64 once a shape; compiling these programs took longer than all else together. It is
also another implementation than the one that is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Host = Callable[..., Any]  # (parameters, *operands) -> the output

UFUNCS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "add_any": np.add,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "eq": np.equal,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "rem": np.fmod,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _dot_general(params: Any, left: Array, right: Array) -> Array:
    (sum_left, sum_right), (batch_left, batch_right) = params["dimension_numbers"]
    free_left = [axis for axis in range(left.ndim) if axis not in (*sum_left, *batch_left)]
    free_right = [axis for axis in range(right.ndim) if axis not in (*sum_right, *batch_right)]
    batch, rows, columns, terms = (
        [array.shape[axis] for axis in axes]
        for array, axes in ((left, batch_left), (left, free_left), (right, free_right), (left, sum_left))
    )
    size = [int(np.prod(shape)) for shape in (batch, rows, columns, terms)]
    one = left.transpose(*batch_left, *free_left, *sum_left).reshape(size[0], size[1], size[3])
    other = right.transpose(*batch_right, *sum_right, *free_right).reshape(size[0], size[3], size[2])
    return (one @ other).reshape(*batch, *rows, *columns)


def _broadcast(params: Any, value: Array, *dynamic: Any) -> Array:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], value.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(value.reshape(shape), params["shape"])


def _slice(params: Any, value: Array) -> Array:
    strides = params["strides"] or (1,) * value.ndim
    return value[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]


def _dynamic_slice(params: Any, value: Array, *starts: Any) -> Array:
    return value[_window(value.shape, params["slice_sizes"], starts)]


def _dynamic_update_slice(params: Any, value: Array, update: Array, *starts: Any) -> Array:
    changed = value.copy()
    changed[_window(value.shape, update.shape, starts)] = update
    return changed


def _window(shape: Any, sizes: Any, starts: Any) -> tuple[slice, ...]:
    """As XLA clamps it: the whole window lies within the array."""
    firsts = [min(max(int(at), 0), most - size) for at, most, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def _cumulative_sum(params: Any, value: Array) -> Array:
    if params["reverse"]:
        return np.flip(np.cumsum(np.flip(value, params["axis"]), params["axis"]), params["axis"])
    return np.cumsum(value, params["axis"])


OTHERS: Mapping[str, Host] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda params, *values: np.concatenate(values, params["dimension"]),
    "convert_element_type": lambda params, value: np.asarray(value, np.float64),
    "copy": lambda params, value: value,
    "copy_p": lambda params, value: value,
    "cumsum": _cumulative_sum,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": lambda params, value: np.expand_dims(value, tuple(params["dimensions"])),
    "integer_pow": lambda params, value: np.power(value, float(params["y"])),
    "reduce_max": lambda params, value: np.max(value, axis=tuple(params["axes"]), initial=-np.inf),
    "reduce_min": lambda params, value: np.min(value, axis=tuple(params["axes"]), initial=np.inf),
    "reduce_sum": lambda params, value: np.sum(value, axis=tuple(params["axes"])),
    "reshape": lambda params, value, *dynamic: value.reshape(params["new_sizes"]),
    "rev": lambda params, value: np.flip(value, tuple(params["dimensions"])),
    "select_n": lambda params, which, *cases: np.where(which, cases[1], cases[0]),
    "slice": _slice,
    "squeeze": lambda params, value: np.squeeze(value, tuple(params["dimensions"])),
    "transpose": lambda params, value: np.transpose(value, params["permutation"]),
}
FLOATS_ONLY = frozenset({"cumsum", "dot_general", "integer_pow"})


def by_numpy(equation: Any, values: list[Any]) -> Array | None:
    """The output of an equation of real numbers at float64 values, or None where NumPy is not asked.

    Programs that compute in float64 themselves are not: there NumPy is not the better of the two.
    """
    name = equation.primitive.name
    if not ((name in UFUNCS or name in OTHERS) and _served(equation, name)):
        return None
    arrays = [np.asarray(value) for value in values]
    with np.errstate(all="ignore"):
        if name in UFUNCS:
            return np.asarray(UFUNCS[name](*arrays))
        return np.asarray(OTHERS[name](equation.params, *arrays))


def _served(equation: Any, name: str) -> bool:
    dtypes: list[Any] = [getattr(atom.aval, "dtype", None) for atom in (*equation.invars, *equation.outvars)]
    if not all(map(_is_plain, dtypes)):
        return False
    if name == "convert_element_type":
        return bool(jnp.issubdtype(dtypes[-1], jnp.floating))
    if name == "select_n":
        return len(equation.invars) == 3 and dtypes[0] == np.bool_
    if name == "reshape":
        return equation.params["dimensions"] is None
    return name not in FLOATS_ONLY or all(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes)


def _is_plain(dtype: Any) -> bool:
    """Real numbers, and narrower than float64."""
    if dtype is None or jnp.issubdtype(dtype, jax.dtypes.extended) or dtype == np.float64:
        return False
    return bool(dtype == np.bool_ or jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))
