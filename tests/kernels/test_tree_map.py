from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import tree_map as kernels

pytestmark = pytest.mark.needs_jax


def nested(step=0):
    return {
        "encoder": {"w": np.arange(6, dtype=np.float32).reshape(2, 3) + step, "b": np.zeros(3, np.float32)},
        "heads": ({"w": np.ones((3, 1), np.float32)}, [np.float32(step)]),
        "steps": np.int32(7),
        "unused": None,
    }


@pytest.mark.parametrize(
    ("params", "updates", "count"),
    [
        ({"w": np.float32([1, 2]), "b": np.float32(0.5)}, {"w": np.float32([0.1, 0.2]), "b": np.float32(1)}, 2),
        (nested(), nested(1), 5),
        (np.float32(1.5), np.float32(0.25), 1),
        ({"w": np.zeros((0, 3), np.float32)}, {"w": np.zeros((0, 3), np.float32)}, 1),
    ],
    ids=["flat", "nested", "single", "empty-leaf"],
)
def test_tree_is_rebuilt_and_updated_leaf_by_leaf(call, agree, params, updates, count):
    found = call(kernels.update_tree, params=params, updates=updates)
    assert len(found["leaves"]) == count
    agree(found, kernels.update_tree_reference(params, updates), 1.2e-7, 0)
    kernels.tree_survives({"params": params, "updates": updates}, found)


@pytest.mark.parametrize(
    ("params", "updates", "message"),
    [
        ({"w": [1.0], "b": 0.0}, {"w": [1.0]}, "different numbers of pytree children"),
        ({"w": 1.0, "b": 0.0}, {"w": 1.0, "c": 0.0}, "different pytree metadata"),
        ({"w": (1.0, 2.0)}, {"w": [1.0, 2.0]}, "different types"),
        ({"w": np.ones(2, np.float32)}, {"w": 1.0}, r"an update of shape \(\) for a parameter of shape \(2,\)"),
    ],
)
def test_incompatible_tree_raises(call, params, updates, message):
    with pytest.raises(ValueError, match=message):
        call(kernels.update_tree, params=params, updates=updates)


def test_too_few_leaves_raise(call):
    with pytest.raises(ValueError, match=r"Too few leaves.*expected 2, got 1"):
        call(kernels.rebuild_without_last_leaf, params={"w": 1.0, "b": 0.0})


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        ("leaves", [], "0 leaves of 1"),
        ("rebuilt", {"w": np.float32([1, 3])}, "rebuilding turned"),
        ("rebuilt", {"v": np.float32([1, 2])}, "rebuilt has the structure"),
        ("updated", {"w": np.float64([2, 3])}, r"updated\['w'\] is float64\[2\], expected float32\[2\]"),
        ("updated", {"w": np.float32([[2, 3]])}, r"updated\['w'\] is float32\[1, 2\]"),
    ],
)
def test_tree_property_fails(part, wrong, message):
    params = {"w": np.float32([1, 2])}
    found = {"leaves": [params["w"]], "rebuilt": params, "updated": {"w": params["w"] + 1}}
    kernels.tree_survives({"params": params}, found)
    with pytest.raises(AssertionError, match=message):
        kernels.tree_survives({"params": params}, {**found, part: wrong})
