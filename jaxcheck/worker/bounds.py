"""How far one operation may be from the exact result at its own inputs before it counts as wrong.

In units of `eps`, the distance of 1 to the next number in the output's dtype (twice the unit roundoff), relative to a
*scale*: that of each element, of the largest element, or, where terms can cancel, of the sum of their absolute values.

| class | bound | scale | why |
|---|---|---|---|
| moving | 0 | element | the output's bits are among the input's |
| elementwise | 1 | element | IEEE 754 rounds correctly, to 1/2 eps; 1 leaves room for a flushed operand |
| transcendental | 4 | largest | measured: at most 2.4 in a clean model; libraries promise 1 to 4 |
| reduction of n | 2 + sqrt(n) | absolute | the errors of n terms are like a random walk (Higham, 2002, section 2.8) |
| decomposition of n | 8 (2 + n) | largest | backward stable: n rounding errors in each element of the result |

Transcendental functions and decompositions are held to `bound * (1 + moved)`, where `moved` is how far the exact
result moves when each input moves by half an eps: nobody computes `sin(1e6)` better than its argument is known. Of
functions of one element (POINTWISE) that is asked of each element: a `tan` next to its pole excuses no other.
Primitives that stand nowhere here count as transcendental.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import jax.numpy as jnp

from jaxcheck.worker.primitives import MOVING as CARRYING

Class = Literal["moving", "elementwise", "transcendental", "reduction", "decomposition"]

MOVING = (frozenset(CARRYING) - {"convert_element_type", "complex"}) | frozenset(
    {"abs", "argmax", "argmin", "and", "bitcast_convert_type", "ceil", "clamp", "copy_p", "cummax", "cummin"}
    | {"device_put", "dynamic_update_slice", "eq", "floor", "ge", "gt", "is_finite", "le", "lt", "max", "min", "ne"}
    | {"not", "optimization_barrier", "or", "pad", "pvary", "reduce_and", "reduce_max", "reduce_min", "reduce_or"}
    | {"reduce_precision", "reduce_window_max", "reduce_window_min", "round", "scatter", "scatter-max", "scatter-min"}
    | {
        "scatter_max",
        "scatter_min",
        "select_and_gather_add",
        "shift_left",
        "sign",
        "sort",
        "split",
        "stop_gradient",
        "top_k",
        "tile",
        "xor",
    }
)
ELEMENTWISE = frozenset(
    {"add", "add_any", "convert_element_type", "complex", "div", "iota", "mul", "nextafter", "rem", "sqrt", "square"}
    | {"sub"}
)
DECOMPOSITIONS = frozenset(
    {"cholesky", "cholesky_update", "custom_linear_solve", "eig", "eigh", "geqrf", "geqp3", "hessenberg"}
    | {"householder_product", "linear_solve", "lu", "lu_pivots_to_permutation", "ormqr", "qr", "schur", "svd"}
    | {"triangular_solve", "tridiagonal", "tridiagonal_solve"}
)
SUMS = frozenset(
    {"conv_general_dilated", "cumsum", "dot_general", "reduce_sum", "reduce_window_sum", "scatter-add", "scatter_add"}
    | {"psum", "select_and_scatter_add", "all_reduce", "ragged_dot", "ragged_dot_general"}
)
REDUCTIONS = SUMS | {"cumlogsumexp", "cumprod", "fft", "reduce", "reduce_prod", "scatter-mul", "scatter_mul"}
# Real functions of one element each: how well that is determined is known element by element.
POINTWISE = frozenset(
    {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "cos", "cosh"}
    | {"digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "igamma", "igammac", "igamma_grad_a"}
    | {"integer_pow", "lgamma", "log", "log1p", "logistic", "polygamma", "pow", "random_gamma_grad"}
    | {"regularized_incomplete_beta", "rsqrt", "sin", "sinh", "tan", "tanh", "zeta"}
)
PAIRS = frozenset({"add", "add_any", "sub"})
BOUNDS: dict[Class, float] = {"moving": 0.0, "elementwise": 1.0, "transcendental": 4.0}

# Where a dtype's name promises more than the hardware gives unless one asks (`precision`): TF32 and one bfloat16 pass.
PRODUCTS = frozenset({"conv_general_dilated", "dot_general", "ragged_dot", "ragged_dot_general"})
PRODUCT_EPS = {"gpu": 2.0**-10, "tpu": 2.0**-7}


# Of complex numbers these take several roundings, and a component may cancel.
HARD_IF_COMPLEX = frozenset({"abs", "div", "mul", "rem", "sign", "sqrt", "square"})


def class_of(equation: Any) -> Class:
    primitive = equation.primitive.name
    if primitive in HARD_IF_COMPLEX and jnp.issubdtype(equation.invars[0].aval.dtype, jnp.complexfloating):
        return "transcendental"
    if primitive in MOVING:
        return "moving"
    if primitive in ELEMENTWISE:
        return "elementwise"
    if primitive in REDUCTIONS:
        return "reduction"
    return "decomposition" if primitive in DECOMPOSITIONS else "transcendental"


def is_pointwise(equation: Any) -> bool:
    dtype = equation.outvars[0].aval.dtype
    return equation.primitive.name in POINTWISE and bool(jnp.issubdtype(dtype, jnp.floating))


def bound_of(equation: Any) -> float:
    """In eps of the output's scale, before what the conditioning adds."""
    kind = class_of(equation)
    if kind == "reduction":
        return 2 + math.sqrt(terms(equation))
    if kind == "decomposition":
        sizes = [max(atom.aval.shape[-2:]) for atom in equation.invars if len(atom.aval.shape) >= 2]
        return 8 * (2 + max(sizes, default=1))
    return BOUNDS[kind]


def terms(equation: Any) -> int:
    """How many values go into one element of the output, at most."""
    name, params = equation.primitive.name, equation.params
    first: Any = equation.invars[0].aval
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return int(math.prod(first.shape[axis] for axis in contracted))
    if name == "conv_general_dilated":
        kernel: Any = equation.invars[1].aval
        return max(1, int(kernel.size) // max(1, int(kernel.shape[params["dimension_numbers"].rhs_spec[0]])))
    if name.startswith("reduce_window"):
        return int(math.prod(params["window_dimensions"]))
    if name.startswith("cum"):
        return int(first.shape[params["axis"]])
    if name.startswith("scatter"):
        return int(equation.invars[2].aval.size) + 1
    size = int(first.size)
    return max(1, size // max(1, equation.outvars[0].aval.size)) if name.startswith("reduce") else size


def eps_of_product(equation: Any, backend: str, eps: float) -> float:
    """The eps that a matrix product of default precision has on this backend."""
    if equation.primitive.name not in PRODUCTS or equation.params.get("precision") is not None:
        return eps
    return max(eps, PRODUCT_EPS.get(backend, eps))
