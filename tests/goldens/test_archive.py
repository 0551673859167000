import errno
import hashlib
import json
import os
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jaxcheck import files as replaced_files
from jaxcheck.errors import GoldenError
from jaxcheck.goldens import archive
from jaxcheck.goldens.archive import Archive, write_archive
from tests.goldens.samples import FIXED_ARRAYS, FIXED_META

# Written by Python 3.12 and NumPy 2.5; other versions must give the same.
FIXED_BYTES = "fb644b38eb417943f0aa25738c7bb32fcc38891dbea5affb64278a974155ccb6"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.npz"
    write_archive(path, FIXED_ARRAYS, FIXED_META)
    return path


def test_what_was_written_is_read(file: Path) -> None:
    with Archive(file) as read:
        assert read.names == tuple(sorted(FIXED_ARRAYS))
        assert read.meta == FIXED_META
        for name, array in FIXED_ARRAYS.items():
            assert read.read(name).dtype == array.dtype
            assert read.read(name).shape == array.shape
            assert read.read(name).tobytes() == array.tobytes()


def test_numpy_reads_the_file_without_pickle(file: Path) -> None:
    with np.load(file, allow_pickle=False) as read:
        assert sorted(read.files) == sorted([*FIXED_ARRAYS, "__meta__"])
        for name, array in FIXED_ARRAYS.items():
            np.testing.assert_array_equal(read[name], array)
        assert read["__meta__"].shape == ()
        assert json.loads(str(read["__meta__"])) == FIXED_META


@pytest.mark.needs_jax  # not for jax: so that it runs under every supported Python
def test_the_same_content_gives_the_same_bytes_everywhere(file: Path) -> None:
    assert hashlib.sha256(file.read_bytes()).hexdigest() == FIXED_BYTES


def test_neither_order_nor_layout_of_the_arrays_changes_the_bytes(file: Path) -> None:
    other = file.with_name("other.npz")
    arrays = {name: np.asarray(FIXED_ARRAYS[name], order="F") for name in reversed(FIXED_ARRAYS)}
    write_archive(other, arrays, dict(reversed(FIXED_META.items())), durable=False)
    assert other.read_bytes() == file.read_bytes()


def test_no_entry_tells_when_or_where_it_was_written(file: Path) -> None:
    with zipfile.ZipFile(file) as read:
        facts = {(i.date_time, i.create_system, i.external_attr, i.compress_type) for i in read.infolist()}
    assert facts == {((1980, 1, 1, 0, 0, 0), 3, 0o644 << 16, zipfile.ZIP_STORED)}


