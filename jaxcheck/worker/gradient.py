"""A check of derivatives: JVP against VJP, the gradient against central differences, and against itself in float64.

The kernel becomes a number by weighting its floating outputs with fixed cotangents; a golden keeps the gradient of that
number. All distances are relative to the
norm of the gradient along directions whose every element is as large as the argument, so that they do not depend on
the arrays' sizes: an error of 1 % is 1 % at ten elements and at a million. What is allowed follows from the dtype
(eps^(1/3) for differences, which is also their step; eps^(1/2) for the rest) and from a noise estimate of the same
quantity, never from the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt

from jaxcheck.goldens.leaf import Leaf
from jaxcheck.worker import internals
from jaxcheck.worker.kernels import describe
from jaxcheck.worker.subject import Call, Produced, Subject
from jaxcheck.worker.trees import key_path, restore, widened

Array = npt.NDArray[Any]
Arrays = list[Array]
VALUE_NEEDED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)

SMALL = 1e-3  # a leaf whose gradient is smaller than this part of the whole is held to this part
NOISE = 8  # times the noise estimate may be lost besides: the starting point of the noise floor's own limits
SAME_FUNCTION = 0.05  # outputs further apart than this in float64 are of another function, such as other random draws
NUDGE = 1e-3  # how far beside the inputs differences are taken where the kernel has a kink at them
SHORTER = (1.0, 1e-2, 1e-4)  # steps, as parts of the dtype's own: a kernel may turn faster than its argument is large
COARSE = 0.01
WEIGHTS = np.array((0.5, 0.75, 1.0, 1.25, -0.5, -0.75, -1.0, -1.25))  # exact in every floating dtype
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64 (Steele et al. 2014)


NO_OPTIONS: Mapping[str, Any] = {"arguments": None, "output": None, "rtol": None}


class NotDifferentiableError(TypeError):
    """There is no floating argument, or no floating output, or not the one that the recipe names."""


def grad(subject: Subject, given: Mapping[str, Any]) -> Produced:
    """The gradient, as `{argument: pytree}` with the floating leaves of the chosen arguments.

    `options`: `arguments` (or None: all), `output` (a key path, or None: all), `rtol` (or None).
    Raises what JAX raises where the kernel has no reverse-mode derivative.
    """
    options = subject.options or NO_OPTIONS
    kernel = Weighted(subject, options["arguments"], options["output"])
    declared = Evaluator(kernel, wide=False)
    point = [widened(kernel.leaf(i).array()) for i in kernel.chosen]
    gradient = declared.gradient(point)
    produced = kernel.as_arguments(gradient)
    if not all(np.isfinite(leaf).all() for leaf in gradient):
        return Produced(produced, notes=("the gradient is not finite: it was compared with nothing",))
    moved = declared.gradient(nudged(point, declared.eps))
    noise = [m - g for m, g in zip(moved, gradient, strict=True)]
    found = [
        *_forward_and_reverse(declared, point, gradient, noise, options["rtol"]),
        *_wide_and_declared(kernel, declared, point, gradient, noise, options["rtol"]),
        *_differences(kernel, declared, point, options["rtol"]),
    ]
    findings = tuple(("gradient", text) for is_wrong, text in found if is_wrong)
    return Produced(produced, findings, tuple(text for is_wrong, text in found if not is_wrong))


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


Remark = tuple[bool, str]  # (whether it is wrong, words)


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


# --- directions and distances --------------------------------------------------------------------------------------


def scales(point: Arrays) -> list[float]:
    """How large a leaf's elements are, as a power of two (1 where all are zero): exact in every dtype."""
    sizes = [float(np.sqrt(np.mean(np.square(leaf)))) for leaf in point]
    return [2.0 ** round(np.log2(size)) if size > 0 and np.isfinite(size) else 1.0 for size in sizes]


def directions(point: Arrays, gradient: Arrays) -> Iterator[Arrays]:
    """Two: along the signs of the gradient, where nothing cancels, and along fixed random signs."""
    size = scales(point)
    yield [s * np.where(g < 0, -1.0, 1.0) for s, g in zip(size, gradient, strict=True)]
    draw = np.random.default_rng(17)
    yield [s * draw.choice((-1.0, 1.0), size=g.shape) for s, g in zip(size, gradient, strict=True)]


def norms(gradient: Arrays, size: Sequence[float]) -> list[float]:
    """Of each leaf of the gradient, in units of its argument; none below a small part of the whole."""
    each = [s * float(np.linalg.norm(g)) for g, s in zip(gradient, size, strict=True)]
    return [max(norm, SMALL * float(np.linalg.norm(each))) for norm in each]


