"""The folder of the goldens: one file for each recipe, and one more for each backend that needs its own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jaxcheck.errors import GoldenError
from jaxcheck.files import locked, remove_leftovers, sweep
from jaxcheck.goldens.case import GoldenCase, content_digest
from jaxcheck.goldens.damage import DamagedError, cannot_read
from jaxcheck.goldens.golden import Draft, Golden
from jaxcheck.goldens.names import file_stem
from jaxcheck.goldens.replacing import cannot_write, replacing

__all__ = ["HISTORY", "GoldenStore", "Version", "backend_stem", "file_stem", "open_golden"]

HISTORY = 5
_SUFFIX = ".npz"
_VERSION = "[0-9]" * 6 + "-*" + _SUFFIX


class GoldenStore:
    """The goldens in `folder`. What a write replaces is kept in `history`, if given: each one's last HISTORY.

    Writers hold a lock on the folder: two processes that change different cases of one recipe lose nothing.
    On a network file system that holds between the processes of one machine.
    """

    def __init__(self, folder: str | os.PathLike[str], history: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder)
        self.history = None if history is None else Path(history)

    def path(self, recipe: str, backend: str | None = None) -> Path:
        """Where the golden of exactly this recipe and backend is, or would be."""
        of_backend = "" if backend is None else f"@{file_stem(backend)}"
        return self.folder / f"{file_stem(recipe)}{of_backend}{_SUFFIX}"

    def files(self, recipe: str) -> list[Path]:
        """The recipe's golden, as far as there is one, and those that backends have of their own."""
        general = self.path(recipe)
        own = self.folder.glob(f"{file_stem(recipe)}@*{_SUFFIX}")
        return [*([general] if os.path.exists(general) else []), *sorted(own)]

    def find(self, recipe: str, backend: str | None = None) -> Path | None:
        """The golden that a run on `backend` is compared with: its own, else the recipe's, else None."""
        own, general = self.path(recipe, backend), self.path(recipe)
        return next((path for path in (own, general) if os.path.exists(path)), None)

    def load(self, recipe: str, backend: str | None = None) -> Golden | None:
        """The golden that `find` finds; GoldenError where it cannot be trusted or is another recipe's."""
        path = self.find(recipe, backend)
        try:
            return None if path is None else open_golden(path, recipe)
        except GoldenError:
            if path is not None and not os.path.exists(path):  # another process removed it just now
                return None
            raise

    def save(self, recipe: str, cases: Mapping[str, GoldenCase], backend: str | None = None) -> bool:
        """Make `cases` the golden, all of it, as `update` does; a damaged file is replaced, too."""
        with self._locked(), _opened(self.path(recipe, backend), recipe, or_damaged=True) as old:
            return self._replace(recipe, backend, old, cases)

    def update(
        self,
        recipe: str,
        changes: Mapping[str, GoldenCase],
        remove: Collection[str] = (),
        backend: str | None = None,
    ) -> bool:
        """Change and remove cases of a golden and keep the other ones, atomically.

        Gives False, and leaves the file alone, where nothing but provenance would change; a case whose
        content is the old one keeps its blessing, too. A golden without cases is removed. GoldenError where
        the present file is damaged or cannot be read: then there is nothing to keep the other cases from.
        """
        with self._locked(), _opened(self.path(recipe, backend), recipe) as old:
            kept = [name for name in old.cases if name not in changes and name not in remove] if old else []
            cases = {name: old.case(name, program=True) for name in kept} if old else {}
            return self._replace(recipe, backend, old, {**cases, **changes})

    def discard(self, path: Path) -> None:
        """Remove a golden file of this folder, whatever it holds, and keep its bytes in the history."""
        with self._locked():
            self._remember(path)
            with _writing(path):
                path.unlink(missing_ok=True)

    def recipes(self) -> dict[str, list[Path]]:
        """Every golden in the folder that can be opened, by recipe; `damaged` has the other files."""
        found: dict[str, list[Path]] = {}
        for path, golden in self._scan():
            if isinstance(golden, Golden):
                found.setdefault(golden.recipe, []).append(path)
        return found

    def damaged(self) -> dict[Path, GoldenError]:
        """Every file in the folder that is named as a golden and is none, or has another recipe's name."""
        return {path: golden for path, golden in self._scan() if isinstance(golden, GoldenError)}

    def versions(self, recipe: str, backend: str | None = None) -> list[Version]:
        """What was kept of the goldens that later ones replaced, the newest first."""
        if self.history is None:
            return []
        folder = self.history / self.path(recipe, backend).name.removesuffix(_SUFFIX)
        return [Version(path, recipe) for path in sorted(folder.glob(_VERSION), reverse=True)]

    def _replace(self, recipe: str, backend: str | None, old: Golden | None, cases: Mapping[str, GoldenCase]) -> bool:
        path = self.path(recipe, backend)
        with _writing(path):
            remove_leftovers(path)
        draft = Draft.of(recipe, {name: _with_old_blessing(old, name, case) for name, case in cases.items()})
        if not os.path.exists(path) and not cases:
            return False
        if old and cases and old.digest == draft.digest and _is_sound(old):
            return False
        self._remember(path)
        if cases:
            draft.write(path, replaced=old.digest if old else None)
        else:
            with _writing(path):
                path.unlink()
        return True

    def _remember(self, path: Path) -> None:
        """Keep the bytes at `path` as the newest version, once, and drop what is older than the last HISTORY."""
        if self.history is None or not os.path.exists(path):
            return
        folder = self.history / path.name.removesuffix(_SUFFIX)
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sweep(folder.glob(".*.tmp"))
            kept = sorted(folder.glob(_VERSION))
            number = int(kept[-1].name.partition("-")[0]) + 1 if kept else 1
            digest = _file_digest(path)
            newest = folder / f"{number:06d}-{digest}{_SUFFIX}"
            same = [version for version in kept if version.stem.partition("-")[2] == digest]
            with replacing(newest) as copy, open(path, "rb") as file:
                shutil.copyfileobj(file, copy)
            others = [version for version in kept if version not in same]
            for version in (*same, *others[: max(0, len(others) + 1 - HISTORY)]):
                version.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among the folder's writers."""
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            yield

    def _scan(self) -> Iterator[tuple[Path, Golden | GoldenError]]:
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            try:
                with Golden.open(path) as golden:
                    yield path, golden if path == _own_path(golden) else _other_recipe(golden)
            except GoldenError as error:
                yield path, error


