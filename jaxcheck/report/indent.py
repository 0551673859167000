"""Indentation that wraps inside its width and leaves no blanks at the end of a line, as rich's Padding would."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment

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
