"""The result of a gate: a run of the candidate, each check with what became of it, and a verdict for the whole."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from jaxcheck.errors import Exit
from jaxcheck.results import COMPARED, Environment, Model, Run

GateVerdict = Literal["pass", "review", "block"]


class PackageChange(Model):
    """A package that differs between the two sides; `asked` for, or moved by the resolver. None: not there."""

    name: str
    before: str | None
    after: str | None
    asked: bool = False


class Side(Model):
    """One side of a gate: what it is called, where it ran, and what came of its own run against the goldens."""

    label: str
    python: str = ""
    folder: str = ""
    environment: Environment | None = None
    totals: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0.0


class Concern(Model):
    """One reason for the verdict of a gate: its kind, the checks that it is about, and whether `--allow` covered it."""

    kind: Literal[
        "regressed", "changed", "broken", "loosened", "improved", "warnings", "slower", "unstable", "unverified"
    ]
    verdict: GateVerdict
    message: str
    checks: tuple[str, ...] = ()
    allowed: bool = False


class Gate(Run):
    """Two runs compared: `results` are those of the candidate, each with what became of it."""

    verdict: GateVerdict
    concerns: tuple[Concern, ...] = ()
    from_: Side = Field(alias="from")
    to: Side
    packages: tuple[PackageChange, ...] = ()
    settings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def exit_code(self) -> Exit:
        """0 on pass, and on a review that was allowed in full; 5 where nothing could be compared; else 1."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if any(not concern.allowed for concern in self.concerns):
            return Exit.FAILED
        compared = any(result.verdict in COMPARED for result in self.results)
        return Exit.PASSED if compared else Exit.NOTHING_VERIFIED