def test_entries_beyond_four_gigabytes_are_zip64(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    large = file.with_name("large.npz")
    write_archive(large, FIXED_ARRAYS, FIXED_META)
    assert large.stat().st_size > file.stat().st_size
    with Archive(large) as read:
        assert read.names == tuple(sorted(FIXED_ARRAYS))
        np.testing.assert_array_equal(read.read("standard/in/x"), FIXED_ARRAYS["standard/in/x"])


def test_arrays_are_mapped_and_outlive_the_archive_and_the_file(file: Path) -> None:
    with Archive(file) as read:
        array, empty = read.read("standard/in/x"), read.read("standard/out/ŵ/[0]\n")
    write_archive(file, {}, {})
    file.unlink()
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert array.tobytes() == FIXED_ARRAYS["standard/in/x"].tobytes()
    assert empty.shape == (0, 2)


def test_a_closed_archive_cannot_be_read(file: Path) -> None:
    with Archive(file) as read:
        pass
    with pytest.raises(ValueError, match="released"):
        read.read("standard/in/x")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_file_that_was_zipped_anew_is_read(file: Path, method: int) -> None:
    again = file.with_name("again.npz")
    with zipfile.ZipFile(file) as read, zipfile.ZipFile(again, "w", method) as write:
        for name in read.namelist():
            write.writestr(name, read.read(name))
    with Archive(again) as read:
        assert read.meta == FIXED_META
        for name, array in FIXED_ARRAYS.items():
            assert read.read(name).tobytes() == array.tobytes()
            assert not read.read(name).flags.writeable


def test_what_numpy_saved_in_fortran_order_is_the_same_array(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3)
    np.savez(tmp_path / "f.npz", a=np.asfortranarray(array), __meta__=np.array("{}"))
    with Archive(tmp_path / "f.npz") as read:
        np.testing.assert_array_equal(read.read("a"), array)


def test_unlisted_and_absent_entries_are_named(file: Path) -> None:
    with Archive(file) as read:
        read.expect(FIXED_ARRAYS)
        with pytest.raises(
            GoldenError, match=r"r\.npz holds entries that its metadata does not list: 'standard/in/x', "
        ):
            read.expect([])
        with pytest.raises(
            GoldenError, match=r"r\.npz lacks entries that its metadata lists: 'a', 'b', 'c', 'd', 'e' and 1 more"
        ):
            read.expect([*FIXED_ARRAYS, *"abcdef"])
        with pytest.raises(GoldenError, match="has no entry 'nothing'"):
            read.read("nothing")


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("__meta__", np.ones(1), "its entry '__meta__' is reserved"),
        ("/etc/passwd", np.ones(1), "its entry '/etc/passwd' is an absolute path or one of another system"),
        ("C:/x", np.ones(1), "is an absolute path"),
        ("a\\b", np.ones(1), "is an absolute path"),
        ("a/../../b", np.ones(1), "leads out of the archive"),
        ("a\0b", np.ones(1), "is not named as an array is"),
        ("a\ud800", np.ones(1), "is not named as an array is"),
        ("a" * 65_535, np.ones(1), "has too long a name"),
        ("a", np.array([None]), "has dtype object, which .npy cannot name"),
        ("a", np.ones(1, ml_dtypes.bfloat16), "has dtype bfloat16, which .npy cannot name"),
        ("a", np.ones(1, ml_dtypes.float8_e5m2), "has dtype float8_e5m2, which .npy cannot name"),
    ],
)
def test_what_an_archive_cannot_hold_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, array: Any, message: str
) -> None:
    with pytest.raises(GoldenError) as caught:
        write_archive(tmp_path / "r.npz", {name: array}, {})
    assert message in str(caught.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize("meta", [{"a": float("nan")}, {"a": float("inf")}, {"a": {1, 2}}, {"a": 1, 2: 3}])
def test_metadata_that_are_not_json_are_refused(tmp_path: Path, meta: dict[Any, Any]) -> None:
    with pytest.raises(GoldenError, match=r"the metadata of .*r\.npz cannot be written as JSON: ") as caught:
        write_archive(tmp_path / "r.npz", {}, meta)
    assert "numbers must be finite" in str(caught.value.hint)
    assert files(tmp_path) == []


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "r.npz").mkdir()
    with pytest.raises(GoldenError, match=r"r\.npz cannot be written: Is a directory") as caught:
        write_archive(tmp_path / "r.npz", FIXED_ARRAYS, FIXED_META)
    assert str(caught.value.hint).startswith("a folder has that name: mv ")
    assert files(tmp_path) == ["r.npz"]


@pytest.mark.parametrize("folder", ["absent", "file"])
def test_no_folder_to_write_to(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GoldenError, match="cannot be written: ") as caught:
        write_archive(tmp_path / folder / "r.npz", FIXED_ARRAYS, FIXED_META)
    assert caught.value.hint == f"make the folder: mkdir -p {tmp_path / folder}"
    assert files(tmp_path) == ["file"]


def fail(code: int) -> Any:
    def raising(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return raising


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.EACCES, "make the folder writable: chmod u+w "),
        (errno.EROFS, "make the folder writable: chmod u+w "),
        (errno.ENOSPC, "free some space: df -h "),
        (errno.EDQUOT, "free some space: df -h "),
        (errno.EIO, "look at the folder: ls -la "),
    ],
)
@pytest.mark.parametrize("step", ["open", "os.fsync", "os.replace"])
def test_a_write_that_fails_at_any_step_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, hint: str
) -> None:
    old = file.read_bytes()
    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr(replaced_files, "open", fail(code), raising=False)
        else:
            patch.setattr(os, step.removeprefix("os."), fail(code))
        with pytest.raises(GoldenError, match=f"r.npz cannot be written: {os.strerror(code)}") as caught:
            write_archive(file, {"a": np.ones(3)}, {})
    assert caught.value.hint == hint + str(file.parent)
    assert file.read_bytes() == old
    assert files(file.parent) == ["r.npz"]


def test_an_interrupted_write_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = file.read_bytes()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archive, "_write_zip", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_archive(file, {}, {})
    assert file.read_bytes() == old
    assert files(file.parent) == ["r.npz"]


def test_a_file_system_that_cannot_sync_folders_is_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def only_files(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    write_archive(tmp_path / "r.npz", FIXED_ARRAYS, FIXED_META)
    assert Archive(tmp_path / "r.npz").meta == FIXED_META


def test_a_temporary_file_that_is_gone_already_does_not_hide_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(*_: Any) -> None:
        shutil.rmtree(tmp_path)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", vanish)
    with pytest.raises(GoldenError, match="Input/output error"):
        write_archive(tmp_path / "r.npz", {}, {})


def test_reading_leaves_no_file_open(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            Archive(file)
        assert len(os.listdir("/proc/self/fd")) == before
