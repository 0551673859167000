"""Arguments on their way into a kernel: nothing may be lost in silence, and every call gets copies of its own."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402

from jaxcheck.worker.inputs import LossyInput, from_factory, from_registry  # noqa: E402
from jaxcheck.worker.kernels import BadName, argument_faults, bind, describe, resolve  # noqa: E402

pytestmark = pytest.mark.needs_jax

Point = namedtuple("Point", "x y")


def test_registry_values_become_jax_arrays() -> None:
    spec = {
        "x": [1.0, 2.0],
        "n": 3,
        "key": {"$key": {"seed": 4}},
        "p": {"w": {"$zeros": [2, 2]}, "none": None},
        "pair": {"$tuple": [1.0, 2]},
    }
    given = from_registry(spec, (), ".").fresh()
    assert given["x"].dtype == "float32"
    assert given["n"].dtype == "int32"
    assert given["key"].dtype == jax.random.key(4).dtype
    assert np.array_equal(jax.random.key_data(given["key"]), jax.random.key_data(jax.random.key(4)))
    assert given["p"]["none"] is None
    assert isinstance(given["pair"], tuple)


def test_leaf_paths_start_with_the_argument() -> None:
    arguments = from_registry({"p": {"w": [1.0]}, "x": 1.0}, (), ".")
    assert [leaf.path for leaf in arguments.leaves] == ["p['w']", "x"]


def test_static_values_stay_python_and_hashable() -> None:
    given = from_registry({"x": 1.0, "n": 3, "order": [1, [2, 3]], "mode": "fast"}, ("n", "order", "mode"), ".").fresh()
    assert type(given["n"]) is int
    assert given["order"] == (1, (2, 3))
    assert given["mode"] == "fast"


def test_python_values_stay_weakly_typed() -> None:
    arguments = from_registry({"x": {"$python": 1.5}}, (), ".")
    assert type(arguments.fresh()["x"]) is float
    assert arguments.leaves[0].weak_type


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([2**32 + 5]), "int64 and its value does not survive as int32"),
        (2**40, "does not survive as int32"),
        (np.float64(1e300), "float64 and its value does not survive as float32"),
        (np.array(["text"]), "no array"),
        (object(), "no array"),
        ("text", "name it under `static:`"),
    ],
)
def test_what_would_be_lost_is_refused(value: Any, says: str) -> None:
    with pytest.raises(LossyInput, match="argument x") as caught:
        from_factory({"x": value}, ())
    assert says in str(caught.value)


def test_rounding_is_not_a_loss() -> None:
    assert from_factory({"x": np.array([0.1, np.nan, np.inf])}, ()).leaves[0].dtype == "float32"


def test_fresh_copies_survive_donation() -> None:
    arguments = from_factory({"x": np.arange(3, dtype=np.float32)}, ())
    donate = jax.jit(lambda x: x + 1, donate_argnums=0)
    first = arguments.fresh()["x"]
    donate(first)
    assert np.array_equal(arguments.fresh()["x"], [0, 1, 2])


def test_stored_inputs_replace_the_values_and_keep_the_containers() -> None:
    now = from_factory({"p": Point(np.float32(1), np.float32(2))}, ())
    stored = from_factory({"p": Point(np.float32(1), np.float32(3))}, ()).tree()
    assert now.differences(stored) == ["p.y"]
    given = now.with_stored(stored).fresh()
    assert isinstance(given["p"], Point)
    assert float(given["p"].y) == 3.0


def test_other_containers_are_a_difference() -> None:
    now = from_factory({"p": (np.float32(1),)}, ())
    assert now.differences(from_factory({"p": [np.float32(1)]}, ()).tree()) == ["tree structure"]


def test_arguments_go_by_position_as_far_as_they_can() -> None:
    def kernel(a: Any, b: Any, /, c: Any, *, d: Any = 0) -> None:
        raise AssertionError

    assert bind(kernel, {"d": 4, "b": 2, "a": 1, "c": 3}) == ([1, 2, 3], {"d": 4})
    assert bind(kernel, {"a": 1, "c": 3}) == ([1], {"c": 3})


def test_arguments_that_do_not_fit() -> None:
    def kernel(params: Any, x: Any, scale: Any = 1.0) -> None:
        raise AssertionError

    assert argument_faults(kernel, ["params", "x"]) == []
    faults = argument_faults(kernel, ["parms"])
    assert faults[0] == ("parms", "the kernel has no argument 'parms'; did you mean 'params'? It has: params, x, scale")
    assert [argument for argument, _ in faults[1:]] == [None, None]
    assert argument_faults(lambda **anything: None, ["x"]) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.at_all:f", "no module 'nowhere'"),
        ("jax.numpy:sine", "has no 'sine'; did you mean 'sinc'"),
        ("math:pi", "is a float, not a function"),
    ],
)
def test_names_that_lead_nowhere(name: str, says: str) -> None:
    with pytest.raises(BadName, match=says.split(";")[0]):
        resolve(name)


def test_nested_names_are_found() -> None:
    assert resolve("jax:numpy.sin") is jnp.sin


def test_an_error_is_described_by_the_users_own_line() -> None:
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda x: x if x > 0 else -x)(1.0)
    assert describe(caught.value).startswith("TracerBoolConversionError: ")
    assert "test_inputs.py:" in describe(caught.value)
