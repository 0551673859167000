"""A run as Markdown, and where it is cut."""

from __future__ import annotations

import re

import pytest

from jaxcheck.report.markdown import CUT, FENCE, code, cut, markdown, table
from tests.report import sample


def test_a_run_says_what_is_beyond_and_what_to_type() -> None:
    document = markdown(sample.every_status())
    assert (
        "| `newton-sqrt::standard[jit]` | `[0]['w']` | 20.4 x tolerance | \\[1, 2\\] | 0.1234111 | 0.1234567"
        in document
    )
    assert f"`cross::standard[eager]`\n\n{FENCE}text\nTraceback (most recent call last):\n" in document
    assert "- `jaxcheck diff newton-sqrt::standard`" in document
    assert "- `DeprecationWarning` jnp.cross of 2\\-vectors is deprecated (kernels/cross.py\\:14)" in document


def test_a_code_block_cannot_be_ended_from_inside() -> None:
    error = "before\n````\n  `````\nafter"
    document = markdown(sample.run_of(sample.check("a", "b", "jit", "error", reason="x", error=error)))
    fences = [line for line in document.splitlines() if line.lstrip(" ").startswith(FENCE)]
    assert [line for line in fences if not line.startswith("    ")] == [f"{FENCE}text", FENCE]
    assert len(fences) == 4


TEXT = "# é\n\n| é | b |\n| é | d |\n\n" + f"{FENCE}text\nééééé\nééééé\n{FENCE}\n\nend é\n" * 3


@pytest.mark.parametrize("more", range(len(TEXT.encode())))
def test_a_cut_falls_between_lines_and_outside_of_code(more: int) -> None:
    most = len(CUT.encode()) + more
    found = cut(TEXT, most)
    assert len(found.encode()) <= most
    if found == TEXT:
        assert len(TEXT.encode()) <= most
        return
    kept = found.removesuffix(CUT)
    assert found.endswith(CUT)
    assert TEXT.startswith(kept)
    assert kept.count(FENCE) % 2 == 0
    assert not kept or TEXT[len(kept)] == "\n"


@pytest.mark.parametrize("text", ["|", "a|b", r"\|", r"\\|", r"a\\\| <b>x</b> |", "`|`", "\\", r"|\||"])
def test_no_bar_ends_a_cell_of_code(text: str) -> None:
    """By the rule of cmark-gfm: an escaped character or any but a bar, as often as may be, is a cell."""
    cell = re.compile(r"(?:\\[!-/:-@\[-`{-~]|[^|\r\n])+")
    (row,) = list(table(("one", "two"), [(code(text), "end")]))[2:]
    assert [one.strip() for one in cell.findall(row.strip("| "))][-1] == "end"
    assert len(cell.findall(row.strip("| "))) == 2