def dot(a: Arrays, b: Arrays) -> float:
    return float(sum(np.vdot(x, y) for x, y in zip(a, b, strict=True)))


def nudged(point: Arrays, eps: float) -> Arrays:
    """Every element moved by at most one ULP, up or down at random."""
    draw = np.random.default_rng(29)
    return [leaf * (1 + eps * draw.choice((-1.0, 1.0), size=leaf.shape)) for leaf in point]


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


# --- the three comparisons -----------------------------------------------------------------------------------------


def _apart(distance: float, scale: float, allowed: float) -> str:
    return f"{_percent(distance / scale)} of its norm, {_percent(allowed / scale)} allowed" if scale else "it is 0"


def _forward_and_reverse(
    evaluator: Evaluator, point: Arrays, gradient: Arrays, noise: Arrays, rtol: float | None
) -> Iterator[Remark]:
    """The dot-product identity: weights . (J v) = (weights J) . v."""
    norm, unsure = (float(np.linalg.norm(norms(arrays, scales(point)))) for arrays in (gradient, noise))
    for direction in directions(point, gradient):
        try:
            tangents = evaluator.tangents(point, direction)
        except Exception as error:  # custom_vjp, and primitives without a forward-mode rule
            yield False, f"no forward mode to compare the gradient with: {describe(error)}"
            return
        forward, reverse = dot(cotangents(tangents), tangents), dot(gradient, direction)
        scale = max(norm, abs(forward), abs(reverse))
        allowed = (rtol or evaluator.eps**0.5) * scale + NOISE * unsure
        if not abs(forward - reverse) <= allowed:
            apart = _apart(abs(forward - reverse), scale, allowed)
            yield True, f"forward and reverse mode disagree along one direction: {forward:.7g}, {reverse:.7g} ({apart})"
            return


def _wide_and_declared(
    kernel: Weighted, declared: Evaluator, point: Arrays, gradient: Arrays, noise: Arrays, rtol: float | None
) -> Iterator[Remark]:
    """The gradient in the declared dtypes against the one in float64, leaf by leaf."""
    wide = Evaluator(kernel, wide=True)
    if declared.eps <= wide.eps:
        return
    try:
        exact, outputs = wide.gradient(point), wide.outputs(point)
    except Exception as error:
        yield False, f"the kernel does not run in float64, differences are taken in its own dtypes: {describe(error)}"
        return
    mine = declared.outputs(point)
    apart = float(np.sqrt(sum(np.sum(np.square(a - b)) for a, b in zip(mine, outputs, strict=True))))
    if not apart <= SAME_FUNCTION * float(np.sqrt(dot(outputs, outputs))):
        yield False, "in float64 the kernel gives other outputs (random draws, default dtypes): not compared with these"
        return
    size = scales(point)
    for path, s, g, e, n, norm in zip(kernel.paths(), size, gradient, exact, noise, norms(exact, size), strict=True):
        distance = s * float(np.linalg.norm(g - e))
        allowed = (rtol or declared.eps**0.5) * norm + NOISE * s * float(np.linalg.norm(n))
        if not distance <= allowed:
            yield True, f"the gradient by {path} is not what it is in float64 ({_apart(distance, norm, allowed)})"


@dataclass(frozen=True)
class Slope:
    """A central difference of one leaf along one direction, what the gradient says of it, and how sure that is."""

    path: str
    measured: float
    claimed: float
    noise: float
    scale: float

    def uncertainty(self) -> float:
        """The noise as a part of the scale; infinite where nothing can be seen."""
        if not np.isfinite(self.noise):
            return np.inf
        return self.noise / self.scale if self.scale else 0.0


def _differences(kernel: Weighted, declared: Evaluator, point: Arrays, rtol: float | None) -> Iterator[Remark]:
    """The gradient against central differences, in float64 if the kernel runs there."""
    unsure: list[Slope] = []
    for where, evaluator, exactness in _attempts(kernel, declared, point):
        allowed = rtol or exactness
        reliable = []
        for step in (exactness * factor for factor in SHORTER):
            try:
                slopes = list(_slopes(kernel, evaluator, where, step, exactness))
            except Exception:  # the kernel cannot be evaluated this way
                break
            noisiest = max(slopes, key=Slope.uncertainty)
            if noisiest.uncertainty() > allowed:
                unsure.append(noisiest)
                continue
            reliable.append(slopes)
            if not list(_wrong_slopes(slopes, allowed)):
                break
        if reliable:
            yield from _reservations(beside=where is not point, allowed=allowed)
            # A step that is too long can look reliable: a shorter one that explains the gradient clears it.
            yield from _wrong_slopes(reliable[-1], allowed)
            return
    yield True, "the gradient cannot be verified: " + _why_unsure(unsure)


