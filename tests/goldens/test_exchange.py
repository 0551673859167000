import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.exchange import INLINE, SMALL, read_tree, send_tree, take_tree, write_tree
from tests.goldens.samples import rewrite, rich_case, single


def test_a_tree_and_what_goes_with_it_come_back(tmp_path: Path) -> None:
    outputs = rich_case().outputs
    assert outputs is not None
    write_tree(tmp_path / "out.npz", outputs, {"seconds": 0.5})
    tree, meta = read_tree(tmp_path / "out.npz")
    (tmp_path / "out.npz").unlink()
    assert tree == outputs
    assert meta == {"seconds": 0.5}
    assert tree.by_path["['w']"].array().dtype.name == "bfloat16"


def test_leaves_may_share_a_path(tmp_path: Path) -> None:
    twice = single(1.0).leaves[0], single(2.0).leaves[0]
    tree = type(single(1.0))({"list": ["*", "*"]}, twice)
    write_tree(tmp_path / "out.npz", tree, {})
    assert read_tree(tmp_path / "out.npz")[0] == tree


def test_what_was_read_stays_when_the_file_is_taken_or_written_again(tmp_path: Path) -> None:
    path, first = tmp_path / "out.npz", single(np.arange(5.0))
    write_tree(path, first, {})
    read, _ = read_tree(path)
    write_tree(path, single(np.zeros(5)), {})
    taken = take_tree(path)
    assert not path.exists()
    assert read == first
    assert taken == single(np.zeros(5))


def test_a_small_tree_travels_in_the_reply_and_a_large_one_as_a_file(tmp_path: Path) -> None:
    outputs = rich_case().outputs
    assert outputs is not None
    reference = send_tree(tmp_path / "out.npz", outputs)
    assert json.loads(json.dumps(reference)) == reference
    assert read_tree(reference)[0] == take_tree(reference) == outputs
    assert list(tmp_path.iterdir()) == []
    large = single(np.arange(SMALL))
    reference = send_tree(tmp_path / "out.npz", large)
    assert reference == str(tmp_path / "out.npz")
    assert take_tree(reference) == large
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "AAAA", "no base64!", "UEsDBA=="])
def test_a_reply_that_holds_no_tree_is_refused(content: str) -> None:
    with pytest.raises(GoldenError, match="a worker's reply"):
        read_tree(INLINE + content)


def test_a_tree_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="cannot be written as JSON"):
        write_tree(tmp_path / "out.npz", single(1.0), {"x": object()})
    with pytest.raises(GoldenError, match="No such file"):
        write_tree(tmp_path / "gone" / "out.npz", single(1.0), {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("meta", "arrays", "message"),
    [
        ({"meta": {}}, {}, "is no tree of a worker: tree is missing"),
        ({"meta": [], "tree": {}}, {}, "is no tree of a worker: meta is '\\[\\]'"),
        ({"meta": {}, "tree": single(1.0).meta()}, {}, "lacks entries that its metadata lists: '0'"),
        ({"meta": {}, "tree": single(1.0).meta()}, {"0": np.float64(2.0)}, "is damaged: leaf . does not match"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path: Path, meta: dict[str, Any], arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(GoldenError, match=message):
        read_tree(rewrite(tmp_path / "out.npz", meta, arrays))
