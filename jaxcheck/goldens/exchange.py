"""How a worker hands arrays to its parent: one tree in one file, in the goldens' own container, or, where it is small,
the content of such a file in the reply itself: making and removing a file costs more than all else about a small check.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, Array, archive_bytes, write_archive
from jaxcheck.goldens.damage import damaged
from jaxcheck.goldens.leaf import Tree, check_tree_meta, json_field

INLINE = "npz;base64,"  # what a reference begins with that is the content
SMALL, A_LEAF = 16 << 10, 512  # bytes of a tree that need no file; those that a leaf takes beside its array


def send_tree(path: str | os.PathLike[str], tree: Tree) -> str:
    """A reference for `read_tree` and `take_tree`: the content of a small tree, else `path`, where it was written."""
    if sum(leaf.words.nbytes + A_LEAF for leaf in tree.leaves) > SMALL:
        write_tree(path, tree, {})
        return os.fspath(path)
    return INLINE + base64.b64encode(archive_bytes(path, *_content(tree, {}))).decode("ascii")


def write_tree(path: str | os.PathLike[str], tree: Tree, meta: Mapping[str, Any]) -> None:
    """Write a tree and JSON that goes with it, to a new file that the reader is told of when it is complete."""
    write_archive(path, *_content(tree, meta), durable=False)


def _content(tree: Tree, meta: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    return {str(index): leaf.words for index, leaf in enumerate(tree.leaves)}, {"tree": tree.meta(), "meta": meta}


def take_tree(reference: str | os.PathLike[str]) -> Tree:
    """The tree that was written or sent, for its only reader: the file is removed, and its arrays stay valid."""
    tree, _ = read_tree(reference)
    if not is_inline(reference):
        with contextlib.suppress(OSError):
            os.unlink(reference)
    return tree


def is_inline(reference: str | os.PathLike[str]) -> bool:
    """Whether it is the content itself, and no path."""
    return isinstance(reference, str) and reference.startswith(INLINE)


def _opened(reference: str | os.PathLike[str]) -> Archive:
    if not is_inline(reference):
        return Archive(reference)
    place = "a worker's reply"
    try:
        return Archive(place, base64.b64decode(os.fspath(reference).removeprefix(INLINE), validate=True))
    except ValueError as error:
        raise damaged(Path(place), f"is no tree: {error}") from error


def read_tree(reference: str | os.PathLike[str]) -> tuple[Tree, dict[str, Any]]:
    """What `write_tree` wrote or `send_tree` sent. Arrays are views of the file, and stay valid when it is deleted."""
    with _opened(reference) as archive:
        try:
            meta = json_field(archive.meta, "meta", dict)
            tree = check_tree_meta(json_field(archive.meta, "tree", dict))
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(archive.path, f"is no tree of a worker: {error}") from error
        entries = [str(index) for index in range(len(tree["leaves"]))]
        archive.expect(entries)
        words = [archive.read(entry, checked=False) for entry in entries]
        try:
            return Tree.restore(tree, words), meta
        except GoldenError as error:
            raise damaged(archive.path, f"is damaged: {error}") from error
