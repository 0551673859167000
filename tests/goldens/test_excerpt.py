"""Leaves that are kept as a digest and an excerpt: which elements, how they come back, and what is no excerpt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, write_archive
from jaxcheck.goldens.excerpt import BLOCKS, LENGTH, WHOLE, excerpt_of
from jaxcheck.goldens.golden import Draft, Golden
from jaxcheck.goldens.leaf import Leaf, kept_by_all
from tests.goldens.samples import case, single

SIZE = WHOLE + 5_000


def large(dtype: str = "float32", size: int = SIZE) -> Leaf:
    values = np.random.default_rng(0).standard_normal(size) * 100
    return Leaf.of(".", values.astype(getattr(ml_dtypes, dtype, dtype)))


@given(st.integers(WHOLE + 1, 10**12))
def test_blocks_are_spread_over_arrays_of_any_size(size: int) -> None:
    found = excerpt_of("float32", (size,), "digest")
    assert found is not None
    assert found == excerpt_of("bfloat16", (1, size), "digest")  # the size alone decides
    starts = np.array(found.starts)
    assert len(starts) == BLOCKS
    assert (starts[0], starts[-1] + LENGTH) == (0, size)
    assert (np.diff(starts) >= LENGTH).all()
    assert np.diff(starts).max() <= 2 * size / BLOCKS + 1


def test_a_leaf_that_a_digest_would_not_make_smaller_is_kept_whole() -> None:
    leaf = large(size=WHOLE)
    assert leaf.abridged() is leaf


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_an_excerpt_of_floats_has_their_elements(dtype: str) -> None:
    leaf = large(dtype)
    kept = leaf.abridged()
    assert kept == leaf
    assert (kept.digest, kept.shape, kept.size, kept.words.shape) == (leaf.digest, (SIZE,), SIZE, (WHOLE,))
    assert kept.excerpt is not None
    np.testing.assert_array_equal(kept.array(), leaf.array()[kept.excerpt.positions])
    assert kept.element((SIZE - 1,)) == leaf.array()[-1]
    hidden = int(np.setdiff1d(np.arange(SIZE), kept.excerpt.positions)[0])
    assert kept.element((hidden,)) is None
    assert leaf.element((hidden,)) == leaf.array()[hidden]
    assert kept.abridged() is kept


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8", "int4"])
def test_what_is_exact_is_kept_as_its_digest_alone(dtype: str) -> None:
    kept = large(dtype).abridged()
    assert kept.words.size == 0
    assert kept == large(dtype)
    assert kept != large(dtype, SIZE + 1).abridged()


def test_typed_keys_are_exact() -> None:
    words = np.arange(2 * SIZE, dtype=np.uint32).reshape(SIZE, 2)
    leaf = Leaf.of_key("keys", words, "threefry2x32", "key<fry>", (SIZE,))
    assert leaf.abridged().words.size == 0
    assert Leaf.restore(leaf.abridged().meta(), leaf.abridged().words) == leaf


def test_what_excerpts_have_in_common_is_compared() -> None:
    whole, kept = large(), large().abridged()
    arrays, positions = kept_by_all(whole, kept)
    assert positions is not None
    np.testing.assert_array_equal(arrays[0], arrays[1])
    assert kept.excerpt is not None
    few = replace(kept.excerpt, starts=kept.excerpt.starts[3:5], length=10)
    other = replace(kept, excerpt=few, words=whole.words[few.positions])
    arrays, positions = kept_by_all(kept, other, whole)
    np.testing.assert_array_equal(positions, few.positions)
    assert all((array == other.array()).all() for array in arrays)
    assert kept_by_all(whole, whole)[1] is None


def golden_of(leaf: Leaf, path: Path) -> Path:
    tree = single(0.0)
    Draft.of("r", {"a": case(outputs=replace(tree, leaves=(leaf,)))}).write(path)
    return path


def test_a_golden_with_excerpts_comes_back_and_says_that_older_versions_cannot_read_it(tmp_path: Path) -> None:
    path = golden_of(large().abridged(), tmp_path / "r.npz")
    with Golden.open(path) as golden:
        assert golden.schema == 2
        assert golden.case("a").outputs is not None
        assert golden.case("a").outputs.leaves == (large(),)  # type: ignore[union-attr]
        golden.verify()
        digest = golden.digest
    with Golden.open(golden_of(large(), tmp_path / "whole.npz")) as golden:
        assert (golden.schema, golden.digest == digest) == (1, False)


def test_an_excerpt_that_was_tampered_with_is_noticed(tmp_path: Path) -> None:
    path = golden_of(large().abridged(), tmp_path / "r.npz")
    with Archive(path) as archive:
        arrays = {name: np.array(archive.read(name)) for name in archive.names}
        meta = archive.meta
    arrays["a/out/."][7] += 1
    write_archive(path, arrays, meta)
    with Golden.open(path) as golden, pytest.raises(GoldenError, match=r"leaf \. does not match its digest"):
        golden.case("a")


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": [0, 5]},
        {"starts": [-1]},
        {"starts": [SIZE]},
        {"starts": ["0"]},
        {"starts": None},
        {"length": True},
        {"length": -1},
        {"length": 10**18, "starts": [0]},
        {"sha256": None},
    ],
)
def test_metadata_of_what_cannot_be_an_excerpt_are_damage(changes: dict[str, Any], tmp_path: Path) -> None:
    path = golden_of(large().abridged(), tmp_path / "r.npz")
    with Archive(path) as archive:
        arrays = {name: np.array(archive.read(name)) for name in archive.names}
        meta = archive.meta
    meta["cases"]["a"]["outputs"]["leaves"][0]["excerpt"].update(changes)
    write_archive(path, arrays, meta)
    with pytest.raises(GoldenError, match=r"its metadata say what no golden says"):
        Golden.open(path)


def test_a_declared_size_costs_no_memory(tmp_path: Path) -> None:
    """A leaf that is said to be larger than any machine, and an excerpt as large as it."""
    path = golden_of(large().abridged(), tmp_path / "r.npz")
    with Archive(path) as archive:
        arrays = {name: np.array(archive.read(name)) for name in archive.names}
        meta = archive.meta
    leaf = meta["cases"]["a"]["outputs"]["leaves"][0]
    leaf["shape"], leaf["excerpt"]["starts"], leaf["excerpt"]["length"] = [10**15], [0], 10**15
    write_archive(path, arrays, meta)
    with Golden.open(path) as golden, pytest.raises(GoldenError, match="not as its excerpt"):
        golden.case("a")
