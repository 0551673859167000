"""What tests of the whole program share: a user's project in a temporary folder, and the real command run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SCRUBBED = ("CI", "NO_COLOR", "FORCE_COLOR", "XLA_FLAGS", "GITHUB_ACTIONS")


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without what would change the program's behaviour."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in SCRUBBED and not name.startswith(("JAXCHECK_", "JAX_", "COV_"))
    }
    return {**kept, "COLUMNS": "120", **more}


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@dataclass(frozen=True)
class Project:
    """A folder with kernels and a registry."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "jaxcheck", *args]

    def jaxcheck(self, *args: str, timeout: float = 280, **environment: str) -> Done:
        """The real command, in this folder, in a process of its own."""
        done = subprocess.run(
            self.command(*args),
            cwd=self.folder,
            env=clean_environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def run(self, *args: str, **environment: str) -> tuple[Done, dict[str, Any]]:
        """`jaxcheck run` and its JSON report ({} where it wrote none)."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = self.jaxcheck("run", "--output", str(report), *args, **environment)
        return done, json.loads(report.read_text()) if report.exists() else {}

    def bless(self, *args: str) -> Done:
        done = self.jaxcheck("bless", "--reason", "test", *args)
        assert done.code == 0, done
        return done

    def files(self) -> dict[str, bytes]:
        """Every file below the folder but the scratch of runs: for asserting what a command changed."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and ".jaxcheck" not in path.parts and "__pycache__" not in path.parts
        }


def by_id(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {result["id"]: result for result in report["results"]}


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {result["id"]: result["status"] for result in report["results"]}
