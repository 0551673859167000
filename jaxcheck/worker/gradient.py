"""A check of derivatives: JVP against VJP, the gradient against central differences, and against itself in float64.

All distances are relative to the norm of the gradient along directions whose every element is as large as the
argument, so that they do not depend on the arrays' sizes: an error of 1 % is 1 % at ten elements and at a million.
What is allowed follows from the dtype (eps^(1/3) for differences, which is also their step; eps^(1/2) for the rest)
and from a noise estimate of the same quantity, never from the size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from jaxcheck.worker.derivatives import NO_OPTIONS, Arrays, Evaluator, Weighted, cotangents, eps_of
from jaxcheck.worker.kernels import describe
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.trees import widened

SMALL = 1e-3  # a leaf whose gradient is smaller than this part of the whole is held to this part
NOISE = 8  # times the noise estimate may be lost besides: the starting point of the noise floor's own limits
SAME_FUNCTION = 0.05  # outputs further apart than this in float64 are of another function, such as other random draws
NUDGE = 1e-3  # how far beside the inputs differences are taken where the kernel has a kink at them
SHORTER = (1.0, 1e-2, 1e-4)  # steps, as parts of the dtype's own: a kernel may turn faster than its argument is large
COARSE = 0.01


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


Remark = tuple[bool, str]  # (whether it is wrong, words)


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
