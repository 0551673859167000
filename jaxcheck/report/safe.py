"""Text from kernels, registries and exceptions, made harmless: it may hold anything and be of any length."""

from __future__ import annotations

import re

from jaxcheck.report.lines import plain_text

LINE_LIMIT = 400
WORKERS_FRAME = re.compile(r' +File "([^"]*[/\\]jaxcheck[/\\]worker[/\\][^"]*|<frozen runpy>)", line \d+ in ')


def line(text: str, limit: int = LINE_LIMIT) -> str:
    """One line: line breaks, control and bidirectional characters as escapes, the end cut off where it is long."""
    if len(text) <= limit:
        return plain_text(text)
    return f"{plain_text(text[:limit])}... ({len(text) - limit:,} more characters)"


def last_lines(text: str, number: int) -> list[str]:
    """The last lines that are not blank at the end, each as in `line`; tabs as spaces; of a stack, without the worker's
    own frames, which are most of it and say nothing."""
    lines = [one for one in text.rstrip().splitlines() if not WORKERS_FRAME.match(one)]
    return [line(one.expandtabs(4)) for one in lines[-number:]]
