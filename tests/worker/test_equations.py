"""Equations as rows: where they come from, what they are lowered to, and that loops and calls are entered."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

from jaxcheck.worker import equations as module  # noqa: E402
from jaxcheck.worker.equations import Row, equations, operations, operations_of, package_of  # noqa: E402

pytestmark = pytest.mark.needs_jax
X = jnp.ones((3, 4))


def rows(function: Any, *given: Any) -> list[Row]:
    found = equations(function, given)
    assert json.loads(json.dumps(found)) == found, "rows travel as JSON"
    return found


def named(found: list[Row], primitive: str) -> list[Row]:
    return [row for row in found if row["primitive"] == primitive]


def test_a_row() -> None:
    def kernel(x: Any) -> Any:
        with jax.named_scope("enc"):
            return jnp.tanh(x)

    (row,) = rows(kernel, X)
    assert (row["primitive"], row["outputs"], row["scope"], row["path"]) == ("tanh", ["float32[3,4]"], "enc", "")
    assert os.path.basename(row["file"]) == os.path.basename(__file__)
    assert (row["function"], row["package"]) == ("kernel", "user")
    assert row["lowered"] == {"stablehlo.tanh": 1}


def test_calls_are_entered_and_loops_are_paths() -> None:
    def kernel(x: Any) -> Any:
        c, _ = jax.lax.scan(lambda c, a: (jnp.sin(c + a), None), x[0], x)
        c = jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: jnp.exp(c), c)
        c = jax.lax.cond(c.sum() > 0, jnp.cos, jnp.tan, c)
        return jax.jit(jax.nn.relu)(c)

    found = rows(kernel, X)
    paths = {row["primitive"]: row["path"] for row in found}
    assert paths["sin"] == "scan"
    assert paths["exp"] == "while.body"
    assert paths["lt"] == "while.cond"
    assert {paths["cos"], paths["tan"]} == {"cond[0]", "cond[1]"}
    assert paths["max"] == ""
    assert not {"jit", "pjit", "custom_jvp_call"} & paths.keys()


def test_the_package_whose_line_made_it() -> None:
    found = rows(lambda x: optax.l2_loss(x).sum(), X)
    assert {row["package"] for row in named(found, "mul")} == {"optax"}
    assert named(found, "mul")[0]["file"].startswith("optax/")
    assert named(found, "reduce_sum")[0]["package"] == "user"


def test_parameters_are_plain_text_without_addresses() -> None:
    def kernel(x: Any) -> Any:
        return jnp.linalg.solve(x @ x.T + jnp.eye(3), jnp.sort(x.sum(1)))

    for row in rows(kernel, X):
        for text in row["params"].values():
            assert " at 0x" not in text
            assert len(text) <= 120
    assert named(rows(lambda x: x.sum(0), X), "reduce_sum")[0]["params"]["axes"] == "(0,)"


def test_the_same_program_gives_the_same_rows() -> None:
    def kernel(x: Any) -> Any:
        return jax.grad(lambda x: jax.nn.gelu(x).var())(x)

    assert rows(kernel, X) == rows(kernel, X)


def test_another_literal_or_table_is_another_program() -> None:
    """In the equation that uses it, so that its package is known; also inside of calls and loops."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    other = table + np.eye(3, 4, dtype=np.float32) * 1e-3

    def kernel(x: Any, factor: float, table: Any) -> Any:
        y = jax.jit(lambda y: y * factor)(x)
        c, _ = jax.lax.scan(lambda c, row: (c * factor + row, None), y[0], y)
        return jax.jit(lambda y, t: y + t)(y, jnp.asarray(table)) + c

    first, second = rows(partial(kernel, factor=2.0, table=table), X), rows(partial(kernel, factor=2.0, table=other), X)
    third = rows(partial(kernel, factor=2.0000002, table=table), X)
    again = rows(partial(kernel, factor=2.0, table=table.copy()), X)
    assert again == first

    def apart(one: list[Row], two: list[Row]) -> list[tuple[str, str]]:
        assert len(one) == len(two)
        return [(a["primitive"], a["path"]) for a, b in zip(one, two, strict=True) if a["params"] != b["params"]]

    assert apart(first, second) == [("add", "")]
    assert apart(first, third) == [("mul", ""), ("mul", "scan")]
    assert named(first, "mul")[0]["params"]["operands"] == "2.0"


def test_what_cannot_be_lowered_by_itself_is_left_out() -> None:
    def kernel(x: Any) -> Any:
        return jax.vmap(lambda row: row / jax.lax.psum(row, "i"), axis_name="i")(x)

    assert named(rows(kernel, X), "div")[0]["lowered"]["stablehlo.divide"] == 1


def test_keys() -> None:
    found = rows(lambda key: jax.random.uniform(key, (2,)), jax.random.key(0))
    assert all(row["outputs"] for row in found)
    assert any("key<fry>" in shape for row in found for shape in row["inputs"])


def test_operations_are_counted_in_text_of_any_form() -> None:
    text = """
    %0 = stablehlo.add %arg0, %1 : tensor<3xf32>
    %2 = "stablehlo.gather"(%0) <{dimension_numbers = #stablehlo.gather<offset_dims = [0]>}> : tensor<3xf32>
    %3 = stablehlo.custom_call @lapack_spotrf_ffi(%2) {mhlo.backend_config = {uplo = 76 : ui8}}
    %4 = chlo.erf %3 : tensor<3xf32> -> tensor<3xf32>
    %5 = stablehlo.add %4, %4 : !stablehlo.token
    """
    assert operations(text) == {
        "chlo.erf": 1,
        "stablehlo.add": 2,
        "stablehlo.custom_call@lapack_spotrf_ffi": 1,
        "stablehlo.gather": 1,
    }


def test_operations_of_a_whole_program() -> None:
    assert operations_of(lambda x: jnp.tanh(x) * x, [X]) == {"stablehlo.multiply": 1, "stablehlo.tanh": 1}


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("/e/lib/python3.12/site-packages/ruler/_src/a.py", "ruler"),
        ("/e/lib/python3.12/site-packages/single.py", "single"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "pyyaml"),
        ("/home/me/project/kernels.py", "user"),
        ("/e/lib/python3.12/site-packages/jaxcheck/kernels/scan.py", "user"),
    ],
)
def test_packages(file: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_distributions", lambda: {"yaml": "pyyaml"})
    assert package_of(file) == package


def test_distributions_are_named_as_they_are_installed() -> None:
    assert package_of(str(Path(optax.__file__))) == "optax"
