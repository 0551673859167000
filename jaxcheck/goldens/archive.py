"""The one place that writes and reads the bytes of `.npz` files.

An archive is a zip of `.npy` entries that `np.load(path, allow_pickle=False)` reads, with one entry more:
`__meta__` holds a JSON object as text. The same content gives the same bytes on every machine and under every
Python.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from jaxcheck.errors import GoldenError
from jaxcheck.goldens import npy
from jaxcheck.goldens.damage import HEAD_BYTES, cannot_read, damaged, listing, not_an_archive
from jaxcheck.goldens.replacing import fresh, replacing

Array = npt.NDArray[Any]

META = "__meta__"
_SUFFIX = ".npy"
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o644 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LONGEST_NAME = 65_535
_UTF8_FLAG, _ENCRYPTED_FLAG = 0x800, 0x1

# What a file that somebody compressed anew may declare: this much, and this many times its own size.
_FREE_BYTES = 64 * 2**20
_MOST_EXPANSION = 100


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], meta: Mapping[str, Any], durable: bool = True
) -> None:
    """Write `arrays` by entry name, and `meta`: readers of `path` see all of the old or all of the new.

    `meta` is JSON without NaN and infinity. GoldenError where an array or `meta` cannot be held, or where the
    system refuses; then the old file stands and nothing else is left. Without `durable` the file is a new one, which
    nobody may read before this returns, and which need not outlive a power cut.
    """
    path = Path(path)
    entries = _entries_of(path, arrays, meta)
    with (replacing if durable else fresh)(path) as file:
        _write_zip(file, entries)


def archive_bytes(path: str | os.PathLike[str], arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> bytes:
    """What `write_archive` would write there."""
    file = io.BytesIO()
    _write_zip(file, _entries_of(Path(path), arrays, meta))
    return file.getvalue()


def _entries_of(path: Path, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> dict[str, Array]:
    for name, array in arrays.items():
        _check_writable(path, name, array)
    return {**arrays, META: np.array(encode_meta(meta, f"the metadata of {path}"))}


def encode_meta(meta: Mapping[str, Any], what: str = "the metadata") -> str:
    """`meta` as one line of ASCII with sorted keys, equal text for equal content; an error calls it `what`."""
    try:
        return json.dumps(meta, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        hint = "numbers must be finite and keys text: write anything else as text"
        raise GoldenError(f"{what} cannot be written as JSON: {error}", hint) from error


def _check_writable(path: Path, name: str, array: Array) -> None:
    fault = _name_fault(name + _SUFFIX)
    if name == META:
        fault = "is reserved"
    elif not npy.can_name(array.dtype):
        fault = f"has dtype {array.dtype}, which .npy cannot name"
    if fault:
        raise GoldenError(f"{path} cannot be written: its entry {name[:80]!r} {fault}")


def _name_fault(name: str) -> str | None:
    """What makes a name unfit for an entry: a program that unpacks the archive could be tricked with it."""
    if name.startswith("/") or "\\" in name or re.match("[A-Za-z]:", name):
        return "is an absolute path or one of another system"
    if ".." in name.split("/"):
        return "leads out of the archive with '..'"
    if re.search("[\0\ud800-\udfff]", name) or not name.endswith(_SUFFIX):
        return "is not named as an array is"
    if len(name.encode()) > _LONGEST_NAME:
        return "has too long a name"
    return None


def _write_zip(file: IO[bytes], entries: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            array = np.asarray(entries[name], order="C")
            header = npy.write_header(array)
            info = zipfile.ZipInfo(name + _SUFFIX, _DATE)
            info.create_system, info.external_attr = _UNIX, _MODE
            info.file_size = len(header) + array.nbytes  # decides whether the entry is a zip64 one
            with archive.open(info, "w") as entry:
                entry.write(header)
                entry.write(array.reshape(-1).view(np.uint8))


class Archive:
    """A file that `write_archive` wrote, checked before anything in it is believed; or its `content`, which errors say
    is at `path`.

    `names` are its entries without `__meta__`, and `meta` is what that one holds. Arrays are read-only
    views of the mapped file: they stay valid after `close` and after the file was replaced, but not if
    somebody cuts it short in place. Whatever the bytes are, nothing but GoldenError is raised.
    """

    def __init__(self, path: str | os.PathLike[str], content: bytes | None = None) -> None:
        self.path = Path(path)
        held, infos = _map(self.path) if content is None else (content, _directory(self.path, io.BytesIO(content)))
        self._bytes = memoryview(held)
        self._entries = _by_name(self.path, infos, len(self._bytes))
        self.names = tuple(name for name in self._entries if name != META)
        self.meta = self._read_meta()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; arrays that were read keep a hold of their own."""
        self._bytes.release()  # the map is closed with the last array that is a view of it

    def expect(self, names: Iterable[str]) -> None:
        """GoldenError where the file does not hold exactly these entries."""
        listed = set(names)
        if extra := sorted(set(self.names) - listed):
            raise damaged(self.path, f"holds entries that its metadata does not list: {listing(extra)}")
        if absent := sorted(listed - set(self.names)):
            raise damaged(self.path, f"lacks entries that its metadata lists: {listing(absent)}")

    def read(self, name: str, *, checked: bool = True) -> Array:
        """The array of an entry, after its bytes were compared with their checksum; not `checked` is for those who
        compare it with a digest of their own."""
        if name not in self._entries:
            raise damaged(self.path, f"has no entry {name!r}")
        info = self._entries[name]
        content = self._content(info)
        if len(content) != info.file_size or (checked and zlib.crc32(content) != info.CRC):
            raise damaged(self.path, f"is damaged: the checksum of its entry {name!r} does not match")
        try:
            return npy.read_array(content)
        except (ValueError, OverflowError) as error:
            raise damaged(self.path, f"is damaged: its entry {name!r} is no array: {error}") from error

    def _content(self, info: zipfile.ZipInfo) -> memoryview | bytes:
        """The entry's bytes: mapped where it is stored, decompressed to the declared size where it is not."""
        start = self._data_start(info)
        packed = self._bytes[start : start + info.compress_size]
        if info.compress_type == zipfile.ZIP_STORED:
            return packed
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size + 1)
        except zlib.error as error:
            what = f"is damaged: its entry {info.filename!r} cannot be decompressed: {error}"
            raise damaged(self.path, what) from error

    def _data_start(self, info: zipfile.ZipInfo) -> int:
        """Where the entry's bytes begin, from its own header, which must agree with the directory."""
        start = info.header_offset
        head = self._bytes[start : start + _LOCAL_HEADER.size] if start >= 0 else b""
        if len(head) == _LOCAL_HEADER.size:
            signature, name_size, extra_size = _LOCAL_HEADER.unpack(head)
            name_start, name_stop = start + len(head), start + len(head) + name_size
            name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8_FLAG else "cp437")
            if signature == b"PK\x03\x04" and self._bytes[name_start:name_stop] == name:
                return int(name_stop + extra_size)
        raise damaged(self.path, f"is damaged: its entry {info.filename!r} is not where the directory says")

    def _read_meta(self) -> dict[str, Any]:
        if META not in self._entries:
            raise damaged(self.path, f"has no {META}: jaxcheck did not write it")
        text = self.read(META)
        try:
            if text.dtype.kind != "U" or text.shape != ():
                raise ValueError(f"it is {text.dtype}{list(text.shape)}, not one text")
            meta = json.loads(str(text[()]), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise damaged(self.path, f"is damaged: its {META} is not JSON: {error}") from error
        if not isinstance(meta, dict):
            raise damaged(self.path, f"is damaged: its {META} is {type(meta).__name__}, not an object")
        return meta


def _map(path: Path) -> tuple[mmap.mmap, list[zipfile.ZipInfo]]:
    """The file's bytes and its directory."""
    try:
        with open(path, "rb") as file:
            if fault := not_an_archive(path, file.read(HEAD_BYTES)):
                raise fault
            infos = _directory(path, file)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), infos
    except OSError as error:
        raise cannot_read(path, error) from error


def _directory(path: Path, file: IO[bytes]) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    except Exception as error:  # zipfile raises a dozen kinds of errors at hostile bytes
        raise damaged(path, f"is cut short or damaged: {error}") from error


def _by_name(path: Path, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The directory by entry name; GoldenError where an entry is not as we, or a zip tool, would write it."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.orig_filename.removesuffix(_SUFFIX)
        fault = _name_fault(info.orig_filename) or _entry_fault(info)
        if name in entries:
            fault = "is there twice"
        if fault:
            raise damaged(path, f"cannot be trusted: its entry {info.orig_filename[:80]!r} {fault}")
        entries[name] = info
    declared = sum(info.file_size for info in infos)
    if declared > _FREE_BYTES + _MOST_EXPANSION * size:
        raise damaged(path, f"cannot be trusted: it has {size} bytes and claims to unpack to {declared}")
    return entries


def _entry_fault(info: zipfile.ZipInfo) -> str | None:
    if info.filename != info.orig_filename:
        return f"is also named {info.filename[:80]!r}"
    if info.flag_bits & _ENCRYPTED_FLAG:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by method {info.compress_type}; only stored and deflated entries are read"
    return None


def _no_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON number")
