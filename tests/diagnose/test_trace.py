"""Steps summed up: which of them is the origin, what the scopes carry, and what is worth showing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.diagnose.scopes import labels, place, stage
from jaxcheck.diagnose.trace import KEPT, Trace, excess, step_of
from jaxcheck.results.diagnosis import DiagnosedStep

SAMPLE = [
    {"n": 0, "primitive": "dot_general", "scope": "jvp(forward)", "local": 1.5, "bound": 4.0, "inherited": 0.0},
    {
        "n": 1,
        "primitive": "tanh",
        "scope": "jvp(forward)/cell",
        "path": "scan[3]",
        "iteration": [3],
        "file": "model.py",
        "line": 41,
        "function": "cell",
        "in": ["float32[8]"],
        "out": ["float32[8]"],
        "local": 13642.0,
        "bound": 4.0,
        "inherited": 1e-7,
        "amplification": 1.0,
        "kind": "origin",
        "worst": {"index": [2], "inputs": [0.25], "value": 0.24, "exact": float("nan")},
    },
    {
        "n": 2,
        "primitive": "sub",
        "scope": "loss",
        "local": 0.0,
        "bound": 1.0,
        "inherited": 3e-3,
        "amplification": 3.8e5,
        "kind": "amplifier",
    },
    {"n": 3, "primitive": "mul", "scope": "transpose(jvp(forward))", "local": 0.5, "bound": 1.0, "inherited": 3e-3},
    {"n": 4, "primitive": "pure_callback", "scope": "update", "local": None, "inherited": None, "amplification": None},
]


def trace() -> Trace:
    return Trace.of(map(step_of, SAMPLE))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", ()),
        ("forward", ("forward",)),
        ("jvp(forward)/attention", ("forward", "attention")),
        ("transpose(jvp(forward))/jit(relu)", ("forward",)),
        ("jit(step)/while/body/update", ("update",)),
        ("forward/cond/branch_1_fun/gate", ("forward", "gate")),
        ("vmap(jvp(loss))", ("loss",)),
    ],
)
def test_labels_are_the_users(scope: str, expected: tuple[str, ...]) -> None:
    assert labels(scope) == expected


def test_reverse_pass_is_a_stage_of_its_own() -> None:
    assert stage("transpose(jvp(forward))/cell") == "gradients"
    assert place("transpose(jvp(forward))/cell") == ("gradients", "forward", "cell")
    assert stage("jvp(forward)/cell") == "forward"
    assert stage("jit(f)") == ""


def test_origin_is_the_first_that_weighs() -> None:
    light = {**SAMPLE[0], "n": 0, "local": 4.1, "kind": "origin"}
    heavy = trace().origin
    assert heavy is not None
    assert (heavy.primitive, heavy.iteration, heavy.file, heavy.line) == ("tanh", (3,), "model.py", 41)
    found = Trace.of(map(step_of, [light, *SAMPLE[1:]])).origin
    assert found is not None
    assert found.n == 1, "a step that is hardly beyond its bound does not hide one a thousand times worse"
    both = Trace.of(map(step_of, [{**light, "local": 5000.0}, *SAMPLE[1:]])).origin
    assert both is not None
    assert both.n == 0, "of two that weigh as much, the first"


def test_origin_of_a_stage() -> None:
    assert trace().origin_in("forward") == trace().origin
    assert trace().origin_in("loss") is None
    assert trace().origin_in("gradients") is None


def test_tree_is_in_the_order_of_the_program() -> None:
    tree = trace().tree()
    assert [(one.scope, one.depth) for one in tree] == [
        ("forward", 1),
        ("forward/cell", 2),
        ("loss", 1),
        ("gradients", 1),
        ("gradients/forward", 2),
        ("update", 1),
    ]
    forward, cell, loss, *_ = tree
    assert forward.equations == 2, "a scope has the equations of those inside it"
    assert forward.local == cell.local == 13642.0
    assert forward.kinds == ("origin",)
    assert loss.error == 3e-3
    assert loss.kinds == ("amplifier",)


def test_telling_steps_are_in_order_and_once() -> None:
    steps = trace().telling()
    assert [step.n for step in steps] == sorted({step.n for step in steps})
    assert {1, 2} <= {step.n for step in steps}


def test_values_that_json_has_not() -> None:
    step = step_of({**SAMPLE[1], "local": float("inf"), "inherited": float("nan")})
    assert step.local == step.inherited == sys.float_info.max
    assert step.worst is not None
    assert step.worst["exact"] == "nan"
    assert DiagnosedStep.model_validate_json(step.model_dump_json(by_alias=True)) == step


def test_opaque_step_has_no_error() -> None:
    step = step_of(SAMPLE[4])
    assert (step.local, step.kind, excess(step)) == (0.0, None, 0.0)


def test_reply_of_the_worker(tmp_path: Path) -> None:
    file = tmp_path / "steps.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in SAMPLE))
    reply = {"steps": str(file), "program": {"equations": 5}, "partial": "after 5 equations", "outputs": {".": 3e-3}}
    found = Trace.from_reply(reply)
    assert (found.count, found.partial, found.outputs, found.reason) == (5, "after 5 equations", {".": 3e-3}, "")
    assert Trace.from_reply({"reason": "it died"}).reason == "it died"
    file.write_text("{not json\n")
    assert "cannot be read" in Trace.from_reply(reply).reason
    assert "cannot be read" in Trace.from_reply({**reply, "steps": str(tmp_path / "gone")}).reason


def test_long_programs_keep_what_stands_out() -> None:
    def row(n: int, **more: Any) -> dict[str, Any]:
        return {**SAMPLE[1], "n": n, "local": 100.0, **more}

    many = [row(n) for n in range(1000)] + [row(1000, local=1e6)]
    found = Trace.of(map(step_of, many))
    assert found.count == 1001
    assert len(found.origins) == KEPT + 1
    assert found.origins[-1].n == 1000, "the worst is kept, however late"
