"""The options that verbs share, and what they are turned into."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from jaxcheck.cli import completion

if TYPE_CHECKING:
    from collections.abc import Collection

    from jaxcheck.execution.project import Project as Project
    from jaxcheck.execution.state import State
    from jaxcheck.registry.model import Registry
    from jaxcheck.registry.select import Selection
    from jaxcheck.results.gate import Gate

SELECT, WHERE, HOW = "Selection", "Project", "Execution"

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        # Rich would take [jit] for a style.
        help="Recipes or checks: newton-sqrt, 'newton*', newton-sqrt::zeros, 'newton-sqrt::zeros\\[jit]'.",
        show_default=False,
        autocompletion=completion.names,
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Recipes with this tag.", rich_help_panel=SELECT, autocompletion=completion.tags),
]
Keyword = Annotated[
    str | None, typer.Option("-k", help="Substrings of ids, with and, or, not.", rich_help_panel=SELECT)
]
Modes = Annotated[
    list[str] | None,
    typer.Option("--mode", help="Only this mode.", rich_help_panel=SELECT, autocompletion=completion.modes),
]
LastFailed = Annotated[
    bool, typer.Option("--last-failed", "--lf", help="What failed in the last run.", rich_help_panel=SELECT)
]
RegistryFile = Annotated[
    Path | None,
    typer.Option(
        "--registry",
        envvar="JAXCHECK_REGISTRY",
        help="The registry; else recipes.yaml is searched upwards.",
        rich_help_panel=WHERE,
    ),
]
GoldensFolder = Annotated[
    Path | None,
    typer.Option(
        "--goldens", envvar="JAXCHECK_GOLDENS", help="Else goldens/ beside the registry.", rich_help_panel=WHERE
    ),
]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        "--state", envvar="JAXCHECK_STATE", help="Else .jaxcheck/ beside the registry.", rich_help_panel=WHERE
    ),
]
Shipped = Annotated[bool, typer.Option("--shipped", help="The recipes that come with jaxcheck.", rich_help_panel=WHERE)]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        envvar="JAXCHECK_BACKEND",
        help="cpu, gpu, tpu or a plugin's name; else what JAX picks.",
        rich_help_panel=HOW,
        autocompletion=completion.backends,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", envvar="JAXCHECK_JOBS", min=1, help="Worker processes.", rich_help_panel=HOW),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", envvar="JAXCHECK_TIMEOUT", min=0.1, help="Seconds a check may take.", rich_help_panel=HOW
    ),
]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat", envvar="JAXCHECK_REPEAT", min=1, help="Calls a check; their bits must agree.", rich_help_panel=HOW
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        envvar="JAXCHECK_NO_CACHE",
        help="Compile every program anew, and keep none for the next run.",
        rich_help_panel=HOW,
    ),
]
Deprecations = Annotated[
    Literal["note", "error"] | None,
    typer.Option(
        "--deprecations",
        envvar="JAXCHECK_DEPRECATIONS",
        help="Whether a kernel's deprecation warnings fail its check; else what the recipes say (note).",
        rich_help_panel=HOW,
    ),
]
Samples = Annotated[
    int, typer.Option("--latency", min=0, help="Time so many calls after warm-up.", rich_help_panel=HOW)
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="KINDS",
        help="Reviews that are fine: improved, warnings, slower, unstable, unverified; with commas.",
        rich_help_panel=HOW,
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Only the totals and the first lines of failures.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Every check; twice: every leaf.")]


def open_registry(registry: Path | None, shipped: bool) -> Registry:
    """The registry asked for, wholly checked; RegistryError with every fault."""
    from jaxcheck.execution import project

    return project.open_registry(registry, shipped)


def open_project(registry: Path | None, goldens: Path | None, state: Path | None, shipped: bool) -> Project:
    """The same with its goldens and the folder of its last run."""
    from jaxcheck.execution import project

    return project.open_project(registry, goldens, state, shipped)


def goldens_folder(registry: Registry, goldens: Path | None) -> Path:
    from jaxcheck.execution import project

    return project.goldens_folder(registry, goldens)


def golden_name(text: str, recipes: Collection[str]) -> tuple[str, str | None]:
    """(name, backend) of a recipe or check, with `@gpu` behind the recipe for a backend's own golden:
    `NAME@gpu::CASE`. A recipe's name, and a case's, may have an @, too."""
    name, separator, rest = text.partition("::")
    if name in recipes or "@" not in name:
        return text, None
    recipe, _, backend = name.rpartition("@")
    return recipe + separator + rest, backend


def selection_of(
    names: list[str] | None,
    tags: list[str] | None = None,
    keyword: str | None = None,
    modes: list[str] | None = None,
    last_failed: tuple[str, ...] | None = None,
) -> Selection:
    from jaxcheck.registry.select import Selection

    return Selection(
        names=tuple(names or ()),
        tags=tuple(tags or ()),
        keyword=keyword,
        modes=tuple(modes or ()),
        last_failed_ids=last_failed,
    )


def last_failed_ids(state: State) -> tuple[str, ...]:
    """What failed in the last run; NothingVerified where nothing did."""
    from jaxcheck.execution import project

    return project.last_failed_ids(state)


def compiled_programs(off: str) -> Path | str:
    """The folder that compiled programs are kept in, or why there is none."""
    from jaxcheck.execution import project

    return project.compiled_programs(off)


def say(text: str) -> None:
    """Progress, to stderr."""
    print(text, file=sys.stderr, flush=True)


def allowed_kinds(allow: list[str] | None) -> tuple[str, ...]:
    """`--allow improved,warnings`; UsageError for a kind that cannot be allowed."""
    from jaxcheck.errors import UsageError
    from jaxcheck.gate.verdict import ALLOWABLE, BLOCKING

    kinds = tuple(kind.strip() for text in allow or () for kind in text.split(",") if kind.strip())
    for kind in kinds:
        if kind not in ALLOWABLE:
            why = (
                "blocks, and cannot be allowed: bless it with a reason" if kind in BLOCKING else "is no kind of concern"
            )
            raise UsageError(f"--allow {kind}: {kind} {why}", hint=f"--allow {','.join(ALLOWABLE)}")
    return kinds


def deliver_gate(gate: Gate, output: list[Path], verbosity: int) -> NoReturn:
    """The report on stdout, and in every file asked for; ends with the gate's exit code."""
    from rich.console import Console

    from jaxcheck.cli.streams import telling
    from jaxcheck.report.formats import write_report
    from jaxcheck.report.gate import render
    from jaxcheck.report.github import annotation_lines

    with telling():
        Console(soft_wrap=False, highlight=False).print(render(gate, verbosity))
    for path in output:
        write_report(gate, path)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for text in annotation_lines(gate):
            print(text, file=sys.stderr)
    raise typer.Exit(int(gate.exit_code()))
