"""Requirements files as the whole of an environment: locks of `pip-compile`, `uv pip compile` and `uv export`.

uv and pip read them. Here they are only read for what decides whether an environment of the cache is that of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from jaxcheck.errors import UsageError
from jaxcheck.gate.environments.requests import fingerprint, is_path, names_a_lock

# Locks of other forms, and what makes a requirements file of them.
FOREIGN = {
    "uv.lock": "uv export --no-emit-project -o requirements.txt",
    "pylock.toml": "uv export --no-emit-project -o requirements.txt",
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements --hash > requirements.txt",
    "pyproject.toml": "uv pip compile --generate-hashes pyproject.toml -o requirements.txt",
}
INCLUDED = re.compile(r"(?:-r|-c|--requirement\b|--constraint\b)[\s=]*(?P<place>\S.*)")
OWN_INDEX = re.compile(r"-i\b|--index-\w+|--no-index\b")
HASH = re.compile(r"\s--hash[\s=]")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


@dataclass(frozen=True)
class LockFile:
    """`digest` is that of everything that decides what an installer makes of it, `own_index` whether it names one."""

    text: str
    path: Path
    hashed: bool
    own_index: bool
    digest: str

    @property
    def label(self) -> str:
        return f"{self.text} ({'with' if self.hashed else 'without'} hashes)"


def lock_of(requirements: Sequence[str]) -> LockFile | None:
    """The lock that is asked for, if one is. UsageError for one with something else beside it."""
    locks = [text for text in requirements if names_a_lock(text)]
    if not locks:
        return None
    if len(requirements) > 1:
        other = next((text for text in requirements if text != locks[0]), locks[0])
        raise UsageError(
            f"{locks[0]} is all that the environment is to hold: {other} cannot be asked for beside it",
            hint="write it into what the lock is made from, and compile that again",
        )
    return read_lock(locks[0])


def read_lock(text: str) -> LockFile:
    """UsageError for what is no requirements file, or includes one whose content cannot be known beforehand."""
    path = Path(text).expanduser().absolute()
    if path.name in FOREIGN:
        raise UsageError(f"{text} is no requirements file", hint=FOREIGN[path.name])
    contents: dict[Path, bytes] = {}
    lines = list(_lines_of(path, contents))
    facts = [
        [hashlib.sha256(content).hexdigest() for content in contents.values()],
        sorted({(name, os.environ.get(name)) for _, line in lines for name in VARIABLE.findall(line)}, key=str),
        sorted({(str(place), fingerprint(place)) for folder, line in lines for place in _places_in(line, folder)}),
    ]
    return LockFile(
        text=text,
        path=path,
        hashed=any(HASH.search(line) for _, line in lines),
        own_index=any(OWN_INDEX.match(line) for _, line in lines),
        digest=hashlib.sha256(json.dumps(facts).encode()).hexdigest(),
    )


def _lines_of(path: Path, contents: dict[Path, bytes]) -> Iterator[tuple[Path, str]]:
    """The folder and the text of every line of a file and of those that it includes, as pip joins and strips them."""
    try:
        content = contents[path.resolve()] = path.read_bytes()
    except OSError:
        return  # the installer says which file it is that cannot be read
    if b"\0" in content:
        raise UsageError(f"{path} is no requirements file: it is not text", hint="--to requirements.txt")
    joined = re.sub(r"\\\r?\n", " ", content.decode("utf-8-sig", "replace"))
    for line in joined.splitlines():
        stripped = re.sub(r"(^|\s)#.*", "", line).strip()
        if included := INCLUDED.match(stripped):
            place = VARIABLE.sub(lambda name: os.environ.get(name[1], name[0]), included["place"].strip("'\""))
            if "://" in place:
                raise UsageError(
                    f"{path.name} includes {place}, which may say something else tomorrow",
                    hint="fetch it, and include the file",
                )
            nested = path.parent / place
            if nested.resolve() not in contents:
                yield from _lines_of(nested, contents)
        if stripped:
            yield path.parent, stripped


def _places_in(line: str, folder: Path) -> Iterator[Path]:
    """Files and folders of this machine that a line names: their content may change where the line does not."""
    for word in re.sub(r"(?<=^--find-links)=|(?<=^--editable)=", " ", line).split():
        word = re.sub(r"\[[\w, .-]+\]$", "", word)  # extras
        if word.startswith("file:"):
            word = "/" + unquote(word.removeprefix("file:").partition("#")[0]).lstrip("/")
        elif word.startswith("~") or not is_path(word):
            continue
        yield from {place for place in (folder / word, Path.cwd() / word) if place.exists()}
