"""The diagnosis: climbs the ladder, and says which rung fails first with good inputs."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jaxcheck
from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.ends import Ends, Question, ends_of
from jaxcheck.diagnose.inquiry import Inquiry, Limits
from jaxcheck.diagnose.repro import save_repro
from jaxcheck.diagnose.rungs import FAIR, RUNGS
from jaxcheck.diagnose.rungs.row import Row, skipped, verdict
from jaxcheck.diagnose.sensitivity import Sensitivity, measured
from jaxcheck.diagnose.trace import Trace
from jaxcheck.errors import NothingVerified, UsageError
from jaxcheck.execution.state import State
from jaxcheck.results.diagnosis import Diagnosis, DiagnosisRung, DiagnosisVerdict

SUBFOLDER = "diagnose"
NOTHING = "nothing diverges"
STAGES = len(RUNGS) + 2  # what `climb` is told of: running, each rung, sensitivity
FAIR_RUNGS = frozenset(name for name, _ in RUNGS[:FAIR])


def diagnose(
    question: Question, limits: Limits, repro: Path | None = None, climb: Callable[[str], None] = lambda rung: None
) -> Diagnosis:
    """Where it started. `repro` is a folder for a script of the first equation; `climb` is told of each rung.

    NothingVerified where the case cannot be run; UsageError for a recipe or case that is none.
    """
    clock, started = time.monotonic(), datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    _check_named(question)
    climb("running")
    ends = ends_of(question)
    with State(question.project.folder / "state").scratch() as scratch, Inquiry(ends, scratch, limits) as inquiry:
        rows = climbed(inquiry, climb)
        trace = inquiry.walked if _walked(inquiry) else None
        final = concluded(rows, ends, trace)
        if question.against == "truth" and trace and trace.reason and not ends.leaves:
            raise NothingVerified(
                f"{question.recipe}::{question.case} has no truth to be held against: {trace.reason}",
                hint="give the recipe a `reference:`, or --against golden",
            )
        hanging = hangs_on(inquiry, trace, final, climb)
        trace = trace or Trace()
        saved, remark = save_repro(inquiry, trace, final, repro)
        return Diagnosis(
            jaxcheck=jaxcheck.__version__,
            command=question.conduct.command,
            started=started,
            seconds=time.monotonic() - clock,
            registry=question.project.registry.path,
            recipe=question.recipe,
            case=question.case,
            mode=ends.mode,
            against=question.against,
            verdict=final,
            ladder=tuple(DiagnosisRung(rung=row.rung, status=row.status, finding=row.finding) for row in rows),
            environment=ends.now.environment,
            before=ends.before.environment,
            leaves=ends.leaves,
            steps=trace.telling(),
            scopes=trace.tree(hanging.effects),
            equations=trace.count,
            knobs=tuple(inquiry.knobs),
            compiled=inquiry.read_inside,
            sensitive=hanging.steps,
            partial=trace.partial,
            repro=saved,
            remarks=tuple(filter(None, [hanging.remark, remark])),
        )


def hangs_on(
    inquiry: Inquiry, trace: Trace | None, final: DiagnosisVerdict, climb: Callable[[str], None]
) -> Sensitivity:
    """What the outcome hangs on, where it is wanted, something diverges and the equations were walked."""
    climb("sensitivity")
    if not inquiry.limits.sensitivity or final.kind == "none" or trace is None or trace.reason:
        return Sensitivity()
    return measured(inquiry)


def _check_named(question: Question) -> None:
    registry = question.project.registry
    recipe = registry.recipes.get(question.recipe)
    if recipe is None:
        raise UsageError(f"no recipe {question.recipe!r} in {registry.path}", hint="jaxcheck list")
    if recipe.inputs is None and question.case not in recipe.cases:
        raise UsageError(
            f"recipe {recipe.name} has no case {question.case!r}", hint=f"its cases: {', '.join(recipe.cases)}"
        )


def climbed(inquiry: Inquiry, climb: Callable[[str], None]) -> list[Row]:
    """Every rung; those after the fair ones only where the comparison is fair, and where there is something to find:
    a divergence, or the truth that the walk itself is to tell."""
    rows: list[Row] = []
    worthwhile = inquiry.ends.diverges or inquiry.question.against == "truth"
    for number, (name, rung) in enumerate(RUNGS):
        climb(name)
        unfair = next((row.rung for row in rows if row.verdict is not None and row.decides and number >= FAIR), None)
        if number >= FAIR and not worthwhile:
            rows.append(skipped(name, NOTHING))
        elif unfair in FAIR_RUNGS:
            rows.append(skipped(name, f"{unfair} explains it"))
        else:
            rows += rung(inquiry)
    return rows


def concluded(rows: Sequence[Row], ends: Ends, trace: Trace | None) -> DiagnosisVerdict:
    """The first rung that decides; else the first that could be meant; else that nothing, or nobody, tells."""
    told = [row for row in rows if row.status == "differs" and row.verdict is not None]
    chosen = next((row for row in told if row.decides), None) or next(iter(told), None)
    if chosen is not None and chosen.verdict is not None:
        return chosen.verdict()
    if not ends.diverges:
        return verdict(None, "none", _clean(ends, trace))
    last = f"{sentences.moved(ends.leaves)}: no rung of the ladder tells where it began"
    return verdict(None, "undetermined", last[0].upper() + last[1:])


def _clean(ends: Ends, trace: Trace | None) -> str:
    if ends.question.against == "truth":
        count = trace.count if trace else 0
        worst = next(iter(trace.amplifiers), None) if trace else None
        grown = f"; {sentences.amplifier(worst)}, within tolerance" if worst else ""
        return f"Nothing diverges: each of {count:,} equations is within the bound of its operation{grown}"
    drift = sentences.moved(ends.leaves)
    return f"Nothing diverges from {ends.before.label}" + (f": {drift}" if drift else ", not a bit")


def _walked(inquiry: Inquiry) -> bool:
    """Whether a walk was made: it is not made for saying that there was none."""
    return "walked" in vars(inquiry)
