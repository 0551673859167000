"""Values changed in a registry's text: what is asked for, and not a character more."""

from __future__ import annotations

import difflib
import textwrap

import pytest
import yaml

from jaxcheck.registry import edit
from jaxcheck.registry.edit import CannotEdit, Change, edited, flow, number
from jaxcheck.registry.yaml_source import Keys, source_of

NEW = {"rtol": 3e-7, "atol": 4e-6}
WORDS = "8 x noise floor 4e-8, jax 0.11.2, 2026-01-02"
COMMENT = f" # derived: {WORDS}"
TOLERANCE = "{rtol: 3.0e-7, atol: 4.0e-6}"


def change(text: str, *path: str, value: dict[str, object] | None = None) -> str:
    keys: Keys = ("recipes", *path)
    return edited(text.encode(), [Change(keys, value or NEW, WORDS)], "r.yaml").decode()


def changed_lines(old: str, new: str) -> list[str]:
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [line for line in lines if line.startswith(("- ", "+ "))]


HEAD = "version: 1\n# Größe, 漢字 and 🙂 before it: places are counted in characters\nrecipes:\n"

EDITS = [
    # (recipe, path below it, value, the lines that change)
    (
        "r:\n  kernel: k:f # why\n  # what is loose\n  tolerance: {rtol: 1e-5, atol: 0} # as measured\n  cases: {}",
        ("tolerance",),
        NEW,
        [
            "-   tolerance: {rtol: 1e-5, atol: 0} # as measured",
            f"+   tolerance: {TOLERANCE} # as measured{COMMENT}",
        ],
    ),
    (
        "r:\n  kernel: k:f\n  tolerance:\n    rtol: 1e-5 # of the sum\n\n    atol: 1e-5\n  cases: {}",
        ("tolerance",),
        NEW,
        [
            "-     rtol: 1e-5 # of the sum",
            f"+     rtol: 3.0e-7 # of the sum{COMMENT}",
            "-     atol: 1e-5",
            f"+     atol: 4.0e-6{COMMENT}",
        ],
    ),
    (
        "r: {kernel: k:f, tolerance: {float32: {rtol: 1e-5, atol: 0}, bfloat16: {rtol: 1, atol: 1}}, cases: {}}",
        ("tolerance",),
        {"float32": NEW, "bfloat16": {"rtol": 1.0, "atol": 1.0}},
        [
            "- r: {kernel: k:f, tolerance: {float32: {rtol: 1e-5, atol: 0}, bfloat16: {rtol: 1, atol: 1}}, cases: {}}",
            f"+ r: {{kernel: k:f, tolerance: {{float32: {TOLERANCE}, bfloat16: {{rtol: 1, atol: 1}}}}, cases: {{}}}}"
            + COMMENT,
        ],
    ),
    (
        "r:\n  kernel: k:f\n  tolerance:\n    float32: {rtol: 1, atol: 1} # 32\n    # that is all\n  cases: {}",
        ("tolerance",),
        {"float32": {"rtol": 1.0, "atol": 1.0}, "bfloat16": NEW},
        [f"+     bfloat16: {TOLERANCE}{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  tolerance: {rtol: 1e-5, atol: 0}\n  cases: {}",
        ("tolerance",),
        {"float32": NEW, "bfloat16": NEW},
        [
            "-   tolerance: {rtol: 1e-5, atol: 0}",
            f"+   tolerance: {{float32: {TOLERANCE}, bfloat16: {TOLERANCE}}}{COMMENT}",
        ],
    ),
    (
        "r:\n  kernel: 'k:f' # why\n  description: >-\n    two\n    lines\n  cases: {}",
        ("tolerance",),
        {"float32": NEW},
        [f"+   tolerance: {{float32: {TOLERANCE}}}{COMMENT}"],
    ),
    (
        "r: {kernel: k:f, cases: {}}",
        ("tolerance",),
        NEW,
        ["- r: {kernel: k:f, cases: {}}", f"+ r: {{kernel: k:f, tolerance: {TOLERANCE}, cases: {{}}}}{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  cases: {}",
        ("outputs", "['w']", "tolerance"),
        NEW,
        ["+   outputs:", f"+     \"['w']\": {{tolerance: {TOLERANCE}}}{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  outputs:\n    \"['v']\":\n      nonfinite: allow # NaN\n  cases: {}",
        ("outputs", "['w']", "tolerance"),
        NEW,
        [f"+     \"['w']\": {{tolerance: {TOLERANCE}}}{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  outputs:\n    \"['w']\":\n      nonfinite: allow # NaN\n  cases: {}",
        ("outputs", "['w']", "tolerance"),
        NEW,
        [f"+       tolerance: {TOLERANCE}{COMMENT}"],
    ),
    (
        "r: {kernel: k:f, outputs: {}, cases: {}}",
        ("outputs", ".", "tolerance"),
        NEW,
        [
            "- r: {kernel: k:f, outputs: {}, cases: {}}",
            f'+ r: {{kernel: k:f, outputs: {{".": {{tolerance: {TOLERANCE}}}}}, cases: {{}}}}{COMMENT}',
        ],
    ),
    (
        "r:\n  kernel: k:f\n  cases: {}",
        ("backends", "gpu", "tolerance"),
        {"float32": NEW},
        ["+   backends:", f"+     gpu: {{tolerance: {{float32: {TOLERANCE}}}}}{COMMENT}"],
    ),
    (
        "q: {kernel: k:f, tolerance: &t {rtol: 1, atol: 1}, cases: {}}\nr:\n  kernel: k:f\n  tolerance: *t # as above",
        ("tolerance",),
        NEW,
        ["-   tolerance: *t # as above", f"+   tolerance: {TOLERANCE} # as above{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  tolerance: &alone {rtol: 1, atol: 1}\n  cases: {}",
        ("tolerance",),
        NEW,
        ["-   tolerance: &alone {rtol: 1, atol: 1}", f"+   tolerance: &alone {TOLERANCE}{COMMENT}"],
    ),
    (
        "r:\n  kernel: k:f\n  tolerance: {rtol: 1, atol: 1} # mine # derived: 8 x noise floor 1, jax 0.1\n  cases: {}",
        ("tolerance",),
        NEW,
        [
            "-   tolerance: {rtol: 1, atol: 1} # mine # derived: 8 x noise floor 1, jax 0.1",
            f"+   tolerance: {TOLERANCE} # mine{COMMENT}",
        ],
    ),
    # The line ends inside a text: a comment would become part of it.
    (
        "r: {kernel: k:f, tolerance: {rtol: 1, atol: 1}, description: two\n  lines, cases: {}}",
        ("tolerance",),
        NEW,
        [
            "- r: {kernel: k:f, tolerance: {rtol: 1, atol: 1}, description: two",
            f"+ r: {{kernel: k:f, tolerance: {TOLERANCE}, description: two",
        ],
    ),
]


@pytest.mark.parametrize("loader", [edit.LOADER, yaml.SafeLoader], ids=["c", "python"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(("recipe", "path", "value", "lines"), EDITS)
def test_only_the_value_changes(
    recipe: str,
    path: tuple[str, ...],
    value: dict[str, object],
    lines: list[str],
    end: str,
    loader: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edit, "LOADER", loader)
    text = (HEAD + textwrap.indent(recipe, "  ") + "\n").replace("\n", end)
    new = change(text, "r", *path, value=value)
    strip = [line[:2] + line[4:] for line in changed_lines(text, new)]
    assert sorted(strip) == sorted(lines)
    assert new.count(end) == len(new.splitlines()), "every line ends as the others do"
    data = source_of(new, "r.yaml").data["recipes"]["r"]
    for step in path:
        data = data[step]
    assert data == value


def test_what_is_so_already_is_left_alone() -> None:
    text = HEAD + "  r: {kernel: k:f, tolerance: {rtol: 3e-07, atol: 0.000004}, cases: {}}\n"
    assert change(text, "r", "tolerance") == text


def test_a_file_without_a_last_line_end_and_with_a_byte_order_mark_keeps_both_so() -> None:
    text = "recipes:\n  r:\n    kernel: k:f"
    new = edited(edit.BOM + text.encode(), [Change(("recipes", "r", "tolerance"), NEW, WORDS)], "r.yaml")
    assert new == edit.BOM + f"{text}\n    tolerance: {TOLERANCE}{COMMENT}".encode()


def test_several_changes_follow_one_another() -> None:
    text = "recipes:\n  r:\n    kernel: k:f\n  s: {kernel: k:f}\n"
    paths: list[Keys] = [("recipes", "r", "outputs", name, "tolerance") for name in ("['b']", "['a']")]
    paths += [("recipes", name, "tolerance") for name in ("r", "s")]
    new = edited(text.encode(), [Change(path, NEW, "x") for path in paths], "r.yaml").decode()
    assert new == (
        "recipes:\n  r:\n    kernel: k:f\n"
        f"    tolerance: {TOLERANCE} # derived: x\n"
        "    outputs:\n"
        f"      \"['b']\": {{tolerance: {TOLERANCE}}} # derived: x\n"
        f"      \"['a']\": {{tolerance: {TOLERANCE}}} # derived: x\n"
        f"  s: {{kernel: k:f, tolerance: {TOLERANCE}}} # derived: x\n"
    )


REFUSED = [
    # (recipes, path, what the message says)
    ("r: {kernel: k:f, tolerance: &t {rtol: 1, atol: 1}}\ns: {kernel: k:f, tolerance: *t}", (), "&t, which other"),
    (
        "r: {kernel: k:f, tolerance: {float32: &t {rtol: 1, atol: 1}, bfloat16: *t}}",
        ("float32",),
        "'float32' is &t, which other places share",
    ),
    ("r: {kernel: k:f, tolerance: {rtol: &n 1, atol: *n}}", (), "'rtol' is &n, which other"),
    ("q: &r {kernel: k:f}\nr: *r", (), "'r' stands in *r, which other places share"),
    ("r: &r {kernel: k:f}\ns: *r", (), "'r' stands in &r, which other places share"),
    (
        "r:\n  kernel: k:f\n  tolerance: # both\n    float32: # why\n      {rtol: 1, atol: 1}",
        (),
        "a comment inside of 'tolerance' would be lost",
    ),
    ("r: {kernel: k:f, tolerance: {float32: &t {rtol: 1, atol: 1}, bfloat16: *t}}", (), "'tolerance' holds &t"),
]


@pytest.mark.parametrize(("recipes", "path", "message"), REFUSED)
def test_what_others_share_or_what_would_be_lost_is_not_touched(
    recipes: str, path: tuple[str, ...], message: str
) -> None:
    text = HEAD + textwrap.indent(recipes, "  ") + "\n"
    with pytest.raises(CannotEdit, match=r"^r\.yaml:\d+:\d+: ") as caught:
        change(text, "r", "tolerance", *path)
    assert message in str(caught.value)


def test_an_edit_that_would_mean_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself: a writer that puts in a wrong number gets nothing through."""
    monkeypatch.setattr(edit, "flow", lambda value: "{rtol: 1, atol: 1}")
    with pytest.raises(CannotEdit, match="without changing something else"):
        change(HEAD + "  r: {kernel: k:f}\n", "r", "tolerance")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (5e-7, "5.0e-7"),
        (2e-38, "2.0e-38"),
        (1.25e-6, "1.25e-6"),
        (0.02, "2.0e-2"),
        (3.0, "3.0e+0"),
        (1e10, "1.0e+10"),
    ],
)
def test_numbers_are_numbers_to_every_reader_of_yaml(value: float, text: str) -> None:
    assert number(value) == text
    assert yaml.safe_load(text) == value
    assert source_of(f"x: {text}", "r.yaml").data == {"x": value}


def test_keys_are_quoted_where_they_are_more_than_words() -> None:
    data = {"float32": NEW, "['w\n\"']*": NEW, ".": NEW}
    assert yaml.safe_load(flow(data)) == data
