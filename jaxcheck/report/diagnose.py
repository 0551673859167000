"""A diagnosis as a person reads it: the ladder as a checklist, the scopes with the error growing, and one sentence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from jaxcheck.report import words
from jaxcheck.report.indent import Indented, columns
from jaxcheck.report.safe import line
from jaxcheck.results.diagnosis import DiagnosedScope, DiagnosedStep, Diagnosis, DiagnosisRung

MARKS = {"ok": ("ok", "green"), "differs": ("differs", "bold red"), "skipped": ("-", "dim")}
KIND_STYLES = {"origin": "bold red", "flip": "bold yellow", "amplifier": "yellow"}
KNOB_STYLES = {"cures": "bold green", "keeps": "", "no effect": "dim", "unknown": "dim"}
STEPS_SHOWN = 5
SCOPES_SHOWN = 24
HLO_SHOWN = 12  # lines; a longer computation with -v only
BAR = 16
HEAT = 8
ROOT = "."  # the path of an output that is no tree
SMALLEST, LARGEST = 1e-9, 1.0  # relative errors between which a bar grows


def render(diagnosis: Diagnosis, verbosity: int = 0) -> RenderableType:
    """What to print. `verbosity` -1: the sentence only; 0: one screen; 1: every rung, scope and step there is."""
    sections: list[Iterator[RenderableType]] = []
    if verbosity >= 0:
        sections = [
            _headline(diagnosis),
            _ladder(diagnosis, verbosity),
            _scopes(diagnosis, verbosity),
            _steps(diagnosis, verbosity),
            _sensitive(diagnosis),
            _knobs(diagnosis),
            _compiled(diagnosis, verbosity),
            _remarks(diagnosis),
            _next(diagnosis),
        ]
    parts = [part for part in (list(section) for section in sections) if part]
    return Group(*(Group(*part, Text()) for part in parts), _sentence(diagnosis))


def _headline(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    check = f"{diagnosis.recipe}::{diagnosis.case}[{diagnosis.mode}]"
    words_ = "the golden" if diagnosis.against == "golden" else diagnosis.against
    yield Text.assemble("diagnose ", (line(check), "bold"), f" against {line(words_)}")


def _ladder(diagnosis: Diagnosis, verbosity: int) -> Iterator[RenderableType]:
    """A checklist; neighbours that were skipped for one reason share a line."""
    rows = []
    for run in _runs(diagnosis.ladder, verbosity):
        rung = run[0]
        label, style = MARKS[rung.status]
        decided = diagnosis.verdict.rung in {one.rung for one in run}
        name = rung.rung if len(run) == 1 else f"{rung.rung} … {run[-1].rung}"
        finding = Text(line(rung.finding), "dim" if rung.status == "skipped" else "")
        rows.append((Text(label, style), Text(line(name), "bold" if decided else ""), finding))
    yield Text("ladder", style="bold")
    yield Indented(*columns(rows))


def _runs(ladder: Sequence[DiagnosisRung], verbosity: int) -> list[list[DiagnosisRung]]:
    """Neighbours to be told together."""
    runs: list[list[DiagnosisRung]] = []
    for rung in ladder:
        last = runs[-1][0] if runs else None
        alike = last is not None and (last.status, last.finding) == ("skipped", rung.finding)
        if alike and rung.status == "skipped" and verbosity < 1:
            runs[-1].append(rung)
        else:
            runs.append([rung])
    return runs


def _scopes(diagnosis: Diagnosis, verbosity: int) -> Iterator[RenderableType]:
    """The tree, with what each scope adds by itself and the error that it carries."""
    shown = diagnosis.scopes if verbosity > 0 else diagnosis.scopes[:SCOPES_SHOWN]
    if not shown:
        return
    measured = any(one.effect is not None for one in shown)
    head = ("equations", "own", "error", *(("effect",) if measured else ()))
    numbers = [_scope_numbers(one)[: len(head)] for one in shown]
    widths = [max(map(len, column)) for column in zip(head, *numbers, strict=True)]

    def cells(texts: Sequence[str], heat: Text, style: str = "") -> list[Text]:
        found = [Text(text.rjust(width), style) for text, width in zip(texts, widths, strict=True)]
        return [*found, heat] if measured else found

    rows = [(Text("scopes", "bold"), *cells(head, Text(), "dim"), Text())]
    hottest = max((one.effect for one in shown if one.effect is not None and one.effect < words.INFINITE), default=0.0)
    for scope, texts in zip(shown, numbers, strict=True):
        kinds = Text(" ").join([_bar(scope), *(Text(kind, KIND_STYLES[kind]) for kind in scope.kinds)])
        rows.append((_indented(scope), *cells(texts, _heat(scope, hottest)), kinds))
    yield from columns(rows)
    if len(diagnosis.scopes) > len(shown):
        yield Text(f"and {words.count(len(diagnosis.scopes) - len(shown), 'scope')} more (-v)", style="dim")
    yield Text("own: what one equation errs by itself; error: what came in with the inputs, relative", style="dim")
    if measured:
        yield Text("effect: how far one ULP on one equation moves an output, in eps of that", style="dim")


def _scope_numbers(scope: DiagnosedScope) -> tuple[str, ...]:
    effect = "" if scope.effect is None else words.number(scope.effect)
    return f"{scope.equations:,}", f"{words.number(scope.local)} eps", _error(scope.error), effect


def _indented(scope: DiagnosedScope) -> Text:
    name = scope.scope.rpartition("/")[2]
    return Text("  " * scope.depth + line(name, 60))


def _bounds(value: float) -> str:
    if value >= words.INFINITE:
        return "inf x"
    return f"{value:,.0f} x" if value >= 100 else f"{value:.2g} x"


def _error(value: float) -> str:
    return "inf" if value >= words.INFINITE else f"{value:.1e}" if value else "0"


def _bar(scope: DiagnosedScope) -> Text:
    """As long as the error's logarithm."""
    if scope.error <= SMALLEST:
        return Text("")
    share = math.log(min(scope.error, LARGEST) / SMALLEST) / math.log(LARGEST / SMALLEST)
    return Text("#" * max(1, round(BAR * share)), "red" if scope.error > 1e-3 else "yellow")


