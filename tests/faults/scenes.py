"""A project in the midst of its life, commands that change it, and what must be true of it at any moment."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxcheck.goldens.golden import Golden
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.results import Run
from tests.faults.killing import killed_at
from tests.harness import Project, clean_environment

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "-j", "1"),
    "run --save": ("run", "-j", "1", "--save", "saved"),
    "bless": ("bless", "--reason", "t", "-j", "1"),
    "bless --no-truth": ("bless", "--reason", "t", "--no-truth"),
    "review": ("review", "--reason", "t", "--no-truth"),
    "reject": ("reject",),
    "rollback": ("rollback", "first", "--reason", "t"),
    "prune": ("prune", "--yes"),
    "gate": ("gate", "--to-python", sys.executable, "-j", "1"),
}
# What each exits with; and where all of it was done before the kill, and nothing is left to decide.
EXPECTED = {"run": 1, "run --save": 1, "bless": 0, "bless --no-truth": 0, "review": 0, "reject": 0}
EXPECTED |= {"rollback": 0, "prune": 0, "gate": 0}
ALREADY = {"review": (5,), "reject": (5,)}


class Running:
    """A command in a folder, and at the review's questions a person who accepts all."""

    def __init__(self, project: Project, name: str, **environment: str) -> None:
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            project.command(*COMMANDS[name]),
            cwd=project.folder,
            env=clean_environment(**environment),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.terminal, 4096).decode(errors="replace")
            except OSError:  # the last process that had it is gone
                break
            if not data:
                break
            self.shown += data
            if self.shown.endswith("quit [q]? "):
                os.write(self.terminal, b"A")
        os.close(self.terminal)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        code = self.process.wait(280)
        self._reader.join(60)
        return code


@dataclass(frozen=True)
class Scene:
    """A copy of the project, before a command; and what goldens there are after it."""

    original: Project
    project: Project
    name: str
    after: dict[str, str]

    @classmethod
    def of(cls, original: Project, name: str, folder: Path) -> Scene:
        """Runs the command once, to see what it does."""
        scene = cls(original, Project(folder / "copy"), name, {})
        scene.restore()
        running = Running(scene.project, name)
        code = running.end()
        assert code == EXPECTED[name], running.shown
        after = {path.name: content_of(path) for path in scene.goldens()}
        scene.restore()
        return cls(original, scene.project, name, after)

    def restore(self) -> None:
        shutil.rmtree(self.project.folder, ignore_errors=True)
        shutil.copytree(self.original.folder, self.project.folder)

    def goldens(self) -> list[Path]:
        return sorted((self.project.folder / "goldens").glob("*.npz"))

    def old(self) -> list[Path]:
        return sorted((self.original.folder / "goldens").glob("*.npz"))

    def check(self) -> bool:
        """Whether all is as it was; AssertionError where a golden is neither the old nor the new one."""
        old = {path.name: path for path in self.old()}
        found = {path.name: path for path in self.goldens()}
        untouched = True
        for name in old.keys() | self.after.keys():
            if name not in found:
                assert name not in self.after, f"{name} is lost"
                untouched = False
            elif name not in old or found[name].read_bytes() != old[name].read_bytes():
                content = content_of(found[name])
                known = [self.after.get(name), *([content_of(old[name])] if name in old else [])]
                assert content in known, f"{name} is neither old nor new"
                untouched = False
        assert found.keys() <= old.keys() | self.after.keys()
        state = self.project.folder / ".jaxcheck"
        Run.from_json((state / "run.json").read_bytes())
        assert not GoldenStore(state / "candidates").damaged()
        for version in GoldenStore(self.project.folder / "goldens", state / "history").versions("first"):
            version.open().close()
        return untouched

    def state(self) -> str:
        """Whether the goldens are the `old` ones, all of the `new` ones, or some of `both`."""
        if self.check():
            return "old"
        return "new" if {path.name: content_of(path) for path in self.goldens()} == self.after else "both"

    def finish(self) -> None:
        """The next command works, does all of it where nothing was done, and leaves nothing lying about."""
        untouched = self.check()
        running = Running(self.project, self.name)
        code = running.end()
        done_before = {EXPECTED[self.name], *ALREADY.get(self.name, ())}
        assert code in done_before, running.shown
        self.check()
        if untouched and code == EXPECTED[self.name]:
            assert {path.name: content_of(path) for path in self.goldens()} == self.after
        assert list(self.litter()) == []

    def litter(self) -> Iterator[Path]:
        folder = self.project.folder
        yield from (path for path in folder.rglob("*") if path.name.endswith((".tmp", ".new")))
        yield from (folder / ".jaxcheck" / "scratch").iterdir()
        yield from folder.glob(".saved*")


def content_of(path: Path) -> str:
    """The digest of a golden's content, all of which is read."""
    with Golden.open(path) as golden:
        golden.verify()
        return golden.digest


class Zygote:
    """Runs commands that ask nothing, each killed or stopped before a change of a file: see `zygote.py`.

    `within` is what its process is started by, `sees` where a folder of its is for us.
    """

    def __init__(self, folder: Path, within: Sequence[str] = ()) -> None:
        environment = clean_environment(**killed_at(folder))
        del environment["KILL_FOLDER"]
        command = [*within, sys.executable, str(Path(__file__).parent / "zygote.py")]
        self.folder = folder
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, folder: Path, args: Sequence[str], at: int = 0, how: str = "SIGKILL") -> None:
        (self.folder / "changes").unlink(missing_ok=True)
        request = {"folder": str(folder), "args": list(args), "kills": str(self.folder), "at": at, "how": how}
        self._tell(json.dumps(request))

    def go_on(self) -> None:
        self._tell("go on")

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """An exit code, negative for a signal; or `stopped`."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self, folder: Path, args: Sequence[str], at: int = 0) -> int:
        self.ask(folder, args, at)
        return int(self.answer())

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def end(self) -> None:
        self.process.communicate(timeout=60)
