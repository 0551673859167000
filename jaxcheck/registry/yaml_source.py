"""One YAML file as plain data with the place of every key and value (YAML 1.2 core schema).

The file is read from parser events without recursion: neither deep nesting nor aliases that expand without bound
can exhaust the stack or the memory.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from jaxcheck.errors import Fault
from jaxcheck.registry.model import Position
from jaxcheck.registry.scalars import CORE, resolve, tagged
from jaxcheck.registry.words import plain, show

Keys = tuple[str | int, ...]
Place = tuple[int, int]

MAX_BYTES = 4 * 2**20
MAX_NODES = 500_000
MAX_DEPTH = 100
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TOO_LARGE = "keep large values in a file ($npz) or make them in a function (inputs:)"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WANTED = object()
_DROPPED = object()


class Node(NamedTuple):
    """Where a value stands (line and column from 1), what it contains, and where the key before it stands."""

    place: Place
    children: dict[str, Node] | list[Node] | None = None
    key: Place | None = None


@dataclass(frozen=True)
class Source:
    """A file as read. `data` is None where nothing could be read; `complete` is False where a part was dropped."""

    file: str
    data: Any
    root: Node
    faults: tuple[Fault, ...]
    complete: bool
    digest: str

    def value(self, path: Keys) -> Position:
        """The place of the value at `path`, or of the nearest value around it."""
        return Position(self.file, *self.node(path).place)

    def key(self, path: Keys) -> Position:
        """The place of the key before the value at `path`, or the nearest key around it."""
        node = self.node(path)
        return Position(self.file, *(node.key or node.place))

    def node(self, path: Keys) -> Node:
        """The value at `path`, or the nearest one around it."""
        node = self.root
        for step in path:
            inner = child(node, step)
            if inner is None:
                return node
            node = inner
        return node


def child(node: Node, step: str | int) -> Node | None:
    """The value under a key, or at an index of a list, if there is one."""
    found: Node | None = None
    if isinstance(node.children, dict):
        found = node.children.get(str(step))
    elif isinstance(node.children, list) and isinstance(step, int) and step < len(node.children):
        found = node.children[step]
    return found


class _UnreadableError(Exception):
    """A fault after which the rest of the file cannot be read."""

    def __init__(self, place: Place, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.place, self.message, self.hint = place, message, hint


def read_source(path: Path, file: str) -> Source:
    """Read the file at `path`, which messages call `file`. Never raises: what is wrong is in `faults`."""
    builder = _Builder(file)
    content = b""
    try:
        content = _content(path)
        for event in _events(_decoded(content)):
            builder.take(event)
    except _UnreadableError as stop:
        builder.stop(stop)
    return builder.source(hashlib.sha256(content).hexdigest())


def source_of(text: str, file: str) -> Source:
    """Read a text that is not in a file yet, or no longer."""
    builder = _Builder(file)
    try:
        for event in _events(text):
            builder.take(event)
    except _UnreadableError as stop:
        builder.stop(stop)
    return builder.source(hashlib.sha256(text.encode()).hexdigest())


def _content(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise _UnreadableError((1, 1), "is a folder, not a registry file", f"perhaps {path.name}/recipes.yaml")
        if not stat.S_ISREG(kind):
            raise _UnreadableError((1, 1), "is not a regular file")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _UnreadableError((1, 1), f"cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise _UnreadableError((1, 1), f"is larger than {MAX_BYTES // 2**20} MiB", _TOO_LARGE)
    return content


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        raise _UnreadableError(_place_after(before), "is not UTF-8 text", "save the file as UTF-8") from None
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        code = f"{ord(unprintable[0]):04x}"
        hint = f'write it as an escape in double quotes: "\\u{code}"'
        place = _place_after(text[: unprintable.start()])
        raise _UnreadableError(place, f"YAML does not allow the character U+{code.upper()}", hint)
    return text


def _place_after(text: str) -> Place:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        place, hint = _place_of(error.problem_mark or error.context_mark), None
        if error.context and error.context_mark and _place_of(error.context_mark) != place:
            line, column = _place_of(error.context_mark)
            hint = f"{error.context} that begins at {line}:{column}"
        raise _UnreadableError(place, f"not valid YAML: {error.problem}", hint) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise _UnreadableError((1, 1), f"not valid YAML: {error}") from None


def _place_of(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


class _Built(NamedTuple):
    """A finished value. `size` and `height` count what is in it with all aliases expanded."""

    data: Any
    place: Place
    children: dict[str, Node] | list[Node] | None = None
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _Block:
    """A mapping or list that is still open. `key` belongs to the value that comes next in a mapping."""

    data: Any
    place: Place
    children: Any
    anchor: str | None
    key: Any = _WANTED
    key_place: Place = (1, 1)
    size: int = 1
    height: int = 0


@dataclass
class _Builder:
    """Takes the events of one file in order, and keeps the faults that do not end the reading."""

    file: str
    faults: list[Fault] = field(default_factory=list)
    complete: bool = True
    root: _Built | None = None
    documents: int = 0
    size: int = 0
    blocks: list[_Block] = field(default_factory=list)
    anchors: dict[str, _Built | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._takers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda event: self._open(event, {}, {}),
            yaml.SequenceStartEvent: lambda event: self._open(event, [], []),
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }

    def take(self, event: Any) -> None:
        taker = self._takers.get(type(event))
        if taker:
            taker(event)

    def stop(self, stop: _UnreadableError) -> None:
        self._fault(stop.place, stop.message, stop.hint)
        self.root, self.complete = None, False

    def source(self, digest: str) -> Source:
        built = self.root
        if self.complete and (built is None or built.data is None):
            self._fault((1, 1), "is empty", "a registry begins with version: 1")
            self.complete = False
        data, root = (built.data, Node((1, 1), built.children)) if built else (None, Node((1, 1)))
        return Source(self.file, data, root, tuple(self.faults), self.complete, digest)

    def _fault(self, place: Place, message: str, hint: str | None = None) -> None:
        self.faults.append(Position(self.file, *place).fault(message, hint))

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            place = _place_of(event.start_mark)
            raise _UnreadableError(place, "a second document begins here", "a registry file holds one document")

    def _scalar(self, event: Any) -> None:
        place = _place_of(event.start_mark)
        data = self._resolved(event, place)
        self._grow(1, place)
        if event.anchor:
            self.anchors[event.anchor] = _Built(data, place)
        mapping = self._mapping()
        if mapping and mapping.key is _WANTED:
            self._key(mapping, event.value, data, place, unquoted=event.implicit[0])
        else:
            absent = mapping and not event.value and event.implicit[0]
            self._add(_Built(data, mapping.key_place if mapping and absent else place))

    def _resolved(self, event: Any, place: Place) -> Any:
        """The value of a scalar: quoted or with the tag `!` it is text, plain it is what the core schema says."""
        text: str = event.value
        if not text.isascii() and _SURROGATE.search(text):
            self._fault(place, "half of a surrogate pair is no character")
            return ""
        try:
            if event.tag in (None, "!"):
                return resolve(text) if event.implicit[0] and event.tag is None else text
            return tagged(event.tag, text)
        except ValueError as error:
            self._fault(place, str(error))
            return 1 if event.tag is None else text  # fits most places: one fault is enough

    def _open(self, event: Any, data: Any, children: Any) -> None:
        place = _place_of(event.start_mark)
        self._grow(1, place)
        self._check_depth(1, place)
        if event.tag not in (None, "!", f"{CORE}{'map' if isinstance(data, dict) else 'seq'}"):
            self._fault(place, f"unknown tag {show(event.tag)}", "registries use plain YAML without tags")
        if event.anchor:
            self.anchors[event.anchor] = None
        self.blocks.append(_Block(data, place, children, event.anchor))

    def _close(self, event: Any) -> None:
        block = self.blocks.pop()
        built = _Built(block.data, block.place, block.children, block.size, block.height + 1)
        if block.anchor and self.anchors[block.anchor] is None:  # unless the block itself set the anchor again
            self.anchors[block.anchor] = built
        self._add(built)

    def _alias(self, event: Any) -> None:
        place = _place_of(event.start_mark)
        built = self.anchors.get(event.anchor)
        if built is None:
            recursive = event.anchor in self.anchors
            problem = "contains itself" if recursive else "is not defined before this line"
            self._fault(place, f"the anchor &{event.anchor} {problem}")
            self.complete = False
            built = _Built(None, place)
        self._grow(built.size, place)
        self._check_depth(built.height, place)
        mapping = self._mapping()
        if mapping and mapping.key is _WANTED and isinstance(built.data, str):
            self._key(mapping, built.data, built.data, place, unquoted=False)
        else:
            self._add(built._replace(place=place))

    def _mapping(self) -> _Block | None:
        """The innermost open block, if it is a mapping."""
        return self.blocks[-1] if self.blocks and isinstance(self.blocks[-1].data, dict) else None

    def _grow(self, size: int, place: Place) -> None:
        self.size += size
        if self.size > MAX_NODES:
            raise _UnreadableError(place, f"more than {MAX_NODES} values, counting every use of an alias", _TOO_LARGE)

    def _check_depth(self, height: int, place: Place) -> None:
        if len(self.blocks) + height > MAX_DEPTH:
            raise _UnreadableError(
                place, f"nested deeper than {MAX_DEPTH} levels", "make such values in a function (inputs:)"
            )

    def _key(self, block: _Block, text: str, data: Any, place: Place, *, unquoted: bool) -> None:
        """Remember the key, or that the value after it has to be dropped."""
        block.key, block.key_place = text, place
        if unquoted and text == "<<":
            self._fault(place, "merge keys (<<) are not supported", "use defaults, or write the keys out")
            self.complete, block.key = False, _DROPPED
        elif text in block.children:
            first = Position(self.file, *block.children[text].key)
            self._fault(place, f"the key {show(text)} is given twice, first at {first}")
            block.key = _DROPPED
        elif not isinstance(data, str):
            hint = f'quote it: "{plain(text)}"; for other keys use a function (inputs:)'
            self._fault(place, f"the key is {show(data)}, not text", hint)

    def _add(self, built: _Built) -> None:
        if not self.blocks:
            self.root = built
            return
        block = self.blocks[-1]
        block.size += built.size
        block.height = max(block.height, built.height)
        if isinstance(block.data, list):
            block.data.append(built.data)
            block.children.append(Node(built.place, built.children))
        elif block.key is _WANTED:
            hint = "such keys need a function (inputs:)"
            self._fault(built.place, f"the key is {show(built.data)}, not text", hint)
            self.complete, block.key = False, _DROPPED
        else:
            if block.key is not _DROPPED:
                block.data[block.key] = built.data
                block.children[block.key] = Node(built.place, built.children, block.key_place)
            block.key = _WANTED
