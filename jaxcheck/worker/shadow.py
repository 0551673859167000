"""A kernel's outputs in float64: its jaxpr run equation by equation, beside the ordinary values.

Every variable has two values: the device's, computed at the declared dtypes, and the shadow's. Calls are inlined and
`scan` is unrolled; `while` and `cond` follow the device's values, and a *flip* is recorded where the shadow would
have gone another way. Two policies: `ideal` computes everything in float64, `quantised` rounds to the declared
low-precision dtypes (bfloat16, float16, float8) where the program does, so that a model that is *meant* to be
bfloat16 is held to what its casts allow. `declared` is for testing the interpreter itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.worker import internals

Policy = Literal["ideal", "quantised", "declared"]
FLOAT_PARAMETERS = ("new_dtype", "preferred_element_type", "dtype", "out_dtype", "input_dtype")
FOREIGN = frozenset(
    {"pure_callback", "io_callback", "ffi_call", "custom_call", "pallas_call", "shard_map", "run_state"}
)
SCATTERS: dict[str, Callable[..., Any]] = {
    "scatter-add": jax.lax.scatter_add,
    "scatter-mul": jax.lax.scatter_mul,
    "scatter_add": jax.lax.scatter_add,
    "scatter_mul": jax.lax.scatter_mul,
}
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


@dataclass
class Shadow:
    """The interpreter. `flips` fills while it runs; `observe` is called after each equation (for diagnosis)."""

    policy: Policy = "ideal"
    flips: list[Flip] = field(default_factory=list)

    def run(self, jaxpr: Any, low: Sequence[Any], high: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(device outputs, shadow outputs) of a closed jaxpr at both kinds of inputs."""
        body, constants = internals.opened(jaxpr)
        lows: dict[Any, Any] = dict(zip([*body.constvars, *body.invars], [*constants, *low], strict=True))
        lifted = [*map(self.lift, constants), *high]
        highs: dict[Any, Any] = dict(zip([*body.constvars, *body.invars], lifted, strict=True))
        for equation in body.eqns:
            low_in = [self._read(atom, lows, lift=False) for atom in equation.invars]
            high_in = [self._read(atom, highs, lift=True) for atom in equation.invars]
            low_out, high_out = self._equation(equation, low_in, high_in)
            lows.update(zip(equation.outvars, low_out, strict=True))
            highs.update(zip(equation.outvars, high_out, strict=True))
        return (
            [self._read(atom, lows, lift=False) for atom in body.outvars],
            [self._read(atom, highs, lift=True) for atom in body.outvars],
        )

    def lift(self, value: Any) -> Any:
        """A value as the shadow holds it: floats as float64, complex as complex128; all else as it is."""
        if self.policy == "declared" or internals.is_key(value):
            return value
        with jax.enable_x64(True):
            array = jnp.asarray(value)
            wide = wide_dtype(array.dtype)
            return array if wide is None else array.astype(wide)

    def _read(self, atom: Any, values: dict[Any, Any], lift: bool) -> Any:
        literal = internals.literal_value(atom)
        if literal is NotImplemented:
            return values[atom]
        return self.lift(literal) if lift else literal

    def _equation(self, equation: Any, low: list[Any], high: list[Any]) -> tuple[list[Any], list[Any]]:
        name = equation.primitive.name
        if name in internals.CALLS:
            return self.run(equation.params[internals.CALLS[name]], low, high)
        if name == "scan":
            return self._scan(equation.params, low, high)
        if name == "while":
            return self._while(equation, low, high)
        if name == "cond":
            return self._cond(equation, low, high)
        if name in ("linear_solve", "custom_linear_solve"):
            return self._linear_solve(equation.params, low, high)
        if name in FOREIGN:
            raise NoShadow(f"{name} at {internals.source_line(equation)} has no float64 counterpart")
        outputs = internals.bind(equation, low, equation.params)
        shadows = self._high(equation, high)
        for mine, theirs in zip(outputs, shadows, strict=True):
            if _discrete(mine) and not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                self._flip(equation)
        return outputs, shadows

    def _flip(self, equation: Any) -> None:
        flip = Flip(equation.primitive.name, internals.scope(equation), internals.source_line(equation))
        if flip not in self.flips:
            self.flips.append(flip)

    def _high(self, equation: Any, values: list[Any]) -> list[Any]:
        """One equation in float64."""
        if self.policy == "declared":
            return internals.bind(equation, values, equation.params)
        name = equation.primitive.name
        with jax.enable_x64(True):
            if name == "reduce_precision":
                return [values[0]] if self.policy == "ideal" else internals.bind(equation, values, equation.params)
            if name in BIT_LEVEL:
                declared = [_as_declared(value, atom) for value, atom in zip(values, equation.invars, strict=True)]
                return [self.lift(output) for output in internals.bind(equation, declared, equation.params)]
            outputs = self._wide(equation, values)
            return [self._quantised(output, atom) for output, atom in zip(outputs, equation.outvars, strict=True)]

    def _wide(self, equation: Any, values: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, widened_parameters(equation.params)
        if name in SCATTERS:
            # Its parameters hold a jaxpr of the declared dtype: the public function makes one of the wider.
            keep = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
            return [SCATTERS[name](*values, **{key: params[key] for key in keep})]
        if name == "reduce":
            return self._reduce(params, values)
        return internals.bind(equation, values, params)

    def _reduce(self, params: dict[str, Any], values: list[Any]) -> list[Any]:
        half = len(values) // 2

        def computation(*operands: Any) -> Any:
            flat = jax.tree.leaves(operands)
            return tuple(evaluate_wide(params["jaxpr"], flat))

        operands, starts = tuple(values[:half]), tuple(values[half:])
        return list(jax.lax.reduce(operands, starts, computation, params["dimensions"]))

    def _quantised(self, value: Any, atom: Any) -> Any:
        """Rounded to the declared dtype where that is narrower than float32 and the policy says so."""
        declared = getattr(atom.aval, "dtype", None)
        if self.policy != "quantised" or not is_narrow(declared) or wide_dtype(value.dtype) is None:
            return value
        return value.astype(declared).astype(value.dtype)

    def _scan(self, params: dict[str, Any], low: list[Any], high: list[Any]) -> tuple[list[Any], list[Any]]:
        consts, carries = internals.scan_counts(params)
        low_carry, high_carry = low[consts : consts + carries], high[consts : consts + carries]
        steps = range(params["length"])
        low_rows: list[list[Any]] = []
        high_rows: list[list[Any]] = []
        for step in reversed(steps) if params["reverse"] else steps:
            low_x = [x[step] for x in low[consts + carries :]]
            with jax.enable_x64(True):
                high_x = [x[step] for x in high[consts + carries :]]
            low_out, high_out = self.run(
                params["jaxpr"], [*low[:consts], *low_carry, *low_x], [*high[:consts], *high_carry, *high_x]
            )
            low_carry, high_carry = low_out[:carries], high_out[:carries]
            low_rows.append(low_out[carries:])
            high_rows.append(high_out[carries:])
        if params["reverse"]:
            low_rows.reverse()
            high_rows.reverse()
        avals = internals.opened(params["jaxpr"])[0].outvars[carries:]
        lows = _stacked(low_rows, [atom.aval for atom in avals])
        with jax.enable_x64(True):
            highs = [self.lift(x) for x in lows] if not high_rows else _stacked(high_rows, [])
        return [*low_carry, *lows], [*high_carry, *highs]

    def _while(self, equation: Any, low: list[Any], high: list[Any]) -> tuple[list[Any], list[Any]]:
        params = equation.params
        split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        low_cond, low_body, low_carry = low[: split[0]], low[split[0] : split[1]], low[split[1] :]
        high_cond, high_body, high_carry = high[: split[0]], high[split[0] : split[1]], high[split[1] :]
        while True:
            (go,), (shadow_go,) = self.run(params["cond_jaxpr"], [*low_cond, *low_carry], [*high_cond, *high_carry])
            going = np.asarray(go)
            if not np.array_equal(going, np.asarray(shadow_go)):
                self._flip(equation)
            if not going.any():
                return low_carry, high_carry
            low_next, high_next = self.run(params["body_jaxpr"], [*low_body, *low_carry], [*high_body, *high_carry])
            low_carry = [_where(going, new, old) for new, old in zip(low_next, low_carry, strict=True)]
            with jax.enable_x64(True):
                high_carry = [_where(going, new, old) for new, old in zip(high_next, high_carry, strict=True)]

    def _cond(self, equation: Any, low: list[Any], high: list[Any]) -> tuple[list[Any], list[Any]]:
        taken, shadow = int(low[0]), int(high[0])
        if taken != shadow:
            self._flip(equation)
        return self.run(equation.params["branches"][taken], low[1:], high[1:])

    def _linear_solve(self, params: dict[str, Any], low: list[Any], high: list[Any]) -> tuple[list[Any], list[Any]]:
        """Only its `solve` computes: the other jaxprs are for derivatives, which are equations of their own by then."""
        counts = params["const_lengths"]
        start = counts.matvec + counts.vecmat
        total = start + counts.solve + counts.transpose_solve
        part = slice(start, start + counts.solve)
        return self.run(params["jaxprs"].solve, [*low[part], *low[total:]], [*high[part], *high[total:]])


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


def _stacked(rows: list[list[Any]], avals: list[Any]) -> list[Any]:
    if not rows:
        return [jnp.zeros((0, *aval.shape), aval.dtype) for aval in avals]
    return [_stack(column) for column in zip(*rows, strict=True)]


def _stack(column: Sequence[Any]) -> Any:
    """By NumPy: JAX would compile one program for all the rows of a scan, which takes seconds for a thousand."""
    if internals.is_key(column[0]):
        return jnp.stack(column)
    return jnp.asarray(np.stack([np.asarray(value) for value in column]))


def _where(going: Any, new: Any, old: Any) -> Any:
    """A loop under vmap has one predicate for each example: those that have stopped keep their carry."""
    if going.ndim == 0 or going.all():
        return new
    return jnp.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)


def _discrete(value: Any) -> bool:
    return not internals.is_key(value) and wide_dtype(jnp.asarray(value).dtype) is None


def is_narrow(dtype: Any) -> bool:
    """bfloat16, float16, float8."""
    return dtype is not None and bool(jnp.issubdtype(dtype, jnp.floating)) and np.dtype(dtype).itemsize < 4


def _as_declared(value: Any, atom: Any) -> Any:
    dtype = getattr(atom.aval, "dtype", None)
    return value if internals.is_key(value) or dtype is None else jnp.asarray(value).astype(dtype)
