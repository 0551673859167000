"""What the readings inside the compiled function tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxcheck.diagnose.trace import measure
from jaxcheck.results.diagnosis import DiagnosedFusion, DiagnosedStep

ALIKE = (
    "the compiled function has the bits of its equations by themselves: it is the plain call that differs from them, "
    "in the parts of it that are compiled"
)


def fusion_of(reply: Mapping[str, Any], side: str) -> DiagnosedFusion | str:
    """The worker's answer to `inside`; or why no equation can be named. `side` is where it was asked."""
    if "apart" not in reply:
        return str(reply.get("reason") or "the worker gave no answer")
    if not reply["apart"]:
        return ALIKE
    first, perturbed = reply["first"], int(reply["perturbed"])
    if first is None:
        left_out = f" ({left_out_words(perturbed)})" if perturbed else ""
        why = f"partial: {reply['partial']}" if reply["partial"] else "each that can be read is right there"
        return f"no equation was found that is another in it: {why}{left_out}"
    named = {name: first[name] for name in ("primitive", "scope", "file", "line", "fusion", "hlo", "stable")}
    return DiagnosedFusion(
        side=side,
        **named,
        error=measure(first["error"]),
        confirmed=first["confirmed"],
        repeatable=reply["repeatable"],
        perturbed=perturbed,
    )


def left_out_words(perturbed: int) -> str:
    readings = "1 reading was" if perturbed == 1 else f"{perturbed:,} readings were"
    return f"{readings} left out: to read there changes the outputs"


def step_of_fusion(found: DiagnosedFusion) -> DiagnosedStep:
    """The equation as a step, for saying where it is."""
    return DiagnosedStep(n=0, primitive=found.primitive, scope=found.scope, file=found.file, line=found.line)
