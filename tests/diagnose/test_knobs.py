"""Knobs: believed where they do something, and what their cures name."""

from __future__ import annotations

import pytest

from jaxcheck.diagnose.knobs import CLASSES, FLAGS, KNOBS, Knob, class_of, for_backend, try_knob
from jaxcheck.execution.process import Needs
from jaxcheck.results.diagnosis import DiagnosedKnob

KNOB = Knob("no fusion", "fusion", ("program",), flags="--xla_disable_hlo_passes=fusion")
PLAIN = {"program": "a", "contraction": "b"}


@pytest.mark.parametrize(
    ("probed", "still", "status"),
    [
        ({"program": "c"}, False, "cures"),
        ({"program": "c"}, True, "keeps"),
        ({"program": "c"}, "it died", "unknown"),
        ("it did not start", False, "unknown"),
        ({"program": "a", "contraction": "c"}, False, "no effect"),
    ],
)
def test_status(probed: dict[str, str] | str, still: bool | str, status: str) -> None:
    found = try_knob(KNOB, PLAIN, probed, lambda: still)
    assert (found.knob, found.status, found.names) == ("no fusion", status, "fusion")
    assert found.finding


def test_knob_without_effect_is_not_tried() -> None:
    def trial() -> bool:
        raise AssertionError("it was tried")

    assert try_knob(KNOB, PLAIN, PLAIN, trial).status == "no effect"


def test_flags_are_added_to_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, "--xla_a=1")
    assert dict(KNOB.needs(Needs()).env)[FLAGS] == "--xla_a=1 --xla_disable_hlo_passes=fusion"
    own = KNOB.needs(Needs(env=((FLAGS, "--xla_b=2"),), x64=True))
    assert dict(own.env)[FLAGS] == "--xla_b=2 --xla_disable_hlo_passes=fusion"
    assert own.x64
    assert Knob("one core", "threads", ("cores",), cores=1).needs(Needs()).cores == 1


def test_most_particular_class_is_named() -> None:
    def cured(*names: str) -> list[DiagnosedKnob]:
        return [DiagnosedKnob(knob=name, status="cures", finding="", names=name) for name in names]

    assert class_of(cured("fusion", "FMA contraction")) == "FMA contraction"
    assert class_of(cured("fusion")) == "fusion"
    assert class_of([DiagnosedKnob(knob="x", status="keeps", finding="", names="fusion")]) == ""


def test_every_knob_names_a_class_and_a_probe() -> None:
    assert {knob.names for knob in KNOBS} == set(CLASSES)
    assert all(knob.probes and (knob.flags or knob.env or knob.cores) for knob in KNOBS)
    assert {"no FMA", "one core"} <= {knob.name for knob in for_backend("cpu")}
    assert "no FMA" not in {knob.name for knob in for_backend("gpu")}
