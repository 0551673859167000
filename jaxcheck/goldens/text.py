"""A golden as text: for people, and for `git diff`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxcheck.goldens.golden import Blessing, CaseSummary, Golden, GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import GRADIENT
from jaxcheck.registry.words import printable

ENDS = 4  # elements printed of either end of an array: what moved shows in the digest and the statistics


def golden_text(golden: Golden, cases: Sequence[str], elements: int) -> Iterator[str]:
    """Lines; arrays of more than `elements` elements are cut in the middle, and say so."""
    yield printable(f"{golden.recipe}  ({golden.path.name})")
    for name in cases:
        yield from _case_text(name, golden.case(name), elements)


def _case_text(name: str, case: GoldenCase, elements: int) -> Iterator[str]:
    made = case.blessing.environment
    yield ""
    yield printable(f"{name}  (golden: {case.contract})")
    yield printable(f"  blessed {case.blessing.when} by {case.blessing.who}: {case.blessing.reason}")
    versions = ", ".join(
        f"{package} {made[package]}" for package in ("jax", "jaxlib", "optax", "numpy") if made.get(package)
    )
    yield printable(f"  on {made.get('backend')} ({made.get('cpu')}), {versions}, Python {made.get('python')}")
    yield f"  program: {'stored' if case.program_reason is None else printable('none, ' + case.program_reason)}"
    for argument, value in case.statics.items():
        yield printable(f"  in  {argument} = {value!r}")
    yield from _tree_text("in ", case.inputs, {}, elements)
    if case.error is not None:
        yield printable(f"  raises {case.error.type}: {(case.error.message.splitlines() or [''])[0]}")
    if case.outputs is not None:
        yield from _tree_text("out", case.outputs, case.tolerance, elements)
    if case.gradients is not None:
        yield from _tree_text("out", case.gradients.under(GRADIENT), case.tolerance, elements)
    if "derived" in case.extra:
        yield from (printable(line) for line in _derived_text(case.extra["derived"]))


def _derived_text(derived: dict[str, Any]) -> Iterator[str]:
    """Where the tolerances came from: the floors of every case that they had to hold for."""
    knobs = ", ".join(derived["knobs"]) or "none"
    measured = f"{derived['draws']} draws, knobs: {knobs}; jax {derived['jax']} on {derived['backend']}"
    yield f"  tolerances derived: {derived['rule']} ({measured})"
    for path, one in derived["tolerance"].items():
        floors = ", ".join(f"{case} {floor:.2g}" for case, floor in one["floors"].items())
        shared = (
            f", as wide as a leaf with {one['floor']:.2g} needs" if one["floor"] > max(one["floors"].values()) else ""
        )
        yield f"    {path}: rtol {one['rtol']:g} atol {one['atol']:g} from noise floors {floors}{shared}"


def _tree_text(side: str, tree: Tree, tolerance: dict[str, dict[str, object]], elements: int) -> Iterator[str]:
    for leaf in tree.leaves:
        held = tolerance.get(leaf.path)
        bound = f"  rtol {held['rtol']} atol {held['atol']} ({held['source']})" if held else ""
        weak = " weak" if leaf.weak_type else ""
        yield printable(f"  {side} {leaf.path}: {leaf.dtype}{list(leaf.shape)}{weak}{bound}")
        if leaf.excerpt is not None:
            yield f"      sha256 {leaf.digest}, and {_kept(leaf)}"
        if leaf.excerpt is None or leaf.words.size:
            yield from ("      " + line for line in _array_lines(leaf, elements))


def _kept(leaf: Leaf) -> str:
    """What the golden has of a leaf that is stored as a digest."""
    assert leaf.excerpt is not None
    blocks = f"{len(leaf.excerpt.starts)} blocks of {leaf.excerpt.length:,}" if leaf.words.size else "none"
    return f"of {leaf.size:,} elements {blocks}"


def _array_lines(leaf: Leaf, elements: int) -> list[str]:
    with np.printoptions(threshold=elements, edgeitems=max(1, elements // 4), linewidth=100, floatmode="unique"):
        return str(leaf.array()).splitlines() or [""]


def stable_lines(golden: Golden, cases: Sequence[str]) -> Iterator[str]:
    """The golden for `git diff`: one fact a line, in the file's own order, with nothing of where the file lies."""
    yield printable(f"golden {golden.recipe}")
    yield f"digest {golden.digest}"
    yield f"replaced {golden.replaced or 'none'}"
    for name in cases:
        yield ""
        yield printable(f"case {name}")
        said, case = golden.summary(name), golden.case(name)
        yield from (printable(f"  {line}") for line in _stable_case(said, case))


