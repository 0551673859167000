"""How a worker hands arrays to its parent: one tree in one file, in the goldens' own container."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, write_archive
from jaxcheck.goldens.damage import damaged
from jaxcheck.goldens.leaf import Tree, check_tree_meta, json_field


def write_tree(path: str | os.PathLike[str], tree: Tree, meta: Mapping[str, Any]) -> None:
    """Write a tree and JSON that goes with it, to a new file that the reader is told of when it is complete."""
    arrays = {str(index): leaf.words for index, leaf in enumerate(tree.leaves)}
    write_archive(path, arrays, {"tree": tree.meta(), "meta": meta}, durable=False)


def take_tree(path: str | os.PathLike[str]) -> Tree:
    """The tree that `write_tree` wrote, for its only reader: the file is removed, and its arrays stay valid."""
    tree, _ = read_tree(path)
    with contextlib.suppress(OSError):
        os.unlink(path)
    return tree


def read_tree(path: str | os.PathLike[str]) -> tuple[Tree, dict[str, Any]]:
    """What `write_tree` wrote. The arrays are views of the file and stay valid when it is deleted."""
    with Archive(path) as archive:
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
