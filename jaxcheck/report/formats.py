"""Reports in files: the suffix is the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from jaxcheck.errors import UsageError
from jaxcheck.report.markdown import markdown
from jaxcheck.results import Bisection, Diagnosis, Run

T = TypeVar("T")
FORMATS: dict[str, Callable[[Run], str]] = {".json": Run.to_json, ".md": markdown}


BISECT_FORMATS: dict[str, Callable[[Bisection], str]] = {".json": Bisection.to_json}
DIAGNOSIS_FORMATS: dict[str, Callable[[Diagnosis], str]] = {".json": Diagnosis.to_json}


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
    _write(check_suffix(path)(run), path)


def write_bisection(bisection: Bisection, path: Path) -> None:
    """The same for a bisection."""
    _write(check_bisect_suffix(path)(bisection), path)


def write_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """The same for a diagnosis."""
    _write(check_diagnosis_suffix(path)(diagnosis), path)


def _write(text: str, path: Path) -> None:
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
