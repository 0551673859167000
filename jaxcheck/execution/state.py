"""What a run leaves behind, beside the registry: `.jaxcheck/` with the last run, candidates, and scratch space."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxcheck.errors import UsageError
from jaxcheck.files import hold, locked, remove_leftovers, replaced, sweep
from jaxcheck.results import Run


class State:
    """The folder `.jaxcheck/`. It ignores itself in git, and all of it can be deleted at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_file = folder / "run.json"
        self.candidates = folder / "candidates"
        self._scratch = folder / "scratch"

    def prepare(self) -> None:
        try:
            self.candidates.mkdir(parents=True, exist_ok=True)
            self._scratch.mkdir(exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            self._sweep()
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> UsageError:
        return UsageError(
            f"cannot write to {self.folder}: {error.strerror}",
            hint="give a folder that can be written: --state FOLDER or JAXCHECK_STATE",
        )

    def _sweep(self) -> None:
        """Removes what runs that were killed left."""
        with locked(self._scratch):
            sweep(self._scratch.iterdir())
        remove_leftovers(self.run_file)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for the arrays of one run, gone afterwards."""
        with locked(self._scratch):
            folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._scratch))
            handle = os.open(folder, os.O_RDONLY)
            hold(handle)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)

    def history(self, goldens: Path) -> Path:
        """Where the goldens that were replaced in a folder are kept; of another folder than the one beside this state,
        apart from those."""
        kept, folder = self.folder / "history", goldens.resolve()
        if folder == self.folder.resolve().parent / "goldens":
            return kept
        return kept / f"@{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"

    def harness(self) -> Path:
        """A folder with a link to this very jaxcheck, and nothing else: what another interpreter imports it from."""
        import jaxcheck

        folder = self.folder / "harness"
        target = Path(jaxcheck.__file__).resolve().parent
        link, new = folder / "jaxcheck", folder / "jaxcheck.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder):
                if not (link.is_symlink() and Path(os.readlink(link)) == target):
                    new.unlink(missing_ok=True)
                    new.symlink_to(target)
                    os.replace(new, link)
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}", hint="--state FOLDER") from error
        return folder

    def save(self, run: Run) -> None:
        """Atomic: the run of before, or this one."""
        try:
            with replaced(self.run_file, durable=False) as file:
                file.write(run.to_json().encode())
        except OSError as error:
            raise self._cannot_write(error) from error

    def last_run(self) -> Run | None:
        try:
            return Run.from_json(self.run_file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.run_file} cannot be read: {str(error).splitlines()[0]}", hint="jaxcheck run"
            ) from error


def alive(pid: int) -> bool:
    """Whether there is a process of this number, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
