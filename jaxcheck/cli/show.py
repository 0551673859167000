"""`jaxcheck show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.goldens.golden import Golden


def show(
    name: Annotated[str, typer.Argument(help="RECIPE, RECIPE::CASE, or the path of a golden file.")],
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    shipped: opt.Shipped = False,
    backend: Annotated[
        str | None, typer.Option("--backend", help="The golden of this backend, if it has its own.")
    ] = None,
    elements: Annotated[int, typer.Option("--elements", min=1, help="Elements printed of an array.")] = 50,
) -> None:
    """Print a golden as text: inputs, outputs, tolerances, and who blessed them, when, where and why."""
    from jaxcheck.errors import UsageError
    from jaxcheck.goldens.golden import Golden
    from jaxcheck.goldens.text import golden_text

    recipe, _, case = name.partition("::")
    if name.endswith(".npz"):
        case, golden = "", Golden.open(Path(name))
    else:
        read = opt.open_registry(registry, shipped)
        found = _load(recipe, opt.goldens_folder(read, goldens), backend)
        if found is None:
            known = "" if recipe in read.recipes else " (and the registry has no such recipe)"
            raise UsageError(f"no golden of {recipe!r}{known}", hint="jaxcheck list")
        golden = found
    with golden:
        if case and case not in golden.cases:
            raise UsageError(f"the golden has no case {case!r}", hint=f"it has: {', '.join(golden.cases)}")
        for line in golden_text(golden, [case] if case else list(golden.cases), elements):
            print(line)


def _load(recipe: str, folder: Path, backend: str | None) -> Golden | None:
    from jaxcheck.goldens.store import GoldenStore

    return GoldenStore(folder).load(recipe, backend)
