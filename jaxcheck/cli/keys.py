"""One answer from a person: a single key where the terminal can give one, else a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

END = "\x04"  # Ctrl-D


def is_interactive() -> bool:
    """Whether somebody sits there: questions go to stdout and answers come from stdin."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_key(question: str) -> str:
    """The key that is pressed, END at the end of the input; Ctrl-C raises KeyboardInterrupt as ever."""
    try:
        import termios
    except ImportError:
        return ask_line(question)[:1]
    if os.environ.get("TERM", "dumb") == "dumb":
        return ask_line(question)[:1]
    handle = sys.stdin.fileno()
    with _key_by_key(handle):
        print(question, end="", flush=True)
        key = os.read(handle, 1).decode("utf-8", "replace") or END
        if key == "\x1b":  # an arrow or a function key: the rest of it is no answer
            termios.tcflush(handle, termios.TCIFLUSH)
    print(key if key.isprintable() else "")
    return key


def ask_line(question: str) -> str:
    """A line without its end and the blanks around it; END at the end of the input."""
    try:
        return input(question).strip()
    except EOFError:
        print()
        return END


@contextmanager
def _key_by_key(handle: int) -> Iterator[None]:
    """Keys as they are pressed, without their echo. What was typed before the question is no answer to it."""
    import termios
    import tty

    before = termios.tcgetattr(handle)
    tty.setcbreak(handle, termios.TCSAFLUSH)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
