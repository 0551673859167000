"""`jaxcheck run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import cluster
from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.execution.saved import Saving
    from jaxcheck.execution.session import Spare
    from jaxcheck.execution.shards import Sharding
    from jaxcheck.registry.model import Registry
    from jaxcheck.registry.select import Selection
    from jaxcheck.results import CheckResult, Run

Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", help="Also write the report to a file, in the format of its suffix: .json .md .xml .html."
    ),
]
ShardOf = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only part I of N; `jaxcheck report` puts them together."),
]
Durations = Annotated[
    Path | None,
    typer.Option(
        "--durations", metavar="RUN.json", help="Even out the parts by what an earlier run took; the same for all."
    ),
]

SaveFolder = Annotated[
    Path | None,
    typer.Option(
        "--save", help="Keep all that the run produces in a folder, for `jaxcheck compare`.", show_default=False
    ),
]


def run(
    names: opt.Names = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    last_failed: opt.LastFailed = False,
    shard: ShardOf = None,
    durations: Durations = None,
    backend: opt.Backend = None,
    jobs: opt.Jobs = None,
    timeout: opt.Timeout = None,
    repeat: opt.Repeat = 1,
    latency: opt.Samples = 0,
    deprecations: opt.Deprecations = None,
    no_cache: opt.NoCache = False,
    executor: cluster.Executor = "local",
    address: cluster.Address = None,
    resource: cluster.Resource = None,
    wait: cluster.Wait = 0.0,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
    output: Output = None,
    save: SaveFolder = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Run recipes eagerly and under jit, and compare them with their goldens.

    Examples: `jaxcheck run`, `jaxcheck run newton-sqrt --mode jit`, `jaxcheck run --tag seed -o report.json`.
    Goldens are never written: what differs is left as a candidate for `jaxcheck bless`.
    """
    with early_workers(backend, jobs) if executor == "local" else nullcontext() as spare:
        import jaxcheck.report.console  # noqa: F401 -- what the end needs, while the workers start
        from jaxcheck.execution.run import Options, execute
        from jaxcheck.report.formats import check_suffix

        for path in output or ():
            check_suffix(path)
        sharding = sharding_of(shard, durations, save)
        project = opt.open_project(registry, goldens, state, shipped)
        project.state.prepare()
        failed = opt.last_failed_ids(project.state) if last_failed else None
        selection = opt.selection_of(names, tag, k, mode, failed)
        with (
            cluster.elsewhere(executor, project, address, backend, resource, wait) as elsewhere,
            saving_to(save) as saving,
            progress(project.registry, selection, sharding) as report,
        ):
            asked = Options(
                backend=backend,
                jobs=jobs,
                timeout=timeout,
                repeat=repeat,
                latency=latency,
                deprecations=deprecations,
                elsewhere=elsewhere,
                saving=saving,
                gate=saving is not None,
                sharding=sharding,
                compiled=opt.compiled_programs(_why_uncached(no_cache, saving is not None, latency)),
                command=" ".join(sys.argv[1:]),
                report=report,
            )
            result = execute(project.registry, selection, project.goldens, project.state, asked, spare)
            if saving and not result.interrupted:
                saving.finish(result)
    try:
        project.state.save(result)
    finally:  # what was found is told, also where it cannot be kept
        deliver(result, output or [], -1 if quiet else verbose)
    raise typer.Exit(int(result.exit_code()))


def sharding_of(shard: str | None, durations: Path | None, save: Path | None) -> Sharding | None:
    """Which part of the run is asked for; UsageError where the options do not go together."""
    from jaxcheck.errors import UsageError
    from jaxcheck.execution.shards import parse_shard, seconds_by_recipe
    from jaxcheck.report.reading import read_run

    if shard is None:
        if durations:
            raise UsageError("--durations is how parts are evened out", hint="--shard 1/4 --durations RUN.json")
        return None
    if save:
        raise UsageError("--save keeps whole runs: a part of one cannot be compared", hint="leave --shard out")
    return parse_shard(shard, seconds_by_recipe(read_run(durations).results) if durations else None)


def _why_uncached(no_cache: bool, saved: bool, latency: int) -> str:
    """Numbers of a gate owe nothing to an earlier run, and a latency has a compile time beside it."""
    told = {"--no-cache": no_cache, "--save": saved, "--latency": bool(latency)}
    return ", ".join(option for option, given in told.items() if given)


@contextmanager
def saving_to(folder: Path | None) -> Iterator[Saving | None]:
    """Where the run is kept, if it is to be; nothing is left of one that was not finished."""
    from jaxcheck.execution.saved import Saving

    if folder is None:
        yield None
        return
    saving = Saving(folder)
    try:
        yield saving
    finally:
        saving.abandon()


@contextmanager
def early_workers(backend: str | None, jobs: int | None, *, keeps: bool = False) -> Iterator[Spare]:
    """Workers that import JAX while this process reads the registry; gone afterwards, whatever happens. One, where it
    is not said how many there are to be."""
    from jaxcheck.execution.process import Launch, Needs, WorkerProcess

    workers = [WorkerProcess(Launch(backend=backend), Needs()) for _ in range(min(jobs or 1, os.cpu_count() or 1))]
    from jaxcheck.execution.session import Spare  # what it imports takes as long as a worker's first half

    spare = Spare(workers, keeps=keeps)
    try:
        yield spare
    finally:
        spare.end()


def deliver(result: Run, output: list[Path], verbosity: int) -> None:
    """The report on stdout, and in every file asked for; in a workflow of GitHub also as annotations."""
    from rich.console import Console

    from jaxcheck.cli.streams import telling
    from jaxcheck.report.console import render
    from jaxcheck.report.formats import write_report
    from jaxcheck.report.github import annotation_lines

    with telling():
        Console(soft_wrap=False, highlight=False).print(render(result, verbosity))
    for path in output:
        write_report(result, path)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(result):
            opt.say(line)


@contextmanager
def progress(
    registry: Registry, selection: Selection, sharding: Sharding | None = None
) -> Iterator[Callable[[CheckResult], None]]:
    """A bar on stderr where that is a terminal; yields what is to be called once a check."""
    if not sys.stderr.isatty():
        yield lambda result: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from jaxcheck.execution.shards import share_of
    from jaxcheck.registry.select import selected_recipes

    mine, _ = share_of(selected_recipes(registry, selection), selection, sharding)
    known = sum(len(recipe.cases) * len(recipe.modes) for recipe in mine)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting JAX", total=known or None)

        def report(result: CheckResult) -> None:
            bar.update(task, advance=1, description=f"{result.recipe}"[:40].replace("[", r"\["))

        yield report
