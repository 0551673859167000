"""The program: its verbs in groups, and the one place that turns errors into exit codes."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from jaxcheck import __version__
from jaxcheck.cli import streams
from jaxcheck.cli.bench import bench
from jaxcheck.cli.bisect import bisect
from jaxcheck.cli.bless import bless, reject
from jaxcheck.cli.check import check
from jaxcheck.cli.compare import compare
from jaxcheck.cli.diagnose import diagnose
from jaxcheck.cli.diff import diff
from jaxcheck.cli.doctor import doctor
from jaxcheck.cli.gate import gate
from jaxcheck.cli.init import init
from jaxcheck.cli.list import list_
from jaxcheck.cli.prune import prune
from jaxcheck.cli.report import report
from jaxcheck.cli.review import review
from jaxcheck.cli.rollback import rollback
from jaxcheck.cli.run import run
from jaxcheck.cli.schema import schema
from jaxcheck.cli.show import show
from jaxcheck.errors import Exit, JaxcheckError
from jaxcheck.registry.words import printable

EVERY_DAY, UPGRADES, GOLDENS, PROJECT = "Every day", "Upgrades", "Goldens", "Project"


class Program(TyperGroup):
    """Catches once what the verbs raise."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JaxcheckError as error:
            complain(str(error), error.hint)
            raise SystemExit(int(error.exit_code)) from None
        except KeyboardInterrupt:
            complain("interrupted", None)
            raise SystemExit(int(Exit.INTERRUPTED)) from None
        except BrokenPipeError:  # `jaxcheck list | head`
            streams.silence()
            raise SystemExit(0) from None


def complain(message: str, hint: str | None) -> None:
    """To stderr, as plain text: nothing in it is markup, and what others wrote cannot act on the terminal."""
    print(*map(printable, f"error: {message}".split("\n")), sep="\n", file=sys.stderr)
    if hint:
        print(*map(printable, f"  try: {hint}".split("\n")), sep="\n", file=sys.stderr)


app = typer.Typer(
    cls=Program,
    name="jaxcheck",
    help="Did my kernels' numbers move? Runs recipes eagerly and under jit and compares them with stored goldens.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", rich_help_panel=EVERY_DAY)(run)
app.command("bless", rich_help_panel=EVERY_DAY)(bless)
app.command("review", rich_help_panel=EVERY_DAY)(review)
app.command("report", rich_help_panel=EVERY_DAY)(report)
app.command("list", rich_help_panel=EVERY_DAY, epilog="Examples: `jaxcheck list`, `jaxcheck list --tag seed --ids`.")(
    list_
)
app.command("gate", rich_help_panel=UPGRADES)(gate)
app.command("compare", rich_help_panel=UPGRADES)(compare)
app.command("bisect", rich_help_panel=UPGRADES)(bisect)
app.command("diagnose", rich_help_panel=UPGRADES)(diagnose)
app.command("reject", rich_help_panel=GOLDENS)(reject)
app.command("rollback", rich_help_panel=GOLDENS)(rollback)
app.command("show", rich_help_panel=GOLDENS)(show)
app.command("diff", rich_help_panel=GOLDENS)(diff)
app.command("prune", rich_help_panel=GOLDENS)(prune)
app.command("bench", rich_help_panel=PROJECT, epilog="Example: `jaxcheck bench newton-sqrt --mode jit`.")(bench)
app.command("check", rich_help_panel=PROJECT, epilog="Examples: `jaxcheck check`, `jaxcheck check --static`.")(check)
app.command("init", rich_help_panel=PROJECT)(init)
app.command("schema", rich_help_panel=PROJECT)(schema)
app.command("doctor", rich_help_panel=PROJECT)(doctor)


def _version(value: bool) -> None:
    if value:
        print(f"jaxcheck {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def entry() -> None:
    """The console script. An exception that nobody foresaw is a bug of jaxcheck's own, and says so."""
    streams.make_usable()
    try:
        try:
            app()
        finally:
            gc.freeze()  # the process ends: to look for garbage in all that was imported would take most of that
            with streams.telling():
                pass
    except OSError as error:
        hint = streams.REFUSALS.get(error.errno or 0)
        if hint is None:
            bug()
        streams.silence()
        complain(f"{error.filename or 'the output'}: {error.strerror}", hint)
        raise SystemExit(int(Exit.USAGE)) from None
    except Exception:
        bug()


def bug() -> NoReturn:
    """About the exception that is being handled."""
    import traceback

    traceback.print_exc()
    complain("this is a bug in jaxcheck: please report it with the lines above", None)
    raise SystemExit(int(Exit.BUG)) from None
