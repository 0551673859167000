"""`jaxcheck bisect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from jaxcheck.cli import options as opt
from jaxcheck.cli.run import progress

if TYPE_CHECKING:
    from jaxcheck.results.bisection import Bisection

RELEASES = "Releases"

Good = Annotated[
    str, typer.Option("--good", help="A release with the old outputs.", rich_help_panel=RELEASES, show_default=False)
]
Bad = Annotated[
    str,
    typer.Option("--bad", help="One with the new outputs; may be the older one.", rich_help_panel=RELEASES),
]
Package = Annotated[
    str, typer.Option("--package", help="What moves; all else stays as it is here.", rich_help_panel=RELEASES)
]
Looking = Annotated[
    Literal["moved", "tolerance", "truth", "error", "slower", "golden"],
    typer.Option(
        "--predicate",
        help="Bad is: any bit moved; beyond tolerance; that and away from the truth; broken; slower than noise; or "
        "another verdict by the golden.",
        rich_help_panel=RELEASES,
    ),
]
Pre = Annotated[bool, typer.Option("--pre", help="Try pre-releases too.", rich_help_panel=RELEASES)]
From = Annotated[
    list[str] | None,
    typer.Option("--from", help="What else is to be other than here: optax==0.2.6.", rich_help_panel=RELEASES),
]
Python = Annotated[
    str | None, typer.Option("--python", help="Another Python for every release: 3.13.", rich_help_panel=RELEASES)
]
Restart = Annotated[
    bool, typer.Option("--restart", help="Forget the runs of an earlier bisect.", rich_help_panel=opt.HOW)
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Build environments anew.", rich_help_panel=opt.HOW)]
Output = Annotated[list[Path] | None, typer.Option("-o", "--output", help="Also write the report to a file (.json).")]


def bisect(
    good: Good,
    bad: Bad,
    names: opt.Names = None,
    package: Package = "jax",
    predicate: Looking = "moved",
    pre: Pre = False,
    from_: From = None,
    python: Python = None,
    restart: Restart = False,
    refresh: Refresh = False,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    backend: opt.Backend = None,
    jobs: opt.Jobs = None,
    timeout: opt.Timeout = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
    output: Output = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Which release moved it? Run the checks in release after release, and name the first that differs.

    Example: `jaxcheck bisect lgamma-near-roots --good 0.11.2 --bad 0.12.0.1`. Every output that moved between the
    ends is searched for, over runs that they share; the same command again goes on where it was stopped. Exit 0 where
    the release was found for all that moved, 1 where nothing moved or it cannot be told, 4 where an end cannot be had.
    """
    from jaxcheck.execution.cache import cache_folder
    from jaxcheck.gate import bisect as bisecting
    from jaxcheck.gate.gate import Conduct
    from jaxcheck.gate.gate import Project as Place
    from jaxcheck.gate.laboratory import Axis
    from jaxcheck.report.formats import check_suffix
    from jaxcheck.results.bisection import Bisection

    for path in output or ():
        check_suffix(path, Bisection)
    axis = Axis(package, good, bad, python, tuple(from_ or ()), pre)
    project = opt.open_project(registry, goldens, state, shipped)
    project.state.prepare()
    selection = opt.selection_of(names, tag, k, mode)
    place = Place(project.registry, project.goldens, project.state.folder / bisecting.SUBFOLDER)
    how = bisecting.How(cache_folder(), restart, refresh)
    with progress(project.registry, selection) as report:
        conduct = Conduct(
            backend=backend,
            jobs=jobs,
            timeout=timeout,
            command=" ".join(sys.argv[1:]),
            say=opt.say,
            report=report,
        )
        found = bisecting.bisect(place, selection, axis, predicate, conduct, how)
    _deliver(found, output or [], -1 if quiet else verbose)


def _deliver(found: Bisection, output: list[Path], verbosity: int) -> NoReturn:
    from rich.console import Console

    from jaxcheck.report.bisect import render
    from jaxcheck.report.formats import write_report

    for path in output:
        write_report(found, path)
    Console(soft_wrap=False, highlight=False).print(render(found, verbosity), crop=False)
    raise typer.Exit(int(found.exit_code()))
