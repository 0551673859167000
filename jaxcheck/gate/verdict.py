"""What became of a check between two runs, and what that means for the upgrade: pure functions, decision tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from jaxcheck.results import CheckVerdict
from jaxcheck.results.gate import Concern, GateVerdict

# How a check ended on one side: with values, with the exception that its recipe expects, broken (an unexpected
# exception, a crash, a timeout), skipped by its recipe's `when:`, or it was not part of the run.
Ended = Literal["values", "raised", "broken", "skipped", "absent"]
WORST_FIRST: tuple[CheckVerdict, ...] = ("regressed", "changed", "improved", "drifted", "unchanged")
BLOCKING = ("regressed", "changed", "broken", "loosened")
ALLOWABLE = ("improved", "warnings", "slower", "unstable", "unverified")


def check_verdict(
    before: Ended, after: Ended, leaves: Collection[str], *, unstable: bool, new_findings: bool
) -> CheckVerdict | None:
    """What became of a check; None where there is nothing to compare.

    `leaves` are the verdicts of its leaves, `unstable` whether the baseline differs from itself, `new_findings` whether
    something is wrong with the candidate, other than its numbers, that was not wrong before. A check that was broken
    before is no news where it still is, and `improved` where it no longer is. What is wrong anew breaks a check whose
    numbers are fine; where they are not, they are the news.
    """
    if "skipped" in (before, after) or "absent" in (before, after):
        return None
    if unstable:
        return "unstable"
    if after == "broken":
        return "broken"
    if before == "broken":
        return "improved"
    worst: CheckVerdict = next((verdict for verdict in WORST_FIRST if verdict in leaves), "unchanged")
    if before != after or (new_findings and worst not in ("regressed", "changed")):
        return "broken"
    return worst


def whole_verdict(concerns: Iterable[Concern]) -> GateVerdict:
    """The worst of the concerns; `pass` where there is none."""
    verdicts = {concern.verdict for concern in concerns}
    if "block" in verdicts:
        return "block"
    return "review" if "review" in verdicts else "pass"


def concern(kind: str, message: str, checks: Sequence[str], allowed: Collection[str]) -> Concern:
    """A reason for the verdict: what blocks cannot be allowed, what asks for a review can."""
    verdict = "block" if kind in BLOCKING else "review"
    return Concern.model_validate(
        {
            "kind": kind,
            "verdict": verdict,
            "message": message,
            "checks": tuple(checks),
            "allowed": verdict == "review" and kind in allowed,
        }
    )
