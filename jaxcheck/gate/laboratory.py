"""Releases, each run in an environment of its own; what was run is logged as it is had, and used again."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import jaxcheck
from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.conduct import file_digest
from jaxcheck.execution.saved import SavedRun, file_sha256
from jaxcheck.files import remove_leftovers, replaced
from jaxcheck.gate.comparison import compare
from jaxcheck.gate.environments import Installation, Wanted, provide
from jaxcheck.gate.environments.frozen import snapshot
from jaxcheck.gate.environments.reasons import NETWORK
from jaxcheck.gate.environments.requests import parse_request
from jaxcheck.gate.gate import Conduct, Project, run_in, time_in_turns
from jaxcheck.gate.releases import Row
from jaxcheck.gate.standing import Evidence, Rounds, times_of
from jaxcheck.registry.select import Selection, selected_recipes
from jaxcheck.results import CheckResult
from jaxcheck.results.gate import PackageChange

Attempt = Literal["baseline", "first", "again"]
KEPT = 8  # searches whose runs stay on the disk
# Says nothing of the release: the next one would fail just so.
_OF_THE_MACHINE = re.compile(r"No space left|Disk quota exceeded|Cannot allocate memory|Read-only file system")
AGAIN = "the same command goes on from here"


@dataclass(frozen=True)
class Axis:
    """What moves: one package, from one version to another. `others` are requirements that hold for every release."""

    package: str
    good: str
    bad: str
    python: str | None = None
    others: tuple[str, ...] = ()
    pre: bool = False

    def __post_init__(self) -> None:
        for text in self.others:
            if parse_request(text).name == canonicalize_name(self.package):
                raise UsageError(
                    f"{text!r} is about {self.package}, the package that is bisected",
                    hint="--good and --bad say its ends",
                )

    def wanted(self, version: str) -> Wanted:
        return Wanted((*self.others, f"{self.package}=={version}"), self.python)


class Entry(BaseModel):
    """One release run, or the reason why it cannot be. `times` as Evidence has them, where time is asked for."""

    model_config = ConfigDict(frozen=True)

    version: str
    attempt: Attempt
    folder: str = ""
    skip: str = ""
    seconds: float = 0.0
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    times: dict[str, dict[str, Rounds]] = Field(default_factory=dict)


class Record(BaseModel):
    """The log as it lies on the disk."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    search: dict[str, Any]
    versions: tuple[str, ...] = ()
    not_offered: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()


