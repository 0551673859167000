"""Requirement strings as a user types them: PEP 508, a wheel's or archive's path, a project's folder."""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from jaxcheck.errors import UsageError

EXAMPLE = (
    "for example: 'jax==0.12.0.1', 'optax>=0.2.8', 'name @ https://host/file.whl', ./dist/name-1.0-py3-none-any.whl"
)
ARCHIVES = (".whl", ".tar.gz", ".zip")
LOCKS = (".txt", ".lock")
# Folders whose content is made from the rest, or is no part of a project.
DERIVED = ("__pycache__", "build", "dist", "node_modules")


@dataclass(frozen=True)
class Request:
    """One requirement: `line` is what an installer is given, `name` the canonical name of what it is about."""

    text: str
    line: str
    name: str
    extras: frozenset[str] = frozenset()
    path: Path | None = None

    def with_extras(self, extras: frozenset[str]) -> str:
        """The line, with these extras if it names none itself."""
        if self.extras or not extras:
            return self.line
        requirement = Requirement(self.line)
        requirement.extras = set(extras)
        return str(requirement)


def parse_request(text: str) -> Request:
    """UsageError, with an example, for what is none."""
    if names_a_lock(text):
        raise UsageError(
            f"{text} is a requirements file, which is a whole environment: one requirement is meant here",
            hint="a gate takes it: jaxcheck gate --from requirements-old.txt --to requirements-new.txt",
        )
    if is_path(text):
        return _of_path(text)
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(f"{text!r} is not a requirement: {str(error).splitlines()[0]}", hint=EXAMPLE) from None
    name = canonicalize_name(requirement.name)
    if name == "jaxcheck":
        raise UsageError(
            f"{text!r}: every environment is run by this jaxcheck, so that only the kernels' surroundings differ",
            hint="leave it out",
        )
    return Request(text, str(requirement), name, frozenset(requirement.extras))


def is_path(text: str) -> bool:
    if "://" in text:
        return False
    return text.endswith((*ARCHIVES, *LOCKS)) or text.startswith((".", "~")) or os.sep in text


def names_a_lock(text: str) -> bool:
    """Whether this is a requirements file: a file that is there, and is no archive.

    `jax` and `jax==0.12.0` are requirements whatever lies in this folder under such a name: `./jax` is the file.
    """
    if "://" in text or text.endswith(ARCHIVES) or not (is_path(text) or Path(text).suffix[1:].isalpha()):
        return False
    return Path(text).expanduser().is_file()


def _of_path(text: str) -> Request:
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise UsageError(f"{text!r}: there is no such file or folder", hint=EXAMPLE)
    name = canonicalize_name(_name_of(text, path))
    return Request(text, f"{name} @ {path.as_uri()}", name, path=path)


def _name_of(text: str, path: Path) -> str:
    try:
        if path.is_dir():
            return _project_name(text, path)
        if path.suffix == ".whl":
            return parse_wheel_filename(path.name)[0]
        return parse_sdist_filename(path.name)[0]
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise UsageError(f"{text!r}: {error}", hint=EXAMPLE) from None


def _project_name(text: str, folder: Path) -> str:
    try:
        name = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str):
        raise UsageError(
            f"{text!r}: no pyproject.toml there names a project, so it cannot be told which package this is",
            hint=f"build a wheel of it and give that: python -m pip wheel --no-deps -w dist {text}",
        )
    return name


def fingerprint(path: Path) -> str:
    """Changes when what an installer makes of this path may: a file's content; a folder's files, sizes and times."""
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in DERIVED and not name.startswith("."))
        folders[:] = [name for name in folders if not name.endswith(".egg-info")]
        for name in sorted(files):
            status = os.lstat(os.path.join(where, name))
            entry = f"{os.path.relpath(os.path.join(where, name), path)}\0{status.st_size}\0{status.st_mtime_ns}\n"
            digest.update(entry.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
