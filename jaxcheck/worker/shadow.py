"""A kernel's outputs in float64: its jaxpr run equation by equation, beside the ordinary values.

Every variable has two values: the device's, computed at the declared dtypes, and the shadow's. Control flow follows the
device's, and a *flip* is recorded where the shadow would have gone another way. Two policies: `ideal` computes
everything in float64, `quantised` rounds to the declared low-precision dtypes (bfloat16, float16, float8) where the
program does, so that a model that is *meant* to be bfloat16 is held to what its casts allow. `exact` is for one
equation by itself: float64, but an operation that rounds does round. `declared` is for testing the interpreter itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.worker import hosted, internals
from jaxcheck.worker.interpreter import Interpreter, Place, is_discrete

Policy = Literal["ideal", "quantised", "exact", "declared"]
FLOAT_PARAMETERS = ("new_dtype", "preferred_element_type", "dtype", "out_dtype", "input_dtype")
FOREIGN = frozenset(
    {"pure_callback", "io_callback", "ffi_call", "custom_call", "pallas_call", "shard_map", "run_state"}
)
SCATTERS: dict[str, Callable[..., Any]] = {
    "scatter-add": jax.lax.scatter_add,
    "scatter-mul": jax.lax.scatter_mul,
    "scatter-min": jax.lax.scatter_min,
    "scatter-max": jax.lax.scatter_max,
    "scatter_add": jax.lax.scatter_add,
    "scatter_mul": jax.lax.scatter_mul,
    "scatter_min": jax.lax.scatter_min,
    "scatter_max": jax.lax.scatter_max,
}
SCATTER_PARAMETERS = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
# What is defined by bits rather than by values keeps its declared dtypes.
BIT_LEVEL = frozenset({"bitcast_convert_type", "nextafter", "rng_bit_generator", "random_bits", "random_gamma"})


class NoShadow(Exception):
    """The kernel holds something that has no float64 counterpart; the message says what and where."""


@dataclass(frozen=True)
class Flip:
    """A place where device and shadow would have gone different ways: a branch, a loop's end, an integer."""

    primitive: str
    scope: str
    line: str


class Pair(NamedTuple):
    """A value as the device has it, and the shadow's."""

    low: Any
    high: Any


