"""What is asked for, what one gets, and how two of them differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from jaxcheck.execution.process import Elsewhere
from jaxcheck.gate.environments.requests import names_a_lock, parse_request
from jaxcheck.results.gate import PackageChange

Say = Callable[[str], None]
PYTHON = "python"


@dataclass(frozen=True)
class Wanted:
    """What is to be other than in the current environment. Nothing wanted is the current environment itself.

    A requirement may be a requirements file. Then it is the only one, and the environment is what that says.
    """

    requirements: tuple[str, ...] = ()
    python: str | None = None  # "3.13": the current packages under another Python
    interpreter: str | None = None  # the path of an interpreter that has its packages already

    @property
    def label(self) -> str:
        if self.interpreter is not None:
            return self.interpreter
        asked = [*self.requirements, *([f"Python {self.python}"] if self.python else [])]
        return ", ".join(asked) or "current environment"


@dataclass(frozen=True)
class Installation:
    """An environment that workers can be started in. `folder` is its place in the cache, where it has one, and
    `elsewhere` the machines that have it, where it is not on this one. `remarks` are what a reader of results should
    know of it."""

    label: str
    python: str
    packages: Mapping[str, str]
    folder: Path | None
    cached: bool
    python_version: str
    elsewhere: Elsewhere | None = None
    remarks: tuple[str, ...] = ()


def changes(before: Installation, after: Installation, asked: Sequence[str]) -> tuple[PackageChange, ...]:
    """Every package that differs, what was asked for first. Python itself counts as a package of that name.

    `asked` are requirement strings as `Wanted` takes them, or names. Of a requirements file everything was asked for.
    """
    whole = any(map(names_a_lock, asked))
    names = {canonicalize_name(text) if text == PYTHON else parse_request(text).name for text in asked if not whole}
    old = {PYTHON: before.python_version, **before.packages}
    new = {PYTHON: after.python_version, **after.packages}
    found = (
        PackageChange(name=name, before=old.get(name), after=new.get(name), asked=whole or name in names)
        for name in old.keys() | new.keys()
        if old.get(name) != new.get(name)
    )
    return tuple(sorted(found, key=lambda change: (not change.asked, change.name)))
