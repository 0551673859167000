"""`jaxcheck show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxcheck.goldens.golden import Golden


def show(
    name: Annotated[str, typer.Argument(help="RECIPE, RECIPE@gpu, RECIPE::CASE, or the path of a golden file.")],
    text: Annotated[
        bool, typer.Option("--text", help="One fact a line: every leaf's digest, first and last values, statistics.")
    ] = False,
    textconv: Annotated[
        bool, typer.Option("--textconv", help="--text for git, which stops at errors: damage is text, too, and exit 0.")
    ] = False,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    shipped: opt.Shipped = False,
    backend: Annotated[
        str | None, typer.Option("--backend", help="The golden of this backend, if it has its own.")
    ] = None,
    elements: Annotated[int, typer.Option("--elements", min=1, help="Elements printed of an array.")] = 50,
) -> None:
    """Print a golden as text: inputs, outputs, tolerances, and who blessed them, when, where and why.

    A path needs no registry. Exit 2 where the file is damaged.

    Examples: `jaxcheck show newton-sqrt::zeros`; `jaxcheck show --text goldens/newton-sqrt.npz`.

    Where .gitattributes has `goldens/*.npz binary diff=jaxcheck`, `git diff` shows goldens so after
    `git config diff.jaxcheck.textconv "jaxcheck show --textconv"`.
    """
    from jaxcheck.errors import GoldenError
    from jaxcheck.registry.words import printable

    try:
        golden, case = opened(name, registry, goldens, shipped, backend)
        with golden:
            for line in lines_of(golden, case, text or textconv, elements):
                print(line)
    except GoldenError as error:
        if not textconv:
            raise
        print(printable(f"not readable: {error}".replace(name, "the file")))


def opened(
    name: str, registry: Path | None, goldens: Path | None, shipped: bool, backend: str | None
) -> tuple[Golden, str]:
    """The golden that is named, and the case, or an empty text for all of them."""
    from jaxcheck.errors import UsageError
    from jaxcheck.goldens.golden import Golden
    from jaxcheck.goldens.store import GoldenStore

    if name.endswith(".npz"):
        return Golden.open(Path(name)), ""
    read = opt.open_registry(registry, shipped)
    named, own = opt.golden_name(name, read.recipes)
    recipe, _, case = named.partition("::")
    golden = GoldenStore(opt.goldens_folder(read, goldens)).load(recipe, own or backend)
    if golden is None:
        known = "" if recipe in read.recipes else " (and the registry has no such recipe)"
        raise UsageError(f"no golden of {recipe!r}{known}", hint="jaxcheck list")
    if case and case not in golden.cases:
        golden.close()
        raise UsageError(f"the golden has no case {case!r}", hint=f"it has: {', '.join(golden.cases)}")
    return golden, case


def lines_of(golden: Golden, case: str, text: bool, elements: int) -> Iterator[str]:
    from jaxcheck.goldens.text import golden_text, stable_lines

    cases = [case] if case else list(golden.cases)
    return stable_lines(golden, cases) if text else golden_text(golden, cases, elements)
