"""One package at a time: what that says of causes, on saved runs made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jaxcheck.errors import Unavailable
from jaxcheck.execution.saved import SavedCase, SavedRun, Saving
from jaxcheck.gate.isolation import isolate
from jaxcheck.gate.streams import streams_apart
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import Position, Recipe
from jaxcheck.results import CheckResult, LeafResult, Run, Status, ToleranceUsed

REQUIREMENTS = {"jax": "jax==2", "optax": "optax==2"}
RECIPE = Recipe(name="r", kernel="k:k", position=Position("recipes.yaml", 1, 1))


def leaf_result(path: str, cause: str, moved: bool = True) -> LeafResult:
    return LeafResult.model_validate(
        {
            "path": path,
            "dtype": "float32",
            "shape": (),
            "tolerance": ToleranceUsed(rtol=0, atol=0, source="here"),
            "size": 1,
            "bit_equal": 0 if moved else 1,
            "mismatched": 0,
            "nonfinite": 0,
            "violation_ratio": 0.1,
            "max_abs": 0.1,
            "max_rel": 0.1,
            "max_ulp": 1.0,
            "cause": cause,
            "because": "the controls say so",
        }
    )


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., SavedRun]:
    """A saved run of one check whose leaves have these values."""

    def saved(name: str, **values: float) -> SavedRun:
        leaves = tuple(Leaf.of(path, np.float32(value)) for path, value in values.items())
        tree = Tree({"dict": dict.fromkeys(values, "*")}, leaves)
        saving = Saving(tmp_path / name)
        saving.keep(RECIPE, {"c": SavedCase({"jit": tree})}, {})
        return saving.finish(Run(jaxcheck="1"))

    return saved


def result(*leaves: LeafResult) -> CheckResult:
    return CheckResult(id="r::c[jit]", recipe="r", case="c", mode="jit", status=Status.PASS, leaves=leaves)


def test_each_leaf_is_told_by_the_package_that_moves_it_alone(save: Callable[..., SavedRun]) -> None:
    alone = {
        "jax==2": save("jax", a=1, b=0, c=1, d=0, e=1),
        "optax==2": save("optax", a=0, b=1, c=1, d=0, e=0),
    }
    leaves = (
        leaf_result("a", "xla"),
        leaf_result("b", "undetermined"),
        leaf_result("c", "both"),
        leaf_result("d", "both"),
        leaf_result("e", "package"),
        leaf_result("same", "jax", moved=False),
    )
    candidate = save("candidate", a=1, b=1, c=1, d=1, e=1)
    (told,), remarks = isolate([result(*leaves)], candidate, REQUIREMENTS, lambda text, _: alone[text])
    assert remarks == []
    found = {leaf.path: (leaf.cause, leaf.package, leaf.because) for leaf in told.leaves}
    assert found == {
        "a": ("xla", None, "the controls say so; with only jax moved, it has the candidate's bits"),
        "b": ("package", "optax", "with only optax moved, it has the candidate's bits"),
        "c": ("both", None, "the controls say so; jax and optax each give the candidate's bits"),
        "d": ("both", None, "the controls say so; none of jax, optax alone gives the candidate's bits"),
        "e": ("undetermined", None, "with only jax moved, it has the candidate's bits"),
        "same": ("jax", None, "the controls say so"),
    }


def test_what_cannot_be_installed_alone_is_told(save: Callable[..., SavedRun]) -> None:
    def run(requirement: str, checks: tuple[str, ...]) -> SavedRun:
        assert checks == ("r::c[jit]",)
        if requirement == "jax==2":
            raise Unavailable("jax==2 cannot be installed\nbecause")
        return save("optax", a=1)

    (told,), remarks = isolate([result(leaf_result("a", "both"))], save("candidate", a=1), REQUIREMENTS, run)
    assert told.leaves[0].package == "optax"
    assert remarks == ["jax alone could not be tried: jax==2 cannot be installed"]


def test_there_must_be_something_to_isolate(save: Callable[..., SavedRun]) -> None:
    def run(requirement: str, checks: tuple[str, ...]) -> SavedRun:
        raise AssertionError("nothing is to be run")

    moved = [result(leaf_result("a", "jax"))]
    candidate = save("candidate", a=1)
    assert isolate(moved, candidate, {"jax": "jax==2"}, run) == (
        moved,
        ["--isolate moves one package at a time: only one was asked for"],
    )
    still = [result(leaf_result("a", "jax", moved=False))]
    assert isolate(still, candidate, REQUIREMENTS, run) == (still, [])


def test_random_streams_raw_bits_first() -> None:
    same = {"raw bits": "1", "normal": "2", "uniform": "3"}
    assert streams_apart(same, same) == ""
    assert streams_apart(same, {}) == ""
    assert "every random draw is another" in streams_apart(same, {**same, "raw bits": "9", "normal": "8"})
    assert streams_apart(same, {**same, "normal": "8"}) == (
        "the PRNG's raw bits are the same, and normal give other numbers from them"
    )