def _reservations(beside: bool, allowed: float) -> Iterator[Remark]:
    if beside:
        yield False, "the kernel has a kink at these inputs: differences were taken just beside them"
    if allowed > COARSE:
        yield False, f"the gradient was held to {_percent(allowed)} only: the kernel computes in low precision inside"


def _why_unsure(slopes: Sequence[Slope]) -> str:
    if not slopes:
        return "the kernel fails a small step beside its inputs"
    least = min(slopes, key=Slope.uncertainty)
    return (
        f"differences by {least.path} scatter by {_percent(least.uncertainty())} of its norm "
        "(a jump at these inputs, or low precision inside the kernel; `grad: {rtol: …}`, if that is meant)"
    )


def _attempts(kernel: Weighted, declared: Evaluator, point: Arrays) -> Iterator[tuple[Arrays, Evaluator, float]]:
    """(point, evaluator, exactness) in the order of trust: a kernel that computes in float32 or bfloat16 inside, or
    does not run in float64, shows less than it would there; and at a kink nothing can be seen.
    """
    wide, beside = Evaluator(kernel, wide=True), _beside(point)
    for eps in (eps_of(np.float64), eps_of(np.float32), eps_of(ml_dtypes.bfloat16)):
        for evaluator in (wide, declared):
            if evaluator.eps <= eps:
                yield point, evaluator, eps ** (1 / 3)
                yield beside, evaluator, eps ** (1 / 3)


def _beside(point: Arrays) -> Arrays:
    """A generic point nearby: kinks and jumps lie at special ones, zero above all. No sign changes."""
    draw = np.random.default_rng(41)
    moved = []
    for leaf, size in zip(point, scales(point), strict=True):
        amount = NUDGE * draw.uniform(0.5, 1, size=leaf.shape)
        moved.append(np.where(leaf == 0, size * amount, leaf * (1 + amount)))
    return moved


def _slopes(kernel: Weighted, evaluator: Evaluator, point: Arrays, step: float, exactness: float) -> Iterator[Slope]:
    """Of each leaf by itself, along two directions."""
    gradient, centre = evaluator.gradient(point), evaluator.outputs(point)
    weights = cotangents(centre)
    size = float(np.sqrt(sum(np.sum(np.square(w * o)) for w, o in zip(weights, centre, strict=True))))
    leaf_norms = norms(gradient, scales(point))
    for direction in directions(point, gradient):
        for i, path in enumerate(kernel.paths()):
            along = [d if i == j else np.zeros_like(d) for j, d in enumerate(direction)]
            (whole, bend), (half, half_bend) = (
                _difference(evaluator, point, along, centre, h) for h in (step, step / 2)
            )
            # A smooth kernel's second difference halves with the step; what is left of it is a kink, or noise.
            noise = abs(whole - half) + abs(2 * half_bend - bend) + evaluator.eps * size / step
            claimed = dot(gradient[i : i + 1], along[i : i + 1])
            unseen = claimed != 0 and (whole, bend) == (0, 0)  # the step is below the kernel's resolution
            if unseen or not np.isfinite(noise + claimed):
                noise = np.inf
            scale = max(leaf_norms[i], abs(whole), abs(claimed), 4 * exactness * size)
            yield Slope(path, whole, claimed, noise, scale)


def _difference(evaluator: Evaluator, point: Arrays, along: Arrays, centre: Arrays, step: float) -> tuple[float, float]:
    """(first, second) difference of the weighted outputs, both by the step."""
    up, down = (evaluator.outputs([p + h * d for p, d in zip(point, along, strict=True)]) for h in (step, -step))
    weights = cotangents(centre)
    first = dot(weights, [u - v for u, v in zip(up, down, strict=True)]) / (2 * step)
    second = dot(weights, [u + v - 2 * c for u, v, c in zip(up, down, centre, strict=True)]) / step
    return first, second


def _wrong_slopes(slopes: Sequence[Slope], allowed: float) -> Iterator[Remark]:
    """The worst slope of each leaf that the gradient does not explain."""
    wrong: dict[str, Slope] = {}
    for slope in slopes:
        apart = abs(slope.measured - slope.claimed)
        if apart > allowed * slope.scale + 3 * slope.noise:
            first = wrong.get(slope.path)
            if first is None or apart / slope.scale > abs(first.measured - first.claimed) / first.scale:
                wrong[slope.path] = slope
    for path, slope in wrong.items():
        part = _percent(abs(slope.measured - slope.claimed) / slope.scale)
        yield (
            True,
            (
                f"the gradient by {path} is wrong: along one direction it says {slope.claimed:.7g}, "
                f"central differences {slope.measured:.7g} ({part} of its norm)"
            ),
        )
