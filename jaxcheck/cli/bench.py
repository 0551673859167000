"""`jaxcheck bench`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.results import CheckResult

BROKEN = ("error", "crash", "timeout")


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
    untimed = [result for result in run.results if _should_be_timed(result) and result.latency is None]
    for result in untimed:
        why = f"not timed: {result.reason}" if result.status in BROKEN else ", ".join(result.notes)
        print(plain_text(f"{result.id}: {why}"), file=sys.stderr)
    raise typer.Exit(int(Exit.INTERRUPTED if run.interrupted else Exit.FAILED if untimed else Exit.PASSED))


def _should_be_timed(result: CheckResult) -> bool:
    """What gives values, in a mode that is one call; and what is broken, whatever it would have given."""
    from jaxcheck.execution.conduct import TIMED_MODES

    return result.status in BROKEN or (result.mode in TIMED_MODES and not result.error and result.status != "skip")
