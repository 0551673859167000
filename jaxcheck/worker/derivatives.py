"""A kernel as a function to differentiate: from its chosen floating leaves to its floating outputs, each weighted.

The kernel becomes a number by weighting its floating outputs with fixed cotangents; a golden keeps the gradient of
that number. Here it is evaluated: outputs, gradients and tangents, in the declared dtypes and in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt

from jaxcheck.goldens.leaf import Leaf
from jaxcheck.worker import internals
from jaxcheck.worker.subject import Call, Subject
from jaxcheck.worker.trees import key_path, restore, widened

Array = npt.NDArray[Any]
Arrays = list[Array]
VALUE_NEEDED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)

WEIGHTS = np.array((0.5, 0.75, 1.0, 1.25, -0.5, -0.75, -1.0, -1.25))  # exact in every floating dtype
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64 (Steele et al. 2014)
NO_OPTIONS: Mapping[str, Any] = {"arguments": None, "output": None, "rtol": None}


class NotDifferentiableError(TypeError):
    """There is no floating argument, or no floating output, or not the one that the recipe names."""


class Weighted:
    """The kernel as a function from its chosen floating leaves to its floating outputs, and the outputs' weights."""

    def __init__(self, subject: Subject, arguments: Sequence[str] | None, output: str | None) -> None:
        self.subject, self._output = subject, output
        given = subject.arguments
        numbers = jax.tree.unflatten(given.treedef, range(len(given.leaves)))
        names = {i: name for name, part in numbers.items() for i in jax.tree.leaves(part)}
        self.chosen = [
            i
            for i, leaf in enumerate(given.leaves)
            if leaf.impl is None
            and i not in given.python
            and leaf.array().size
            and jnp.issubdtype(leaf.array().dtype, jnp.floating)
            and (arguments is None or names[i] in arguments)
        ]
        if not self.chosen:
            of = f"of {', '.join(arguments)} " if arguments else ""
            raise NotDifferentiableError(f"no argument leaf {of}is floating: there is nothing to differentiate by")

    def key(self) -> Any:
        """Equal for kernels that compute the same of their array leaves; 1, 1.0 and True are equal, not the same."""
        subject, given = self.subject, self.subject.arguments
        values = [sorted(mapping.items()) for mapping in (given.statics, given.python)]
        return subject.kernel, repr(values), given.treedef, tuple(map(tuple, values)), tuple(self.chosen), self._output

    def leaf(self, position: int) -> Leaf:
        return self.subject.arguments.leaves[position]

    def paths(self) -> list[str]:
        return [self.leaf(i).path for i in self.chosen]

    def leaves(self, wide: bool) -> list[Any]:
        """All of the arguments' array leaves, in the declared dtypes or widened."""
        given = self.subject.arguments.leaves
        return [restore(x) if x.impl is not None or not wide else jnp.asarray(widened(x.array())) for x in given]

    def outputs(self, chosen: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """The floating output leaves, with these values in place of the chosen leaves."""
        replaced = {**dict(enumerate(leaves)), **dict(zip(self.chosen, chosen, strict=True))}
        result = self.subject.call_leaves([replaced[i] for i in range(len(leaves))])
        flat, _ = jax.tree_util.tree_flatten_with_path(result)
        found = {key_path(path): jnp.asarray(leaf) for path, leaf in flat if not internals.is_key(leaf)}
        if self._output is not None and self._output not in found:
            raise NotDifferentiableError(f"there is no output leaf {self._output}; there are: {', '.join(found)}")
        asked = found if self._output is None else {self._output: found[self._output]}
        floating = [leaf for leaf in asked.values() if jnp.issubdtype(leaf.dtype, jnp.floating)]
        if not floating:
            kinds = ", ".join(f"{path} {leaf.dtype}" for path, leaf in asked.items()) or "none at all"
            raise NotDifferentiableError(f"no output is floating: there is nothing to differentiate ({kinds})")
        return floating

    def as_arguments(self, gradient: Arrays) -> Any:
        """The gradient in the arguments' own dtypes."""
        dtypes = [self.leaf(position).array().dtype for position in self.chosen]
        return self.tree([jax.device_put(g.astype(dtype)) for g, dtype in zip(gradient, dtypes, strict=True)])

    def tree(self, gradient: Sequence[Any]) -> Any:
        """`{argument: pytree}` with a leaf for each that was chosen, None for the others."""
        leaves: list[Any] = [None] * len(self.subject.arguments.leaves)
        for position, value in zip(self.chosen, gradient, strict=True):
            leaves[position] = value
        tree = jax.tree.unflatten(self.subject.arguments.treedef, leaves)
        return {name: part for name, part in tree.items() if jax.tree.leaves(part)}


def cotangents(outputs: Sequence[Any]) -> Arrays:
    """Fixed weights of the outputs, one for each element, by its number in the leaf and the leaf's among the outputs.

    Goldens hold gradients that were weighted so: plain arithmetic, as no generator promises its stream for ever.
    """
    return [WEIGHTS[_mixed(number, o.size) & np.uint64(7)].reshape(o.shape) for number, o in enumerate(outputs)]


def _mixed(leaf: int, size: int) -> npt.NDArray[np.uint64]:
    """splitmix64 of 1, 2, …, `size`, other numbers for every leaf; uint64 wraps around."""
    first, second, third = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
    bits = (np.arange(1, size + 1, dtype=np.uint64) + (np.uint64(leaf) << np.uint64(40))) * first
    bits = (bits ^ (bits >> np.uint64(30))) * second
    bits = (bits ^ (bits >> np.uint64(27))) * third
    return bits ^ (bits >> np.uint64(31))


class Evaluator:
    """Outputs, gradients and tangents at any point, in the declared dtypes or (`wide`) in float64; results float64.

    Under jit, which compiles one program each where the plain call compiles dozens; plainly, where the kernel decides
    by values.
    """

    def __init__(self, kernel: Weighted, wide: bool) -> None:
        self._kernel, self._wide, self._plainly = kernel, wide, False
        self._programs = programs_of(kernel)
        self._dtypes = [np.dtype(np.float64) if wide else kernel.leaf(i).array().dtype for i in kernel.chosen]
        self.eps = max(map(eps_of, self._dtypes))

    def outputs(self, point: Arrays) -> Arrays:
        return self._run("outputs", self._arrays(point))

    def gradient(self, point: Arrays) -> Arrays:
        """Of the weighted outputs, by reverse mode."""
        weights = cotangents(self.outputs(point))
        return self._run("pull", self._arrays(point), weights)

    def tangents(self, point: Arrays, direction: Arrays) -> Arrays:
        """Of the outputs along a direction, by forward mode."""
        return self._run("push", self._arrays(point), self._arrays(direction))

    def _run(self, name: str, *given: Arrays) -> Arrays:
        with jax.enable_x64(self._wide or jax.config.jax_enable_x64):
            if not self._plainly:
                try:
                    return self._call(self._programs.jitted[name], *given)
                except VALUE_NEEDED:
                    self._plainly = True
            return self._call(getattr(self._programs, name), *given)

    def _call(self, function: Call, *given: Arrays) -> Arrays:
        return [np.asarray(result).astype(np.float64) for result in function(self._kernel.leaves(self._wide), *given)]

    def _arrays(self, values: Arrays) -> Arrays:
        return [v.astype(dtype) for v, dtype in zip(values, self._dtypes, strict=True)]


class Programs:
    """What is computed of a kernel, plainly and under jit: its floating outputs, gradients and tangents."""

    def __init__(self, kernel: Weighted) -> None:
        self._kernel = kernel
        self.jitted = {name: jax.jit(getattr(self, name)) for name in ("outputs", "pull", "push")}

    def outputs(self, leaves: list[Any], chosen: list[Any]) -> list[Any]:
        return self._kernel.outputs([jnp.asarray(value) for value in chosen], leaves)

    def pull(self, leaves: list[Any], chosen: list[Any], weights: list[Any]) -> list[Any]:
        outputs, pull = jax.vjp(partial(self.outputs, leaves), list(map(jnp.asarray, chosen)))
        (gradient,) = pull([jnp.asarray(w).astype(o.dtype) for w, o in zip(weights, outputs, strict=True)])
        return list(gradient)

    def push(self, leaves: list[Any], chosen: list[Any], along: list[Any]) -> list[Any]:
        arrays = [[jnp.asarray(value) for value in values] for values in (chosen, along)]
        tangents: list[Any] = jax.jvp(partial(self.outputs, leaves), arrays[:1], arrays[1:])[1]
        return tangents


_PROGRAMS: dict[Any, Programs] = {}


def programs_of(kernel: Weighted) -> Programs:
    """Kept, so that cases of the same shapes share compilations: all but the arrays' values is in the key."""
    try:
        return _PROGRAMS.setdefault(kernel.key(), Programs(kernel))
    except TypeError:  # a pytree node whose static data cannot be hashed
        return Programs(kernel)


def eps_of(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def differentiable(subject: Subject) -> tuple[Callable[..., Any], list[Any]]:
    """(a function of the arguments' array leaves that gives the gradient as `grad` does, these leaves)."""
    options = subject.options or NO_OPTIONS
    kernel = Weighted(subject, options["arguments"], options["output"])

    def gradient(*leaves: Any) -> Any:
        chosen = [leaves[position] for position in kernel.chosen]
        outputs, pull = jax.vjp(lambda values: kernel.outputs(values, leaves), chosen)
        (found,) = pull([jnp.asarray(w).astype(o.dtype) for w, o in zip(cotangents(outputs), outputs, strict=True)])
        return kernel.tree(found)

    return gradient, kernel.leaves(wide=False)
