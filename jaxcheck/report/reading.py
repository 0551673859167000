"""Reports read again: whatever an earlier command wrote as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from jaxcheck.errors import UsageError
from jaxcheck.report.formats import Report
from jaxcheck.results import Run
from jaxcheck.results.bisection import Bisection
from jaxcheck.results.diagnosis import Diagnosis
from jaxcheck.results.gate import Gate

# What only this kind of report has; a gate is a run too, so it is asked for first.
KINDS: dict[str, type[Gate] | type[Run] | type[Bisection] | type[Diagnosis]] = {
    "concerns": Gate,
    "results": Run,
    "releases": Bisection,
    "ladder": Diagnosis,
}


def read_report(path: Path) -> Report:
    """The run, gate, bisection or diagnosis in a JSON report; UsageError where it is none of them."""
    hint = "jaxcheck run -o FILE.json writes one"
    try:
        data = path.read_bytes()
        found = json.loads(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise UsageError(f"{path} is not a JSON report: {error}", hint=hint) from error
    except RecursionError:
        raise UsageError(f"{path} is not a JSON report: it is nested too deeply", hint=hint) from None
    kind = next((kind for key, kind in KINDS.items() if isinstance(found, dict) and key in found), None)
    if kind is None:
        raise UsageError(f"{path} is JSON, but not a report of jaxcheck", hint=hint)
    try:
        return kind.from_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path} is not a report that this jaxcheck reads: {where}: {first['msg']}") from error


def read_run(path: Path) -> Run:
    """The same where it has to be a run."""
    report = read_report(path)
    if isinstance(report, Gate) or not isinstance(report, Run):
        raise UsageError(f"{path} is the report of a {type(report).__name__.lower()}, not of a run")
    return report
