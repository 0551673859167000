"""What JAX itself hands out goes through a file and comes back as what JAX itself takes."""

from pathlib import Path

import numpy as np
import pytest

from jaxcheck.goldens.exchange import read_tree, write_tree
from jaxcheck.goldens.leaf import Leaf, Tree
from tests.goldens.samples import EXTENDED_DTYPES, NATIVE_DTYPES

# jax.numpy has these names, but XLA cannot convert to them on every platform.
NOT_EXECUTABLE = {"float6_e2m3fn", "float6_e3m2fn", "int1", "uint1"}

pytestmark = pytest.mark.needs_jax


def through_a_file(leaf: Leaf, folder: Path) -> Leaf:
    write_tree(folder / "leaf.npz", Tree("*", (leaf,)), {})
    return read_tree(folder / "leaf.npz")[0].leaves[0]


def test_every_dtype_that_jax_has(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    named = [name for name in NATIVE_DTYPES + EXTENDED_DTYPES if hasattr(jnp, name) or name == "bool"]
    known = sorted(set(named) - NOT_EXECUTABLE)
    assert {"bfloat16", "float8_e4m3fn", "int4", "complex64"} <= set(known)
    with jax.enable_x64(True):
        for name in known:
            array = jnp.asarray([[0, 1, 1], [1, 0, 1]], dtype=name)
            leaf = through_a_file(Leaf.of(".", np.asarray(array)), tmp_path)
            again = jnp.asarray(leaf.array())
            assert leaf.dtype == str(array.dtype) == name
            assert (again.dtype, again.shape) == (array.dtype, array.shape)
            assert np.asarray(again).tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys_draw_the_same_numbers(impl: str, tmp_path: Path) -> None:
    import jax

    keys = jax.random.split(jax.random.key(7, impl=impl), 3)
    words = np.asarray(jax.random.key_data(keys))
    leaf = through_a_file(
        Leaf.of_key(".", words, str(jax.random.key_impl(keys)), str(keys.dtype), keys.shape), tmp_path
    )
    again = jax.random.wrap_key_data(leaf.array(), impl=leaf.impl)
    assert (again.dtype, again.shape) == (keys.dtype, leaf.shape)
    draw = jax.vmap(jax.random.normal)
    np.testing.assert_array_equal(draw(again), draw(keys))