class Shadow(Interpreter):
    """The interpreter over pairs. `flips` fills while it runs."""

    def __init__(self, policy: Policy = "ideal") -> None:
        super().__init__()
        self.policy: Policy = policy
        self.flips: list[Flip] = []

    def run(self, jaxpr: Any, low: Sequence[Any], high: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(device outputs, shadow outputs) of a closed jaxpr at both kinds of inputs."""
        outputs = self.evaluate(jaxpr, list(map(Pair, low, high)))
        return [pair.low for pair in outputs], [pair.high for pair in outputs]

    def lift(self, value: Any) -> Any:
        """A value as the shadow holds it: floats as float64, complex as complex128; all else as it is."""
        if self.policy == "declared" or internals.is_key(value):
            return value
        return lifted(value)

    def constant(self, value: Any) -> Any:
        return Pair(value, self.lift(value))

    def device(self, value: Any) -> Any:
        return value.low

    def apply(self, function: Callable[..., Any], *values: Any) -> Any:
        low = function(*[pair.low for pair in values])
        with jax.enable_x64(True):
            return Pair(low, function(*[pair.high for pair in values]))

    def chosen(self, equation: Any, place: Place, value: Any) -> None:
        if not np.array_equal(np.asarray(value.low), np.asarray(value.high)):
            self.flipped(equation, place)

    def operate(self, equation: Any, place: Place, values: list[Any]) -> list[Any]:
        if equation.primitive.name in FOREIGN:
            where = internals.source_line(equation)
            raise NoShadow(f"{equation.primitive.name} at {where} has no float64 counterpart")
        outputs = internals.bind(equation, [pair.low for pair in values], equation.params)
        shadows = in_float64(equation, [pair.high for pair in values], self.policy)
        for mine, theirs in zip(outputs, shadows, strict=True):
            if is_discrete(mine) and not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                self.flipped(equation, place)
        return list(map(Pair, outputs, shadows))

    def flipped(self, equation: Any, place: Place) -> None:
        flip = Flip(equation.primitive.name, internals.scope(equation), internals.source_line(equation))
        if flip not in self.flips:
            self.flips.append(flip)


def in_float64(equation: Any, values: list[Any], policy: Policy) -> list[Any]:
    """One equation at shadow values."""
    if policy == "declared":
        return internals.bind(equation, values, equation.params)
    name = equation.primitive.name
    if name in BIT_LEVEL or not _has_floats(equation):  # outside of x64, where it is compiled already
        declared = [_as_declared(value, atom) for value, atom in zip(values, equation.invars, strict=True)]
        outputs = internals.bind(equation, declared, equation.params)
        return [output if internals.is_key(output) else lifted(output) for output in outputs]
    with jax.enable_x64(True):
        if name == "reduce_precision":
            return [values[0]] if policy == "ideal" else internals.bind(equation, values, equation.params)
        outputs = _wide(equation, values)
        if policy != "quantised":
            return outputs
        return [_quantised(output, atom) for output, atom in zip(outputs, equation.outvars, strict=True)]


def _has_floats(equation: Any) -> bool:
    dtypes = [getattr(atom.aval, "dtype", None) for atom in (*equation.invars, *equation.outvars)]
    return any(dtype is None or jnp.issubdtype(dtype, jnp.inexact) for dtype in dtypes)


def _wide(equation: Any, values: list[Any]) -> list[Any]:
    found = hosted.by_numpy(equation, values)
    if found is not None:
        return [found]
    name, params = equation.primitive.name, widened_parameters(equation.params)
    if name in SCATTERS:
        # Its parameters hold a jaxpr of the declared dtype: the public function makes one of the wider.
        return [SCATTERS[name](*values, **{key: params[key] for key in SCATTER_PARAMETERS})]
    if name == "reduce":
        return _reduce(params, values)
    if name == "shard_map":
        return internals.shard_map(params, lambda *shards: tuple(evaluate_wide(params["jaxpr"], shards)), values)
    return internals.bind(equation, values, params)


def _reduce(params: dict[str, Any], values: list[Any]) -> list[Any]:
    half = len(values) // 2

    def computation(*operands: Any) -> Any:
        flat = jax.tree.leaves(operands)
        return tuple(evaluate_wide(params["jaxpr"], flat))

    operands, starts = tuple(values[:half]), tuple(values[half:])
    return list(jax.lax.reduce(operands, starts, computation, params["dimensions"]))


def _quantised(value: Any, atom: Any) -> Any:
    """Rounded to the declared dtype where that is narrower than float32."""
    declared = getattr(atom.aval, "dtype", None)
    if not is_narrow(declared) or wide_dtype(value.dtype) is None:
        return value
    return value.astype(declared).astype(value.dtype)


def policy_of(jaxpr: Any) -> Policy:
    """`quantised` for a program that computes in bfloat16, float16 or float8, or rounds to fewer bits: it means to."""
    return "quantised" if _computes_narrowly(jaxpr) else "ideal"


def _computes_narrowly(jaxpr: Any) -> bool:
    body, _ = internals.opened(jaxpr)
    atoms = [*body.invars, *(atom for equation in body.eqns for atom in equation.outvars)]
    return (
        any(is_narrow(getattr(atom.aval, "dtype", None)) for atom in atoms)
        or any(equation.primitive.name == "reduce_precision" for equation in body.eqns)
        or any(_computes_narrowly(inner) for equation in body.eqns for inner in internals.inner_jaxprs(equation))
    )


def lifted(value: Any) -> Any:
    """An array with floats as float64 and complex numbers as complex128."""
    with jax.enable_x64(True):
        wide = wide_dtype(value.dtype if hasattr(value, "dtype") else np.result_type(value))
        # By NumPy, as JAX would compile a cast for each shape; operations take such arrays as they are.
        return jnp.asarray(value) if wide is None else np.asarray(value).astype(wide)


def wide_dtype(dtype: Any) -> Any:
    """float64 for floats, complex128 for complex, None for what has no wider kind."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if jnp.issubdtype(dtype, jnp.floating) else None


def widened_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """The equation's parameters with every float dtype replaced by its wide one."""
    wide = dict(params)
    for name in FLOAT_PARAMETERS:
        declared = wide.get(name)
        if declared is not None and not jnp.issubdtype(declared, jax.dtypes.extended):
            wide[name] = wide_dtype(declared) or declared
    return wide


def evaluate_wide(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """A small jaxpr without control flow (a reducer) in float64; works under tracing."""
    body, constants = internals.opened(jaxpr)
    env = dict(zip([*body.constvars, *body.invars], [*constants, *values], strict=True))

    def read(atom: Any) -> Any:
        literal = internals.literal_value(atom)
        if literal is NotImplemented:
            return env[atom]
        wide = wide_dtype(jnp.asarray(literal).dtype)
        return literal if wide is None else jnp.asarray(literal, wide)

    for equation in body.eqns:
        inputs = [read(atom) for atom in equation.invars]
        if equation.primitive.name in internals.CALLS:
            outputs = evaluate_wide(equation.params[internals.CALLS[equation.primitive.name]], inputs)
        else:
            outputs = internals.bind(equation, inputs, widened_parameters(equation.params))
        env.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in body.outvars]


def is_narrow(dtype: Any) -> bool:
    """bfloat16, float16, float8."""
    return dtype is not None and bool(jnp.issubdtype(dtype, jnp.floating)) and np.dtype(dtype).itemsize < 4


def _as_declared(value: Any, atom: Any) -> Any:
    dtype = getattr(atom.aval, "dtype", None)
    if internals.is_key(value) or dtype is None or (hasattr(value, "dtype") and value.dtype == dtype):
        return value
    return np.asarray(value).astype(dtype)
