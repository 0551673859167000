"""A first registry as text: recipes for functions, each case on a line of its own, ready to be edited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

# |actual - golden| <= atol + rtol * |golden|: a few roundings of each dtype, for values of about 1.
TOLERANCES = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 2e-6,
    "complex64": 2e-6,
    "float16": 2e-3,
    "bfloat16": 2e-2,
}
HEAD = """\
# Recipes of jaxcheck: what they may say is in docs/registry.md, and `jaxcheck schema` has it for editors.
version: 1

defaults:
  modes: [eager, jit]
  tolerance: # |actual - golden| <= atol + rtol * |golden|; `jaxcheck bless --derive-tolerance` measures better ones
"""


@dataclass(frozen=True)
class Sketch:
    """What is known of a function: its cases as a registry writes them. `unknown` are arguments that nobody could
    guess, and `reason` what happened when it was tried."""

    kernel: str
    description: str = ""
    cases: Mapping[str, Any] = field(default_factory=dict)
    static: Sequence[str] = ()
    modes: Sequence[str] = ("eager", "jit")
    dtypes: Sequence[str] = ()
    unknown: Sequence[str] = ()
    reason: str = ""


def registry_text(sketches: Sequence[Sketch]) -> tuple[str, dict[str, int]]:
    """(the file, {kernel: the line, from 1, that has to be edited} for kernels whose arguments are not known)"""
    dtypes = {"float32", *(dtype for sketch in sketches for dtype in sketch.dtypes)}
    lines = HEAD.splitlines()
    lines += [
        f"    {dtype}: {{rtol: {bound:.1e}, atol: {bound:.1e}}}"
        for dtype, bound in TOLERANCES.items()
        if dtype in dtypes
    ]
    lines += ["", "recipes:"]
    to_edit: dict[str, int] = {}
    for name, sketch in named(sketches).items():
        lines += _recipe(name, sketch)
        if sketch.unknown:
            to_edit[sketch.kernel] = len(lines)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n", to_edit


def named(sketches: Sequence[Sketch]) -> dict[str, Sketch]:
    """By the function's name with hyphens; the whole dotted name where two functions would have the same."""
    short = [sketch.kernel.partition(":")[2].replace("_", "-").strip("-") for sketch in sketches]
    return {
        name if name and short.count(name) == 1 else sketch.kernel.replace(":", "."): sketch
        for name, sketch in zip(short, sketches, strict=True)
    }


def _recipe(name: str, sketch: Sketch) -> Iterator[str]:
    yield f"  {_flow(name)}:"
    yield f"    kernel: {sketch.kernel}"
    if sketch.description:
        yield f"    description: {json.dumps(sketch.description, ensure_ascii=False)}"
    if list(sketch.modes) != ["eager", "jit"]:
        yield f"    modes: {_flow(list(sketch.modes))} # it does not trace: jit would raise"
    if sketch.static:
        yield f"    static: {_flow(list(sketch.static))}"
    yield "    cases:"
    for case, said in sketch.cases.items():
        yield f"      {_flow(case)}: {_flow(said)}"
    if sketch.unknown:
        args = _flow({"args": dict.fromkeys(sketch.unknown, 0.0)})
        yield f"      standard: {args} # not guessed: give these arguments values of your own"


def _flow(value: Any) -> str:
    """On one line, in braces and brackets."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1_000_000)
    return str(text).removesuffix("...\n").strip()
