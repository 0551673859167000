"""What is said of a step, and the closing sentence of a diagnosis. Plain strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from jaxcheck.diagnose.compiled import left_out_words, step_of_fusion
from jaxcheck.diagnose.ends import Ends
from jaxcheck.diagnose.scopes import is_gradient, labels
from jaxcheck.report.words import INFINITE, number
from jaxcheck.results import LeafResult
from jaxcheck.results.diagnosis import DiagnosedFusion, DiagnosedKnob, DiagnosedStep

LISTED = 4
ONLY_CARRIES = "everything after only carries it on"


def where(step: DiagnosedStep) -> str:
    """`lgamma` in `forward` (model.py:41), iteration 3."""
    scope = "/".join(labels(step.scope))
    text = f"`{step.primitive}`" + (f" in `{scope}`" if scope else "")
    if is_gradient(step.scope):
        text += " in the reverse pass"
    if step.file:
        text += f" ({PurePath(step.file).name}:{step.line})"
    if step.iteration:
        text += f", iteration {', '.join(map(str, step.iteration))}"
    return text


def local(step: DiagnosedStep) -> str:
    """`13,642 eps of its output where 4 are its bound`; of two versions, how far they are apart."""
    if not step.bound:
        apart = "NaN, infinity or an integer disagrees" if step.local >= INFINITE else f"{number(step.local)} eps apart"
        return f"{apart} ({step.rewritten})" if step.rewritten else apart
    if step.local >= INFINITE:
        return "NaN or infinity where the exact value is none"
    return f"{number(step.local)} eps of its output where {step.bound:.3g} are its bound"


def origin(step: DiagnosedStep, ends: Ends) -> str:
    """An equation that is wrong by itself."""
    if not ends.question.of_versions:
        wrong = f"{where(step)} computes something else than its float64 value, with good inputs"
        return f"{wrong}: {local(step)}; {ONLY_CARRIES}"
    said = [f"{where(step)} computes differently in {version(ends)}, with equal inputs"]
    said += [text] if (text := nearer(step, ends.leaves)) else []
    return "; ".join([*said, ONLY_CARRIES])


def version(ends: Ends) -> str:
    """What is new about this side: `0.12.0.1` where it is JAX, else the requirement."""
    old, new = ends.before.environment, ends.now.environment
    if old and new and old.jax != new.jax:
        return f"jax {new.jax}"
    return ends.question.against


def nearer(step: DiagnosedStep, leaves: Sequence[LeafResult]) -> str:
    """Which of the two values is right: of the equation, or else of the output that moved furthest."""
    pair = (step.before, step.after)
    if None in pair:
        errors = next((leaf.error_to_truth for leaf in leaves if leaf.moved and leaf.error_to_truth), None)
        pair = (errors.golden, errors.actual) if errors else (None, None)
    old, new = pair
    if old is None or new is None or old == new:
        return ""
    return "the new value is nearer to the truth" if new < old else "the old value was nearer to the truth"


def amplifier(step: DiagnosedStep) -> str:
    grown = f"grows the error of its inputs {number(step.amplification)} times"
    return f"{where(step)} {grown} (a cancellation, or an ill-conditioned operation); by itself it is exact"


def flip(step: DiagnosedStep) -> str:
    hangs = "a branch, a loop's end or an integer hangs on the last digits"
    return f"{where(step)} goes another way than the exact values would: {hangs}"


def inside(found: DiagnosedFusion) -> str:
    """first at `exp` in `forward` (model.py:41), inside fusion `fused_computation` (12 eps off)."""
    at = f"inside fusion `{found.fusion}`" if found.fusion else "in no fusion that is named after it"
    off = "NaN, infinity or an integer disagrees" if found.error >= INFINITE else f"{number(found.error)} eps off"
    return f"first at {where(step_of_fusion(found))}, {at} ({off})"


def readings(found: DiagnosedFusion) -> str:
    """How far the readings can be trusted."""
    before = "confirmed: what is before it is right"
    said = [before if found.confirmed else "not confirmed: what is before it cannot be read"]
    if not found.repeatable:
        said.append("every call gives other values")
    elif not found.stable:
        said.append("read twice, it gave two values")
    else:
        said.append("the same at every call")
    if found.perturbed:
        said.append(left_out_words(found.perturbed))
    return ", ".join(said)


def within(step: DiagnosedStep) -> str:
    """`worst: exp, 0.8 eps`."""
    return f"worst: `{step.primitive}`, {number(step.local)} eps"


def moved(leaves: Sequence[LeafResult]) -> str:
    """`['y'] by 3.2 tolerances, ['z'] within`."""
    said = []
    for leaf in leaves:
        if not leaf.moved:
            continue
        if leaf.nonfinite:
            said.append(f"{leaf.path}: NaN or infinity disagrees in {leaf.nonfinite:,} of {leaf.out_of}")
        elif leaf.reason and leaf.violation_ratio < INFINITE:
            said.append(f"{leaf.path} by {number(leaf.violation_ratio)} x its tolerance")
        elif leaf.reason:
            said.append(f"{leaf.path}: {leaf.reason}")
        else:
            said.append(f"{leaf.path} by {number(leaf.max_ulp)} ULP, within tolerance")
    return listed(said)


def listed(texts: Iterable[str], most: int = LISTED) -> str:
    found = list(texts)
    more = len(found) - most
    return ", ".join(found[:most]) + (f" and {more} more" if more > 0 else "")


def cures(knobs: Sequence[DiagnosedKnob]) -> str:
    """`"no FMA" and "no fusion" make it vanish`; nothing where nothing does."""
    names = [f'"{knob.knob}"' for knob in knobs if knob.status == "cures"]
    if not names:
        return ""
    told = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{told} make{'s' if len(names) == 1 else ''} it vanish"
