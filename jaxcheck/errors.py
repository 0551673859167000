"""One tree of errors and its one mapping to exit codes (the command line catches it once)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar


class Exit(enum.IntEnum):
    """What the process tells its caller."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    BUG = 3
    UNAVAILABLE = 4
    NOTHING_VERIFIED = 5
    INTERRUPTED = 130


class JaxcheckError(Exception):
    """Something a user can act on: what happened, and in `hint` the next thing to do or type."""

    exit_code: ClassVar[Exit] = Exit.BUG

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(JaxcheckError):
    """The command line asks for something that cannot be."""

    exit_code = Exit.USAGE


@dataclass(frozen=True, order=True)
class Fault:
    """One fault of a registry file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}"


class RegistryError(JaxcheckError):
    """Every fault of a registry at once, in the order of the file."""

    exit_code = Exit.USAGE

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        count = f"{len(faults)} fault" + ("s" if len(faults) != 1 else "")
        super().__init__("\n".join([*map(str, self.faults), f"{count} in the registry"]))


class GoldenError(JaxcheckError):
    """A golden file that cannot be trusted: truncated, pickled, of another schema, altered, not writable."""

    exit_code = Exit.USAGE


class BlessRefused(JaxcheckError):
    """A brake of `bless` held; the hint names the override."""

    exit_code = Exit.FAILED


class Unavailable(JaxcheckError):
    """A backend or an environment that this machine does not have."""

    exit_code = Exit.UNAVAILABLE


class NothingVerified(JaxcheckError):
    """Nothing was selected, or everything selected was skipped."""

    exit_code = Exit.NOTHING_VERIFIED


class WorkerError(JaxcheckError):
    """The worker broke the protocol: a fault of jaxcheck's own."""
