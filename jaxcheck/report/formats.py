"""Reports in files: the suffix is the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jaxcheck.errors import UsageError
from jaxcheck.results import Run

FORMATS: dict[str, Callable[[Run], str]] = {".json": Run.to_json}


def check_suffix(path: Path) -> Callable[[Run], str]:
    """The format that a file's name asks for. Raises UsageError, with the valid suffixes, where there is none."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        valid = ", ".join(FORMATS)
        has = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise UsageError(f"{path} has {has}, which is not a report format; valid: {valid}") from None


def write_report(run: Run, path: Path) -> None:
    """Writes the run to `path` (UTF-8), whole or not at all; missing folders are made.

    Raises UsageError for an unknown suffix or a place that cannot be written to.
    """
    text = check_suffix(path)(run)
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
