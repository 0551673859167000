"""The formats of reports, by name and by suffix; and files, written whole or not at all.

What a format needs is imported when it is used: nobody pays for one that was not asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from jaxcheck.errors import UsageError
from jaxcheck.results import CheckResult, Run
from jaxcheck.results.bisection import Bisection
from jaxcheck.results.diagnosis import Diagnosis
from jaxcheck.results.gate import Gate

T = TypeVar("T")
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


def console(report: Run | Bisection | Diagnosis, verbosity: int = 0, width: int = CONSOLE_WIDTH) -> str:
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


def renderable(report: Run | Bisection | Diagnosis, verbosity: int = 0) -> object:
    """The report for a terminal, as rich prints it."""
    from jaxcheck.report import bisect, diagnose, gate
    from jaxcheck.report import console as run

    if isinstance(report, Bisection):
        return bisect.render(report, verbosity)
    if isinstance(report, Diagnosis):
        return diagnose.render(report, verbosity)
    return gate.render(report, verbosity) if isinstance(report, Gate) else run.render(report, verbosity)


# Suffix to format. The annotations and the terminal's text have no suffix: `jaxcheck report --format` has them.
FORMATS: dict[str, Callable[[Run], str]] = {".json": Run.to_json, ".md": _markdown, ".xml": _junit, ".html": _html}
BISECT_FORMATS: dict[str, Callable[[Bisection], str]] = {".json": Bisection.to_json}
DIAGNOSIS_FORMATS: dict[str, Callable[[Diagnosis], str]] = {".json": Diagnosis.to_json}

NAMED: dict[str, Callable[[Run], str]] = {
    "console": console,
    "json": Run.to_json,
    "markdown": _markdown,
    "junit": _junit,
    "html": _html,
    "github": _github,
}
SEARCHES: dict[str, Callable[[Bisection | Diagnosis], str]] = {"console": console, "json": lambda told: told.to_json()}


def named(report: Run | Bisection | Diagnosis, name: str) -> str:
    """The report in the format of this name; UsageError where there is no such format for its kind."""
    if isinstance(report, Run):
        return _of(NAMED, name)(report)
    return _of(SEARCHES, name)(report)


def _of(formats: Mapping[str, Callable[[T], str]], name: str) -> Callable[[T], str]:
    if name not in formats:
        raise UsageError(f"there is no format {name!r} for this report; valid: {', '.join(formats)}")
    return formats[name]


def check_suffix(path: Path) -> Callable[[Run], str]:
    """The format that a file's name asks for. Raises UsageError, with the valid suffixes, where there is none."""
    return _of_suffix(path, FORMATS)


def check_bisect_suffix(path: Path) -> Callable[[Bisection], str]:
    """The same for the report of a bisection."""
    return _of_suffix(path, BISECT_FORMATS)


def check_diagnosis_suffix(path: Path) -> Callable[[Diagnosis], str]:
    """The same for the report of a diagnosis."""
    return _of_suffix(path, DIAGNOSIS_FORMATS)


def _of_suffix(path: Path, formats: Mapping[str, Callable[[T], str]]) -> Callable[[T], str]:
    try:
        return formats[path.suffix.lower()]
    except KeyError:
        valid = ", ".join(formats)
        has = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise UsageError(f"{path} has {has}, which is not a report format; valid: {valid}") from None


def write_report(run: Run, path: Path) -> None:
    """Writes the run to `path` (UTF-8), whole or not at all; missing folders are made.

    Raises UsageError for an unknown suffix or a place that cannot be written to.
    """
    write_text(check_suffix(path)(run), path)


def write_bisection(bisection: Bisection, path: Path) -> None:
    """The same for a bisection."""
    write_text(check_bisect_suffix(path)(bisection), path)


def write_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """The same for a diagnosis."""
    write_text(check_diagnosis_suffix(path)(diagnosis), path)


def write_any(report: Run | Bisection | Diagnosis, path: Path) -> None:
    """The same for any of them."""
    if isinstance(report, Bisection):
        write_bisection(report, path)
    elif isinstance(report, Diagnosis):
        write_diagnosis(report, path)
    else:
        write_report(report, path)


def write_text(text: str, path: Path) -> None:
    """A report's text, as `write_report` writes it."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            staging.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8", newline="\n")
            os.replace(staging, path)
        finally:
            staging.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write the report {path}: {error.strerror}", hint="--output FILE") from error
