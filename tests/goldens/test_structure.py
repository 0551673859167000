from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.goldens.structure import count_leaves, describe_difference

KEYS = st.integers(-2, 2) | st.booleans() | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2)


def _pairs(keys: st.SearchStrategy[Any], nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(keys, nodes).map(list), max_size=3, unique_by=lambda pair: repr(pair[0]))


def _inner(nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda items: {"list": items}, st.lists(nodes, max_size=3)),
        st.builds(lambda items: {"tuple": items}, st.lists(nodes, max_size=3)),
        st.builds(lambda items: {"dict": items}, st.dictionaries(st.text(max_size=2), nodes, max_size=3)),
        st.builds(lambda items: {"dict": items}, _pairs(KEYS, nodes)),
        st.builds(
            lambda name, items: {"namedtuple": name, "fields": items},
            st.sampled_from(["Stat", "Point"]),
            _pairs(st.sampled_from("xyz"), nodes),
        ),
        st.builds(
            lambda name, aux, items: {"node": name, "aux": aux, "children": items},
            st.sampled_from(["m.A", "m.B"]),
            st.text(max_size=3),
            _pairs(st.sampled_from([".w", ".b", "['k']"]), nodes),
        ),
    )


STRUCTURES = st.recursive(st.sampled_from(["*", None]), _inner, max_leaves=8)


def _leaves(node: Any) -> int:
    """Counted in another way: stars that are not keys."""
    if isinstance(node, dict):
        values = next(node[kind] for kind in ("list", "tuple", "dict", "fields", "children") if kind in node)
        pairs = values.values() if isinstance(values, dict) else values
        plain = "list" in node or "tuple" in node or isinstance(values, dict)
        return sum(_leaves(item) if plain else _leaves(item[1]) for item in pairs)
    return int(node == "*")


@given(STRUCTURES)
def test_leaves_are_counted(structure: Any) -> None:
    assert count_leaves(structure) == _leaves(structure)


@given(STRUCTURES)
def test_a_structure_does_not_differ_from_itself(structure: Any) -> None:
    assert describe_difference(structure, structure) is None


def test_the_order_of_a_dict_means_nothing() -> None:
    assert describe_difference({"dict": {"a": "*", "b": None}}, {"dict": {"b": None, "a": "*"}}) is None


def _exact(node: Any) -> str:
    """Text that tells 1 from True; empty dicts are equal in both spellings, as is {"a": x} and [["a", x]]."""
    if isinstance(node, dict) and isinstance(node.get("dict"), dict):
        node = {"dict": [[key, child] for key, child in sorted(node["dict"].items())]}
    if isinstance(node, dict):
        return "{" + ",".join(f"{kind}:{_exact(value)}" for kind, value in sorted(node.items())) + "}"
    return "[" + ",".join(map(_exact, node)) + "]" if isinstance(node, list) else repr(node)


@given(STRUCTURES, STRUCTURES)
def test_structures_differ_when_anything_does(expected: Any, actual: Any) -> None:
    assert (describe_difference(expected, actual) is None) == (_exact(expected) == _exact(actual))


def node(name: str, aux: str, *children: list[Any]) -> dict[str, Any]:
    return {"node": name, "aux": aux, "children": list(children)}


def stat(name: str, *fields: str) -> dict[str, Any]:
    return {"namedtuple": name, "fields": [[field, "*"] for field in fields]}


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        ("*", None, "the root is None, was a leaf"),
        ({"list": []}, "*", "the root is a leaf, was a list of 0"),
        (
            {"dict": {"a": {"list": ["*"] * 3}}},
            {"dict": {"a": {"tuple": ["*"] * 2}}},
            "['a'] is a tuple of 2, was a list of 3",
        ),
        ({"tuple": [{"list": ["*"]}]}, {"tuple": [{"list": ["*", "*"]}]}, "[0] is a list of 2, was a list of 1"),
        ({"dict": {"z": None}}, {"dict": {}}, "['z']: None is gone"),
        ({"dict": {}}, {"dict": {"w": "*"}}, "['w']: a leaf is new"),
        ({"dict": {"1": "*"}}, {"dict": [[1, "*"]]}, "['1']: a leaf is gone; [1]: a leaf is new"),
        ({"dict": [[[1, 2], "*"]]}, {"dict": [[[1, 2], None]]}, "[(1, 2)] is None, was a leaf"),
        (
            {"dict": [[1, "*"], [2, "*"]]},
            {"dict": [[2, "*"], [1, "*"]]},
            "the root: its children are [2], [1], were [1], [2]",
        ),
        (stat("Stat", "x"), stat("Point", "x"), "the root is a namedtuple Point of 1, was a namedtuple Stat of 1"),
        (stat("Stat", "x"), stat("Stat", "y"), ".x: a leaf is gone; .y: a leaf is new"),
        (node("m.A", ""), node("m.B", ""), "the root is a m.B, was a m.A"),
        (node("m.A", "", [".w", "*"]), node("m.A", "", [".w", None]), ".w is None, was a leaf"),
        (node("m.A", "n=3"), node("m.A", "n=4"), "the root: the static data of m.A is 'n=4', was 'n=3'"),
        (
            {"dict": dict.fromkeys("abcde", "*")},
            {"dict": {"a": None}},
            "['a'] is None, was a leaf; ['b']: a leaf is gone; ['c']: a leaf is gone; and 2 more",
        ),
    ],
)
def test_a_difference_is_said_in_words(expected: Any, actual: Any, words: str) -> None:
    assert describe_difference(expected, actual) == words


def test_long_static_data_are_shown_from_where_they_differ() -> None:
    words = describe_difference(node("m.A", "x" * 500 + "a"), node("m.A", "x" * 500 + "b" * 90))
    assert words is not None
    assert f"is {'x' * 20 + 'b' * 20!r}, was {'x' * 20 + 'a'!r} (from character 480)" in words


@pytest.mark.parametrize(
    "structure",
    [
        "leaf",
        7,
        [],
        {},
        {"list": "*"},
        {"set": ["*"]},
        {"dict": {"a": "b"}},
        {"dict": [["a"]]},
        {"dict": [7]},
        {"namedtuple": 1, "fields": []},
        {"node": "m.A", "children": []},
        {"node": "m.A", "aux": "", "children": [["a", "*", "*"]]},
    ],
)
def test_what_is_no_structure_is_refused(structure: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        count_leaves(structure)
