"""What a diagnosis looks like in a terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from jaxcheck.diagnose.trace import Trace, step_of
from jaxcheck.errors import Exit
from jaxcheck.report.diagnose import next_commands, render
from jaxcheck.results import (
    DiagnosedKnob,
    Diagnosis,
    DiagnosisRung,
    DiagnosisVerdict,
    diagnosis_exit_code,
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
    assert diagnosis_exit_code(diagnosis()) is Exit.FAILED
    assert diagnosis_exit_code(diagnosis(verdict=VERDICT.model_copy(update={"kind": "none"}))) is Exit.PASSED


def test_json_holds_all_of_it() -> None:
    text = diagnosis().to_json()
    assert Diagnosis.from_json(text) == diagnosis()
    held = json.loads(text)
    assert {"rung", "kind", "primitive", "scope", "iteration", "file", "line", "sentence"} == set(held["verdict"])
    assert {"rung", "status", "finding"} == set(held["ladder"][0])
    assert held["steps"][0]["in"] == ["float32[8]"]
