"""Changing values in a registry file without touching anything else: comments, styles, anchors, line ends stay.

Only the characters of a value are replaced, or a key is put in beside its neighbours. What comes out is read again, and
has to mean exactly what was asked for: else the edit is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import yaml

from jaxcheck.registry.model import Position
from jaxcheck.registry.words import show
from jaxcheck.registry.yaml_source import LOADER, Keys, source_of

BOM = b"\xef\xbb\xbf"
_MARK = "# derived: "
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_OLD_MARK = re.compile(rf"[ \t]+{_MARK}[^#\r\n]*$")


class CannotEdit(Exception):
    """The value cannot be changed without changing something else; the message begins with its place."""


@dataclass(frozen=True)
class Change:
    """What the value at `path` is to be, and the words of the comment that says why, after `# derived: `."""

    path: Keys
    value: Mapping[str, Any]
    comment: str


def edited(content: bytes, changes: Sequence[Change], file: str) -> bytes:
    """The file's content with the changes made; CannotEdit where one of them cannot be. `file` is for messages."""
    text = content.removeprefix(BOM).decode("utf-8")
    for change in changes:
        text = _changed(text, change, file)
    return (BOM if content.startswith(BOM) else b"") + text.encode("utf-8")


def _changed(text: str, change: Change, file: str) -> str:
    """With a comment where there is room for one: a line may end inside a text."""
    document = _Document(text, file)
    edits = list(document.edits(change.path, change.value, change.comment))
    wanted = _meaning(text, file, change)
    for chosen in (edits, [edit._replace(comment="") for edit in edits]):
        new = _applied(text, chosen)
        if _meaning(new, file) == wanted:
            return new
    raise CannotEdit(f"{document.place(change.path)}: this cannot be edited without changing something else")


def _meaning(text: str, file: str, change: Change | None = None) -> str:
    """What the text says, with the change made, in a form that can be compared; NaN equals itself."""
    source = source_of(text, file)
    if not source.complete or source.faults:
        return f"not a registry: {source.faults}"
    data = json.loads(json.dumps(source.data), parse_int=_wide)  # aliases become copies
    if change is not None:
        around = data
        for step in change.path[:-1]:
            around = around.setdefault(step, {})
        around[change.path[-1]] = change.value
    return json.dumps(data, sort_keys=True)


def _wide(digits: str) -> float | str:
    """0 means what 0.0 does; a float cannot tell large numbers apart."""
    return float(digits) if len(digits) < 16 else digits


class _Edit(NamedTuple):
    """Characters to be replaced, and the comment for the line that they end in ("" for none)."""

    start: int
    end: int
    text: str
    comment: str


