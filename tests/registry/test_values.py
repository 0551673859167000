"""Argument values built: exact dtypes, shapes and content. What is refused is in the examples."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxcheck.errors import UsageError
from jaxcheck.registry.operators import OPERATORS
from jaxcheck.registry.values import KeySpec, Problem, PythonValue, build_value, check_static, check_value


def built(data: Any, root: Path = Path()) -> Any:
    """The value, after a check that found nothing."""
    assert check_value(data, (), root=root, x64=True) == []
    return build_value(data, root)


def assert_array(array: Any, dtype: Any, content: Any) -> None:
    assert type(array) is np.ndarray
    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array.astype(np.float64), np.asarray(content, np.float64))


@pytest.mark.parametrize(
    ("data", "dtype", "content"),
    [
        (1, np.int32, 1),
        (1.5, np.float32, 1.5),
        (True, np.bool_, True),
        ([1, 2], np.int32, [1, 2]),
        ([1, 2.5], np.float32, [1, 2.5]),
        ([[True], [False]], np.bool_, [[True], [False]]),
        ([], np.float32, []),
        ([[], []], np.float32, np.zeros((2, 0))),
        (math.nan, np.float32, math.nan),
        ([-math.inf, 0], np.float32, [-math.inf, 0]),
        (2**31, np.int64, 2**31),
        (0.1, np.float32, np.float32(0.1)),
        ({"$array": {"value": 0.1, "dtype": "float64"}}, np.float64, 0.1),
        ({"$array": {"value": [[1, 2]], "dtype": "bfloat16"}}, ml_dtypes.bfloat16, [[1, 2]]),
        ({"$array": {"value": [448, -0.5], "dtype": "float8_e4m3fn"}}, ml_dtypes.float8_e4m3fn, [448, -0.5]),
        ({"$array": {"value": [-8, 7], "dtype": "int4"}}, ml_dtypes.int4, [-8, 7]),
        ({"$array": {"value": [2.0], "dtype": "uint8"}}, np.uint8, [2]),
        ({"$array": {"value": True}}, np.bool_, True),
        ({"$zeros": [2, 3]}, np.float32, np.zeros((2, 3))),
        ({"$zeros": []}, np.float32, 0),
        ({"$ones": 2}, np.float32, [1, 1]),
        ({"$ones": {"shape": 2, "dtype": "bfloat16"}}, ml_dtypes.bfloat16, [1, 1]),
        ({"$zeros": {"shape": [1], "dtype": "bool"}}, np.bool_, [False]),
        ({"$full": {"shape": [2], "value": 7}}, np.int32, [7, 7]),
        ({"$full": {"shape": 2, "value": 0.5, "dtype": "float16"}}, np.float16, [0.5, 0.5]),
        ({"$full": {"shape": 1, "value": True}}, np.bool_, [True]),
        ({"$arange": {"stop": 3}}, np.int32, [0, 1, 2]),
        ({"$arange": {"stop": 1, "step": 0.25}}, np.float32, [0, 0.25, 0.5, 0.75]),
        ({"$arange": {"start": 3, "stop": 0, "step": -2, "dtype": "uint8"}}, np.uint8, [3, 1]),
        ({"$arange": {"stop": 2.5, "dtype": "int8"}}, np.int8, [0, 1, 2]),
        ({"$arange": {"stop": 3, "dtype": "bfloat16"}}, ml_dtypes.bfloat16, [0, 1, 2]),
        ({"$arange": {"stop": -1}}, np.int32, []),
        ({"$arange": {"start": 2**31, "stop": 2**31 + 1}}, np.int64, [2**31]),
        ({"$linspace": {"start": 0, "stop": 1, "num": 3}}, np.float32, [0, 0.5, 1]),
        ({"$linspace": {"start": 0, "stop": 1, "num": 0, "dtype": "float64"}}, np.float64, []),
    ],
    ids=repr,
)
def test_a_value_is_an_array_of_exactly_its_dtype(data: Any, dtype: Any, content: Any) -> None:
    assert_array(built(data), dtype, content)


def test_numbers_that_no_float_holds_stay_exact() -> None:
    assert built({"$array": {"value": 2**64 - 1, "dtype": "uint64"}}).item() == 2**64 - 1
    assert built({"$array": {"value": [2**63 - 1, -(2**63)], "dtype": "int64"}}).tolist() == [2**63 - 1, -(2**63)]
    assert built({"$array": {"value": [1.5, 2], "dtype": "complex64"}}).dtype == np.complex64


def test_trees_keep_their_containers() -> None:
    tree = built({"w": {"$tuple": [1, {"$list": [None, {"b": 2.5}]}]}, "": {}, "n": None})

    assert isinstance(tree["w"], tuple)
    assert isinstance(tree["w"][1], list)
    assert_array(tree["w"][1][1]["b"], np.float32, 2.5)
    assert (tree["w"][1][0], tree[""], tree["n"]) == (None, {}, None)


def test_keys_and_python_values_are_left_to_the_worker() -> None:
    assert built({"$key": {"seed": 7}}) == KeySpec(7, None)
    assert built({"k": {"$key": {"seed": 7, "impl": "rbg"}}}) == {"k": KeySpec(7, "rbg")}
    assert built([{"$python": 1.5}][0]) == PythonValue(1.5)
    assert built({"$python": False}) == PythonValue(False)


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_draws_are_those_of_numpys_generator() -> None:
    normal = built({"$normal": {"shape": [2, 3], "seed": 1, "scale": 2, "loc": -1}})
    uniform = built({"$uniform": {"shape": 4, "seed": 2, "low": -1, "dtype": "float64"}})
    integers = built({"$integers": {"shape": [5], "seed": 3, "low": -2, "high": 2, "dtype": "int4"}})
    large = built({"$integers": {"shape": 3, "seed": 4, "low": 0, "high": 2**64, "dtype": "uint64"}})

    assert_array(normal, np.float32, generator(1).normal(-1, 2, (2, 3)).astype(np.float32))
    assert_array(uniform, np.float64, generator(2).uniform(-1, 1, 4))
    assert_array(integers, ml_dtypes.int4, generator(3).integers(-2, 2, 5))
    assert large.tolist() == generator(4).integers(0, 2**64, 3, dtype=np.uint64).tolist()


def test_a_drawn_scalar_is_an_array_too() -> None:
    for value in (
        {"$normal": {"shape": [], "seed": 0}},
        {"$uniform": {"shape": [], "seed": 0}},
        {"$integers": {"shape": [], "seed": 0, "low": 0, "high": 9}},
    ):
        assert type(built(value)) is np.ndarray


def test_whole_numbers_beyond_int32_need_x64_or_a_dtype(tmp_path: Path) -> None:
    assert [problem.path for problem in check_value([1, 2**31], ("x",), root=tmp_path)] == [("x", 1)]
    assert check_value([1, 2**31], ("x",), root=tmp_path, x64=True) == []
    assert check_value({"$array": {"value": 2**31, "dtype": "int64"}}, ("x",), root=tmp_path) == []
    assert check_value({"$python": 2**31}, ("x",), root=tmp_path)[0].path == ("x", "$python")
    assert check_value({"$python": 2**31}, ("x",), root=tmp_path, x64=True) == []
    assert check_value(2**63, (), root=tmp_path, x64=True)[0].message.startswith("9223372036854775808 does not fit")


def test_too_many_dimensions_are_refused(tmp_path: Path) -> None:
    nested: Any = 1.0
    for _ in range(33):
        nested = [nested]

    assert check_value(nested, ("x",), root=tmp_path) == [Problem(("x",), "has 33 dimensions, more than 32")]
    assert check_value({"$zeros": [1] * 33}, (), root=tmp_path) == [
        Problem(("$zeros",), "has 33 dimensions, more than 32")
    ]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=np.arange(3), text=np.array(["a"]), half=np.zeros(2, ml_dtypes.bfloat16))
    return tmp_path


def test_an_array_comes_from_an_archive_below_the_registry(archive: Path) -> None:
    array = built({"$npz": {"path": "data.npz", "name": "x"}}, archive)

    assert_array(array, np.int64, [0, 1, 2])
    assert_array(build_value({"$npz": {"path": "data.npz", "name": "x"}}, str(archive)), np.int64, [0, 1, 2])


def test_a_misspelt_array_of_an_archive_is_found_out(archive: Path) -> None:
    problems = check_value({"$npz": {"path": "data.npz", "name": "tekst"}}, ("x",), root=archive)

    assert problems == [Problem(("x", "$npz", "name"), "data.npz has no array 'tekst'", "did you mean text?")]


def test_an_archive_outside_the_registrys_folder_is_refused(archive: Path) -> None:
    inside = archive / "inside"
    inside.mkdir()
    (inside / "link.npz").symlink_to(archive / "data.npz")
    (inside / "loop.npz").symlink_to("loop.npz")

    for path in ("../data.npz", "link.npz", str(inside / "x.npz")):
        (problem,) = check_value({"$npz": {"path": path, "name": "x"}}, (), root=inside)
        assert problem.path == ("$npz", "path")
        assert "leaves the folder of the registry" in problem.message
    assert check_value({"$npz": {"path": "loop.npz", "name": "x"}}, (), root=inside)[0].path == ("$npz", "path")


@pytest.mark.parametrize("name", ["text", "half", "none"])
def test_an_archive_that_cannot_be_used_is_a_users_error(archive: Path, name: str) -> None:
    with pytest.raises(UsageError, match=rf"data\.npz: the array {name}"):
        build_value({"$npz": {"path": "data.npz", "name": name}}, archive)


def test_a_truncated_archive_is_a_users_error(archive: Path) -> None:
    content = (archive / "data.npz").read_bytes()
    (archive / "data.npz").write_bytes(content[: len(content) // 2])

    with pytest.raises(UsageError, match="cannot be read"):
        build_value({"$npz": {"path": "data.npz", "name": "x"}}, archive)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(start=st.integers(0, 1500), put=st.binary(max_size=8), cut=st.integers(0, 8))
def test_any_damage_to_an_archive_is_a_problem_a_users_error_or_harmless(
    archive: Path, start: int, put: bytes, cut: int
) -> None:
    content = (archive / "data.npz").read_bytes()
    (archive / "damaged.npz").write_bytes(content[:start] + put + content[start + cut :])
    data = {"$npz": {"path": "damaged.npz", "name": "x"}}

    problems = check_value(data, (), root=archive)
    with contextlib.suppress(UsageError):
        assert type(build_value(data, archive)) is np.ndarray
    assert all(problem.path[0] == "$npz" for problem in problems)


def test_a_pickled_array_is_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([{}], dtype=object))

    with pytest.raises(UsageError, match="cannot be read"):
        build_value({"$npz": {"path": "data.npz", "name": "x"}}, tmp_path)


def test_static_values_may_be_what_jit_can_hash() -> None:
    assert check_static(["relu", 1, None, [True, {"$tuple": [2**70]}], {"$python": "x"}, {"$list": []}], ("m",)) == []
    assert [problem.path for problem in check_static([{"a": 1}, {"$list": 5}], ("m",))] == [
        ("m", 0),
        ("m", 1, "$list"),
    ]


NUMBERS = st.integers(-(2**40), 2**40) | st.floats(allow_nan=True) | st.booleans()
SCALARS = NUMBERS | st.none() | st.text(max_size=3)
PARAMETERS = {name for operator in OPERATORS.values() for name in operator.parameters}
WORDS = st.sampled_from(sorted({*OPERATORS, *PARAMETERS, "$tuple", "$list", "$python", "x"}))
SMALL = st.integers(0, 3) | SCALARS | st.sampled_from(["float32", "int8", "bfloat16", "bool"])
VALUES = st.recursive(
    SMALL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=12
)


@given(data=VALUES, x64=st.booleans())
def test_whatever_passes_the_check_can_be_built(data: Any, x64: bool) -> None:
    if check_value(data, ("x",), root=Path(), x64=x64) == [] and "num" not in repr(data):
        build_value(data, Path())


@given(data=st.lists(NUMBERS, max_size=4) | st.lists(st.lists(NUMBERS, max_size=2), max_size=2))
def test_a_list_that_passes_the_check_loses_nothing_but_float_precision(data: Any) -> None:
    if check_value(data, (), root=Path()) == []:
        array = build_value(data, Path())
        exact = np.array(data, np.float64)
        assert array.shape == exact.shape
        np.testing.assert_allclose(array.astype(np.float64), exact, rtol=2**-24, atol=2**-149)


def test_checking_imports_neither_numpy_nor_jax() -> None:
    code = """
import sys
from pathlib import Path
from jaxcheck.registry.operators import OPERATORS
from jaxcheck.registry.values import check_value
assert check_value({'$full': {'shape': 2, 'value': 1, 'dtype': 'bfloat16'}}, (), root=Path()) == []
print([name for name in ('numpy', 'jax', 'ml_dtypes') if name in sys.modules])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)

    assert done.stdout.strip() == "[]"
