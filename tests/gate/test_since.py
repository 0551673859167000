"""`since` in a gate's results: what a bisection found, put to the leaves that moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.errors import Unavailable
from jaxcheck.gate import bisect as bisecting
from jaxcheck.gate.bisect import How, find_since, since_text
from jaxcheck.gate.gate import Conduct
from jaxcheck.gate.laboratory import Axis
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult
from jaxcheck.results.bisection import BisectAnswer, Bisection
from jaxcheck.results.gate import PackageChange
from tests.gate.test_standing import leaf, result

RESULTS = [
    result(leaves=(leaf("drifted"), leaf("unchanged", "['same']"))),
    result(leaves=(leaf("unchanged"),)).model_copy(update={"id": "g::a[jit]"}),
]


def answer(
    state: str = "found", path: str = "['y']", kind: str = "moved", skipped: tuple[str, ...] = ()
) -> BisectAnswer:
    fields = {"check": "f::a[jit]", "path": path, "kind": kind, "before": "same", "after": "moved", "state": state}
    return BisectAnswer.model_validate({**fields, "last_good": "1.0", "first_bad": "1.3", "skipped": skipped})


def fake(monkeypatch: pytest.MonkeyPatch, *answers: BisectAnswer, error: str = "") -> list[tuple[Axis, Selection]]:
    """Bisections that find these answers; the list is what was asked for."""
    asked: list[tuple[Axis, Selection]] = []

    def bisect(project: object, selection: Selection, axis: Axis, predicate: str, *_: object) -> Bisection:
        asked.append((axis, selection))
        assert predicate == "moved"
        if error:
            raise Unavailable(error)
        fields = {"package": axis.package, "predicate": "moved", "good": axis.good, "bad": axis.bad}
        return Bisection.model_validate({"jaxcheck": "1", **fields, "answers": answers, "remarks": ("a remark",)})

    monkeypatch.setattr(bisecting, "bisect", bisect)
    return asked


@pytest.fixture
def find(tmp_path: Path) -> Callable[..., tuple[list[CheckResult], list[str]]]:
    project: Any = None
    return lambda packages, others=(): find_since(project, RESULTS, packages, others, Conduct(), How(tmp_path))


JAX = PackageChange(name="jax", before="0.11.2", after="0.12.0.1", asked=True)
JAXLIB = PackageChange(name="jaxlib", before="0.11.2", after="0.12.0.1")
OPTAX = PackageChange(name="optax", before="0.2.6", after="0.2.8", asked=True)


def test_the_leaf_that_moved_has_it_and_no_other(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    asked = fake(monkeypatch, answer(), answer(path="['same']"))
    results, remarks = find([JAX, JAXLIB], ["optax==0.2.6", "jax==0.11.2"])
    assert [one.since for one in results[0].leaves] == ["jax 1.3", None]
    assert results[1] == RESULTS[1]
    assert remarks == ["a remark"]
    ((axis, selection),) = asked  # jaxlib only followed
    assert (axis.package, axis.good, axis.bad, axis.others) == ("jax", "0.11.2", "0.12.0.1", ("optax==0.2.6",))
    assert selection.last_failed_ids == {"f::a[jit]"}


def test_several_packages_are_searched_each_alone(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    asked = fake(monkeypatch, answer())
    results, _ = find([JAX, OPTAX])
    assert [axis.package for axis, _ in asked] == ["jax", "optax"]
    assert results[0].leaves[0].since == "jax 1.3, optax 1.3"


def test_what_cannot_be_searched_is_a_remark(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    fake(monkeypatch, error="no network")
    results, remarks = find([JAX])
    assert results == RESULTS
    assert remarks == ["since when jax moved it is not known: no network"]


def test_nothing_is_searched_where_nothing_was_asked_for(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    asked = fake(monkeypatch, answer())
    gone = PackageChange(name="optax", before="0.2.6", after=None, asked=True)
    assert find([JAXLIB, gone]) == (RESULTS, [])
    assert asked == []


def test_by_the_golden_is_no_move_of_a_leaf(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    fake(monkeypatch, answer(kind="golden"))
    assert find([JAX])[0] == RESULTS


def test_in_words() -> None:
    assert since_text("jax", answer()) == "jax 1.3"
    assert since_text("jax", answer("range", skipped=("1.1", "1.2"))) == "jax 1.1 to 1.3"
    assert since_text("jax", answer("unstable")) == ""