def _applied(text: str, edits: Sequence[_Edit]) -> str:
    """From the back. At one place, what comes first in the text is put in last: values, a comment, new lines."""
    lines = [edit for edit in edits if edit.text.startswith(("\r", "\n"))]
    values = [edit for edit in edits if edit not in lines]
    ranked = [*((edit, 2) for edit in lines), *((edit, 1) for edit in _comments(text, values))]
    ranked += [(edit, 0) for edit in values]
    for edit, _ in sorted(ranked, key=lambda item: (item[0].end, item[1]), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _comments(text: str, edits: Sequence[_Edit]) -> Iterator[_Edit]:
    """One at the end of each line that was edited; an older one of ours makes way."""
    for eol, comment in {_end_of_line(text, edit.end): edit.comment for edit in edits if edit.comment}.items():
        start = max(edit.end for edit in edits if _end_of_line(text, edit.end) == eol)
        old = _OLD_MARK.search(text[start:eol])
        yield _Edit(start + old.start() if old else eol, eol, f" {_MARK}{comment}", "")


def _end_of_line(text: str, position: int) -> int:
    """Before the line break."""
    found = re.compile("[\r\n]").search(text, position)
    return found.start() if found else len(text)


@dataclass
class _Piece:
    """A value as it stands in the text: `start` is at its anchor, `end` behind it (a block ends anywhere before what
    follows). `items` are (key, value)."""

    kind: str
    start: int
    end: int
    anchor: str | None = None
    flow: bool = False
    value: str = ""
    items: list[tuple[_Piece, _Piece]] = field(default_factory=list)
    inner: list[_Piece] = field(default_factory=list)


class _Document:
    """The pieces of a text."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.aliases: set[str] = set()
        self.anchors: dict[str, _Piece] = {}
        events = iter(yaml.parse(text, Loader=LOADER))
        self.root = next(piece for event in events if (piece := self._piece(event, events)) is not None)
        for event in events:  # the end of the stream: a fault there is one of the text
            assert not isinstance(event, yaml.NodeEvent)

    def _piece(self, event: Any, events: Iterator[Any]) -> _Piece | None:
        start, end = event.start_mark.index, _after(event)
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            self.aliases.add(name)
            return _Piece("alias", start, end, value=name)
        if isinstance(event, yaml.ScalarEvent):
            piece = _Piece("scalar", start, end, event.anchor, value=event.value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            piece = _Piece("collection", start, end, event.anchor, bool(event.flow_style))
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            while not isinstance(event := next(events), yaml.CollectionEndEvent):
                inner = self._piece(event, events)
                assert inner is not None
                piece.inner.append(inner)
            piece.end = _after(event)
            if is_mapping:
                piece.kind = "mapping"
                piece.items = list(zip(piece.inner[::2], piece.inner[1::2], strict=True))
        else:
            return None
        if piece.anchor:
            self.anchors[piece.anchor] = piece
        return piece

    def place(self, path: Keys) -> Position:
        """Where the value at `path`, or the nearest one around it, stands."""
        return source_of(self.text, self.file).value(path)

    def edits(self, path: Keys, value: Mapping[str, Any], comment: str) -> Iterator[_Edit]:
        piece, above = self.root, path
        for index, step in enumerate(path):
            self._stop_where_shared(piece, path[:index], "stands in")
            inner = self._child(piece, step)
            if inner is None:
                yield self._inserted(piece, path[: index + 1], _nested(path[index + 1 :], value), comment)
                return
            piece = inner
        yield from self._replaced(piece, above, value, comment)

    def _child(self, piece: _Piece, step: str | int) -> _Piece | None:
        return next((value for key, value in piece.items if self._text_of(key) == step), None)

    def _text_of(self, key: _Piece) -> str:
        return self.anchors[key.value].value if key.kind == "alias" else key.value

    def _stop_where_shared(self, piece: _Piece, path: Keys, how: str) -> None:
        name = piece.value if piece.kind == "alias" else piece.anchor if piece.anchor in self.aliases else None
        if name is not None:
            mark = "*" if piece.kind == "alias" else "&"
            raise CannotEdit(f"{self.place(path)}: {show(_last(path))} {how} {mark}{name}, which other places share")

    def _replaced(self, piece: _Piece, path: Keys, value: Any, comment: str) -> Iterator[_Edit]:
        """The least that turns the piece into the value: numbers where both are mappings, else all of it."""
        if piece.kind != "alias":
            self._stop_where_shared(piece, path, "is")
        keys = [self._text_of(key) for key, _ in piece.items]
        if isinstance(value, Mapping) and piece.kind == "mapping" and set(keys) <= set(value):
            for key, inner in value.items():
                old = self._child(piece, key)
                if old is None:
                    yield self._inserted(piece, (*path, key), inner, comment)
                else:
                    yield from self._replaced(old, (*path, key), inner, comment)
            return
        end = self._content_end(piece)
        if piece.kind == "scalar" and piece.anchor is None and _is_number(self.text[piece.start : end], value):
            return
        self._stop_where_something_is_lost(piece, end, path)
        yield _Edit(piece.start, end, flow(value), comment)

    def _stop_where_something_is_lost(self, piece: _Piece, end: int, path: Keys) -> None:
        for inner in piece.inner:
            if inner.kind != "alias":
                self._stop_where_shared(inner, path, "holds")
            self._stop_where_something_is_lost(inner, end, path)
        if piece.kind not in ("scalar", "alias") and "#" in self.text[piece.start : end]:
            raise CannotEdit(f"{self.place(path)}: a comment inside of {show(_last(path))} would be lost")

    def _inserted(self, around: _Piece, path: Keys, value: Any, comment: str) -> _Edit:
        """A new key of a mapping: behind `kernel` in a recipe, behind the last key elsewhere."""
        if around.kind != "mapping":
            raise CannotEdit(f"{self.place(path)}: {show(_last(path[:-1]))} is no mapping")
        if not around.items:  # {}
            return _Edit(around.end - 1, around.end - 1, f"{key_text(path[-1])}: {flow(value)}", comment)
        key, last = next((item for item in around.items if item[0].value == "kernel"), around.items[-1])
        end = self._content_end(last)
        if around.flow:
            return _Edit(end, end, f", {key_text(path[-1])}: {flow(value)}", comment)
        eol = _end_of_line(self.text, end)
        column = key.start - max(self.text.rfind("\n", 0, key.start), self.text.rfind("\r", 0, key.start)) - 1
        line_break = next((mark for mark in ("\r\n", "\n", "\r") if self.text.startswith(mark, eol)), "\n")
        lines = _block(path[-1], value, f" {_MARK}{comment}")
        return _Edit(eol, eol, "".join(f"{line_break}{' ' * column}{line}" for line in lines), "")

    def _content_end(self, piece: _Piece) -> int:
        """Behind the last character that belongs to a piece."""
        if piece.kind in ("scalar", "alias") or piece.flow or not piece.inner:
            return len(self.text[: piece.end].rstrip())
        return self._content_end(piece.inner[-1])


def _after(event: Any) -> int:
    return int(event.end_mark.index)


def _last(path: Keys) -> str:
    return str(path[-1]) if path else "the file"


def _nested(path: Keys, value: Any) -> Any:
    for step in reversed(path):
        value = {str(step): value}
    return value


def _is_number(text: str, value: Any) -> bool:
    """Whether that is how the value is written already, in whatever form."""
    try:
        return isinstance(value, float) and float(text) == value
    except ValueError:
        return False


def key_text(step: str | int) -> str:
    """A key of a mapping as it is written: quoted where it is more than a word."""
    return str(step) if _PLAIN_KEY.fullmatch(str(step)) else json.dumps(step, ensure_ascii=False)


def _block(key: str | int, value: Any, comment: str) -> list[str]:
    """The lines of a key with its value; `outputs` and `backends` have a line for each of theirs."""
    if key not in ("outputs", "backends"):
        return [f"{key_text(key)}: {flow(value)}{comment}"]
    return [f"{key}:", *(f"  {key_text(inner)}: {flow(of)}{comment}" for inner, of in value.items())]


def flow(value: Any) -> str:
    """A mapping or a number as YAML on one line: `{rtol: 5.0e-7, atol: 0.0}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_text(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    return number(float(value))


def number(value: float) -> str:
    """`5.0e-7`: with a point and an exponent, so that every reader of YAML takes it for a number."""
    if value == 0:
        return "0.0"
    _, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    words = "".join(map(str, digits))
    return f"{words[0]}.{words[1:] or '0'}e{Decimal(repr(value)).adjusted():+d}"
