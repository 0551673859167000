"""Indentation that wraps inside its width and leaves no blanks at the end of a line, as rich's Padding would."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

COLUMNS = 2


class Indented:
    """The parts below each other, two columns to the right."""

    def __init__(self, *parts: RenderableType) -> None:
        self._parts = Group(*parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update_width(max(1, options.max_width - COLUMNS))
        for line in console.render_lines(self._parts, narrower, pad=False):
            yield Segment(" " * COLUMNS)
            yield from line
            yield Segment.line()


class Hanging:
    """A label on the first line, and a text that wraps beside it."""

    def __init__(self, label: Text, text: RenderableType) -> None:
        self._label, self._text = label, text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = self._label.cell_len
        narrower = options.update_width(max(1, options.max_width - width))
        for number, line in enumerate(console.render_lines(self._text, narrower, pad=False)):
            yield from self._label.render(console) if number == 0 else [Segment(" " * width)]
            yield from _stripped(line)
            yield Segment.line()


def _stripped(line: list[Segment]) -> list[Segment]:
    """Without the blank that a wrapped line ends with."""
    if not line or line[-1].is_control:
        return line
    text, style, _ = line[-1]
    return [*line[:-1], Segment(text.rstrip(" "), style)]


def columns(rows: Sequence[Sequence[Text]]) -> list[Hanging]:
    """Rows whose cells stand below each other, the last of which may wrap."""
    widths = [max(row[column].cell_len for row in rows) for column in range(len(rows[0]) - 1)] if rows else []
    found = []
    for row in rows:
        label = Text()
        for cell, width in zip(row, widths, strict=False):
            label.append_text(cell)
            label.append(" " * (width - cell.cell_len + COLUMNS))
        if not row[-1].plain:
            label.rstrip()
        found.append(Hanging(label, row[-1]))
    return found
