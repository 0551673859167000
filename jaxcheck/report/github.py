"""GitHub's annotations: workflow commands, of which a step shows ten of a kind."""

from __future__ import annotations

from collections.abc import Iterator

from jaxcheck.report.gate import verdict_line
from jaxcheck.report.safe import line
from jaxcheck.results import Gate

SHOWN = 10


def annotation_lines(gate: Gate) -> Iterator[str]:
    """One line for each concern, the blocking ones as errors; the last of a kind says how many there are more."""
    for level, verdict in (("error", "block"), ("warning", "review")):
        told = [concern for concern in gate.concerns if concern.verdict == verdict and not concern.allowed]
        shown = told if len(told) <= SHOWN else told[: SHOWN - 1]
        for concern in shown:
            checks = f" ({', '.join(concern.checks[:3])})" if concern.checks else ""
            yield f"::{level} title={_property(f'jaxcheck gate: {concern.kind}')}::{_data(concern.message + checks)}"
        if len(told) > len(shown):
            yield f"::{level} title=jaxcheck gate::and {len(told) - len(shown)} more"
    if not gate.concerns:
        yield f"::notice title=jaxcheck gate::{_data(verdict_line(gate))}"


def _data(text: str) -> str:
    return line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
