"""`jaxcheck report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.report.formats import Report

Format = Annotated[
    Literal["console", "json", "markdown", "junit", "html", "github"] | None,
    typer.Option("--format", help="Else the suffix of the file says it, and on stdout it is console.", metavar="NAME"),
]
Output = Annotated[list[Path] | None, typer.Option("-o", "--output", help="Into a file, rather than to stdout.")]


def report(
    files: Annotated[
        list[Path], typer.Argument(metavar="RUN.json...", help="A JSON report; several: the shards of one run.")
    ],
    format_: Format = None,
    output: Output = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Show an earlier run, gate, bisection or diagnosis again, in any format; or put the shards of a run together.

    Examples: `jaxcheck report .jaxcheck/run.json -o report.html`, `jaxcheck report shard-*.json -o run.json`.
    Formats: console, json, markdown, junit, html, github. Exit codes are those of the command that was run.
    """
    from jaxcheck.report.formats import named, write_report, write_text

    found = read(files)
    for path in output or ():
        if format_:
            write_text(named(found, format_), path)
        else:
            write_report(found, path)
    if not output:
        show(found, format_ or "console", -1 if quiet else verbose)
    raise typer.Exit(int(found.exit_code()))


def read(files: list[Path]) -> Report:
    """The report of one file, or the run that several are the parts of. A part alone is a run that is not whole."""
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.shards import merged
    from jaxcheck.report.reading import read_report, read_run
    from jaxcheck.results import Run

    if len(files) == 1:
        found = read_report(files[0])
        return merged({str(files[0]): found}) if isinstance(found, Run) and found.shard else found
    runs = {}
    for path in files:
        if str(path) in runs:
            raise UsageError(f"{path} is named twice")
        runs[str(path)] = read_run(path)
    return merged(runs)


def show(found: Report, name: str, verbosity: int) -> None:
    """On stdout: for a terminal in its width and colours."""
    import sys

    from rich.console import Console

    from jaxcheck.report.formats import named, renderable

    if name == "console":
        Console(soft_wrap=False, highlight=False).print(renderable(found, verbosity))
    else:
        sys.stdout.buffer.write(named(found, name).encode() + b"\n")
