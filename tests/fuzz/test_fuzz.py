"""What fuzzing found stays mended: every input that is kept is read again. `scripts/fuzz` looks for more."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import MUTATORS, TARGETS, Guard

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
CHANGES = 40


def test_every_target_has_a_corpus_and_it_is_small() -> None:
    assert {path.parent.name for path in KEPT} == set(TARGETS)
    assert sum(path.stat().st_size for path in KEPT) < 200_000


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_it_is_read_or_refused_as_it_is_and_damaged(path: Path, tmp_path: Path) -> None:
    read, data, draw = TARGETS[path.parent.name], path.read_bytes(), random.Random(path.name)
    another = MUTATORS.get(path.parent.name, damaged)
    with Guard(tmp_path):
        read(tmp_path, data)
        for _ in range(CHANGES if another is damaged else CHANGES // 4):  # those are a whole command each
            read(tmp_path, another(data, draw))


def damaged(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice((0, 1, 4, 100)))
    return data[:start] + draw.randbytes(draw.choice((0, 1, 3))) + data[end:]


def test_the_guard_hears_of_files_elsewhere(tmp_path: Path) -> None:
    """In a process of its own: what Python's audit hooks are told cannot be unheard."""
    script = f"""
import pathlib, sys
from tests.fuzz.targets import Guard
with Guard(pathlib.Path({str(tmp_path)!r})):
    pathlib.Path({str(tmp_path)!r}, "inside").write_text("")
    open(sys.argv[1], sys.argv[2])
"""
    for path, mode, heard in (("/etc/hostname", "r", True), (sys.executable, "a", True), (sys.executable, "rb", False)):
        done = subprocess.run(
            [sys.executable, "-c", script, path, mode],
            capture_output=True,
            text=True,
            check=False,
            cwd=CORPUS.parents[2],
        )
        assert ("AssertionError" in done.stderr and "was opened to be" in done.stderr) == heard, done.stderr
        assert (tmp_path / "inside").exists()
