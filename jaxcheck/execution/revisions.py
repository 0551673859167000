"""Goldens as git has them at a revision."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxcheck.errors import GoldenError, UsageError
from jaxcheck.goldens.golden import Golden
from jaxcheck.goldens.store import backend_stem


@dataclass(frozen=True)
class Pair:
    """A golden file at two ends; None where it was not there, or is no longer."""

    name: str
    old: Golden | None
    new: Golden | None

    @property
    def recipe(self) -> str:
        golden = self.new or self.old
        assert golden is not None
        return golden.recipe

    @property
    def backend(self) -> str | None:
        """As a file name spells it; None for the golden of every backend."""
        return backend_stem(self.name)

    @property
    def cases(self) -> list[str]:
        return sorted({case for golden in (self.old, self.new) if golden for case in golden.cases})


class Revisions:
    """A folder of goldens at a revision and now, or, of `A..B`, at A and at B.

    UsageError where git does not know a revision, or cannot give what it has there.
    """

    def __init__(self, folder: Path, revision: str) -> None:
        before, dots, after = revision.partition("..")
        self._old = _Commit(folder, before)
        self._new: _Commit | _Present = _Commit(folder, after or "HEAD") if dots else _Present(folder)
        self._when = (f"at {before}", f"at {after or 'HEAD'}" if dots else "now")

    @property
    def names(self) -> frozenset[str]:
        """The files of both ends."""
        return self._old.names | self._new.names

    def changed(self) -> Iterator[Pair]:
        """Every golden whose bytes are others at the other end, by file name; GoldenError for one that is damaged."""
        with tempfile.TemporaryDirectory(prefix="jaxcheck-") as scratch:
            for name in sorted(self.names):
                was, now = self._old.read(name), self._new.read(name)
                if was == now:
                    continue
                with (
                    _opened(Path(scratch) / "old", name, was, self._when[0]) as one,
                    _opened(Path(scratch) / "new", name, now, self._when[1]) as other,
                ):
                    yield Pair(name, one, other)


@contextlib.contextmanager
def _opened(folder: Path, name: str, content: bytes | None, when: str) -> Iterator[Golden | None]:
    if content is None:
        yield None
        return
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    try:
        golden = Golden.open(path)
        golden.verify()
    except GoldenError as error:
        raise GoldenError(str(error).replace(str(path), f"{name} {when}")) from error
    with golden:
        yield golden
    path.unlink()


class _Present:
    """The folder as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(path.name for path in self.folder.glob("*.npz"))

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None


class _Commit:
    """The folder as it was in a commit, read from git's objects: the working tree stays as it is."""

    def __init__(self, folder: Path, revision: str) -> None:
        # The folder itself may be gone: all its goldens were pruned.
        self.top = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.is_dir())
        self.inside = os.path.relpath(folder.resolve(), self.top)
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode:
            hint = "git log --oneline; a shallow clone has no history: git fetch --unshallow"
            raise UsageError(f"git knows no revision {revision!r} here ({self.top})", hint=hint)
        self.commit = _text(done.stdout)

    @cached_property
    def names(self) -> frozenset[str]:
        listed = _text(self._ask("ls-tree", "-z", "--name-only", self.commit, f"{self.inside}/"))
        return frozenset(name for path in listed.split("\0") if (name := os.path.basename(path)).endswith(".npz"))

    def read(self, name: str) -> bytes | None:
        """Through git's filters, as a checkout would: git LFS keeps a pointer in the object."""
        if name not in self.names:
            return None
        return self._ask("cat-file", "--filters", f"{self.commit}:./{self.inside}/{name}")

    def _ask(self, *command: str) -> bytes:
        """What git says; UsageError where it fails: an object that a partial clone lacks, a filter that is not here."""
        done = self._git(*command)
        if done.returncode:
            last = next(reversed(_text(done.stderr).splitlines()), f"exit {done.returncode}")
            hint = "git fetch, and git lfs install where LFS is used"
            raise UsageError(f"git {command[0]} {command[-1]} failed: {last}", hint=hint)
        return done.stdout

    def _git(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(["git", *command], cwd=self.top, capture_output=True, check=False)
        except OSError as error:
            raise UsageError(f"git cannot be run: {error.strerror}", hint="install git") from error


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape").strip()
