"""`jaxcheck compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from jaxcheck.cli import options as opt
from jaxcheck.cli.run import Output


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A saved run: `jaxcheck run --save BEFORE`.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one, of the same registry.")],
    allow: opt.Allow = None,
    output: Output = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = 0,
) -> None:
    """Compare two saved runs: what moved between them, and is it better or worse?

    For machines that cannot hold both versions: `jaxcheck run --save A` on one, `jaxcheck run --save B` on the other,
    then `jaxcheck compare A B` anywhere. Exit codes as of `jaxcheck gate`.
    """
    from jaxcheck.execution.saved import SavedRun
    from jaxcheck.gate.two_step import compare_saved
    from jaxcheck.report.formats import check_suffix

    for path in output or ():
        check_suffix(path)
    allowed = opt.allowed_kinds(allow)
    gate = compare_saved(SavedRun.open(before), SavedRun.open(after), allowed, " ".join(sys.argv[1:]))
    opt.deliver_gate(gate, output or [], -1 if quiet else verbose)