@dataclass(frozen=True)
class Version:
    """A golden that was replaced, in a file named by when that was and by the sha256 of its bytes."""

    path: Path
    recipe: str

    @property
    def address(self) -> str:
        """sha256 of the file's bytes, in hexadecimal digits."""
        return self.path.stem.partition("-")[2]

    def open(self) -> Golden:
        """The golden, all of it verified; GoldenError where it is damaged, as it was kept or since."""
        if _file_digest(self.path) != self.address:
            raise DamagedError(f"{self.path} is not what was kept: its digest is another", f"rm {_quoted(self.path)}")
        golden = open_golden(self.path, self.recipe)
        try:
            golden.verify()
        except GoldenError:
            golden.close()
            raise
        return golden


def _file_digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from error


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


@contextlib.contextmanager
def _opened(path: Path, recipe: str, or_damaged: bool = False) -> Iterator[Golden | None]:
    """The golden to replace, or None where there is none, or, if that will do, where it is damaged."""
    try:
        golden = open_golden(path, recipe) if os.path.exists(path) else None
    except DamagedError:
        if not or_damaged:
            raise
        golden = None
    with golden or contextlib.nullcontext():
        yield golden


def _is_sound(golden: Golden) -> bool:
    """Whether the file holds what its metadata say: a damaged array is mended by blessing the same content."""
    try:
        golden.verify()
    except GoldenError:
        return False
    return True


def backend_stem(name: str) -> str | None:
    """The backend in a golden's file name, as it is spelled there; None for the golden of every backend."""
    _, at, backend = name.removesuffix(_SUFFIX).partition("@")
    return backend if at else None


def open_golden(path: Path, recipe: str) -> Golden:
    """The golden at `path`; GoldenError where it cannot be trusted or is another recipe's."""
    golden = Golden.open(path)
    if golden.recipe != recipe:
        golden.close()
        raise _other_recipe(golden)
    return golden


def _other_recipe(golden: Golden) -> GoldenError:
    """A copied file, or two names that differ only in what this file system ignores."""
    own = _quoted(_own_path(golden))
    return GoldenError(
        f"{golden.path} is the golden of another recipe, {golden.recipe!r}",
        f"mv {_quoted(golden.path)} {own}, or rename one of the two recipes",
    )


def _own_path(golden: Golden) -> Path:
    """Where the golden of that recipe would be, for the same backend."""
    backend = backend_stem(golden.path.name)
    return golden.path.with_name(file_stem(golden.recipe) + ("" if backend is None else f"@{backend}") + _SUFFIX)


def _with_old_blessing(old: Golden | None, name: str, case: GoldenCase) -> GoldenCase:
    if old and name in old.cases and old.summary(name).digest == content_digest(case.meta()):
        return replace(case, blessing=old.summary(name).blessing)
    return case


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error
