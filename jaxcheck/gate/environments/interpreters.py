"""Python interpreters: finding one, and asking it what it is and has."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from jaxcheck.errors import Unavailable, UsageError

OLDEST = Version("3.11")
PROBE_SECONDS = 60.0

# Runs in interpreters of any age. The folder that one happens to stand in is no part of an environment.
PROBE = """
import sys
sys.path = [entry for entry in sys.path if entry]
import json, platform, sysconfig
full = len(sys.argv) > 1
answer = {"version": platform.python_version(), "implementation": sys.implementation.name,
          "platform": sysconfig.get_platform(), "base": sys.base_prefix, "packages": []}
if sys.version_info >= (3, 8):
    from importlib.metadata import distributions
    seen = set()
    for found in distributions():
        metadata = found.metadata
        name = metadata["Name"]
        if not name or name in seen:
            continue
        seen.add(name)
        entry = {"name": name, "version": metadata["Version"]}
        if full:
            entry["origin"] = found.read_text("direct_url.json")
            entry["requires"] = found.requires or []
            entry["extras"] = metadata.get_all("Provides-Extra") or []
        answer["packages"].append(entry)
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter by its path, and what tells builds of Python apart."""

    path: str
    version: str
    implementation: str
    platform: str
    base: str

    @property
    def short(self) -> str:
        return ".".join(self.version.split(".")[:2])


def probe(python: str, full: bool = False) -> tuple[Interpreter, list[dict[str, Any]]]:
    """The interpreter and the packages it has installed; Unavailable where it does not run."""
    command = [python, "-c", PROBE, *(["full"] if full else [])]
    try:
        done = subprocess.run(
            command,
            env=bare_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{python} does not run: {error}", hint=f"{python} --version") from None
    try:
        answer = json.loads(done.stdout)
        packages = answer.pop("packages")
        return Interpreter(path=python, **answer), packages
    except (ValueError, TypeError, KeyError, AttributeError):
        words = done.stderr.strip() or f"exit status {done.returncode}, and it printed {done.stdout[:80]!r}"
        raise Unavailable(
            f"{python} does not run as a Python interpreter: {words.splitlines()[-1] if done.returncode else words}",
            hint=f"{python} --version",
        ) from None


def bare_environment(**more: str) -> dict[str, str]:
    """This process's variables without PYTHONPATH: what it names is no part of an environment."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **more}


def find_python(version: str, uv: str | None) -> Interpreter:
    """An interpreter of this version ("3.13" or "3.13.1"); Unavailable with what was looked at."""
    if not re.fullmatch(r"3\.\d+(\.\d+)?", version):
        raise UsageError(
            f"{version!r} is not a version of Python", hint="--python 3.13, or --to-python PATH for an interpreter"
        )
    if Version(version) < OLDEST and Version(version).release[:2] < OLDEST.release:
        raise too_old(f"Python {version}")
    failures = []
    for candidate in _candidates(version, uv):
        try:
            found, _ = probe(candidate)
        except Unavailable as error:
            failures.append(str(error))
            continue
        if f"{found.version}.".startswith(f"{version}."):
            return found
    tried = f"; {failures[0]}" if failures else ""
    raise Unavailable(
        f"there is no Python {version} here: not this one ({sys.version.split()[0]}), none on PATH{tried}",
        hint=f"install it (`uv python install {version}`, or the system's packages), or give --to-python PATH",
    )


def too_old(what: str) -> Unavailable:
    return Unavailable(f"{what} is too old: jaxcheck's workers need {OLDEST} or newer", hint="--python 3.12")


def _candidates(version: str, uv: str | None) -> Iterator[str]:
    """Where an interpreter may be, the likeliest first."""
    yield sys.executable
    names = [f"python{'.'.join(version.split('.')[:2])}", "python3", "python"]
    for name in names:
        for folder in os.get_exec_path():
            if found := shutil.which(name, path=folder):
                yield found
    # A shim of pyenv on PATH refuses where its version is installed but not chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for installed in sorted(pyenv.glob(f"{version}*/bin/python"), reverse=True):
        yield str(installed)
    if uv is not None:
        answer = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield answer.stdout.strip()
