"""The truth of a case, and how far its outputs wander for no reason: what a blessing stores beside the numbers."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.worker import internals
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.interpreter import is_float
from jaxcheck.worker.program import flat_function
from jaxcheck.worker.shadow import Shadow, is_narrow, policy_of, wide_dtype
from jaxcheck.worker.trees import key_path, tree_of, unique

# Each is believed only where it changes the compiled program or its bits: some releases ignore some of them.
KNOBS: dict[str, dict[str, Any]] = {
    "no fusion": {"xla_disable_hlo_passes": "fusion"},
    "no algebraic simplifier": {"xla_disable_hlo_passes": "algsimp"},
    "no excess precision": {"xla_allow_excess_precision": False},
}
DRAWS = 4


def float_truth(kernel: Callable[..., Any], arguments: Arguments) -> tuple[Tree, dict[str, Any]]:
    """(the float leaves of the outputs in float64 or complex128, what is to be said of them).

    A kernel that computes in bfloat16, float16 or float8 is held to what its casts allow (`quantised`), any other to
    the real numbers (`ideal`). Raises NoShadow, or what the kernel raises.
    """
    return shadow_truth(*flat_function(kernel, arguments))


def shadow_truth(function: Callable[..., Any], flat: list[Any]) -> tuple[Tree, dict[str, Any]]:
    """`float_truth` of a function of array leaves."""
    jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*flat)
    policy = policy_of(jaxpr)
    shadow = Shadow(policy)
    _, high = shadow.run(jaxpr, flat, [shadow.lift(leaf) for leaf in flat])
    paths = unique([key_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]])
    leaves = [
        Leaf.of(path, np.asarray(value))
        for path, value in zip(paths, high, strict=True)
        if not internals.is_key(value) and wide_dtype(value.dtype) is not None
    ]
    flips = [f"{flip.primitive} in {flip.scope or 'no scope'} ({flip.line})" for flip in shadow.flips]
    return by_path(leaves), {"policy": policy, "flips": flips}


def by_path(leaves: list[Leaf]) -> Tree:
    """Some leaves of a tree, as a dict by their paths."""
    ordered = sorted(leaves, key=lambda leaf: leaf.path)
    return Tree({"dict": {leaf.path: "*" for leaf in ordered}}, tuple(ordered))


def noise(kernel: Callable[..., Any], arguments: Arguments) -> dict[str, dict[str, float]]:
    """{leaf: {"inputs": …, "knobs": …, "modes": …}}: max |change| relative to max |value| of each float leaf.

    `inputs` moves every float input but narrow ones by one ULP up or down, at random with a fixed seed, DRAWS times;
    `knobs` compiles with other options; `modes` is the plain call against jit.
    """
    return noise_and_knobs(kernel, arguments)[0]


def noise_and_knobs(kernel: Callable[..., Any], arguments: Arguments) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The noise, and which of KNOBS counted."""
    return _noise_and_knobs(*flat_function(kernel, arguments))


def wander(function: Callable[..., Any], flat: list[Any]) -> dict[str, dict[str, float]]:
    """`noise` of a function of array leaves."""
    return _noise_and_knobs(function, flat)[0]


def _noise_and_knobs(function: Callable[..., Any], flat: list[Any]) -> tuple[dict[str, dict[str, float]], list[str]]:
    program, *variants = _compiled(jax.jit(function).lower(*flat))
    base = _floats(program.run(*flat))
    found: dict[str, dict[str, float]] = {path: {"inputs": 0.0, "knobs": 0.0, "modes": 0.0} for path in base}
    generator = np.random.default_rng(0)
    for _ in range(DRAWS):
        _widen(found, "inputs", base, _floats(program.run(*[_nudged(leaf, generator) for leaf in flat])))
    for variant in variants:
        _widen(found, "knobs", base, _floats(variant.run(*flat)))
    _widen(found, "modes", base, _floats(function(*flat)))
    return found, [variant.knob for variant in variants]


class _Program(NamedTuple):
    """A compiled program, and the knob that made it another one than the plain."""

    knob: str
    run: Callable[..., Any]


_PROGRAMS: OrderedDict[tuple[str, str], list[_Program]] = OrderedDict()
PROGRAMS_KEPT = 16
FOREIGN = ("callback", "host_transfer")  # Python functions that the text only numbers


def forget_programs() -> None:
    """For another recipe: its configuration may ask for other programs of the same text."""
    _PROGRAMS.clear()


def _compiled(lowered: Any) -> list[_Program]:
    """The plain program, and one for each knob that changes it. Compiling is what a floor costs: cases whose programs
    have the same text (and whose outputs the same tree) share them.
    """
    text = lowered.as_text()
    if any(word in text for word in FOREIGN):
        return _compile_all(lowered)
    key = hashlib.sha256(text.encode()).hexdigest(), str(lowered.out_tree)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = _compile_all(lowered)
    _PROGRAMS.move_to_end(key)
    if len(_PROGRAMS) > PROGRAMS_KEPT:
        _PROGRAMS.popitem(last=False)
    return _PROGRAMS[key]


def _compile_all(lowered: Any) -> list[_Program]:
    plain = lowered.compile()
    text = plain.as_text()
    programs = [_Program("", plain)]
    for knob, options in KNOBS.items():
        try:
            compiled = lowered.compile(compiler_options=options)
            if compiled.as_text() != text:
                programs.append(_Program(knob, compiled))
        except Exception:  # an option that this release does not know is no knob
            continue
    return programs


def _floats(outputs: Any) -> dict[str, np.ndarray]:
    leaves = tree_of(outputs).leaves
    wide = {leaf.path: leaf.array() for leaf in leaves if leaf.impl is None}
    return {
        path: array.astype(np.dtype(target))
        for path, array in wide.items()
        if (target := wide_dtype(array.dtype)) is not None
    }


def _widen(
    found: dict[str, dict[str, float]], kind: str, base: dict[str, np.ndarray], other: dict[str, np.ndarray]
) -> None:
    for path, values in base.items():
        finite = np.isfinite(values) & np.isfinite(other[path])
        scale = float(np.abs(values[finite]).max(initial=0.0))
        moved = float(np.abs(values[finite] - other[path][finite]).max(initial=0.0))
        found[path][kind] = max(found[path][kind], moved / scale if scale else moved)


def _nudged(leaf: Any, generator: np.random.Generator) -> Any:
    return leaf if is_narrow(leaf.dtype) else one_ulp(leaf, generator)


def one_ulp(value: Any, generator: np.random.Generator) -> Any:
    """A float array with every element at one of its two neighbours, but for zeros and non-finite ones; any other as it
    is."""
    if not is_float(value):
        return value
    values = np.asarray(value)
    towards = np.where(generator.integers(0, 2, values.shape) == 1, np.inf, -np.inf).astype(values.dtype)
    moved = np.nextafter(values, towards)
    return jax.device_put(np.where((values == 0) | ~np.isfinite(values), values, moved))
