"""Every kind of damage has its own message, and a hint that is a command."""

import json
import pickle  # noqa: TID251 - to have one that is refused
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive
from jaxcheck.goldens.golden import Golden
from tests.goldens.samples import FIXED_ARRAYS, FIXED_META, rewrite, write_golden

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
MEND = "git checkout -- {path}, or delete it and jaxcheck bless r --reason '...'"


def sound(path: Path) -> bytes:
    return rewrite(path, FIXED_META, FIXED_ARRAYS).read_bytes()


def zipped(*entries: tuple[str, bytes], **options: Any) -> Callable[[Path], bytes]:
    """A zip file of these entries and of good metadata."""

    def build(path: Path) -> bytes:
        with zipfile.ZipFile(path, "w", **options) as file:
            for name, content in (("__meta__.npy", npy("'<U2'", "()", "{}".encode("utf-32-le"))), *entries):
                file.writestr(zipfile.ZipInfo(name), content, options.get("compression"))
        return path.read_bytes()

    return build


def npy(descr: str, shape: str, data: bytes, fortran: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def saved(**arrays: Any) -> Callable[[Path], bytes]:
    def build(path: Path) -> bytes:
        np.savez(path, allow_pickle=True, **arrays)
        return path.read_bytes()

    return build


def patched(old: bytes, new: bytes, which: int = 0) -> Callable[[Path], bytes]:
    """A sound file in which one occurrence of some bytes (from the end, if negative) was changed."""

    def build(path: Path) -> bytes:
        parts = sound(path).split(old)
        assert len(parts) > 1
        at = which % (len(parts) - 1) + 1
        return old.join(parts[:at]) + new + old.join(parts[at:])

    return build


NOT_ARCHIVES: dict[str, tuple[Callable[[Path], bytes], str, str]] = {
    "git LFS pointer": (lambda _: POINTER, "is a git LFS pointer: the golden itself was not fetched", "git lfs pull"),
    "conflict": (
        lambda _: b"<<<<<<< HEAD\nPK\x03\x04\n=======\n",
        "holds merge conflict markers",
        "git checkout --ours -- {path}, or git checkout --theirs -- {path}",
    ),
    "conflict in a pointer": (
        lambda _: POINTER.replace(b"oid", b"<<<<<<< HEAD\noid"),
        "holds merge conflict markers",
        "git checkout --ours -- {path}, or git checkout --theirs -- {path}",
    ),
    "pickle": (
        lambda _: pickle.dumps({"a": 1}),
        "is a pickle, which jaxcheck never loads: loading one runs code",
        MEND,
    ),
    "text": (lambda _: b"hello\n" * 100, "is text, not a golden: it begins with 'hello\\nhello", MEND),
    "empty": (lambda _: b"", "is empty", MEND),
    "array": (
        lambda _: npy("'<f4'", "()", b"1234"),
        "is no zip archive: it begins with the bytes 93 4e 55 4d 50 59",
        MEND,
    ),
    "one byte": (lambda _: b"\x80", "is no zip archive: it begins with the bytes 80", MEND),
    "zeros": (lambda _: bytes(5000), "is no zip archive: it begins with the bytes 00 00", MEND),
    "cut short": (lambda path: sound(path)[:-30], "is cut short or damaged: ", MEND),
    "only a beginning": (lambda _: b"PK\x03\x04", "is cut short or damaged: ", MEND),
    "line ends changed": (lambda path: sound(path).replace(b"\n", b"\r\n"), "is cut short or damaged: ", MEND),
    "no metadata": (saved(a=np.ones(3)), "has no __meta__: jaxcheck did not write it", MEND),
    "empty zip": (lambda _: b"PK\x05\x06" + bytes(18), "has no __meta__: jaxcheck did not write it", MEND),
    "metadata no JSON": (saved(__meta__=np.array("{")), "is damaged: its __meta__ is not JSON: ", MEND),
    "metadata with NaN": (saved(__meta__=np.array('{"a": NaN}')), "__meta__ is not JSON: NaN is no JSON number", MEND),
    "metadata too deep": (saved(__meta__=np.array("[" * 99_999)), "is damaged: its __meta__ is not JSON: ", MEND),
    "metadata no object": (saved(__meta__=np.array("[1]")), "is damaged: its __meta__ is list, not an object", MEND),
    "metadata no text": (saved(__meta__=np.ones(2)), "its __meta__ is not JSON: it is float64[2], not one text", MEND),
    "metadata texts": (saved(__meta__=np.array(["{}"])), "its __meta__ is not JSON: it is <U2[1], not one text", MEND),
    "metadata pickled": (
        saved(__meta__=np.array([{}])),
        "its entry '__meta__' is no array: it holds pickled objects, which jaxcheck never loads",
        MEND,
    ),
    "absolute entry": (
        zipped(("/etc/x.npy", b"")),
        "cannot be trusted: its entry '/etc/x.npy' is an absolute path or one of another system",
        MEND,
    ),
    "entry outside": (
        zipped(("a/../../x.npy", b"")),
        "cannot be trusted: its entry 'a/../../x.npy' leads out of the archive with '..'",
        MEND,
    ),
    "entry no array": (
        zipped(("README", b"")),
        "cannot be trusted: its entry 'README' is not named as an array is",
        MEND,
    ),
    "unknown method": (
        zipped(("a.npy", b"x" * 99), compression=zipfile.ZIP_BZIP2),
        "cannot be trusted: its entry '__meta__.npy' is compressed by method 12; only stored and deflated",
        MEND,
    ),
    "encrypted": (
        patched(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"),
        "cannot be trusted: its entry '__meta__.npy' is encrypted",
        MEND,
    ),
    "NUL in a name": (
        patched(b"standard/in/x.npy", b"standard/in\0x.npy", which=-1),
        "cannot be trusted: its entry 'standard/in\\x00x.npy' is not named as an array is",
        MEND,
    ),
    "entry moved": (
        patched(b"standard/in/x.npy", b"standard/in/y.npy"),
        "is damaged: its entry 'standard/in/x.npy' is not where the directory says",
        MEND,
    ),
    "bomb": (
        zipped(("a.npy", bytes(100 * 2**20)), compression=zipfile.ZIP_DEFLATED),
        "and claims to unpack to 1048",
        MEND,
    ),
}


def read_everything(path: Path) -> None:
    with Archive(path) as file:
        for name in file.names:
            file.read(name)


@pytest.mark.parametrize("kind", NOT_ARCHIVES)
def test_a_file_that_is_no_golden_says_what_it_is(kind: str, tmp_path: Path) -> None:
    build, message, hint = NOT_ARCHIVES[kind]
    path = tmp_path / "r.npz"
    path.write_bytes(build(path))
    with pytest.raises(GoldenError) as caught:
        read_everything(path)
    assert str(caught.value).startswith(f"{path} ")
    assert message in str(caught.value)
    assert caught.value.hint == hint.format(path=path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    zipped(("a.npy", b"1"), ("a.npy", b"2"))(path)
    with pytest.raises(GoldenError, match=r"cannot be trusted: its entry 'a\.npy' is there twice"):
        Archive(path)


def test_an_entry_with_two_names(tmp_path: Path) -> None:
    """A Unicode path field gives it another one, for those programs that follow it."""
    name, other = b"a.npy", b"b.npy"
    field = struct.pack("<HHBL", 0x7075, 5 + len(other), 1, zlib.crc32(name)) + other
    path = tmp_path / "r.npz"
    with zipfile.ZipFile(path, "w") as file:
        info = zipfile.ZipInfo(name.decode())
        info.extra = field
        file.writestr(info, b"")
    seen = zipfile.ZipFile(path).namelist()
    with pytest.raises(GoldenError, match="is also named 'b.npy'" if seen == ["b.npy"] else "has no __meta__"):
        Archive(path)


ENTRIES = {
    "object array": (npy("'|O'", "(1,)", b"x" * 8), "it holds pickled objects, which jaxcheck never loads"),
    "too short": (b"\x93NUM", "it has only 4 bytes"),
    "no magic": (b"x" * 200, "it begins with the bytes 78 78"),
    "other version": (b"\x93NUMPY\x02\x00" + bytes(100), "it begins with the bytes 93 4e 55 4d 50 59 02 00"),
    "no header": (b"\x93NUMPY\x01\x00\x04\x00(1,)", "its header says '(1,)'"),
    "code": (npy("__import__('os')", "(1,)", b""), "its header says \"{'descr': __import__"),
    "structured": (npy("[('a', '<f4')]", "(1,)", b"1234"), "its header says "),
    "void": (npy("'|V2'", "(2,)", b"1234"), "its header says "),
    "no such dtype": (npy("'<f3'", "(1,)", b"123"), "its header says dtype '<f3'"),
    "negative": (npy("'<f4'", "(-1,)", b""), "its header says "),
    "larger": (npy("'<f4'", "(3,)", b"12345678"), "bytes, and there are "),
    "smaller": (npy("'<f4'", "(1,)", b"12345678"), "bytes, and there are "),
    "absurd": (npy("'<f4'", "(999999999999, 999999999999)", b""), "bytes, and there are "),
    "absurd and empty": (npy("'<f4'", "(0, 999999999999999999, 999999999999999999)", b""), "is no array: "),
    "too many axes": (npy("'<f4'", "(" + "1, " * 99 + ")", b"1234"), "is no array: "),
}


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_entry_that_is_no_array_says_why(kind: str, method: int, tmp_path: Path) -> None:
    content, message = ENTRIES[kind]
    path = tmp_path / "r.npz"
    zipped(("a.npy", content), compression=method)(path)
    with Archive(path) as file, pytest.raises(GoldenError) as caught:
        file.read("a")
    assert str(caught.value).startswith(f"{path} is damaged: its entry 'a' is no array: ")
    assert message in str(caught.value)
    assert caught.value.hint == MEND.format(path=path)


def test_no_more_is_unpacked_than_was_declared(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    content = bytearray(zipped(("a.npy", bytes(2**25)), compression=zipfile.ZIP_DEFLATED)(path))
    size_field = content.rindex(b"a.npy") - 46 + 24
    struct.pack_into("<L", content, size_field, 100)
    path.write_bytes(content)
    with Archive(path) as file:
        tracemalloc.start()
        try:
            with pytest.raises(GoldenError, match="the checksum of its entry 'a' does not match"):
                file.read("a")
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"new%20one@gpu\.npz does not exist") as caught:
        Archive(tmp_path / "new%20one@gpu.npz")
    assert caught.value.hint == "jaxcheck bless 'new one' --reason '...'"


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="is a folder, not a golden") as caught:
        Archive(tmp_path)
    assert caught.value.hint == f"mv {tmp_path} {tmp_path}.old"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("jaxcheck.goldens.archive.open", refuse, raising=False)
    with pytest.raises(GoldenError, match="cannot be read: Permission denied") as caught:
        Archive(tmp_path / "r.npz")
    assert caught.value.hint == f"chmod u+r {tmp_path / 'r.npz'}"


# ------------------------------------------------------------------------------------------- any bytes


@pytest.fixture(scope="module")
def golden_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_golden(tmp_path_factory.mktemp("golden") / "r.npz").read_bytes()


@pytest.fixture(scope="module")
def deflated_bytes(golden_bytes: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("deflated")
    (folder / "r.npz").write_bytes(golden_bytes)
    with zipfile.ZipFile(folder / "r.npz") as old, zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return (folder / "d.npz").read_bytes()


def content(path: Path) -> dict[str, Any] | GoldenError:
    """Everything that a reader gets to see."""
    try:
        with Golden.open(path) as golden:
            return {name: golden.case(name, program=True) for name in golden.cases} | {"": golden.digest}
    except GoldenError as error:
        return error


def assert_helpful(error: GoldenError, path: Path) -> None:
    assert str(path) in str(error)
    assert error.hint


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "r.npz"


def accept_only_the_truth(path: Path, damaged: bytes, original: bytes) -> None:
    path.write_bytes(original)
    truth = content(path)
    path.unlink()
    path.write_bytes(damaged)
    found = content(path)
    if isinstance(found, GoldenError):
        assert_helpful(found, path)
    else:
        assert found == truth


FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=3)


@pytest.mark.parametrize("form", ["golden_bytes", "deflated_bytes"])
@settings(max_examples=150, deadline=None)
@given(flips=FLIPS)
def test_flipped_bytes_are_an_error_or_change_nothing(
    form: str, flips: list[tuple[float, int]], scratch: Path, request: pytest.FixtureRequest
) -> None:
    original = request.getfixturevalue(form)
    damaged = bytearray(original)
    for place, bits in flips:
        damaged[int(place * len(damaged))] ^= bits
    accept_only_the_truth(scratch, bytes(damaged), original)


@settings(max_examples=60, deadline=None)
@given(start=st.floats(0, 1), length=st.integers(0, 200), insert=st.binary(max_size=20))
@example(start=0.5, length=10**6, insert=b"")
def test_cut_and_inserted_bytes_are_an_error_or_change_nothing(
    start: float, length: int, insert: bytes, golden_bytes: bytes, scratch: Path
) -> None:
    at = int(start * len(golden_bytes))
    accept_only_the_truth(scratch, golden_bytes[:at] + insert + golden_bytes[at + length :], golden_bytes)


@settings(max_examples=60, deadline=None)
@given(
    head=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"PK\x05\x06" + bytes(18)]),
    tail=st.binary(max_size=80),
    before=st.booleans(),
)
def test_arbitrary_bytes_are_an_error(head: bytes, tail: bytes, before: bool, scratch: Path) -> None:
    scratch.write_bytes(tail + head if before else head + tail)
    with pytest.raises(GoldenError):
        Golden.open(scratch)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.just("*"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_metadata_are_an_error_or_read(data: st.DataObject, golden_bytes: bytes, scratch: Path) -> None:
    scratch.write_bytes(golden_bytes)
    with Archive(scratch) as file:
        meta = json.loads(json.dumps(file.meta))
        arrays = {name: file.read(name) for name in file.names}
    place: Any = meta
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[key], dict | list) and place[key]) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    found = content(rewrite(scratch, meta, arrays))
    if isinstance(found, GoldenError):
        assert_helpful(found, scratch)
    else:
        assert set(found) - {""} == set(meta["cases"])
