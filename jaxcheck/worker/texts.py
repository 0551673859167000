"""The lowered text of a golden's program beside that of the kernel as it is now: the operations that differ.

Each knows the primitive that it was made of, its scope and its line: an export keeps these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from jax import export
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.golden import Golden

MOST_PAIRS = 4_000_000
SHOWN = 16
_VALUE = re.compile(r"%[\w#:]+")
_NAMES = re.compile(r"@[\w.\-$]+")
_USED = re.compile(r"^(.*?) loc\((.*)\)$")
_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_NAMED = re.compile(r'^"([^"]*)"\((.*)\)$')
_PLACE = re.compile(r'^"([^"]*)":(\d+):')
_CALL = re.compile(r"^callsite\((.+?) at ")

Operation = dict[str, Any]


def windows(golden: Path, case: str, now: bytes) -> list[tuple[list[Operation], list[Operation]]]:
    """[(old operations, new operations)] wherever the two programs differ; GoldenError where the golden has none."""
    with Golden.open(golden) as held:
        found = held.case(case, program=True)
    if found.program is None:
        raise GoldenError(f"the golden has no program of case {case!r}: {found.program_reason}")
    return apart(operations(found.program), operations(now))


def operations(program: bytes) -> list[Operation]:
    """In order, without the names of values and functions: those mean nothing."""
    exported = export.deserialize(bytearray(program))
    with mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
        text = str(module.operation.get_asm(enable_debug_info=True))
    return list(_read(text))


def _read(text: str) -> Iterator[Operation]:
    lines = text.splitlines()
    places = {found[1]: found[2] for line in lines if (found := _DEFINED.match(line))}
    for line in lines:
        used = _USED.match(line)
        if used is None or line.startswith("#"):
            continue
        operation = _NAMES.sub("@", _VALUE.sub("%", used[1])).strip().removeprefix("% =").strip()
        if not operation.startswith(("module", "}", "func.func", "return", "^")):
            yield {"operation": operation, **_place(used[2], places)}


def _place(location: str, places: dict[str, str]) -> dict[str, Any]:
    """Primitive, scope, file and line of a location, which names others."""
    names: list[str] = []
    for _ in range(len(places) + 1):
        location = places.get(location, location)
        if found := _NAMED.match(location):
            names.append(found[1])
            location = found[2]
        elif found := _CALL.match(location):
            location = found[1]
        else:
            break
    place = _PLACE.match(location)
    return {
        "primitive": names[0] if names else "",
        "scope": names[1] if len(names) > 1 else "",
        "file": place[1] if place else "",
        "line": int(place[2]) if place else 0,
    }


def apart(old: list[Operation], new: list[Operation]) -> list[tuple[list[Operation], list[Operation]]]:
    """Runs of operations that have no counterpart."""
    before, after = ([str(one["operation"]) for one in side] for side in (old, new))
    if len(old) * len(new) > MOST_PAIRS:
        return [] if before == after else [(old[:1], new[:1])]
    codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    found = [(old[a:b], new[c:d]) for tag, a, b, c, d in codes if tag != "equal"]
    return [(gone[:SHOWN], come[:SHOWN]) for gone, come in found[:SHOWN]]
