"""`jaxcheck bench`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jaxcheck.cli import options as opt


def bench(
    names: opt.Names = None,
    samples: Annotated[int, typer.Option("--samples", min=5, help="Calls timed after warm-up.")] = 50,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    mode: opt.Modes = None,
    backend: opt.Backend = None,
    timeout: opt.Timeout = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Time kernels after warm-up: a distribution for each check, with the conditions of the machine.

    Compilation is told apart (the first call), inputs are made outside the clock, every call is waited for. One worker,
    so that checks do not disturb one another. Exit 1 where a kernel could not be timed.
    """
    from jaxcheck.cli.run import progress
    from jaxcheck.errors import Exit, NothingVerified
    from jaxcheck.execution.run import Options, execute
    from jaxcheck.report.lines import latency_lines, plain_text
    from jaxcheck.results import Status

    project = opt.open_project(registry, goldens, state, shipped)
    project.state.prepare()
    selection = opt.selection_of(names, tag, k, mode)
    with progress(project.registry, selection) as report:
        asked = Options(backend=backend, jobs=1, timeout=timeout, latency=samples, report=report)
        run = execute(project.registry, selection, project.goldens, project.state, asked)
    lines = latency_lines(run.results)
    if not lines:
        raise NothingVerified("no check could be timed", hint="jaxcheck run")
    print("\n".join(lines))
    broken = [result for result in run.results if result.status in (Status.ERROR, Status.CRASH, Status.TIMEOUT)]
    for result in broken:
        print(plain_text(f"not timed: {result.id}: {result.reason}"), file=sys.stderr)
    raise typer.Exit(int(Exit.INTERRUPTED if run.interrupted else Exit.FAILED if broken else Exit.PASSED))
