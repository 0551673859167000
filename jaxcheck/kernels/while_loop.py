"""Newton's square root by `jax.lax.while_loop`: a loop that stops by itself, and by a limit if it has to.

After the guide on `while_loop` for JAX 0.11.2: sqrt(2) from 1 takes 3 iterations and gives 1.4142157.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxcheck.kernels.properties import Inputs, require

RESIDUAL = 1e-5
MAX_ITERATIONS = 20
FIXED_STEPS = 6
CONVERGED, LIMIT_REACHED, NOT_A_NUMBER = 0, 1, 2
"""Why the loop stopped. NaN ends it at once, because every comparison with NaN is false."""


def newton_sqrt(
    init: jax.Array, target: ArrayLike = 2.0, max_iterations: int = MAX_ITERATIONS
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Improves `init` until |root**2 - target| <= 1e-5 or `max_iterations` is reached.

    `init` and `target` are scalars of the same float dtype. Returns (iterations, root, stop): int32, the dtype
    of `init`, and int32 (CONVERGED, LIMIT_REACHED or NOT_A_NUMBER). Raises TypeError for anything but scalars,
    and for an integer `init`, which a step would turn into a float.
    """
    target = jnp.asarray(target, init.dtype)

    def unfinished(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        iteration, value = carry
        with jax.named_scope("criterion"):
            return (iteration < max_iterations) & (jnp.abs(value * value - target) > RESIDUAL)

    def improve(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        iteration, value = carry
        with jax.named_scope("update"):
            return iteration + 1, 0.5 * (value + target / value)

    iterations, root = jax.lax.while_loop(unfinished, improve, (jnp.int32(0), init))
    with jax.named_scope("stop"):
        residual = jnp.abs(root * root - target)
        missed = jnp.where(jnp.isnan(residual), jnp.int32(NOT_A_NUMBER), jnp.int32(LIMIT_REACHED))
        stop = jnp.where(residual <= RESIDUAL, jnp.int32(CONVERGED), missed)
    return iterations, root, stop


def newton_sqrt_reference(
    init: Any, target: Any = 2.0, max_iterations: int = MAX_ITERATIONS
) -> tuple[np.int32, np.float64, np.int32]:
    value, target, iterations = np.float64(init), np.float64(target), 0
    with np.errstate(all="ignore"):
        while iterations < max_iterations and abs(value * value - target) > RESIDUAL:
            value = 0.5 * (value + target / value)
            iterations += 1
        residual = abs(value * value - target)
    missed = NOT_A_NUMBER if np.isnan(residual) else LIMIT_REACHED
    return np.int32(iterations), value, np.int32(CONVERGED if residual <= RESIDUAL else missed)


def newton_sqrt_batch(
    init: jax.Array, target: jax.Array, max_iterations: int = MAX_ITERATIONS
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`newton_sqrt` for vectors (n,): each element stops by itself, the loop runs until the last one has.

    Raises ValueError where the two lengths differ.
    """
    return jax.vmap(lambda start, square: newton_sqrt(start, square, max_iterations))(init, target)


def newton_sqrt_batch_reference(
    init: Any, target: Any, max_iterations: int = MAX_ITERATIONS
) -> tuple[np.ndarray[Any, Any], ...]:
    pairs = zip(init, target, strict=True)
    single = [newton_sqrt_reference(start, square, max_iterations) for start, square in pairs]
    dtypes = (np.int32, np.float64, np.int32)
    return tuple(np.array([each[i] for each in single], dtype) for i, dtype in enumerate(dtypes))


def stays_within_limit(inputs: Inputs, outputs: Any) -> None:
    """No loop runs beyond its limit, and one that says so did reach it."""
    iterations, _, stop = map(np.asarray, outputs)
    limit = inputs.get("max_iterations", MAX_ITERATIONS)
    require(np.all((iterations >= 0) & (iterations <= limit)), f"iterations {iterations} leave 0..{limit}")
    early = (stop == LIMIT_REACHED) & (iterations != limit)
    require(not np.any(early), f"limit {limit} reported, but after {iterations} iterations")


def stop_reason_is_true(inputs: Inputs, outputs: Any) -> None:
    """A converged root solves the equation, NaN is reported as such, only a limit leaves a residual behind."""
    _, root, stop = map(np.asarray, outputs)
    target = np.asarray(inputs.get("target", 2.0), np.float64)
    # The loop itself judges with the rounding of the root's own dtype.
    allowed = RESIDUAL + 4 * np.finfo(root.dtype).eps * np.abs(target)
    with np.errstate(all="ignore"):
        residual = np.abs(np.square(root.astype(np.float64)) - target)
    wrong = (stop == CONVERGED) & ~(residual <= allowed)
    require(not np.any(wrong), f"said to have converged, but |root**2 - target| is {residual}, not {allowed}")
    told = np.array_equal(stop == NOT_A_NUMBER, np.isnan(residual))
    require(told, f"stop is {stop}, which does not tell NaN in the residual {residual}")
    early = (stop == LIMIT_REACHED) & (residual < RESIDUAL / 2)
    require(not np.any(early), f"limit reported, but |root**2 - target| is only {residual}")


def newton_sqrt_forward(
    init: jax.Array, target: jax.Array, max_iterations: int = MAX_ITERATIONS
) -> dict[str, jax.Array]:
    """The root and its derivative by `target`, in forward mode, which a loop of unknown length supports.

    Returns {"root", "slope"}, scalars of the dtype of `init`; the exact slope is 1 / (2 sqrt(target)).
    """
    root, slope = jax.jvp(
        lambda square: newton_sqrt(init, square, max_iterations)[1], (target,), (jnp.ones_like(target),)
    )
    return {"root": root, "slope": slope}


def newton_sqrt_forward_reference(
    init: Any, target: Any, max_iterations: int = MAX_ITERATIONS
) -> dict[str, np.float64]:
    """The recurrence of the derivative, written out: d' = (d + 1 / v - t d / v**2) / 2."""
    value, slope, target, iterations = np.float64(init), np.float64(0), np.float64(target), 0
    while iterations < max_iterations and abs(value * value - target) > RESIDUAL:
        slope = 0.5 * (slope + 1 / value - target * slope / value**2)
        value = 0.5 * (value + target / value)
        iterations += 1
    return {"root": value, "slope": slope}


def slope_is_half_inverse_root(inputs: Inputs, outputs: Any) -> None:
    """d sqrt(t) / dt = 1 / (2 sqrt(t)), within 0.1 %."""
    product = 2 * np.float64(outputs["root"]) * np.float64(outputs["slope"])
    require(abs(product - 1) <= 1e-3, f"2 * root * slope is {product}, expected 1")


def newton_sqrt_reverse(init: jax.Array, target: jax.Array, max_iterations: int = MAX_ITERATIONS) -> Any:
    """The same derivative in reverse mode: raises ValueError, as the number of steps to go back is unknown."""
    return jax.grad(lambda square: newton_sqrt(init, square, max_iterations)[1])(target)


def newton_sqrt_fixed_steps(init: jax.Array, target: jax.Array) -> dict[str, jax.Array]:
    """Six Newton steps by `jax.lax.scan`: a loop of known length, through which reverse mode works.

    Returns {"root", "slope"}, scalars of the dtype of `init`.
    """

    def root(square: jax.Array) -> jax.Array:
        def improve(value: jax.Array, _: None) -> tuple[jax.Array, None]:
            with jax.named_scope("update"):
                return 0.5 * (value + square / value), None

        return jax.lax.scan(improve, init, None, length=FIXED_STEPS)[0]

    value, slope = jax.value_and_grad(root)(target)
    return {"root": value, "slope": slope}


def newton_sqrt_fixed_steps_reference(init: Any, target: Any) -> dict[str, np.float64]:
    """The closed form, which six steps reach from any start near the root."""
    root = np.sqrt(np.float64(target))
    return {"root": root, "slope": 0.5 / root}


def newton_structure_changed(init: jax.Array) -> Any:
    """A body that returns a longer carry than it was given: raises TypeError."""

    def improve(carry: Any) -> Any:
        iteration, value = carry
        return iteration + 1, 0.5 * (value + 2.0 / value), value

    return jax.lax.while_loop(lambda carry: carry[0] < MAX_ITERATIONS, improve, (jnp.int32(0), init))


def newton_dtype_changed(init: jax.Array) -> Any:
    """A body that turns the integer counter into a float: raises TypeError."""

    def improve(carry: Any) -> Any:
        iteration, value = carry
        return iteration + 1.0, 0.5 * (value + 2.0 / value)

    return jax.lax.while_loop(lambda carry: carry[0] < MAX_ITERATIONS, improve, (jnp.int32(0), init))