def _heat(scope: DiagnosedScope, hottest: float) -> Text:
    """As long as the effect's logarithm, the whole length for the largest one."""
    if not scope.effect:
        return Text("")
    share = 1.0 if scope.effect >= hottest else math.log1p(scope.effect) / math.log1p(hottest)
    return Text("=" * max(1, round(HEAT * share)), "red" if share > 0.75 else "yellow" if share > 0.4 else "green")


def _steps(diagnosis: Diagnosis, verbosity: int) -> Iterator[RenderableType]:
    """The equations that tell most, in the order of the program."""
    steps = diagnosis.steps
    if verbosity < 1:
        telling = sorted(steps, key=lambda step: (step.kind is None, step.kind == "amplifier", step.n))[:STEPS_SHOWN]
        steps = tuple(sorted(telling, key=lambda step: step.n))
    if not steps:
        return
    yield Text.assemble(("equations", "bold"), f" that tell most, of {diagnosis.equations:,}")
    for step in steps:
        title = Text.assemble((line(step.primitive), "bold"), f" {line(_place(step))}")
        if step.kind:
            title.append(f"  {step.kind}", KIND_STYLES[step.kind])
        yield Indented(title)
        for text in _details(step):
            yield Indented(Indented(Text(line(text), style="dim")))


def _place(step: DiagnosedStep) -> str:
    at = f"{PurePath(step.file).name}:{step.line}" if step.file else ""
    turn = f"iteration {', '.join(map(str, step.iteration))}" if step.iteration else ""
    return ", ".join(filter(None, (step.scope, at, turn)))


def _details(step: DiagnosedStep) -> Iterator[str]:
    if step.inputs or step.outputs:
        yield f"{', '.join(step.inputs)} -> {', '.join(step.outputs)}"
    bound = f" (bound {step.bound:.3g})" if step.bound else ""
    grown = f", grown {_bounds(step.amplification)}" if step.amplification > 1 else ""
    yield f"local {words.number(step.local)} eps{bound}, inherited {_error(step.inherited)}{grown}"
    if step.rewritten:
        yield f"rewritten: {step.rewritten}"
    if step.before is not None and step.after is not None:
        yield f"by itself {words.number(step.before)} eps before, {words.number(step.after)} eps now"
    if step.worst:
        yield _worst(step.worst)


