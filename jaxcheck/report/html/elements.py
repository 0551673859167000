"""HTML and SVG as functions: text is always escaped, so that nothing a registry or a kernel says becomes markup."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from jaxcheck.report.lines import plain_text

VOID = frozenset({"meta", "input", "br"})
MOST_CHARACTERS = 20_000


@dataclass(frozen=True)
class Markup:
    """Text that is HTML already. Only this module makes it, and `page` of the files that belong to jaxcheck."""

    text: str


Child = str | Markup | None | Iterable["Child"]
Attribute = str | int | float | bool | None


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """`<tag name="value">children</tag>`.

    Underscores in names are hyphens and one at the end is dropped (`class_`, `data_status`); True is an attribute
    without a value, False and None are none. Tags and names are jaxcheck's own words, everything else is escaped.
    """
    said = "".join(
        _attribute(name, value) for name, value in attributes.items() if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{_inner(children)}</{tag}>")


def join(*children: Child) -> Markup:
    """Elements beside one another."""
    return Markup(_inner(children))


def visible(text: str) -> str:
    """Control and bidirectional characters as escapes, lines and tabs as they are; the end of what is long cut off."""
    rest = len(text) - MOST_CHARACTERS
    if rest > 0:
        text = f"{text[:MOST_CHARACTERS]}... ({rest:,} more characters)"
    if text.isprintable():
        return text
    return "\n".join(plain_text(line.expandtabs(4)) for line in text.split("\n"))


def _inner(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.text
    if isinstance(child, str):
        return html.escape(visible(child))
    return "".join(map(_inner, child))


def _attribute(name: str, value: Attribute) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(text))}"'
