"""Gradients in a golden: beside the outputs, and absent where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxcheck.goldens.golden import Draft, Golden, GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.goldens.text import golden_text
from tests.goldens.samples import case

GRADIENTS = Tree({"dict": {"w": "*"}}, (Leaf.of("['w']", np.arange(3, dtype=np.float32)),))


def written(path: Path, held: GoldenCase) -> Golden:
    Draft.of("r", {"a": held}).write(path)
    return Golden.open(path)


def test_gradients_come_back_as_they_were_written(tmp_path: Path) -> None:
    tolerance = {"grad['w']": {"rtol": 1e-5, "atol": 0.0, "source": "recipes.yaml:3:5"}}
    held = case(gradients=GRADIENTS, tolerance=tolerance)
    with written(tmp_path / "r.npz", held) as golden:
        again = golden.case("a")
        assert again == held
        assert [leaf.path for leaf in again.grad_leaves] == ["grad['w']"]
        assert golden.summary("a").leaf_entries("a", "gradients") == ["a/grad/['w']"]
        assert "  out grad['w']: float32[3]  rtol 1e-05 atol 0.0 (recipes.yaml:3:5)" in list(
            golden_text(golden, ["a"], 50)
        )


def test_a_case_without_gradients_says_nothing_of_them(tmp_path: Path) -> None:
    """Its digest, and that of the golden, is what it was before goldens could hold any."""
    assert "gradients" not in case().meta()
    assert case().grad_leaves == ()
    assert "gradients" in case(gradients=GRADIENTS).meta()
    plain, more = (Draft.of("r", {"a": held}) for held in (case(), case(gradients=GRADIENTS)))
    assert plain.digest != more.digest
    with written(tmp_path / "r.npz", case()) as golden:
        assert golden.case("a").gradients is None
        assert golden.summary("a").entries("a") == ["a/in/x", "a/out/."]
