"""A golden as text: for people, and for `git diff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxcheck.goldens.golden import Golden, GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import GRADIENT


def golden_text(golden: Golden, cases: Sequence[str], elements: int) -> Iterator[str]:
    """Lines; arrays of more than `elements` elements are cut in the middle, and say so."""
    yield printable(f"{golden.recipe}  ({golden.path.name})")
    for name in cases:
        yield from _case_text(name, golden.case(name), elements)


def _case_text(name: str, case: GoldenCase, elements: int) -> Iterator[str]:
    made = case.blessing.environment
    yield printable(f"\n{name}  (golden: {case.contract})")
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
        yield from ("      " + line for line in _array_lines(leaf, elements))


def _array_lines(leaf: Leaf, elements: int) -> list[str]:
    with np.printoptions(threshold=elements, edgeitems=max(1, elements // 4), linewidth=100, floatmode="unique"):
        return str(leaf.array()).splitlines() or [""]


def printable(text: str) -> str:
    """Names and messages are untrusted: control characters are shown, not sent to the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
