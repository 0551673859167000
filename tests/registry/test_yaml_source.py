"""YAML as data and places: the core schema, and files that would hurt a naive reader."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest
import yaml

from jaxcheck.registry import yaml_source
from jaxcheck.registry.scalars import MAX_DIGITS, resolve
from jaxcheck.registry.yaml_source import MAX_BYTES, MAX_DEPTH, Source, read_source

INF, NAN = float("inf"), float("nan")

MEANINGS = [
    ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"),
    ("true", True), ("True", True), ("TRUE", True), ("false", False), ("tRUE", "tRUE"),
    ("on", "on"), ("yes", "yes"), ("no", "no"), ("off", "off"), ("y", "y"), ("On", "On"),
    ("0", 0), ("-0", 0), ("+12", 12), ("-12", -12), ("007", 7), ("0o17", 15), ("0x1F", 31), ("0xff", 255),
    ("0o8", "0o8"), ("0xg", "0xg"), ("-0x1", "-0x1"), ("0b11", "0b11"), ("1_000", "1_000"), ("0O7", "0O7"),
    ("1.5", 1.5), ("-1.5", -1.5), ("+1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e5", 1e5), ("1E5", 1e5),
    ("1e-5", 1e-5), ("1.0e+5", 1e5), ("-1.5e-3", -1.5e-3), (".5e1", 5.0), ("1e", "1e"), ("e5", "e5"), (".", "."),
    ("+", "+"), ("-", "-"), ("1.2.3", "1.2.3"), ("1 2", "1 2"), ("0.0", 0.0), ("0e5", 0.0), ("0.0e-999", 0.0),
    (".inf", INF), (".Inf", INF), (".INF", INF), ("+.inf", INF), ("-.inf", -INF), ("inf", "inf"), (".iNF", ".iNF"),
    ("-.nan", "-.nan"), ("nan", "nan"), ("12:30", "12:30"), ("12:30:45", "12:30:45"), ("190:20", "190:20"),
    ("2001-01-01", "2001-01-01"), ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
    ("=", "="), ("<<", "<<"), ("\uff11\uff12", "\uff11\uff12"), ("1e-5 ", "1e-5 "), ("1\n", "1\n"), ("٣", "٣"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_a_plain_scalar_means_what_the_core_schema_says(text: str, meaning: object) -> None:
    value = resolve(text)

    assert value == meaning
    assert type(value) is type(meaning)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan_is_a_number(text: str) -> None:
    assert resolve(text) != resolve(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1e-999", "0.1e-400", "9" * (MAX_DIGITS + 1), "0x" + "f" * 5000])
def test_a_number_that_would_lose_something_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"float64|digits"):
        resolve(text)


def read(folder: Path, content: str | bytes) -> Source:
    path = folder / "recipes.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_source(path, "recipes.yaml")


def faults(source: Source) -> list[str]:
    return [str(fault).removeprefix("recipes.yaml:") for fault in source.faults]


def test_every_key_and_value_has_its_place(tmp_path: Path) -> None:
    source = read(tmp_path, "a: 1\nключ: {b: [x, 'y'], c: }\n")

    assert source.data == {"a": 1, "ключ": {"b": ["x", "y"], "c": None}}
    assert str(source.key(("a",))) == "recipes.yaml:1:1"
    assert str(source.value(("a",))) == "recipes.yaml:1:4"
    assert str(source.key(("ключ", "b"))) == "recipes.yaml:2:8"
    assert str(source.value(("ключ", "b"))) == "recipes.yaml:2:11"
    assert str(source.value(("ключ", "b", 1))) == "recipes.yaml:2:15"
    assert str(source.value(("ключ", "c"))) == "recipes.yaml:2:21", "an absent value stands where its key does"


def test_the_place_of_what_is_not_there_is_the_nearest_around_it(tmp_path: Path) -> None:
    source = read(tmp_path, "a:\n  b: [1]\n")

    assert str(source.value(("a", "b", "c", 3))) == "recipes.yaml:2:6"
    assert str(source.value(("a", "b", 3))) == "recipes.yaml:2:6"
    assert str(source.key(("a", "x", "y"))) == "recipes.yaml:1:1"
    assert str(source.value(("x",))) == "recipes.yaml:1:1"


def test_an_alias_stands_where_it_is_used_and_its_content_where_it_is_written(tmp_path: Path) -> None:
    source = read(tmp_path, "a: &a {x: 1}\nb: *a\n? &k key\n: *k\n*k : dropped\n")

    assert source.data == {"a": {"x": 1}, "b": {"x": 1}, "key": "key"}
    assert str(source.value(("b",))) == "recipes.yaml:2:4"
    assert str(source.value(("b", "x"))) == "recipes.yaml:1:11"
    assert faults(source) == ["5:1: the key 'key' is given twice, first at recipes.yaml:3:3"]


def test_an_anchor_may_be_set_again(tmp_path: Path) -> None:
    assert read(tmp_path, "a: [&x 1, *x, &x 2, *x]").data == {"a": [1, 1, 2, 2]}
    assert read(tmp_path, "a: &x [&x 1]\nb: *x").data == {"a": [1], "b": 1}


def test_a_list_as_an_alias_is_no_key(tmp_path: Path) -> None:
    source = read(tmp_path, "a: &a [1]\n*a : 2\n")

    assert faults(source) == ["2:1: the key is a list, not text (such keys need a function (inputs:))"]
    assert not source.complete


def test_quotes_and_tags_make_text(tmp_path: Path) -> None:
    source = read(
        tmp_path, "a: '1'\nb: \"true\"\nc: |\n  1.5\nd: !!str 1\ne: ! 1\nf: !!float 2\ng: !!seq [1]\n'<<': 1\n"
    )

    expected = {"a": "1", "b": "true", "c": "1.5\n", "d": "1", "e": "1", "f": 2.0, "g": [1], "<<": 1}
    assert source.data == expected
    assert source.faults == ()


def test_a_byte_order_mark_and_other_line_ends_are_no_matter(tmp_path: Path) -> None:
    source = read(tmp_path, b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")

    assert source.data == {"a": 1, "b": {"c": 2}}
    assert str(source.value(("b", "c"))) == "recipes.yaml:3:6"


def billion_laughs(levels: int = 30) -> str:
    lines = ["a0: &a0 [" + ", ".join("x" * 9) + "]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_an_alias_bomb_is_refused_at_once_and_in_little_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    started = time.process_time()
    source = read(tmp_path, billion_laughs())
    spent = time.process_time() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert faults(source)[0].startswith("6:40: more than 500000 values, counting every use of an alias (keep large")
    assert source.data is None
    assert spent < 1.0
    assert peak < 10 * 2**20


def test_aliases_that_nest_without_bound_are_refused(tmp_path: Path) -> None:
    chain = "c0: &c0 [1]\n" + "".join(f"c{i}: &c{i} [[[[[*c{i - 1}]]]]]\n" for i in range(1, 1000))

    assert [fault.message for fault in read(tmp_path, chain).faults] == [f"nested deeper than {MAX_DEPTH} levels"]


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 900 + "]" * 900,
        "a: " + "{a: " * 900 + "}" * 900,
        "a:\n" + "".join(f"{' ' * i}-\n" for i in range(1, 300)),
        "- " * 900,
    ],
)
def test_depth_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str, text: str) -> None:
    if not hasattr(yaml, loader):
        pytest.skip("this PyYAML is built without libyaml")
    monkeypatch.setattr(yaml_source, "LOADER", getattr(yaml, loader))
    source = read(tmp_path, text)

    assert [fault.message for fault in source.faults] == [f"nested deeper than {MAX_DEPTH} levels"]


def test_depth_within_the_bound_is_read(tmp_path: Path) -> None:
    depth = MAX_DEPTH - 1
    source = read(tmp_path, "a: " + "[" * depth + "]" * depth)

    assert source.faults == ()
    assert source.data is not None


def test_a_large_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    source = read(tmp_path, b"#" * (MAX_BYTES + 1))

    hint = "keep large values in a file ($npz) or make them in a function (inputs:)"
    assert faults(source) == [f"1:1: is larger than 4 MiB ({hint})"]


def test_bytes_that_are_not_utf8_are_placed(tmp_path: Path) -> None:
    assert faults(read(tmp_path, "é: 1\nd: é".encode() + b"\xff")) == [
        "2:5: is not UTF-8 text (save the file as UTF-8)"
    ]
    assert faults(read(tmp_path, "a: 1".encode("utf-16")))[0].startswith("1:1: is not UTF-8 text")


def test_a_character_that_yaml_forbids_is_placed(tmp_path: Path) -> None:
    expected = '2:4: YAML does not allow the character U+0007 (write it as an escape in double quotes: "\\u0007")'
    assert faults(read(tmp_path, "a: 1\nb: \a")) == [expected]


def test_a_surrogate_that_only_the_parser_in_python_lets_through_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_source, "LOADER", yaml.SafeLoader)

    assert faults(read(tmp_path, 'a: "\\ud800"')) == ["1:4: half of a surrogate pair is no character"]
    assert faults(read(tmp_path, 'a: "\\U00ffffff"'))[0].startswith("1:1: not valid YAML: ")


def test_what_is_wrong_before_the_reading_ends_is_reported_too(tmp_path: Path) -> None:
    first, second = faults(read(tmp_path, "1: a\nb: ["))

    assert first.startswith("1:1: the key is 1, not text")
    assert ": not valid YAML: " in second


def test_a_folder_a_pipe_and_a_missing_file_are_faults(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert faults(read_source(tmp_path, "recipes.yaml"))[0].startswith("1:1: is a folder, not a registry file")
    assert faults(read_source(tmp_path / "pipe", "recipes.yaml")) == ["1:1: is not a regular file"]
    assert faults(read_source(tmp_path / "none", "recipes.yaml")) == ["1:1: cannot be read: No such file or directory"]
    assert faults(read_source(tmp_path / "a\0b", "recipes.yaml"))[0].startswith("1:1: cannot be read: ")


def test_an_unreadable_file_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "recipes.yaml"
    path.write_text("version: 1\n")
    monkeypatch.setattr(Path, "open", refuse)

    assert faults(read_source(path, "recipes.yaml")) == ["1:1: cannot be read: Permission denied"]


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    first, same, other = (read(tmp_path, text).digest for text in ("a: 1\n", "a: 1\n", "a: 1 \n"))

    assert first == same != other
