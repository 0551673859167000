"""What a diagnosis looks like in a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.compiled import fusion_of
from jaxcheck.diagnose.sensitivity import Sensitivity
from jaxcheck.diagnose.trace import Trace, step_of
from jaxcheck.errors import Exit
from jaxcheck.report.diagnose import next_commands, render
from jaxcheck.results.diagnosis import (
    DiagnosedFusion,
    DiagnosedKnob,
    Diagnosis,
    DiagnosisRung,
    DiagnosisVerdict,
)
from tests.diagnose.test_trace import SAMPLE

TRACE = Trace.of(map(step_of, SAMPLE))
VERDICT = DiagnosisVerdict(
    rung="forward",
    kind="origin",
    primitive="tanh",
    scope="jvp(forward)/cell",
    iteration=(3,),
    file="model.py",
    line=41,
    sentence="`tanh` in `forward/cell` (model.py:41), iteration 3 computes something else",
)


def diagnosis(**more: object) -> Diagnosis:
    held = Diagnosis(
        jaxcheck="0",
        recipe="net",
        case="one",
        mode="jit",
        against="golden",
        verdict=VERDICT,
        ladder=(
            DiagnosisRung(rung="data", status="ok", finding="2 arrays, the same bits on both sides"),
            DiagnosisRung(rung="forward", status="differs", finding="`tanh` is wrong " + "and wrong again " * 12),
            DiagnosisRung(rung="loss", status="skipped", finding="no walk"),
            DiagnosisRung(rung="gradients", status="skipped", finding="no walk"),
            DiagnosisRung(rung="update", status="skipped", finding="no walk"),
            DiagnosisRung(rung="vmap", status="skipped", finding="not run"),
        ),
        steps=TRACE.telling(),
        scopes=TRACE.tree(),
        equations=TRACE.count,
        knobs=(DiagnosedKnob(knob="no fusion", status="cures", finding="it is gone", names="fusion"),),
    )
    return held.model_copy(update=more)


def shown(found: Diagnosis, verbosity: int = 0, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render(found, verbosity))
    return out.getvalue()


def test_one_screen() -> None:
    text = shown(diagnosis())
    lines = text.splitlines()
    assert lines[0] == "diagnose net::one[jit] against the golden"
    assert "  -        loss … update  no walk" in lines, "neighbours that were skipped for one reason share a line"
    assert any(line.startswith("    cell ") and "13,642 eps" in line and line.endswith("origin") for line in lines)
    assert any("at [2]: 0.25 -> 0.24 (exact nan)" in line for line in lines)
    assert "tanh jvp(forward)/cell, model.py:41, iteration 3" in text
    assert "cures  no fusion  it is gone: fusion" in text
    assert text.strip().endswith("(0.00 s)")
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(map(len, lines)) <= 100


FUSION = DiagnosedFusion(
    side="now",
    primitive="exp",
    scope="forward",
    file="model.py",
    line=41,
    fusion="fused_computation.2",
    hlo="%fused_computation.2 (p: f32[3]) -> f32[3] {\n  ROOT %exp = f32[3] exponential(%p)\n}",
    error=float("inf"),
    stable=False,
    confirmed=True,
    repeatable=False,
    perturbed=2,
)


def test_inside_the_compiled_function() -> None:
    text = shown(diagnosis(compiled=FUSION))
    assert "inside the compiled function\n  exp forward, model.py:41, fusion fused_computation.2" in text
    assert "ROOT %exp" in text
    long = FUSION.model_copy(update={"hlo": "\n".join(f"%line.{n}" for n in range(40))})
    assert "%line.3" not in shown(diagnosis(compiled=long))
    assert "HLO of 40 lines (-v)" in shown(diagnosis(compiled=long))
    assert "%line.39" in shown(diagnosis(compiled=long), 1)
    assert "of jax==1" in shown(diagnosis(compiled=FUSION.model_copy(update={"side": "jax==1"})))


def test_sentence_about_the_readings() -> None:
    assert sentences.inside(FUSION) == (
        "first at `exp` in `forward` (model.py:41), inside fusion `fused_computation.2` "
        "(NaN, infinity or an integer disagrees)"
    )
    assert sentences.readings(FUSION) == (
        "confirmed: what is before it is right, every call gives other values, "
        "2 readings were left out: to read there changes the outputs"
    )
    doubtful = FUSION.model_copy(update={"confirmed": False, "repeatable": True, "perturbed": 0})
    assert sentences.readings(doubtful) == (
        "not confirmed: what is before it cannot be read, read twice, it gave two values"
    )


def test_heat_of_the_scopes() -> None:
    """Effects are summed by the scopes of the tree; where none was measured there is no column."""
    plain = shown(diagnosis())
    assert "effect" not in plain
    rows = [
        {**SAMPLE[1], "effect": float("inf"), "leaf": "['y']", "position": "3"},
        {**SAMPLE[1], "n": 7, "effect": float("inf"), "leaf": "['y']", "position": "3"},
        {**SAMPLE[2], "effect": 1200.5, "leaf": ".", "position": "4"},
        {**SAMPLE[3], "effect": 0.0, "leaf": "", "position": "5"},
    ]
    scopes = {"jvp(forward)/cell": float("inf"), "jvp(forward)": 3.0, "loss": 1200.5, "transpose(jvp(forward))": 0.0}
    found = Sensitivity.from_reply({"scopes": scopes, "largest": rows, "partial": "after 4 equations"})
    assert (len(found.steps), found.remark) == (2, "sensitivity: partial: after 4 equations")
    tree = TRACE.tree(found.effects)
    assert [(one.scope, one.effect) for one in tree] == [
        ("forward", sys.float_info.max),
        ("forward/cell", sys.float_info.max),
        ("loss", 1200.5),
        ("gradients", 0.0),
        ("gradients/forward", 0.0),
        ("update", None),
    ]
    text = shown(diagnosis(scopes=tree, sensitive=found.steps, remarks=(found.remark,)))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("  loss") and "1,200  ========" in line for line in lines), text
    assert "['y']: an integer, a boolean, a NaN or an infinity is another" in text
    assert "  sub loss\n    the output moves by 1,200 eps" in text
    assert "sensitivity: partial: after 4 equations" in text


def test_sensitivity_that_is_not_known() -> None:
    found = Sensitivity.from_reply({"reason": "it died"})
    assert (found.effects, found.steps, found.remark) == ({}, (), "sensitivity: not measured: it died")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"reason": "NotCarriedError: no"}, "NotCarriedError: no"),
        ({"apart": False}, "it is the plain call that differs from them"),
        ({"apart": True, "first": None, "perturbed": 1, "partial": None}, "1 reading was left out"),
        ({"apart": True, "first": None, "perturbed": 0, "partial": "after 3 s"}, "partial: after 3 s"),
    ],
)
def test_nothing_found_inside_the_compiled_function(reply: dict[str, object], said: str) -> None:
    found = fusion_of(reply, "now")
    assert isinstance(found, str)
    assert said in found


def test_wrapped_findings_stay_in_their_column() -> None:
    lines = shown(diagnosis(), width=60).splitlines()
    first = next(n for n, line in enumerate(lines) if "differs" in line)
    column = lines[first].index("`tanh`")
    assert lines[first + 1].startswith(" " * column + "and wrong"), lines[first + 1]


def test_verbosity() -> None:
    assert shown(diagnosis(), -1).strip() == f"{VERDICT.sentence} (0.00 s)"
    assert "loss … update" not in shown(diagnosis(), 1)


def test_names_cannot_write_to_the_terminal() -> None:
    nasty = diagnosis(recipe="a\x1b[31m", ladder=(DiagnosisRung(rung="x\n", status="ok", finding="\u202e"),))
    text = shown(nasty)
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ({}, "jaxcheck diagnose net::one --against golden --save-repro repro"),
        ({"repro": "r/repro.py"}, "python r/repro.py"),
        ({"verdict": VERDICT.model_copy(update={"kind": "data"})}, "jaxcheck diagnose net::one --against truth"),
    ],
)
def test_next_command(more: dict[str, object], command: str) -> None:
    assert next_commands(diagnosis(**more))[0] == command


def test_exit_code() -> None:
    assert diagnosis().exit_code() is Exit.FAILED
    assert diagnosis(verdict=VERDICT.model_copy(update={"kind": "none"})).exit_code() is Exit.PASSED


def test_json_holds_all_of_it() -> None:
    text = diagnosis().to_json()
    assert Diagnosis.from_json(text) == diagnosis()
    held = json.loads(text)
    assert {"rung", "kind", "primitive", "scope", "iteration", "file", "line", "sentence"} == set(held["verdict"])
    assert {"rung", "status", "finding"} == set(held["ladder"][0])
    assert held["steps"][0]["in"] == ["float32[8]"]
