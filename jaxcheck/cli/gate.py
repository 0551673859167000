"""`jaxcheck gate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import cluster
from jaxcheck.cli import options as opt
from jaxcheck.cli.run import Output, progress

if TYPE_CHECKING:
    from jaxcheck.gate.environments import Installation, Wanted
    from jaxcheck.gate.gate import Conduct, Project
    from jaxcheck.results.gate import Gate

SIDES = "Environments"

To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        help="What is to move: jax==0.12.0.1, 'optax>=0.2.8', a wheel. Repeat for several. Or a requirements file.",
        rich_help_panel=SIDES,
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option("--from", help="What it is compared with; else this very environment.", rich_help_panel=SIDES),
]
Python = Annotated[
    str | None, typer.Option("--python", help="Another Python for the candidate: 3.13.", rich_help_panel=SIDES)
]
ToPython = Annotated[
    str | None,
    typer.Option("--to-python", help="An interpreter that has it all, a container's.", rich_help_panel=SIDES),
]
FromPython = Annotated[
    str | None, typer.Option("--from-python", help="The same for the baseline.", rich_help_panel=SIDES)
]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="Confirm causes: move one package at a time.", rich_help_panel=opt.HOW)
]
Since = Annotated[
    bool, typer.Option("--since", help="Also find the release that moved each output.", rich_help_panel=opt.HOW)
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Build environments anew.", rich_help_panel=SIDES)]


def gate(
    names: opt.Names = None,
    to: To = None,
    from_: From = None,
    python: Python = None,
    to_python: ToPython = None,
    from_python: FromPython = None,
    refresh: Refresh = False,
    allow: opt.Allow = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    backend: opt.Backend = None,
    jobs: opt.Jobs = None,
    timeout: opt.Timeout = None,
    latency: opt.Samples = 0,
    isolate: Isolate = False,
    since: Since = False,
    executor: cluster.Executor = "local",
    address: cluster.Address = None,
    resource: cluster.Resource = None,
    wait: cluster.Wait = 0.0,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
    output: Output = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Is an upgrade safe for these recipes? Run them before and after, and say what moved, and who moved it.

    Example: `jaxcheck gate --to jax==0.12.0.1`. Exit 0 on pass, 1 on block, and on review unless `--allow` covers it;
    4 where an environment cannot be had. The goldens are not touched.
    """
    from jaxcheck.errors import NothingVerified
    from jaxcheck.execution.cache import cache_folder
    from jaxcheck.gate import gate as gating
    from jaxcheck.gate.environments import Wanted
    from jaxcheck.registry.select import selected_recipes
    from jaxcheck.report.formats import check_suffix

    for path in output or ():
        check_suffix(path)
    check_sides(bool(to or python), to_python, bool(from_), from_python, isolate or since)
    check_locks(to or (), from_ or (), isolate or since)
    check_executor(executor, since)
    allowed = opt.allowed_kinds(allow)
    project = opt.open_project(registry, goldens, state, shipped)
    project.state.prepare()
    selection = opt.selection_of(names, tag, k, mode)
    if not selected_recipes(project.registry, selection):  # before an environment is built for nothing
        raise NothingVerified("nothing is selected", hint="jaxcheck list")
    cache, baseline = cache_folder(), tuple(from_ or ())
    machines = (executor, project, address, backend, resource, wait)
    with environments(*machines, cache=cache, requirements=(*baseline, *(to or ()))) as provided:
        before = provided(Wanted(baseline, None, from_python), refresh)
        after = provided(Wanted(tuple(to or ()), python, to_python), refresh)
        with progress(project.registry, selection) as report:
            conduct = gating.Conduct(
                backend=backend,
                jobs=jobs,
                timeout=timeout,
                latency=latency,
                command=" ".join(sys.argv[1:]),
                say=opt.say,
                report=report,
            )
            place = gating.Project(project.registry, project.goldens, project.state.folder / "gate")
            alone = None
            if isolate:

                def alone(requirement: str) -> Installation:
                    return provided(Wanted((*baseline, requirement)), False)

            gated = gating.gate(place, selection, before, after, to or (), conduct, allowed, alone)
            if since:
                gated = dated(gated, place, baseline, conduct, cache)
    opt.deliver_gate(gated, output or [], -1 if quiet else verbose)


@contextmanager
def environments(
    executor: str,
    project: opt.Project,
    address: str | None,
    backend: str | None,
    resource: list[str] | None,
    wait: float,
    *,
    cache: Path,
    requirements: Sequence[str],
) -> Iterator[Callable[[Wanted, bool], Installation]]:
    """What gives environments, each as it is wanted and built anew or not: on this machine, or on a cluster's nodes."""
    from jaxcheck.gate.environments import provide, provide_on, wheels_of

    wheels = wheels_of(requirements) if executor != "local" else ()
    with cluster.elsewhere(executor, project, address, backend, resource, wait, wheels) as nodes:
        if nodes is None:
            yield lambda wanted, refresh: provide(wanted, cache, opt.say, refresh=refresh)
        else:
            from jaxcheck.execution.ray_executor import SENT

            yield lambda wanted, refresh: provide_on(nodes, wanted, SENT, opt.say)


def check_executor(executor: str, since: bool) -> None:
    """UsageError where what is asked for is not done on a cluster."""
    from jaxcheck.errors import UsageError

    if executor != "local" and since:
        raise UsageError(
            "--since builds an environment for each release between, on this machine",
            hint="leave --executor out, or --since",
        )


def check_sides(to: bool, to_python: str | None, from_: bool, from_python: str | None, more: bool) -> None:
    """UsageError where the options contradict one another, or ask for nothing. `more`: --isolate or --since."""
    from jaxcheck.errors import UsageError

    if not (to or to_python):
        raise UsageError("nothing is to move", hint="jaxcheck gate --to jax==0.12.0.1")
    if to_python and to:
        raise UsageError("--to-python is an environment as it stands: --to and --python cannot change it")
    if from_python and (from_ or more):
        raise UsageError("--from-python is an environment as it stands: --from, --isolate and --since cannot change it")
    if to_python and more:
        raise UsageError("--isolate and --since build environments on the way to one that --to describes")


def check_locks(to: Sequence[str], from_: Sequence[str], more: bool) -> None:
    """UsageError for a lock that cannot be read, or is not alone. `more`: --isolate or --since."""
    from jaxcheck.errors import UsageError
    from jaxcheck.gate.environments import lock_of

    locks = [lock for side in (to, from_) if (lock := lock_of(side)) is not None]
    if locks and more:
        raise UsageError(
            f"--isolate and --since change the current environment, and {locks[0].text} is another one",
            hint="name what is to move: --to jax==0.12.0.1 --to optax==0.2.8 --isolate",
        )


def dated(gated: Gate, place: Project, baseline: tuple[str, ...], conduct: Conduct, cache: Path) -> Gate:
    """The gate with the release that moved each output, as far as it can be told."""
    from jaxcheck.gate.bisect import SUBFOLDER, How, find_since

    conduct.say("since: one release after the other")
    there = replace(place, folder=place.folder.parent / SUBFOLDER)
    quiet = replace(conduct, report=lambda result: None)
    results, remarks = find_since(there, gated.results, gated.packages, baseline, quiet, How(cache))
    return gated.model_copy(update={"results": tuple(results), "remarks": (*gated.remarks, *remarks)})
