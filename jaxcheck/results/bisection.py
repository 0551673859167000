"""The result of a search through the releases of a package."""

from __future__ import annotations

from typing import Literal

from jaxcheck.errors import Exit
from jaxcheck.results import Document, Model
from jaxcheck.results.gate import PackageChange


class BisectTarget(Model):
    """What is looked for in the releases: a leaf of a check, or the check itself where `path` is empty.

    `kind` is what is asked of it, `before` and `after` how it stood at the good and at the bad end (`same`, `moved`).
    """

    check: str
    path: str = ""
    kind: Literal["moved", "tolerance", "truth", "error", "slower", "golden", "structure"]
    before: str
    after: str


class BisectAnswer(BisectTarget):
    """The last release that is as the good end and the first that is as the bad one.

    `found` where they are neighbours and came out the same when each was run afresh; `range` where only releases that
    can tell nothing (`skipped`) are between them; `unstable` where one came out otherwise, or the good end differs from
    itself: `reason` says how. `also` are the other packages that differ between the two.
    """

    state: Literal["found", "range", "unstable"]
    last_good: str
    first_bad: str
    skipped: tuple[str, ...] = ()
    reason: str = ""
    also: tuple[PackageChange, ...] = ()


class BisectProbe(Model):
    """One run of one release, or why there was none. `outcomes` are in the order of the answers, `reused` where it was
    made by an earlier command.

    `baseline` is the good end's run that all are compared with, `first` the one that the search goes by, `again` the
    one that confirms.
    """

    version: str
    attempt: Literal["baseline", "first", "again"]
    outcomes: tuple[Literal["good", "bad", "skip"], ...] = ()
    reason: str = ""
    seconds: float = 0.0
    folder: str = ""
    reused: bool = False


class Bisection(Document):
    """A search through the releases of one package: what was asked for, every run, and what was found."""

    package: str
    predicate: Literal["moved", "tolerance", "truth", "error", "slower", "golden"]
    good: str
    bad: str
    python: str = ""
    requirements: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    not_offered: tuple[str, ...] = ()
    compared: int = 0
    answers: tuple[BisectAnswer, ...] = ()
    probes: tuple[BisectProbe, ...] = ()
    remarks: tuple[str, ...] = ()

    def exit_code(self) -> Exit:
        """0 where the release was found for everything that moved; 1 where nothing moved, or it could not be told."""
        answers = self.answers
        return Exit.PASSED if answers and all(answer.state == "found" for answer in answers) else Exit.FAILED
