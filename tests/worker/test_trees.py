"""Pytrees to leaves and structures, against what JAX itself says of them; in every supported version."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402

from jaxcheck.goldens.structure import count_leaves, describe_difference  # noqa: E402
from jaxcheck.worker.trees import UnsupportedOutput, restore, structure_of, tree_of, widened  # noqa: E402

pytestmark = pytest.mark.needs_jax

Stat = namedtuple("Stat", "mean extra")


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["order"])
@dataclasses.dataclass
class Box:
    w: Any
    order: int = 3


@dataclasses.dataclass
class Unregistered:
    w: Any


TREE = {
    "z": None,
    "a": (1.0, {}),
    "stat": Stat(2.0, None),
    "empty": [],
    "box": Box(3.0),
    "od": OrderedDict(z=1.0, a=2.0),
    "numbers": {1: 1.0, 0: 2.0},
}


def test_structure_follows_the_grammar() -> None:
    assert structure_of(TREE) == {
        "dict": {
            "a": {"tuple": ["*", {"dict": {}}]},
            "box": {"node": f"{__name__}.Box", "aux": "(3,)", "children": [[".w", "*"]]},
            "empty": {"list": []},
            "numbers": {"dict": [[0, "*"], [1, "*"]]},
            "od": {
                "node": "collections.OrderedDict",
                "aux": "('z', 'a')",
                "children": [["['z']", "*"], ["['a']", "*"]],
            },
            "stat": {"namedtuple": "Stat", "fields": [["mean", "*"], ["extra", None]]},
            "z": None,
        }
    }


def test_paths_are_jax_key_paths() -> None:
    tree = tree_of(TREE)
    flat, _ = jax.tree_util.tree_flatten_with_path(TREE)
    assert [leaf.path for leaf in tree.leaves] == [jax.tree_util.keystr(path) for path, _ in flat]
    assert count_leaves(tree.structure) == len(tree.leaves)


@pytest.mark.parametrize("empty", [None, {}, (), [], {"a": None}])
def test_trees_without_leaves(empty: Any) -> None:
    tree = tree_of(empty)
    assert tree.leaves == ()
    assert count_leaves(tree.structure) == 0


def test_one_array_is_the_root() -> None:
    tree = tree_of(jnp.ones(2))
    assert tree.structure == "*"
    assert tree.leaves[0].path == "."


def test_order_of_a_dict_does_not_matter_but_a_lost_none_does() -> None:
    assert structure_of({"z": 1.0, "a": 2.0}) == structure_of({"a": 2.0, "z": 1.0})
    assert describe_difference(structure_of({"a": None}), structure_of({})) == "['a']: None is gone"
    assert structure_of({"b": {}}) != structure_of({})


@pytest.mark.parametrize("value", [3, 2.5, True, 1j, np.float64(1.5), np.arange(2), np.float32(0.1)])
def test_python_and_numpy_leaves_are_what_jit_makes_of_them(value: Any) -> None:
    eager = tree_of(value).leaves[0]
    jitted = tree_of(jax.jit(lambda: value)()).leaves[0]
    assert (eager.dtype, eager.weak_type, eager.shape) == (jitted.dtype, jitted.weak_type, jitted.shape)
    assert eager.digest == jitted.digest


@pytest.mark.parametrize("value", ["ok", object(), Unregistered(1.0), np.array(["a"]), np.array([object()])])
def test_what_is_no_array_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UnsupportedOutput, match=r"unsupported output leaf \['status'\]"):
        tree_of({"status": value})


def test_a_wide_integer_that_jit_would_cut_is_refused() -> None:
    with pytest.raises(UnsupportedOutput, match="does not fit int32"):
        tree_of(np.array([2**40]))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys_survive(impl: str) -> None:
    keys = jax.random.split(jax.random.key(7, impl=impl), 3)
    leaf = tree_of(keys).leaves[0]
    assert leaf.shape == (3,)
    assert leaf.impl == impl
    back = restore(leaf)
    assert back.dtype == keys.dtype
    assert np.array_equal(jax.random.key_data(back), jax.random.key_data(keys))


def test_raw_keys_are_another_dtype_than_typed_ones() -> None:
    raw, typed = tree_of(jax.random.PRNGKey(0)).leaves[0], tree_of(jax.random.key(0)).leaves[0]
    assert raw.dtype == "uint32"
    assert typed.dtype == "key<fry>"
    assert np.array_equal(raw.words, typed.words), "with equal bits"


def test_restored_arrays_are_copies() -> None:
    leaf = tree_of(jnp.arange(3.0)).leaves[0]
    donated = jax.jit(lambda x: x * 2, donate_argnums=0)
    assert np.array_equal(donated(restore(leaf)), [0, 2, 4])
    assert np.array_equal(leaf.array(), [0, 1, 2])


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("bfloat16", "float64"), ("float32", "float64"), ("complex64", "complex128"), ("int8", "int8"), ("bool", "bool")],
)
def test_references_get_wide_floats(dtype: str, wide: str) -> None:
    assert widened(np.asarray(jnp.zeros(2, dtype))).dtype.name == wide
