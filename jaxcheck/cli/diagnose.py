"""`jaxcheck diagnose`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.results.diagnosis import Diagnosis

BUDGET = "Budget"
SAID = 60  # characters of what is being done, beside the bar
_CHECK = re.compile(r"(?P<recipe>[^\[\]*?]+?)::(?P<case>[^\[\]*?]+?)(\[(?P<mode>[^\[\]]+)\])?")

Check = Annotated[
    str,
    typer.Argument(metavar="RECIPE::CASE", help="One case; RECIPE::CASE[MODE] for one mode of it.", show_default=False),
]
Against = Annotated[
    str,
    typer.Option(
        "--against",
        metavar="golden|jit|eager|truth|REQUIREMENT",
        help="The golden, another mode, the exact values, or another environment: jax==0.12.0.1.",
    ),
]
Mode = Annotated[str | None, typer.Option("--mode", help="Else the first mode that diverges.")]
SaveRepro = Annotated[
    Path | None,
    typer.Option("--save-repro", metavar="DIR", help="Write the equation to blame as a script, with its inputs."),
]
MostEquations = Annotated[
    int | None, typer.Option("--max-equations", min=1, help="Walk at most so many.", rich_help_panel=BUDGET)
]
Seconds = Annotated[
    float | None,
    typer.Option("--time", min=1.0, help="Seconds; what is known by then is the answer.", rich_help_panel=BUDGET),
]
Sensitive = Annotated[
    bool,
    typer.Option(
        "--sensitivity/--no-sensitivity",
        help="Measure which equations the outcome hangs on (some seconds).",
        rich_help_panel=BUDGET,
    ),
]
Output = Annotated[list[Path] | None, typer.Option("-o", "--output", help="Also write the report to a file (.json).")]


def diagnose(
    check: Check,
    against: Against = "golden",
    mode: Mode = None,
    save_repro: SaveRepro = None,
    max_equations: MostEquations = None,
    time: Seconds = None,
    sensitivity: Sensitive = True,
    backend: opt.Backend = None,
    timeout: opt.Timeout = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
    output: Output = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Where did it start? From the environment down to the first equation that computes something else.

    Example: `jaxcheck diagnose newton-sqrt::zeros --against jit`. Exit 0 where nothing diverges, 1 where something
    does, 4 where an environment cannot be had, 5 where the case cannot be run.
    """
    from jaxcheck.diagnose.ends import Question
    from jaxcheck.diagnose.inquiry import Limits
    from jaxcheck.diagnose.ladder import SUBFOLDER
    from jaxcheck.diagnose.ladder import diagnose as diagnosing
    from jaxcheck.execution.cache import cache_folder
    from jaxcheck.gate.gate import Conduct
    from jaxcheck.gate.gate import Project as Place
    from jaxcheck.report.formats import check_suffix
    from jaxcheck.results.diagnosis import Diagnosis

    for path in output or ():
        check_suffix(path, Diagnosis)
    recipe, case, named = parts_of(check, mode)
    check_against(against)
    project = opt.open_project(registry, goldens, state, shipped)
    project.state.prepare()
    place = Place(project.registry, project.goldens, project.state.folder / SUBFOLDER)
    with progress() as (climb, say):
        conduct = Conduct(backend=backend, jobs=1, timeout=timeout, command=" ".join(sys.argv[1:]), say=say)
        question = Question(place, recipe, case, named, against, conduct, cache_folder())
        found = diagnosing(question, Limits(max_equations, time, sensitivity), save_repro, climb)
    _deliver(found, output or [], -1 if quiet else verbose)


def parts_of(check: str, mode: str | None) -> tuple[str, str, str | None]:
    """(recipe, case, mode) of `RECIPE::CASE[MODE]`; UsageError for anything else."""
    from jaxcheck.errors import UsageError

    found = _CHECK.fullmatch(check)
    if found is None:
        raise UsageError(f"{check!r} is not one case", hint="jaxcheck diagnose RECIPE::CASE (jaxcheck list names them)")
    if mode and found["mode"] and mode != found["mode"]:
        raise UsageError(f"{check!r} and --mode {mode} ask for different modes")
    return found["recipe"], found["case"], mode or found["mode"]


def check_against(against: str) -> None:
    """UsageError for what is neither one of the words nor a requirement."""
    from jaxcheck.diagnose.ends import WORDS
    from jaxcheck.errors import UsageError
    from jaxcheck.gate.environments import lock_of
    from jaxcheck.gate.environments.requests import parse_request

    if against in WORDS or lock_of((against,)):
        return
    hint = f"one of {', '.join(WORDS)}, or a requirement: 'jax==0.12.0.1', or a requirements file"
    if against.isalpha() and not _installed(against):  # a slip of the pen, rather than a package that nobody has
        raise UsageError(f"--against {against}: that is nothing to be held against", hint=hint)
    parse_request(against)


def _installed(package: str) -> bool:
    import importlib.metadata

    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@contextmanager
def progress() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """A bar on stderr where that is a terminal. Yields what is told of each rung, and what of the steps within one."""
    if not sys.stderr.isatty():
        yield (lambda rung: None), opt.say
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from jaxcheck.diagnose.ladder import STAGES

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting JAX", total=STAGES)

        def climb(rung: str) -> None:
            bar.update(task, advance=1, description=escape(rung[:SAID]))

        yield climb, lambda text: bar.update(task, description=escape(text[:SAID]))


def _deliver(found: Diagnosis, output: list[Path], verbosity: int) -> NoReturn:
    from rich.console import Console

    from jaxcheck.report.diagnose import render
    from jaxcheck.report.formats import write_report

    for path in output:
        write_report(found, path)
    Console(soft_wrap=False, highlight=False).print(render(found, verbosity), crop=False)
    raise typer.Exit(int(found.exit_code()))