def _stable_case(said: CaseSummary, case: GoldenCase) -> Iterator[str]:
    yield from _stable_blessing(said.blessing)
    yield f"golden: {said.contract}"
    yield f"recipe hash {said.hash}"
    if said.program is not None:
        yield f"program: {said.program['size']} bytes, sha256 {said.program['sha256']}"
    else:
        yield f"program: none, {said.program_reason}"
    yield from (f"argument {name} = {value!r}" for name, value in sorted(case.statics.items()))
    if case.error is not None:
        yield f"raises {case.error.type} ({', '.join(case.error.bases)})"
        yield from (f"  | {line}" for line in case.error.message.splitlines())
    for part, tree in case.trees():
        yield f"{part} structure {_json(tree.structure)}"
        for leaf in tree.leaves:
            yield from _stable_leaf(part, leaf)
    for path, held in sorted(case.tolerance.items()):
        yield f"tolerance {path}: rtol {held['rtol']!r} atol {held['atol']!r} ({held['source']})"
    yield from _stable_extra(case.extra)


def _stable_blessing(blessing: Blessing) -> Iterator[str]:
    commit = blessing.commit or "no commit"
    yield f"blessed {blessing.when} by {blessing.who}, at {commit}, jaxcheck {blessing.jaxcheck}"
    yield f"reason: {blessing.reason}"
    yield from (f"environment {name}: {_json(value)}" for name, value in sorted(blessing.environment.items()))


def _stable_leaf(part: str, leaf: Leaf) -> Iterator[str]:
    weak, impl = " weak" if leaf.weak_type else "", f" {leaf.impl}" if leaf.impl else ""
    yield f"{part} {leaf.path}: {leaf.dtype}{list(leaf.shape)}{weak}{impl}, sha256 {leaf.digest}"
    if leaf.excerpt is not None:
        yield f"  kept: {_kept(leaf)}"
        if not leaf.words.size:
            return
    values = leaf.array().reshape(-1)
    if values.size <= 2 * ENDS:
        yield f"  values {_values(values)}"
    else:
        yield f"  first {_values(values[:ENDS])}, last {_values(values[-ENDS:])}"
    if values.size and leaf.impl is None:
        yield f"  {_statistics(values)}"


def _values(values: np.ndarray) -> str:
    """As many digits as tell each from its neighbours in its own dtype."""
    return "[" + ", ".join(str(value) for value in values) + "]"


def _statistics(values: np.ndarray) -> str:
    """Over the finite elements, real and imaginary parts alike; the mean in six digits, so that how it was summed does
    not show."""
    if values.dtype.kind in "biu":
        return f"min {values.min()!s}, max {values.max()!s}, mean {float(np.mean(values, dtype=np.float64)):.6g}"
    parts = values.view(values.real.dtype) if values.dtype.kind == "c" else values
    wide = parts.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    nan, infinite = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    counts = f"nan {nan}, inf {infinite}"
    if not finite.size:
        return counts
    extent = f"min {parts[wide == finite.min()][0]!s}, max {parts[wide == finite.max()][0]!s}"
    with np.errstate(over="ignore"):
        return f"{extent}, mean {finite.mean():.6g}, {counts}"


def _stable_extra(extra: Mapping[str, Any]) -> Iterator[str]:
    """The noise floor and whatever else is kept: one line for each entry."""
    for name, value in sorted(extra.items()):
        if isinstance(value, dict):
            yield from (f"{name} {key}: {_json(one)}" for key, one in sorted(value.items()))
        else:
            yield f"{name}: {_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
