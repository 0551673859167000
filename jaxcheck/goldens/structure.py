"""The structure of a pytree as JSON, and where two structures differ, in words.

    "*"                                                             a leaf
    null                                                            None
    {"list": [NODE, ...]}, {"tuple": [NODE, ...]}
    {"dict": {KEY: NODE, ...}}                                      a dict whose keys are all strings
    {"dict": [[KEY, NODE], ...]}                                    any other dict
    {"namedtuple": NAME, "fields": [[FIELD, NODE], ...]}
    {"node": "module.Class", "aux": TEXT, "children": [[STEP, NODE], ...]}      any other registered node

KEY is JSON (a list stands for a tuple). STEP is one step of a key path as jax.tree_util.keystr spells it:
`.weight`, `['w']`, `[0]`. "aux" is the node's static data as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

Child = tuple[str, Any]
_KINDS = ("dict", "list", "tuple", "namedtuple", "node")
_SHOWN = 3
_CONTEXT = 40


def count_leaves(node: Any) -> int:
    """How many leaves the structure has; ValueError or TypeError where it is none of the grammar."""
    if node == "*":
        return 1
    return sum(count_leaves(child) for _, child in _children(node))


def describe_difference(expected: Any, actual: Any) -> str | None:
    """Where two structures differ: `['a'] is a tuple of 2, was a list of 3`; None where they do not."""
    found = _differences("", expected, actual)
    shown = list(islice(found, _SHOWN))
    more = sum(1 for _ in found)
    return "; ".join(shown) + (f"; and {more} more" if more else "") or None


def _differences(path: str, expected: Any, actual: Any) -> Iterator[str]:
    where = path or "the root"
    if _kind(expected) != _kind(actual):
        yield f"{where} is {_words(actual)}, was {_words(expected)}"
        return
    before, after = _children(expected), _children(actual)
    if [key for key, _ in before] != [key for key, _ in after]:
        yield from _key_differences(path, before, after)
        return
    if expected != "*" and expected is not None and expected.get("aux") != actual.get("aux"):
        changed = _text_difference(expected["aux"], actual["aux"])
        yield f"{where}: the static data of {expected['node']} {changed}"
    for (key, old), (_, new) in zip(before, after, strict=True):
        yield from _differences(path + key, old, new)


def _key_differences(path: str, before: list[Child], after: list[Child]) -> Iterator[str]:
    old, new = dict(before), dict(after)
    if old.keys() == new.keys():
        order = [", ".join(key for key, _ in side) for side in (after, before)]
        yield f"{path or 'the root'}: its children are {order[0]}, were {order[1]}"
    for key, node in old.items():
        if key in new:
            yield from _differences(path + key, node, new[key])
        else:
            yield f"{path}{key}: {_words(node)} is gone"
    for key, node in new.items():
        if key not in old:
            yield f"{path}{key}: {_words(node)} is new"


def _text_difference(expected: str, actual: str) -> str:
    """From a little before the first character that differs: static data may be long."""
    pairs = enumerate(zip_longest(expected, actual))
    first = next(index for index, (old, new) in pairs if old != new)
    start = max(0, first - _CONTEXT // 2)
    before, after = (repr(text[start : start + _CONTEXT]) for text in (expected, actual))
    return f"is {after}, was {before}" + (f" (from character {start})" if start else "")


def _kind(node: Any) -> tuple[Any, ...]:
    """What two nodes must share to be compared child by child."""
    if node is None or node == "*":
        return (node,)
    kind = next(kind for kind in _KINDS if kind in node)
    match kind:
        case "list" | "tuple":
            return (kind, len(node[kind]))
        case "dict":
            return (kind,)
        case _:
            return (kind, node[kind])


def _words(node: Any) -> str:
    if node is None:
        return "None"
    if node == "*":
        return "a leaf"
    kind = _kind(node)[0]
    if kind == "node":
        return f"a {node['node']}"
    name = f"namedtuple {node['namedtuple']}" if kind == "namedtuple" else kind
    return f"a {name} of {len(_children(node))}"


def _children(node: Any) -> list[Child]:
    """The children of a node, each with its step of the key path; ValueError where it is not a node."""
    match node:
        case None | "*":
            return []
        case {"dict": dict() as items}:
            return [(f"[{key!r}]", child) for key, child in sorted(items.items())]
        case {"dict": list() as items}:
            return [(f"[{_hashable(key)!r}]", child) for key, child in items]
        case {"list": list() as items} | {"tuple": list() as items}:
            return [(f"[{index}]", child) for index, child in enumerate(items)]
        case {"namedtuple": str(), "fields": list() as items}:
            return [(f".{name}", child) for name, child in items]
        case {"node": str(), "aux": str(), "children": list() as items}:
            return [(str(key), child) for key, child in items]
    raise ValueError(f"{str(node)[:60]!r} is no node of a structure")


def _hashable(key: Any) -> Any:
    """A dict's key from JSON, where tuples have become lists."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
