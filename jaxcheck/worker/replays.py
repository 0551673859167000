"""Programs from elsewhere, run here: those of goldens, and those that another worker exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
from jax import export

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.golden import Golden
from jaxcheck.goldens.leaf import Tree
from jaxcheck.worker.trees import leaf_of
from jaxcheck.worker.units import Units, whole


def run(path: Path, sha256: str | None, case: str | None) -> tuple[Tree, str]:
    """(the outputs of a program, flat; the digest of its text); raises what JAX raises for one that it cannot load,
    compile or run."""
    units = stored_units(path, case) if case is not None else Units.read(path, str(sha256))
    outputs = jax.block_until_ready(units.run())
    leaves = tuple(leaf_of(f"[{number}]", output) for number, output in enumerate(outputs))
    return Tree({"list": ["*"] * len(leaves)}, leaves), units.text()


def stored_units(golden: Path, case: str) -> Units:
    """The exported program of a golden's case at its stored inputs; the golden checks the digests of both."""
    with Golden.open(golden) as held:
        found = held.case(case, program=True)
    if found.program is None:
        raise GoldenError(f"the golden has no program of case {case!r}: {found.program_reason}")
    inputs = [leaf for leaf in found.inputs.leaves if leaf.path not in found.statics]  # `$python` values are baked in
    return whole(found.program, inputs, len(export.deserialize(bytearray(found.program)).out_avals))


def known_config(config: dict[str, Any]) -> dict[str, Any]:
    """The options that this JAX has, without those for debugging: they stop at what a program computes on the way."""

    def known(name: str) -> bool:
        return "debug" not in name and any(spelt in jax.config.values for spelt in (f"jax_{name}", name))

    return {name: value for name, value in config.items() if known(name)}
