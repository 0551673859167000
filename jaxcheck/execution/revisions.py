"""Goldens as git has them at a revision."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxcheck.errors import GoldenError, UsageError
from jaxcheck.goldens.golden import Golden


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
    def cases(self) -> list[str]:
        return sorted({case for golden in (self.old, self.new) if golden for case in golden.cases})


def changed_since(folder: Path, revision: str) -> Iterator[Pair]:
    """Every golden of the folder whose bytes are others than at `revision`, or at `A..B` from A to B, by file name.

    UsageError where git does not know the revision; GoldenError for a file that is damaged at either end.
    """
    before, dots, after = revision.partition("..")
    ends = [_Commit(folder, before), _Commit(folder, after or "HEAD") if dots else _Present(folder)]
    old, new = ends
    with tempfile.TemporaryDirectory(prefix="jaxcheck-") as scratch:
        for name in sorted(old.names() | new.names()):
            was, now = old.read(name), new.read(name)
            if was == now:
                continue
            with (
                _opened(Path(scratch) / "old", name, was, f"at {before}") as one,
                _opened(Path(scratch) / "new", name, now, f"at {after or 'HEAD'}" if dots else "now") as other,
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
        raise GoldenError(str(error).replace(str(path), f"{name} {when}"), error.hint and None) from error
    with golden:
        yield golden
    path.unlink()


class _Present:
    """The folder as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> set[str]:
        return {path.name for path in self.folder.glob("*.npz")}

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
        self.commit = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if not self.commit:
            hint = "git log --oneline; a shallow clone has no history: git fetch --unshallow"
            raise UsageError(f"git knows no revision {revision!r} here ({self.top})", hint=hint)

    def names(self) -> set[str]:
        listed = self._ask("ls-tree", "-z", "--name-only", self.commit, f"{self.inside}/")
        return {name for path in listed.split("\0") if (name := os.path.basename(path)).endswith(".npz")}

    def read(self, name: str) -> bytes | None:
        """Through git's filters, as a checkout would: git LFS keeps a pointer in the object."""
        if name not in self.names():
            return None
        return self._git("cat-file", "--filters", f"{self.commit}:./{self.inside}/{name}").stdout

    def _ask(self, *command: str) -> str:
        return self._git(*command).stdout.decode("utf-8", "surrogateescape").strip()

    def _git(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(["git", *command], cwd=self.top, capture_output=True, check=False)
        except OSError as error:
            raise UsageError(f"git cannot be run: {error.strerror}", hint="install git") from error
