from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.exchange import read_tree, write_tree
from jaxcheck.goldens.leaf import Array, Leaf, Tree, check_tree_meta
from tests.goldens.samples import EXTENDED_DTYPES, NATIVE_DTYPES, dtype_named, single

FEW = settings(max_examples=15, deadline=None)  # of each dtype
SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def any_bits(draw: st.DrawFn, dtype: np.dtype[Any]) -> Array:
    """An array of any bits that the dtype's bytes can have: NaN payloads, -0.0, subnormals, padding bits."""
    shape = draw(SHAPES)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8).view(dtype).reshape(shape)


def strided(array: Array) -> Array:
    """The same array with gaps, and backwards in memory."""
    if array.ndim == 0:
        return array
    wide = np.repeat(array[::-1], 2, axis=0)
    return wide[::2][::-1]


def fortran(array: Array) -> Array:
    return np.array(array, order="F")


def swapped(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder(">"))


@pytest.mark.parametrize("dtype", NATIVE_DTYPES + EXTENDED_DTYPES)
@FEW
@given(data=st.data())
def test_every_dtype_comes_back_bit_for_bit(
    dtype: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    array = data.draw(any_bits(dtype_named(dtype)))
    weak = data.draw(st.booleans())
    file = tmp_path_factory.getbasetemp() / "leaf.npz"
    write_tree(file, Tree("*", (Leaf.of(".", array, weak_type=weak),)), {})
    (leaf,) = read_tree(file)[0].leaves
    assert (leaf.path, leaf.dtype, leaf.shape, leaf.weak_type) == (".", dtype, array.shape, weak)
    assert leaf.array().dtype == array.dtype
    assert leaf.array().shape == array.shape
    assert leaf.array().tobytes() == array.tobytes()
    assert leaf == Leaf.of(".", array, weak_type=weak)


@pytest.mark.parametrize("layout", [fortran, strided])
@pytest.mark.parametrize("dtype", NATIVE_DTYPES + EXTENDED_DTYPES)
@FEW
@given(data=st.data())
def test_memory_layout_does_not_matter(layout: Any, dtype: str, data: st.DataObject) -> None:
    array = data.draw(any_bits(dtype_named(dtype)))
    laid_out = Leaf.of(".", layout(array))
    assert laid_out.words.flags.c_contiguous
    assert laid_out.array().tobytes() == array.tobytes()
    assert laid_out == Leaf.of(".", array)


@pytest.mark.parametrize("dtype", NATIVE_DTYPES)
@FEW
@given(data=st.data())
def test_byte_order_does_not_matter(dtype: str, data: st.DataObject) -> None:
    array = data.draw(any_bits(dtype_named(dtype)))
    leaf = Leaf.of(".", swapped(array))
    assert leaf.array().tobytes() == array.tobytes()
    assert leaf == Leaf.of(".", array)


@pytest.mark.parametrize(("shape", "words"), [((), 2), ((3,), 4), ((0,), 2), ((2, 1), 4)])
def test_typed_keys_come_back_as_their_words(shape: tuple[int, ...], words: int, tmp_path: Path) -> None:
    data = np.arange(np.prod(shape) * words, dtype=">u4").reshape(*shape, words)
    key = Leaf.of_key("key", data, "threefry2x32", "key<fry>", shape)
    write_tree(tmp_path / "key.npz", Tree("*", (key,)), {})
    (leaf,) = read_tree(tmp_path / "key.npz")[0].leaves
    assert (leaf.dtype, leaf.impl, leaf.shape) == ("key<fry>", "threefry2x32", shape)
    assert leaf == key
    np.testing.assert_array_equal(leaf.array(), data)


def test_key_data_that_do_not_fit_their_shape_are_refused() -> None:
    for data in (np.zeros((3, 2), np.int32), np.zeros((2, 2), np.uint32), np.uint32(0)):
        with pytest.raises(GoldenError, match=r"leaf k: key<fry> of shape \(3,\) does not have key data") as caught:
            Leaf.of_key("k", data, "threefry2x32", "key<fry>", (3,))
        assert "jax.random.key_data" in str(caught.value.hint)


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array("text"), np.array(1, "M8[s]"), np.zeros(1, "f4,i4"), np.longdouble(1)]
)
def test_a_dtype_that_jax_does_not_have_is_refused(array: Array) -> None:
    with pytest.raises(GoldenError, match=r"leaf \['a'\] has dtype .*, which a golden cannot hold") as caught:
        Leaf.of("['a']", array)
    assert "float32" in str(caught.value.hint)


def test_a_leaf_is_not_copied_without_need_and_cannot_be_written_through() -> None:
    array = np.arange(3, dtype=np.float32)
    leaf = Leaf.of(".", array)
    assert np.shares_memory(leaf.words, array)
    assert array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        leaf.array()[0] = 1