def _worst(worst: dict[str, Any]) -> str:
    """`at [3]: 0.25, 1.5 -> 0.375 (exact 0.3750001)`; of two versions `at [3]: old 0.375, new 0.3750001`."""
    others = ", ".join(
        f"{name} {_value(worst[name])}" for name in ("old", "new", "exact") if worst.get(name) is not None
    )
    at = f"at {worst.get('index', '?')}: "
    if "value" not in worst:
        return at + others
    given = ", ".join(_value(value) for value in worst.get("inputs") or ())
    return f"{at}{given} -> {_value(worst['value'])}" + (f" ({others})" if others else "")


def _value(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _sensitive(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """The equations that the outcome hangs on most."""
    if not diagnosis.sensitive:
        return
    yield Text.assemble(("equations", "bold"), " that the outcome hangs on most: what one ULP on their outputs does")
    for step in diagnosis.sensitive:
        yield Indented(Text.assemble((line(step.primitive), "bold"), f" {line(_place(step))}"))
        yield Indented(Indented(Text(_effect(step), style="dim")))


def _effect(step: DiagnosedStep) -> str:
    effect = step.effect or 0.0
    leaf = "the output" if step.leaf in ("", ROOT) else line(step.leaf)
    if effect >= words.INFINITE:
        return f"{leaf}: an integer, a boolean, a NaN or an infinity is another"
    return f"{leaf} moves by {words.number(effect)} eps"


def _compiled(diagnosis: Diagnosis, verbosity: int) -> Iterator[RenderableType]:
    """The first equation that is another inside the compiled function, and what it was fused into."""
    found = diagnosis.compiled
    if found is None:
        return
    at = f"{PurePath(found.file).name}:{found.line}" if found.file else ""
    place = ", ".join(filter(None, (found.scope, at, f"fusion {found.fusion}" if found.fusion else "in no fusion")))
    side = "" if found.side == "now" else f" of {line(found.side)}"
    yield Text.assemble(("inside the compiled function", "bold"), side)
    yield Indented(Text.assemble((line(found.primitive), "bold"), f" {line(place)}"))
    hlo = found.hlo.splitlines()
    if hlo and (verbosity > 0 or len(hlo) <= HLO_SHOWN):
        yield Indented(Indented(*(Text(line(text, 2000), style="dim") for text in hlo)))
    elif hlo:
        yield Indented(Indented(Text(f"HLO of {words.count(len(hlo), 'line')} (-v)", style="dim")))


def _knobs(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if not diagnosis.knobs:
        return
    yield Text("knobs", style="bold")
    rows = []
    for knob in diagnosis.knobs:
        said = knob.finding + (f": {knob.names}" if knob.status == "cures" else "")
        rows.append((Text(knob.status, KNOB_STYLES[knob.status]), Text(line(knob.knob)), Text(line(said), "dim")))
    yield Indented(*columns(rows))


def _remarks(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.partial:
        yield Text(f"partial: {line(diagnosis.partial)}", style="yellow")
    yield from (Text(line(text), style="dim") for text in diagnosis.remarks)


def _next(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """The commands to type next."""
    commands = next_commands(diagnosis)
    if commands:
        yield Text("next", style="bold")
        for command in commands:
            text = Text(line(command), style="cyan")
            text.no_wrap, text.overflow = True, "ignore"
            yield Indented(text)


def next_commands(diagnosis: Diagnosis) -> list[str]:
    """Look at the equation by itself; ask another question where this one has no answer."""
    kind, name = diagnosis.verdict.kind, shlex.quote(f"{diagnosis.recipe}::{diagnosis.case}")
    same = f"jaxcheck diagnose {name} --against {shlex.quote(diagnosis.against)}"
    if diagnosis.repro:
        return [f"python {shlex.quote(diagnosis.repro)}"]
    if kind in ("origin", "amplifier", "flip"):
        return [f"{same} --save-repro repro"]
    if kind in ("data", "program", "undetermined", "cause") and diagnosis.against == "golden":
        return [f"jaxcheck diagnose {name} --against truth", f"jaxcheck diff {name}"]
    return []


def _sentence(diagnosis: Diagnosis) -> Text:
    verdict = diagnosis.verdict
    style = "bold green" if verdict.kind == "none" else "bold"
    return Text(f"{line(verdict.sentence, 2000)} ({words.seconds(diagnosis.seconds)})", style=style)
