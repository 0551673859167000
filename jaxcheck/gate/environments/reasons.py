"""A resolver's own reason in two lines, and what to try. Pure functions of what uv or pip printed."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

LINE = 320

# What says only that there is a reason.
EMPTY = re.compile(
    r"No solution found|Request failed after|Failed to (prepare|download) distributions|client error|tcp connect error"
    r"|error sending request|ResolutionImpossible|^Cannot install|subprocess-exited-with-error|^note: |^See above"
)
NETWORK = re.compile(
    r"Connection refused|connection broken|dns error|name resolution|Failed to establish|Network is unreachable"
    r"|timed out|certificate|Failed to fetch: `?http|network was disabled|tcp connect",
    re.IGNORECASE,
)
PYTHON = re.compile(
    r"(?:(?:depends on |[Rr]equires[- ])Python ?|requires a different Python: \S+ not in ')(?P<wanted>[<>=!~][^, ;']*)"
)
CONFLICT = re.compile(r"depends on|unsatisfiable|conflict|The user requested")
ABSENT = re.compile(
    r"no versions? of (?P<uv>\S+)|No matching distribution found for (?P<pip>\S+)|(?P<name>\S+) was not found in"
)
# What uv prints before it fails.
PROGRESS = (
    "Resolved ",
    "Using ",
    "warning:",
    "Downloading ",
    "Downloaded ",
    " Downloaded ",
    "Prepared ",
    "   Building ",
)
OTHER_HASH = re.compile(r"Hash mismatch|DO NOT MATCH THE HASHES")
EXPECTED = re.compile(r"Expected:? .*?(Computed:|Got) ")
HASHES = re.compile(rf"{OTHER_HASH.pattern}|require-hashes|no trusted hash|when requiring hashes")


@dataclass(frozen=True)
class Reason:
    """At most two lines of the resolver, and the next thing to do."""

    lines: tuple[str, ...]
    hint: str

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def reason_of(output: str) -> Reason:
    """From everything that uv or pip printed on its way to failing."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", output)
    text = re.sub(r"(?<=://)[^/@\s]+@", "", text)  # a password in an index's address
    lines = _of_pip(text) or _of_uv(text)
    lines = lines or [line.strip() for line in text.splitlines() if line.strip()][-2:]
    kept = tuple(_cut(line) for line in lines[:2]) or ("it said nothing",)
    return Reason(kept, _hint(" ".join(lines)))


def _cut(line: str) -> str:
    line = EXPECTED.sub("found ", " ".join(line.split()))  # a lock has the hashes of dozens of files
    return line if len(line) <= LINE else line[: LINE - 4].rstrip() + " ..."


def _of_pip(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if not errors:
        return []
    if HASHES.search(errors[0]):
        return _of_hashes(lines)
    broken = [match[1] for line in lines if (match := re.search(r"after connection broken by '(.*)': /", line))]
    absent = [line for line in errors if line.startswith("No matching distribution")]
    if broken and absent:
        return [absent[0], broken[-1].split(": ", 1)[-1].rstrip("'\")")]
    if "The conflict is caused by:" in lines:
        start = lines.index("The conflict is caused by:") + 1
        end = lines.index("", start) if "" in lines[start:] else len(lines)
        return _first_and_last(lines[start:end])
    if absent:
        return [absent[0], _what_there_is(absent[0], errors)]
    telling = [line for line in errors if not EMPTY.search(line)]
    return _first_and_last(telling or errors)


def _of_hashes(lines: list[str]) -> list[str]:
    """The first sentence, and the packages that pip lists under it."""
    start = next(number for number, line in enumerate(lines) if line.startswith("ERROR:"))
    first = lines[start].removeprefix("ERROR:").strip().partition(". ")[0]
    listed = itertools.takewhile(lambda line: line and not line.startswith("ERROR:"), lines[start + 1 :])
    return [line for line in (first, " ".join(listed)) if line]


def _what_there_is(absent: str, errors: list[str]) -> str:
    """Why pip passed over the releases that were meant, or which there are: the newest ends its lists."""
    wanted = _specifier(absent)
    for line in errors:
        if "require a different python version" in line:
            entries = line.split(": ", 1)[1].split("; ")
            meant = [entry for entry in entries if wanted.contains(entry.split()[0], prereleases=True)]
            if meant:
                return f"which asks for another Python: {meant[-1]}"
    for line in errors:
        match = re.search(r"\(from versions: (.*)\)", line)
        if match and match[1] != "none":
            return f"the newest that there are: {', '.join(match[1].split(', ')[-5:])}"
    return "the index has no package of that name that could be used here"


def _specifier(absent: str) -> SpecifierSet:
    try:
        return Requirement(absent.removeprefix("No matching distribution found for ").split(" (from ")[0]).specifier
    except InvalidRequirement:
        return SpecifierSet()


def _of_uv(text: str) -> list[str]:
    """Sentences, over the breaks that uv puts into them; by what uv 0.5 to 0.13 print."""
    sentences: list[str] = []
    for line in text.splitlines():
        words = re.sub(r"^[\s\u2500-\u25b6\u00d7]+", "", line).strip()  # the lines, arrows and crosses of its trees
        begins = re.match(r"\s*(error: |cause: |Caused by: |hint: |And because |[\u251c\u2570\u00d7])", line)
        words = re.sub(r"^(error|cause|Caused by): ", "", words)
        if not words or line.startswith(PROGRESS):
            continue
        if begins or not sentences:
            sentences.append(words)
        else:
            sentences[-1] += " " + words
    parts = [part for sentence in sentences for part in re.split(r"(?<=\.)\s+(?=And because |And |Because )", sentence)]
    telling = [part for part in parts if not EMPTY.search(part) and not part.startswith("hint:")]
    return _first_and_last(telling or parts)


def _first_and_last(lines: list[str]) -> list[str]:
    return lines if len(lines) <= 2 else [lines[0], lines[-1]]


def _hint(told: str) -> str:
    if OTHER_HASH.search(told):
        return "the index has another file than the lock was made from: learn why, before it is compiled again"
    if HASHES.search(told):
        return (
            "a lock with the hash of every package, and no project's folder: uv export --no-emit-project, "
            "or uv pip compile (or pip-compile) --generate-hashes"
        )
    if NETWORK.search(told):
        return (
            "the connection, or the index's address (PIP_INDEX_URL or UV_DEFAULT_INDEX); "
            "an environment that exists needs neither: --to-python PATH"
        )
    python = PYTHON.search(told)
    if python:
        version = re.search(r"\d+\.\d+", python["wanted"])
        return f"--python {version[0] if version and '>' in python['wanted'] else '3.12'}"
    if re.search(r"build|compil|metadata-generation", told, re.IGNORECASE) and not CONFLICT.search(told):
        return "a version that has a wheel for this Python and machine, or another Python: --python 3.12"
    absent = ABSENT.search(told)
    if absent and "The user requested" not in told:
        wanted = next(group for group in absent.groups() if group)
        name = re.split(r"[^\w.-]", wanted)[0]
        return f"a version that exists: python -m pip index versions {name}"
    if CONFLICT.search(told):
        return "versions that go together: leave one of these requirements out, or ask for another version of it"
    return "the other installer: JAXCHECK_INSTALLER=pip, or JAXCHECK_INSTALLER=uv"