def test_the_digest_covers_dtype_shape_implementation_and_bytes() -> None:
    zeros = np.zeros(4, np.uint32)
    key = Leaf.of_key(".", zeros.reshape(2, 2), "threefry2x32", "key<fry>", (2,))
    leaves = [
        Leaf.of(".", zeros),
        Leaf.of(".", zeros.view(np.float32)),
        Leaf.of(".", zeros.reshape(2, 2)),
        Leaf.of(".", np.array([0, 0, 0, 1], np.uint32)),
        key,
        Leaf.of_key(".", zeros.reshape(2, 2), "other", "key<fry>", (2,)),
    ]
    assert len({leaf.digest for leaf in leaves}) == len(leaves)
    assert Leaf.of("elsewhere", zeros, weak_type=True).digest == leaves[0].digest


def test_leaves_are_equal_bit_for_bit() -> None:
    assert Leaf.of(".", np.nan) == Leaf.of(".", np.nan)
    assert Leaf.of(".", 0.0) != Leaf.of(".", -0.0)
    assert Leaf.of(".", 0.0) != Leaf.of(".", 0.0, weak_type=True)
    assert Leaf.of(".", 0.0) != 0.0
    assert len({Leaf.of(".", 1.0), Leaf.of(".", 1.0), Leaf.of(".", 2.0)}) == 2


def restored(words: Array, **changes: Any) -> Leaf:
    return Leaf.restore({**Leaf.of("['w']", np.ones(2, np.float32)).meta(), **changes}, words)


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        (np.ones(2, np.int32), {}, "leaf ['w'] of dtype float32 is stored as int32, not as float32"),
        (np.ones(2, np.uint8), {"dtype": "bfloat16"}, "leaf ['w'] of dtype bfloat16 is stored as uint8, not as uint16"),
        (np.ones((2, 1), np.float32), {}, "leaf ['w'] is stored with shape (2, 1), its metadata say (2,)"),
        (np.ones(2, np.uint32), {"dtype": "key<fry>", "impl": "x"}, "leaf ['w'] is stored with shape (2,), its"),
        (np.ones((), np.uint32), {"dtype": "key<fry>", "impl": "x", "shape": []}, "leaf ['w'] is stored with shape ()"),
        (np.zeros(2, np.float32), {}, "leaf ['w'] does not match its digest: "),
        (np.ones(2, np.float32), {"dtype": "float7"}, "leaf ['w'] has dtype float7, which neither NumPy nor ml_dtypes"),
        (np.ones(2, np.float32), {"dtype": "finfo"}, "leaf ['w'] has dtype finfo, which neither NumPy nor ml_dtypes"),
        (np.ones(2, np.float32), {"dtype": "__name__"}, "leaf ['w'] has dtype __name__, which neither"),
    ],
)
def test_words_that_do_not_fit_the_metadata_are_refused(words: Array, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GoldenError) as caught:
        restored(words, **changes)
    assert message in str(caught.value)


def test_a_big_endian_array_in_the_file_is_the_same_array() -> None:
    assert restored(np.ones(2, ">f4")).words.dtype == np.dtype("<f4")


def test_a_tree_finds_its_leaves_by_path() -> None:
    tree = single(np.ones(2), "x['w']")
    assert list(tree.by_path) == ["x['w']"]
    assert tree.by_path["x['w']"] is tree.leaves[0]
    assert tree == single(np.ones(2), "x['w']")


def _tree_meta(**changes: Any) -> dict[str, Any]:
    meta = single(np.ones(2)).meta()
    meta["leaves"][0].update(changes)
    return meta


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([], "leaves is missing"),
        ({"structure": "*"}, "leaves is missing"),
        ({"structure": "*", "leaves": "x"}, "leaves is 'x'"),
        ({"leaves": []}, "structure is missing"),
        ({"structure": "*", "leaves": []}, "0 leaves do not fit a structure of 1"),
        ({"structure": None, "leaves": ["x"]}, "path is missing from x"),
        (_tree_meta(shape=[-1]), r"shape of leaf \. is \[-1\]"),
        (_tree_meta(shape=[True]), r"shape of leaf \. is \[True\]"),
        (_tree_meta(weak_type="no"), "weak_type is 'no'"),
        (_tree_meta(impl=3), "impl is '3'"),
    ],
)
def test_metadata_of_no_tree_are_refused(meta: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_tree_meta(meta)


def test_ml_dtypes_that_jax_knows_are_among_those_tested() -> None:
    assert {"bfloat16", "int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float8_e4m3fn"} <= set(EXTENDED_DTYPES)
    assert len([name for name in EXTENDED_DTYPES if name.startswith("float8")]) >= 8
    assert Leaf.of(".", np.ones(1, ml_dtypes.float8_e5m2)).words.dtype == np.uint8
