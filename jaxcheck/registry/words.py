"""Words for messages (how a value is shown, the valid word that was probably meant) and the rules for names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_LONGEST_WORD = 200
_LONGEST_SHOWN = 60
_CONTROLS = frozenset(("Cc", "Cs", "Zl", "Zp"))
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def show(value: object) -> str:
    """A value as the user knows it from the file, short and on one line."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return _shortened(repr(value), _LONGEST_SHOWN)


def printable(text: str) -> str:
    """The text with escapes for what would act on a terminal: control characters, line breaks, marks of direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(name: str) -> str:
    """A name from the file as part of a message: printable and not endless."""
    return _shortened(printable(name), _LONGEST_WORD)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def label(*path: str | int) -> str:
    """What a path speaks of, to begin a message with: `newton::zeros, args.x: `."""
    match path:
        case ("recipes", str(recipe), "cases", str(case), *rest):
            words = [plain(f"{recipe}::{case}"), _dotted(rest)]
        case ("recipes", str(recipe), *rest):
            words = [plain(recipe), _dotted(rest)]
        case _:
            words = [_dotted(path)]
    said = ", ".join(word for word in words if word)
    return f"{said}: " if said else ""


def _dotted(path: Iterable[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return plain(text.removeprefix("."))


def closest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that looks most like this one, if any does."""
    import difflib

    if len(word) > _LONGEST_WORD:
        return None
    return next(iter(difflib.get_close_matches(word, list(valid), 1)), None)


def did_you_mean(word: str, valid: Iterable[str]) -> str | None:
    """The hint for a misspelt word: the closest valid one, or else all of them."""
    names = list(valid)
    near = closest(word, names)
    if near is not None:
        return f"did you mean {near}?"
    return f"valid: {', '.join(map(plain, names))}" if names else None


def name_problem(name: str) -> str | None:
    """What keeps a text from naming a recipe, a case or a tag, or None. Any script is fine.

    `::` and brackets delimit the parts of check ids. One spelling of each character is allowed, since file systems and
    keyboards take the other one for the same, or change one into the other.
    """
    if not name:
        return "is empty"
    if name != name.strip():
        return "begins or ends with a space"
    if any(unicodedata.category(c) in _CONTROLS or c in _BIDI_CONTROLS for c in name):
        return "contains a control character"
    normal = unicodedata.normalize("NFC", name)
    if normal != name:
        return f"is not in Unicode's normal form C: write {normal!a} in place of {name!a}"
    reserved = next((mark for mark in ("::", "[", "]") if mark in name), None)
    return f"contains {reserved}, which delimits the parts of check ids" if reserved else None


def dotted_problem(name: str) -> tuple[str, str] | None:
    """What keeps a text from naming a function as `pkg.module:function`, with a hint, or None."""
    module, _, function = name.partition(":")
    if module.endswith(".py"):
        as_module = module.removesuffix(".py").replace("/", ".")
        return "names a file, not a module", f"write {as_module}:{function or 'function'}"
    if _DOTTED.fullmatch(name):
        return None
    parts = name.split(".")
    if ":" not in name and len(parts) > 1 and all(part.isidentifier() for part in parts):
        return "has no colon before the function", f"write {'.'.join(parts[:-1])}:{parts[-1]}"
    return "is not of the form pkg.module:function", "for example kernels:newton"
