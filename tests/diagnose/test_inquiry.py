"""Which side is read inside its compiled function, and within which time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jaxcheck.diagnose.inquiry import GRACE, TIME_UP, Inquiry, Limits
from jaxcheck.results.diagnosis import DiagnosedFusion

FIRST = {
    "primitive": "sub",
    "scope": "loss",
    "file": "model.py",
    "line": 3,
    "fusion": "fused",
    "hlo": "%fused",
    "error": 2.0,
    "stable": True,
    "confirmed": True,
    "position": "4",
    "in": [],
    "out": [],
}


class Compared(Inquiry):
    """Outputs are numbers here; `asked` notes what a side was asked."""

    def __init__(self, sides: dict[str, dict[str, Any]], of_versions: bool, limits: Limits = Limits()) -> None:  # noqa: B008
        end = lambda name: SimpleNamespace(label=name, outputs=sides[name], stored=None)  # noqa: E731
        question = SimpleNamespace(of_versions=of_versions, case="one", conduct=SimpleNamespace(say=print, timeout=7.0))
        ends: Any = SimpleNamespace(question=question, recipe=None, mode="jit", before=end("old"), now=end("new"))
        super().__init__(ends, Path(), limits)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.__dict__ |= {"now": self._asker("new"), "before": self._asker("old")}

    def _asker(self, name: str) -> Any:
        def of_case(op: str, case: str, **request: Any) -> dict[str, Any]:
            self.asked.append((name, {"op": op, **request}))
            return {"apart": True, "repeatable": True, "first": FIRST, "perturbed": 1, "partial": None}

        return SimpleNamespace(of_case=of_case)

    def compare(self, expected: Any, actual: Any, against: str) -> Any:
        leaf = {"moved": expected != actual, "nonfinite": 0, "reason": None, "path": ".", "max_ulp": 1.0}
        return (SimpleNamespace(**leaf),)


@pytest.mark.parametrize(
    ("old", "new", "of_versions", "side"),
    [
        ({"eager": 1, "jit": 2}, {"eager": 1, "jit": 3}, True, "new"),
        ({"eager": 1, "jit": 2}, {"eager": 1, "jit": 1}, True, "old"),
        ({"eager": 1, "jit": 2}, {"eager": 1, "jit": 1}, False, None),
        ({"eager": 1, "jit": 1}, {"eager": 1, "jit": 1}, True, None),
        ({"eager": 1, "jit": 1}, {"jit": 1}, True, None),
    ],
)
def test_side_whose_compiled_call_differs(
    old: dict[str, int], new: dict[str, int], of_versions: bool, side: str | None
) -> None:
    inquiry = Compared({"old": old, "new": new}, of_versions)
    found = inquiry.compiled
    assert [name for name, _ in inquiry.asked] == ([side] if side else [])
    if side is None:
        assert found == "the compiled and the plain call do not differ"
        assert inquiry.read_inside is None
        return
    assert isinstance(found, DiagnosedFusion)
    assert inquiry.read_inside == found
    assert (found.side, found.primitive, found.fusion, found.perturbed) == (side, "sub", "fused", 1)
    assert inquiry.asked[0][1] == {
        "op": "inside",
        "mode": "jit",
        "stored": None,
        "seconds": 7.0,
        "timeout": 7.0 + GRACE,
    }


def test_no_time_is_left_for_reading() -> None:
    apart = {"eager": 1, "jit": 2}
    inquiry = Compared({"old": apart, "new": apart}, False, Limits(seconds=0.0))
    assert (inquiry.compiled, inquiry.asked) == (TIME_UP, [])
