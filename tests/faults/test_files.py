"""What writers that were killed leave is nobody's, what others are writing is theirs, and names may be long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jaxcheck.files import hold, locked, remove_leftovers, replaced, short, sweep

WRITER = """
import sys
from pathlib import Path
from jaxcheck.files import replaced

with replaced(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""
LOCKER = """
import sys
from pathlib import Path
from jaxcheck.files import locked

with locked(Path(sys.argv[1])):
    print("mine", flush=True)
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the midst of writing."""
    command = [sys.executable, "-c", WRITER, str(path)]
    process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    yield process
    process.communicate()


@pytest.mark.parametrize("name", ["r.npz", "é" * 125 + ".json", "字" * 85])
def test_what_is_being_written_stays_and_what_was_left_goes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    with writer(path) as process:
        remove_leftovers(path)
        assert len(list(tmp_path.iterdir())) == 2
        process.kill()
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(path)
    assert list(tmp_path.iterdir()) == [path]
    with writer(path):
        pass
    assert path.read_bytes() == b"half"
    assert list(tmp_path.iterdir()) == [path]


def test_what_failed_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replaced(tmp_path / "a") as file:
            file.write(b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_folders_are_swept_unless_they_are_held(tmp_path: Path) -> None:
    for name in ("mine", "left"):
        (tmp_path / name / "inside").mkdir(parents=True)
    handle = os.open(tmp_path / "mine", os.O_RDONLY)
    hold(handle)
    sweep([*tmp_path.iterdir(), tmp_path / "nowhere"])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    os.close(handle)
    sweep(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    sweep([tmp_path / "link"])
    assert (tmp_path / "precious").is_dir()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCKER, str(tmp_path)]
    with locked(tmp_path):
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    out, _ = process.communicate(timeout=60)
    assert out == "mine\n"


def test_temporary_names_fit_where_names_do() -> None:
    assert short("a" * 200) == "a" * 200
    assert len(short("字" * 85)) == 32
    assert short("字" * 85) != short("字" * 84)
