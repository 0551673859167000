"""Deprecation warnings of real kernels: a note by default, a failure where that is asked for."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
from packaging.version import Version

from tests.harness import Project, by_id

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.timeout(400)]

JAX = Version(importlib.metadata.version("jax"))
KERNELS = """
import warnings

import jax.numpy as jnp
import numpy as np


def real_part(z):
    return (z * 2).astype(jnp.float32)

def into_integers(x):
    return jnp.zeros(2, jnp.int32).at[0].set(x)

def matrix(x):
    return x * np.asarray(np.matrix([2.0]), np.float32)[0, 0]

def turn(a, b):
    return jnp.cross(a, b)

def chatty(x):
    warnings.warn("nothing that ends", UserWarning)
    return x + 1

def quiet(x):
    return x + 1

def old_reference(x):
    warnings.warn("the reference is old", DeprecationWarning)
    return x + 1

def refuses(x):
    warnings.warn("old and wrong", DeprecationWarning)
    raise TypeError("no such thing")

def numbers():
    return {"one": {"z": np.array([1 + 2j], np.complex64)}}
"""
RECIPES = """
recipes:
  real-part: {kernel: "kernels:real_part", inputs: "kernels:numbers"}
  into-integers: {kernel: "kernels:into_integers", cases: {one: {args: {x: 1.5}}}}
  matrix: {kernel: "kernels:matrix", cases: {one: {args: {x: 1.5}}}}
  turn: {kernel: "kernels:turn", when: {jax: ">=0.11,<0.12"}, cases: {one: {args: {a: [1.0, 2.0], b: [3.0, 1.0]}}}}
  chatty: {kernel: "kernels:chatty", cases: {one: {args: {x: 1.5}}}}
  old-reference: {kernel: "kernels:quiet", reference: "kernels:old_reference", cases: {one: {args: {x: 1.5}}}}
  refuses: {kernel: "kernels:refuses", cases: {one: {args: {x: 1.5}, raises: TypeError}}}
  tolerant: {kernel: "kernels:into_integers", deprecations: note, cases: {one: {args: {x: 1.5}}}}
"""
DEFAULTS = "version: 1\ndefaults: {tolerance: {rtol: 1e-6, atol: 0}%s}"
WARNS = {
    "real-part": ("DeprecationWarning", "kernels.py:9", "Casting from complex to real dtypes"),
    "into-integers": ("FutureWarning", "kernels.py:12", "scatter inputs have incompatible types"),
    "matrix": ("PendingDeprecationWarning", "kernels.py:15", "the matrix subclass"),
    "refuses": ("DeprecationWarning", "kernels.py:32", "old and wrong"),
}
if Version("0.11") <= JAX < Version("0.12"):
    WARNS["turn"] = (
        "DeprecationWarning",
        "kernels.py:18",
        "Support for 2-dimensional vectors in jnp.cross is deprecated",
    )


@pytest.fixture(scope="module")
def blessed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Blessed under the default, which only notes."""
    project = Project(tmp_path_factory.mktemp("deprecations"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", DEFAULTS % "" + RECIPES)
    project.bless("--no-truth")
    return project


def under(project: Project, defaults: str, *args: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    project.write("recipes.yaml", DEFAULTS % defaults + RECIPES)
    done, report = project.run(*args, **environment)
    return done.code, by_id(report)


def failed(results: dict[str, dict[str, Any]]) -> set[str]:
    return {result["recipe"] for result in results.values() if result["status"] not in ("pass", "skip")}


def test_by_default_a_deprecation_is_noted(blessed: Project) -> None:
    code, results = under(blessed, "")
    assert (code, failed(results)) == (0, set())
    for recipe, (category, _, words) in WARNS.items():
        warned = [
            (warning["category"], words in warning["message"])
            for warning in results[f"{recipe}::one[eager]"]["warnings"]
        ]
        assert (category, True) in warned
    assert not any(result["findings"] for result in results.values())


def test_an_option_makes_each_a_failure(blessed: Project) -> None:
    """And changes nothing else: no golden is stale, and what is no deprecation passes."""
    code, results = under(blessed, "", "--deprecations", "error")
    assert code == 1
    assert failed(results) == {*WARNS, "tolerant"}
    for recipe, (category, place, words) in WARNS.items():
        # jnp.cross is jitted in itself: its trace of the plain call is used again, and warns no more.
        for mode in ("eager",) if recipe == "turn" else ("eager", "jit"):
            result = results[f"{recipe}::one[{mode}]"]
            assert result["status"] == "fail"
            (message,) = [finding["message"] for finding in result["findings"] if finding["kind"] == "deprecation"]
            assert message.startswith(f"{category} at {place}: ")
            assert words in message
            assert message in result["reason"]


def test_a_variable_does_the_same(blessed: Project) -> None:
    code, results = under(blessed, "", JAXCHECK_DEPRECATIONS="error")
    assert (code, failed(results)) == (1, {*WARNS, "tolerant"})


def test_the_registry_says_it_and_a_recipe_says_otherwise(blessed: Project) -> None:
    code, results = under(blessed, ", deprecations: error")
    assert (code, failed(results)) == (1, set(WARNS))


def test_the_option_wins_over_the_registry(blessed: Project) -> None:
    code, results = under(blessed, ", deprecations: error", "--deprecations", "note")
    assert (code, failed(results)) == (0, set())


def test_a_blessing_is_held_back(blessed: Project) -> None:
    blessed.write("recipes.yaml", DEFAULTS % ", deprecations: error" + RECIPES)
    before = blessed.files()
    refused = blessed.jaxcheck("bless", "into-integers", "--all", "--reason", "x", "--no-truth")
    assert refused.code == 1
    assert (
        "refused into-integers::one: the kernel uses what a later release removes: eager: FutureWarning" in refused.err
    )
    assert "--allow deprecation" in refused.err
    insisted = blessed.jaxcheck(
        "bless", "into-integers", "--all", "--allow", "deprecation", "--reason", "x", "--no-truth"
    )
    assert insisted.code == 0
    assert "blessed into-integers::one" in insisted.out
    assert blessed.files() == before, "the same bits: the golden is as it was"


def test_another_word_is_a_fault_with_its_place(blessed: Project) -> None:
    blessed.write("recipes.yaml", DEFAULTS % ", deprecations: fail" + RECIPES)
    done = blessed.jaxcheck("check", "--static")
    assert done.code == 2
    assert "recipes.yaml:2:" in done.err
    assert "'note' or 'error'" in done.err
    option = blessed.jaxcheck("run", "--deprecations", "fail")
    assert option.code == 2
    assert "'fail' is not one of 'note', 'error'" in " ".join(option.err.replace("│", "").split())
