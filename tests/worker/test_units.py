"""Programs that are exported and replayed: the bits of jit as one unit, the bits of a plain call operation by
operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from jaxcheck.errors import GoldenError  # noqa: E402
from jaxcheck.worker import internals, units  # noqa: E402
from jaxcheck.worker.program import serialised  # noqa: E402
from jaxcheck.worker.units import Units, exported_steps, exported_whole  # noqa: E402

pytestmark = pytest.mark.needs_jax
TABLE = np.linspace(0.1, 0.9, 32, dtype=np.float32)
X = np.random.default_rng(0).standard_normal((8, 32), np.float32)
W = np.random.default_rng(1).standard_normal((32, 32), np.float32) / 6


def polynomial(x: Any) -> Any:
    return x * x * x + x * x - x * 3.1


def closure(x: Any) -> Any:
    return {"sum": jnp.sum(x * TABLE), "table": jnp.asarray(TABLE)}


def loop(x: Any) -> Any:
    return jax.lax.scan(lambda c, a: (jnp.sin(c * a + a), c), x[0], x)


def gradient(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: jnp.tanh(jnp.tanh(x @ w) @ w).sum())(w)


def normalised(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def untouched(x: Any) -> Any:
    return x, 3.0, x


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "polynomial": (polynomial, (X,)),
    "closure": (closure, (X,)),
    "loop": (loop, (X,)),
    "gradient": (gradient, (X, W)),
    "normalised": (normalised, (X,)),
    "softmax": (jax.nn.softmax, (X,)),
    "gelu": (jax.nn.gelu, (X,)),
    "untouched": (untouched, (X,)),
    "attention": (jax.nn.dot_product_attention, tuple(X.reshape(1, 8, 2, 16) + i for i in range(3))),
}


def bits(outputs: Any) -> list[bytes]:
    return [np.asarray(jnp.asarray(leaf)).tobytes() for leaf in jax.tree.leaves(outputs)]


def there_and_back(units: Units, folder: Path) -> Units:
    return Units.read(folder / "units.npz", units.write(folder / "units.npz"))


@pytest.mark.parametrize("name", CASES)
def test_one_unit_gives_the_bits_of_jit(name: str, tmp_path: Path) -> None:
    function, given = CASES[name]
    flat = [jax.device_put(x) for x in given]
    units = there_and_back(exported_whole(function, flat), tmp_path)
    assert len(units.exports) == len(units.steps) == 1
    assert bits(units.run()) == bits(jax.jit(function)(*flat))


@pytest.mark.parametrize("name", CASES)
def test_steps_give_the_bits_of_a_plain_call(name: str, tmp_path: Path) -> None:
    function, given = CASES[name]
    flat = [jax.device_put(x) for x in given]
    expected = bits(function(*flat))
    units = there_and_back(exported_steps(function, flat), tmp_path)
    assert bits(units.run()) == expected


def test_a_kind_of_operation_is_exported_once() -> None:
    units = exported_steps(polynomial, [jax.device_put(X)])
    assert len(units.exports) < len(units.steps)


def test_typed_keys_travel_as_key_data(tmp_path: Path) -> None:
    def draw(key: Any) -> Any:
        return jax.random.split(key), jax.random.normal(key, (4,))

    key = jax.random.key(3)
    keys, numbers = draw(key)
    expected = bits((jax.random.key_data(keys), numbers))
    for exported in (exported_whole(draw, [key]), exported_steps(draw, [key])):
        assert bits(there_and_back(exported, tmp_path).run()) == expected


def test_a_file_that_was_altered_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "units.npz"
    digest = exported_whole(polynomial, [jax.device_put(X)]).write(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(GoldenError, match="does not match its digest: it is not run"):
        Units.read(path, digest)


def test_what_is_jitted_is_traced_as_before_afterwards() -> None:
    """Keeping jitted functions as one equation is over when the export is."""
    before = str(jax.make_jaxpr(polynomial)(X))
    exported_steps(polynomial, [jax.device_put(X)])
    assert str(jax.make_jaxpr(polynomial)(X)) == before
    with internals.jitted_stays_jitted():
        assert str(jax.make_jaxpr(polynomial)(X)) != before


def test_a_kernel_that_needs_values_has_no_program() -> None:
    with pytest.raises(jax.errors.TracerBoolConversionError):
        exported_steps(lambda x: x if x.sum() > 0 else -x, [jax.device_put(X)])


@pytest.mark.parametrize("exported", [exported_steps, exported_whole])
def test_another_literal_or_table_is_another_text(exported: Any) -> None:
    x, table = jnp.arange(3.0), np.float32([1, 2, 3])
    texts = [
        exported(lambda x, f=factor, t=kept: x * f + jnp.asarray(t), [x]).text()
        for factor, kept in ((2.0, table), (2.0, table.copy()), (3.0, table), (2.0, table + 1))
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_programs_of_one_text_share_a_compilation_and_others_do_not() -> None:
    """Where it was written does not matter; every digit of a constant does."""
    x = jnp.arange(3.0)
    here, there = serialised(lambda x: jnp.sin(x) * 2.0, [x]), serialised(lambda x: jnp.sin(x) * 2.0, [x])
    other = serialised(lambda x: jnp.sin(x) * 2.0000002, [x])
    assert units._call(here) is units._call(there)
    assert units._call(here) is not units._call(other)
    assert Units((here,), (), (), ()).text() == Units((there,), (), (), ()).text()
    assert Units((here,), (), (), ()).text() != Units((other,), (), (), ()).text()
    table = np.random.default_rng(1).normal(size=(200, 200)).astype(np.float32)
    moved = table.copy()
    moved[100, 100] = np.nextafter(moved[100, 100], np.float32(9))
    one, two = (serialised(lambda x, kept=kept: kept @ x, [jnp.ones(200)]) for kept in (table, moved))
    assert units._call(one) is not units._call(two)
