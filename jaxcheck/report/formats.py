"""The formats of reports, by name and by suffix; and files, written whole or not at all.

What a format needs is imported when it is used: nobody pays for one that was not asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jaxcheck.errors import UsageError
from jaxcheck.files import remove_leftovers, replaced
from jaxcheck.results import CheckResult, Document, Run
from jaxcheck.results.bisection import Bisection
from jaxcheck.results.diagnosis import Diagnosis
from jaxcheck.results.gate import Gate

Report = Run | Bisection | Diagnosis
CONSOLE_WIDTH = 120


def _markdown(run: Run) -> str:
    from jaxcheck.report.markdown import markdown

    return markdown(run)


def _junit(run: Run) -> str:
    from jaxcheck.report.junit import junit

    return junit(run)


def _html(run: Run) -> str:
    from jaxcheck.report.html.page import page

    return page(run)


def _github(run: Run) -> str:
    from jaxcheck.report.github import annotation_lines

    return "\n".join(annotation_lines(run))


def console(report: Report, verbosity: int = 0, width: int = CONSOLE_WIDTH) -> str:
    """What the command printed, as plain text."""
    return plain(renderable(report, verbosity), width)


def failure(result: CheckResult, width: int = CONSOLE_WIDTH) -> str:
    """The block of one failed check, as plain text."""
    from jaxcheck.report.failures import failure_block

    return plain(failure_block(result), width).rstrip("\n")


def plain(rendered: object, width: int) -> str:
    import io

    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=width, color_system=None, highlight=False).print(rendered)
    return file.getvalue()


def renderable(report: Report, verbosity: int = 0) -> object:
    """The report for a terminal, as rich prints it."""
    from jaxcheck.report import bisect, diagnose, gate
    from jaxcheck.report import console as run

    if isinstance(report, Bisection):
        return bisect.render(report, verbosity)
    if isinstance(report, Diagnosis):
        return diagnose.render(report, verbosity)
    return gate.render(report, verbosity) if isinstance(report, Gate) else run.render(report, verbosity)


# What a run or a gate can be written as; a search or a diagnosis is for the terminal, and JSON.
FORMATS: dict[str, Callable[[Run], str]] = {
    "console": console,
    "json": Run.to_json,
    "markdown": _markdown,
    "junit": _junit,
    "html": _html,
    "github": _github,
}
SEARCHES: dict[str, Callable[[Report], str]] = {"console": console, "json": Document.to_json}
# The annotations and the terminal's text have no suffix: `jaxcheck report --format` has them.
SUFFIXES = {".json": "json", ".md": "markdown", ".xml": "junit", ".html": "html"}


def named(report: Report, name: str) -> str:
    """The report in the format of this name; UsageError where there is no such format for its kind."""
    if isinstance(report, Run) and name in FORMATS:
        return FORMATS[name](report)
    if not isinstance(report, Run) and name in SEARCHES:
        return SEARCHES[name](report)
    valid = ", ".join(FORMATS if isinstance(report, Run) else SEARCHES)
    raise UsageError(f"there is no format {name!r} for this report; valid: {valid}")


def check_suffix(path: Path, kind: type[Document] = Run) -> str:
    """The format that a file's name asks for. Raises UsageError, with the valid suffixes, where there is none."""
    known = FORMATS if issubclass(kind, Run) else SEARCHES
    name = SUFFIXES.get(path.suffix.lower(), "")
    if name in known:
        return name
    valid = ", ".join(suffix for suffix, name in SUFFIXES.items() if name in known)
    has = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    raise UsageError(f"{path} has {has}, which is not a report format; valid: {valid}")


def write_report(report: Report, path: Path) -> None:
    """Writes a report to `path` (UTF-8), whole or not at all; missing folders are made.

    Raises UsageError for an unknown suffix or a place that cannot be written to.
    """
    write_text(named(report, check_suffix(path, type(report))), path)


def write_text(text: str, path: Path) -> None:
    """A report's text, as `write_report` writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        with replaced(path, durable=False) as file:
            file.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write the report {path}: {error.strerror}", hint="--output FILE") from error
