"""The releases of a package that its index offers, in their order: asked of pip, with the user's own settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments.installers import CHOICE, find_uv
from jaxcheck.gate.environments.interpreters import bare_environment
from jaxcheck.gate.environments.reasons import reason_of
from jaxcheck.gate.environments.settings import pip_settings

LIMIT_SECONDS = 600.0
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_NO_PIP = re.compile(r"No module named pip\b|Could not locate requested Python interpreter|no such option: --python")
SHOWN = 6


@dataclass(frozen=True)
class Offer:
    """What there is of a package, oldest first: for the interpreter that asked, and for other Pythons only.

    What the index has yanked is in neither.
    """

    package: str
    python: str
    versions: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The releases to bisect, from the good end to the bad one, and those between that this Python is not offered."""

    versions: tuple[str, ...]
    not_offered: tuple[str, ...] = ()


def offer(package: str, python: str, label: str) -> Offer:
    """The releases of `package` for the interpreter `python`, called `label` ("3.13"), pre-releases among them.

    Unavailable, with the index's reason, where none can be had.
    """
    if not _NAME.fullmatch(package):
        raise UsageError(f"{package!r} is not the name of a package", hint="--package jax")
    mine = _listed(package, python, ())
    every = _listed(package, python, ("--ignore-requires-python",))
    versions = in_order(mine)
    return Offer(package, label, versions, tuple(one for one in in_order(every) if one not in versions))


def in_order(texts: Sequence[str]) -> tuple[str, ...]:
    """Oldest first, each once; what is no version by PEP 440 is left out."""
    found: dict[Version, str] = {}
    for text in texts:
        try:
            found.setdefault(Version(text), text)
        except InvalidVersion:
            continue
    return tuple(found[version] for version in sorted(found))


def row(there: Offer, good: str, bad: str, pre: bool) -> Row:
    """The releases from `good` to `bad`, both included; downwards where `good` is the newer one.

    Pre-releases only with `pre`, but for the ends. UsageError for ends that are no versions, or the same;
    Unavailable for one that is not offered.
    """
    ends = [_version("--good", good), _version("--bad", bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"--good and --bad are both {good}: nothing is between them")
    for option, end in zip(("--good", "--bad"), ends, strict=True):
        if all(Version(text) != end for text in there.versions):
            raise _not_offered(there, option, end)
    first, last = sorted(ends)

    def between(texts: Sequence[str]) -> list[str]:
        return [
            text
            for text in texts
            if first <= Version(text) <= last and (pre or Version(text) in ends or not Version(text).is_prerelease)
        ]

    versions, elsewhere = between(there.versions), between(there.elsewhere)
    if ends[0] > ends[1]:
        versions.reverse()
        elsewhere.reverse()
    return Row(tuple(versions), tuple(elsewhere))


def check_ends(good: str, bad: str) -> None:
    """UsageError for what can be told to be wrong without asking anybody."""
    if _version("--good", good) == _version("--bad", bad):
        raise UsageError(f"--good and --bad are both {good}: nothing is between them")


def _version(option: str, text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(f"{option} {text}: {text!r} is not a version", hint=f"{option} 0.10.2") from None


def _not_offered(there: Offer, option: str, end: Version) -> Unavailable:
    if any(Version(text) == end for text in there.elsewhere):
        return Unavailable(
            f"{option} {end}: {there.package} {end} asks for another Python than {there.python}",
            hint="--python 3.13, or whichever it asks for: then every release is tried under that one",
        )
    near = sorted(there.versions, key=lambda text: (_distance(Version(text), end), Version(text)))[:SHOWN]
    return Unavailable(
        f"{option} {end}: no {there.package} {end} is offered for Python {there.python} on this machine "
        f"(none of that version, yanked, or without a wheel for it); there are {', '.join(in_order(near)) or 'none'}",
        hint=f"python -m pip index versions {there.package}",
    )


def _distance(one: Version, other: Version) -> tuple[int, ...]:
    length = max(len(one.release), len(other.release))
    padded = [(*version.release, *[0] * (length - len(version.release))) for version in (one, other)]
    return tuple(abs(left - right) for left, right in zip(*padded, strict=True))


def _listed(package: str, python: str, options: Sequence[str]) -> list[str]:
    """What `pip index versions` prints. An environment made by uv has no pip: then another's pip speaks for it."""
    output = ""
    for command in _ways(python):
        output = _run([*command, "index", "versions", package, "--pre", "--no-color", *options])
        listed = _LISTED.search(output)
        if listed:
            return [text.strip() for text in listed[1].split(",")]
        if not _NO_PIP.search(output):
            break
    else:
        raise Unavailable(
            f"the releases of {package} cannot be listed: there is no pip, neither for {python} nor beside jaxcheck, "
            "and no uv",
            hint=f"{sys.executable} -m ensurepip, or pip install 'jaxcheck[gate]'",
        )
    reason = reason_of(output)
    hint = reason.hint if CHOICE not in reason.hint else f"{python} -m pip index versions {package}"
    raise Unavailable(f"the releases of {package} cannot be listed\n  {reason}", hint=hint)


def _ways(python: str) -> list[list[str]]:
    ways = [[python, "-m", "pip"]]
    if python != sys.executable:
        ways.append([sys.executable, "-m", "pip", "--python", python])
    if uv := find_uv():
        ways.append([uv, "tool", "run", "--quiet", "--python", python, "pip"])
    return ways


def _run(command: list[str]) -> str:
    """Everything that it printed, whatever came of it: an empty text where it does not run."""
    try:
        done = subprocess.run(
            command,
            env=bare_environment(**sources(os.environ)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"ERROR: the index timed out: no answer within {LIMIT_SECONDS:g} s"
    except OSError as error:
        return f"No module named pip: {error}"
    return done.stdout


def sources(environ: Mapping[str, str]) -> dict[str, str]:
    """The places to look in as variables of pip: those that environments will be built from.

    pip itself would pass over what its settings say for `pip install` only, and over everything that is said to uv.
    """
    found = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_PYTHON_VERSION_WARNING": "1"}
    for name, value in pip_settings(environ).items():
        if name in ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert"):
            found["PIP_" + name.upper().replace("-", "_")] = " ".join(value.split())
    if environ.get(CHOICE) == "pip" or find_uv() is None:
        return found
    for variable, names in {
        "PIP_INDEX_URL": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
        "PIP_EXTRA_INDEX_URL": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
        "PIP_FIND_LINKS": ("UV_FIND_LINKS",),
        "PIP_NO_INDEX": ("UV_NO_INDEX",),
    }.items():
        said = " ".join(environ.get(name, "") for name in names).replace(",", " ").split()
        if said:
            found[variable] = " ".join(_address(text) for text in said)
    return found


def _address(text: str) -> str:
    """uv's indexes may have a name: `mirror=https://host/simple`."""
    name, equals, address = text.partition("=")
    return address if equals and re.fullmatch(r"[\w.-]+", name) else text