class Log:
    """`bisect/KEY.json` beside `bisect/KEY/` with the saved runs. Written whole after every run."""

    def __init__(self, folder: Path, search: Mapping[str, Any]) -> None:
        text = json.dumps(search, sort_keys=True)
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.file, self.runs = folder / f"{self.key}.json", folder / self.key
        self.record = Record(search=json.loads(text))
        self.reused: frozenset[tuple[str, str]] = frozenset()
        self._lock: int | None = None

    def prepare(self, restart: bool) -> str:
        """Makes the folders, and reads what an earlier command left; in words, what came of that.

        The search is this process's until `close`, or until it ends: UsageError where it is another's.
        """
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            self._take()
            self._sweep()
        except OSError as error:
            raise UsageError(f"cannot write to {self.runs}: {error.strerror}", hint="--state FOLDER") from error
        if restart:
            self._forget()
            return ""
        return self._resume()

    def _take(self) -> None:
        self._lock = os.open(self.runs, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another jaxcheck is at this very search ({self.file})", hint="wait for it; its runs are used then"
            ) from None
        except OSError as error:  # a file system without locks: two at once only do the work twice
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
                raise

    def close(self) -> None:
        """Another process may take the search up."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _resume(self) -> str:
        try:
            record = Record.model_validate_json(self.file.read_bytes())
        except FileNotFoundError:
            return ""
        except (OSError, ValidationError):
            self._forget()
            return f"{self.file} cannot be read: starting over"
        entries = tuple(entry for entry in record.entries if self._usable(entry))
        if any(self._sources_changed(entry) for entry in entries):
            self._forget()
            return "the kernels' sources changed since the last search: starting over"
        if not any(entry.attempt == "baseline" for entry in entries):
            return ""
        self.record = record.model_copy(update={"entries": entries})
        self.reused = frozenset((entry.version, entry.attempt) for entry in entries)
        return f"going on from {self.file}: {len(entries)} runs are there (--restart forgets them)"

    def _usable(self, entry: Entry) -> bool:
        try:
            if entry.folder:
                _ = SavedRun.open(self.runs / entry.folder).run
        except UsageError:
            return False
        return bool(entry.folder or entry.skip)

    def _sources_changed(self, entry: Entry) -> bool:
        if not entry.folder:
            return False
        sources = SavedRun.open(self.runs / entry.folder).run.sources
        return any(file_digest(path) != digest for path, digest in sources.items())

    def _forget(self) -> None:
        self.file.unlink(missing_ok=True)
        for place in self.runs.iterdir():
            shutil.rmtree(place, ignore_errors=True)

    def _sweep(self) -> None:
        """Keeps the runs of the last searches only, and nothing of a run that was killed."""
        for unfinished in self.runs.glob(".*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        logs = sorted(self.file.parent.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in [log for log in logs if log != self.file][KEPT - 1 :]:
            file.unlink(missing_ok=True)
            shutil.rmtree(file.with_suffix(""), ignore_errors=True)

    def set_row(self, row: Row) -> None:
        self._write(self.record.model_copy(update={"versions": row.versions, "not_offered": row.not_offered}))

    def add(self, entry: Entry) -> None:
        self._write(self.record.model_copy(update={"entries": (*self.record.entries, entry)}))

    def find(self, version: str, attempt: Attempt) -> Entry | None:
        found = (one for one in self.record.entries if (one.version, one.attempt) == (version, attempt))
        return next(found, None)

    def _write(self, record: Record) -> None:
        try:
            remove_leftovers(self.file)
            with replaced(self.file, durable=False) as file:
                file.write(record.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
        except OSError as error:
            raise UsageError(f"cannot write {self.file}: {error.strerror}", hint="--state FOLDER") from error
        self.record = record


def facts(project: Project, selection: Selection, axis: Axis, conduct: Conduct) -> dict[str, Any]:
    """Everything that a run's outcome depends on: of two searches that agree in it, one uses the runs of the other.

    The kernels' sources are not among them, for only a run knows which they are: they are compared when a log is read.
    """
    stems = [project.goldens.path(recipe.name).stem for recipe in selected_recipes(project.registry, selection)]
    goldens = {
        path.name: file_sha256(path)
        for stem in stems
        for path in project.goldens.folder.glob(f"{glob.escape(stem)}*.npz")  # those of single backends too
    }
    kept = (name for name in os.environ if name.startswith(("JAX_", "XLA_", "TF_")))
    return {
        "package": canonicalize_name(axis.package),
        "good": axis.good,
        "bad": axis.bad,
        "pre": axis.pre,
        "python": axis.python or sys.version.split()[0],
        "others": sorted(axis.others),
        "installed": snapshot(sys.executable).versions,
        "registry": project.registry.digest,
        "goldens": goldens,
        "names": sorted(selection.names),
        "tags": sorted(selection.tags),
        "keyword": selection.keyword,
        "modes": sorted(selection.modes),
        "ids": sorted(selection.last_failed_ids) if selection.last_failed_ids is not None else None,
        "backend": conduct.backend,
        "repeat": conduct.repeat,
        "latency": conduct.latency,
        "variables": {name: os.environ[name] for name in sorted(kept)},
        "jaxcheck": jaxcheck.__version__,
    }


class Laboratory:
    """Runs releases and compares them with the good end. Nothing is run twice that the log has."""

    def __init__(
        self, project: Project, selection: Selection, axis: Axis, conduct: Conduct, cache: Path, log: Log, refresh: bool
    ) -> None:
        self.axis, self.log = axis, log
        self._project = replace(project, folder=log.runs)
        self._selection, self._conduct, self._cache, self._refresh = selection, conduct, cache, refresh
        self._installed: dict[str, Installation] = {}
        self._seen: dict[tuple[str, Attempt], Evidence | str] = {}
        self.order: list[Entry] = []

    def known(self, version: str) -> bool:
        return self.log.find(version, "first") is not None

    def end(self, option: str, version: str) -> None:
        """Unavailable where the environment of an end cannot be had: without it there is nothing to search."""
        if self.known(version):
            return
        try:
            self._install(version)
        except Unavailable as error:
            raise Unavailable(f"{option} {version}: {error}", hint=error.hint) from None

    def itself(self) -> Evidence:
        """The good end's run, compared with itself."""
        baseline = self._baseline()
        own = _by_id(baseline.run.results)
        return Evidence(own, _by_id(compare(baseline, baseline, {})))

    def evidence(self, version: str, attempt: Attempt) -> Evidence | str:
        """A release's run; or in words why there is none."""
        key = version, attempt
        if key not in self._seen:
            entry = self._entry(version, attempt)
            if entry not in self.order:
                self.order.append(entry)
            self._seen[key] = entry.skip or self._read(entry)
        return self._seen[key]

    def also(self, one: str, other: str) -> tuple[PackageChange, ...]:
        """What else than the package differs between two releases that were run."""
        entries = [self.log.find(version, "first") for version in (one, other)]
        old, new = (entry.packages if entry else {} for entry in entries)
        return tuple(
            PackageChange(name=name, before=old.get(name), after=new.get(name))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name) and name != canonicalize_name(self.axis.package)
        )

    def _read(self, entry: Entry) -> Evidence:
        baseline, run = self._baseline(), self._saved(entry.folder)
        results = _by_id(run.run.results)
        compared = {check: one for check, one in _by_id(compare(baseline, run, {})).items() if check in results}
        return Evidence(results, compared, entry.times)

    def _baseline(self) -> SavedRun:
        entry = self._entry(self.axis.good, "baseline")
        if entry not in self.order:
            self.order.append(entry)
        if entry.skip:
            raise Unavailable(f"--good {entry.version}: {entry.skip}", hint=AGAIN)
        return self._saved(entry.folder)

    def _entry(self, version: str, attempt: Attempt) -> Entry:
        found = self.log.find(version, attempt)
        if found is None:
            found = self._made(version, attempt)
            self.log.add(found)
        return found

    def _made(self, version: str, attempt: Attempt) -> Entry:
        self._conduct.say(f"{self.axis.package} {version}: {self._purpose(version, attempt)}")
        clock = time.monotonic()
        try:
            installed = self._install(version)
            name = f"{version}-{attempt}"
            inputs = None if attempt == "baseline" else self._baseline()
            run = run_in(self._project, self._selection, installed, name, self._conduct, inputs=inputs)
            times = self._times(installed, inputs, run) if inputs and self._conduct.latency else {}
        except Unavailable as error:
            if attempt == "baseline" or NETWORK.search(str(error)) or _OF_THE_MACHINE.search(str(error)):
                raise Unavailable(str(error), hint=f"{error.hint or ''}; {AGAIN}".lstrip("; ")) from None
            self._conduct.say(f"skipped: {error}")
            return Entry(version=version, attempt=attempt, skip=str(error), seconds=time.monotonic() - clock)
        return Entry(
            version=version,
            attempt=attempt,
            folder=name,
            seconds=time.monotonic() - clock,
            python=installed.python_version,
            packages=dict(installed.packages),
            times=times,
        )

    def _purpose(self, version: str, attempt: Attempt) -> str:
        if attempt != "first":
            return "baseline" if attempt == "baseline" else "again, to confirm"
        return {self.axis.good: "the good end", self.axis.bad: "the bad end"}.get(version, "between the ends")

    def _times(self, installed: Installation, baseline: SavedRun, run: SavedRun) -> dict[str, dict[str, Rounds]]:
        """Timed in turns with the good end, at this very time: what else the machine does bears on both."""
        results = compare(baseline, run, {})
        before = self._install(self.axis.good)
        return times_of(time_in_turns(self._project, before, installed, results, self._conduct))

    def _install(self, version: str) -> Installation:
        if version not in self._installed:
            wanted = self.axis.wanted(version)
            self._installed[version] = provide(wanted, self._cache, self._conduct.say, refresh=self._refresh)
        return self._installed[version]

    def _saved(self, name: str) -> SavedRun:
        return SavedRun.open(self.log.runs / name)


def _by_id(results: tuple[CheckResult, ...] | list[CheckResult]) -> dict[str, CheckResult]:
    return {result.id: result for result in results}
