"""Order, indices, whole numbers and rounding: results that are right to the bit or wrong."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.kernels.properties import Inputs, require

Leaves = dict[str, jax.Array]
Arrays = dict[str, Any]


def sorting(x: jax.Array) -> Leaves:
    """x (n,): sorted, with the stable order both ways, the four largest, and the places of the extremes.

    NaN sorts last and is the largest; of equal values the first comes first.
    """
    values, places = jax.lax.top_k(x, 4)
    return {
        "sorted": jnp.sort(x),
        "order": jnp.argsort(x),
        "descending": jnp.argsort(x, descending=True),
        "top": values,
        "top_places": places,
        "argmax": jnp.argmax(x),
        "argmin": jnp.argmin(x),
    }


def sorting_reference(x: Any) -> Arrays:
    """-0 and +0 are equal to a sort, which leaves them where they are; to top-k +0 is the larger."""
    order = np.argsort(x, kind="stable").astype(np.int32)
    nan, falls = np.isnan(x), np.where(np.isnan(x), 0, -x)
    falling = np.lexsort((falls, ~nan)).astype(np.int32)
    top = np.lexsort((np.signbit(x), falls, ~nan)).astype(np.int32)[:4]
    return {
        "sorted": x[order],
        "order": order,
        "descending": falling,
        "top": x[top],
        "top_places": top,
        "argmax": np.int32(np.argmax(x)),
        "argmin": np.int32(np.argmin(x)),
    }


def order_sorts(inputs: Inputs, outputs: Any) -> None:
    """The order is a permutation, and taking it sorts the input."""
    x, order, values = np.asarray(inputs["x"]), np.asarray(outputs["order"]), np.asarray(outputs["sorted"])
    require(sorted(order.tolist()) == list(range(len(x))), f"{order} is not a permutation")
    require(np.array_equal(x[order], values, equal_nan=True), f"the order gives {x[order]}, sorted are {values}")


def scatter(places: jax.Array, values: jax.Array) -> Leaves:
    """places int32 (n,), values (n,): into 8 zeros by addition, maximum and product; sums by segment, counts.

    Several writes to one place must all arrive, in whatever order; places beyond the end are dropped.
    """
    start = jnp.zeros(8, values.dtype)
    return {
        "add": start.at[places].add(values),
        "max": start.at[places].max(values),
        "multiply": (start + 1).at[places].multiply(values),
        "segments": jax.ops.segment_sum(values, places, num_segments=8),
        "counts": jnp.bincount(places, length=8),
    }


def scatter_reference(places: Any, values: Any) -> Arrays:
    inside = places < 8
    places, values = places[inside], values[inside]
    found = {"add": np.zeros(8), "max": np.zeros(8), "multiply": np.ones(8)}
    np.add.at(found["add"], places, values)
    np.maximum.at(found["max"], places, values)
    np.multiply.at(found["multiply"], places, values)
    return {**found, "segments": found["add"]}


def scatter_keeps_the_total(inputs: Inputs, outputs: Any) -> None:
    """What was added is the sum of the values whose place exists."""
    places, values = np.asarray(inputs["places"]), np.asarray(inputs["values"], np.float64)
    expected, found = values[places < 8].sum(), np.asarray(outputs["add"], np.float64).sum()
    allowed = 1e-5 * np.abs(values).sum()
    require(abs(found - expected) <= allowed, f"{found} arrived of {expected}")


def whole_numbers(a: jax.Array, b: jax.Array) -> Leaves:
    """Arithmetic of int32 (n,): wraps around, rounds down in `//` and `%`, towards zero in `div` and `rem`."""
    return {
        "add": a + b,
        "multiply": a * b,
        "floor_divide": a // b,
        "modulo": a % b,
        "truncated": jax.lax.div(a, b),
        "rem": jax.lax.rem(a, b),
        "shifted": jax.lax.shift_right_arithmetic(a, 3),
        "bits": jax.lax.population_count(a),
        "zeros": jax.lax.clz(a),
        "narrow": a.astype(jnp.int8),
        "total": jnp.cumsum(a),
    }


def whole_numbers_reference(a: Any, b: Any) -> Arrays:
    def wrap(values: Any) -> Any:
        return ((values + 2**31) % 2**32 - 2**31).astype(np.int32)

    a64, b64 = a.astype(np.int64), b.astype(np.int64)
    size = np.abs(a64) // np.abs(b64)
    truncated = np.sign(a64) * np.sign(b64) * size
    return {
        "add": wrap(a64 + b64),
        "multiply": wrap(a64 * b64),
        "floor_divide": wrap(a64 // b64),
        "modulo": wrap(a64 % b64),
        "truncated": wrap(truncated),
        "rem": wrap(a64 - truncated * b64),
        "shifted": a >> 3,
        "bits": np.array([(value & 0xFFFFFFFF).bit_count() for value in a.tolist()], np.int32),
        "zeros": np.array([32 - (value & 0xFFFFFFFF).bit_length() for value in a.tolist()], np.int32),
        "narrow": ((a64 + 128) % 256 - 128).astype(np.int8),
        "total": wrap(np.cumsum(a64)),
    }


def quotient_and_remainder_agree(inputs: Inputs, outputs: Any) -> None:
    """a = (a // b) b + a % b and a = div b + rem, modulo 2**32."""
    a, b = (np.asarray(inputs[name], np.int64) for name in ("a", "b"))
    for quotient, rest in (("floor_divide", "modulo"), ("truncated", "rem")):
        rebuilt = np.asarray(outputs[quotient], np.int64) * b + np.asarray(outputs[rest], np.int64)
        require(np.all((rebuilt - a) % 2**32 == 0), f"{quotient} and {rest} give {rebuilt}, expected {a}")


def rounding(x: jax.Array) -> Leaves:
    """x (n,) float32: to whole numbers every way, sign, neighbours, parts, and the bits of float16 and bfloat16."""
    mantissa, exponent = jnp.frexp(x)
    return {
        "round": jnp.round(x),
        "floor": jnp.floor(x),
        "ceil": jnp.ceil(x),
        "trunc": jnp.trunc(x),
        "sign": jnp.sign(x),
        "negative": jnp.signbit(x),
        "next": jnp.nextafter(x, jnp.float32(jnp.inf)),
        "mantissa": mantissa,
        "exponent": exponent,
        "half": jax.lax.reduce_precision(x, 5, 10),
        "brain": jax.lax.reduce_precision(x, 8, 7),
        "bits": jax.lax.bitcast_convert_type(x, jnp.uint32),
    }


def rounding_reference(x: Any) -> Arrays:
    single = x.astype(np.float32)
    mantissa, exponent = np.frexp(single)
    with np.errstate(over="ignore"):
        half = single.astype(np.float16).astype(np.float64)
    return {
        "round": np.round(x),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
        "trunc": np.trunc(x),
        "sign": np.sign(x),
        "negative": np.signbit(x),
        "next": np.nextafter(single, np.float32(np.inf)),
        "mantissa": mantissa,
        "exponent": exponent,
        "half": half,
        "brain": brain_rounded(single),
        "bits": single.view(np.uint32),
    }


def brain_rounded(single: Any) -> Any:
    """float32 rounded to bfloat16, to the even one of two equally near: the upper half of the word, after a carry."""
    words = single.view(np.uint32).astype(np.uint64)
    rounded = (words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)
