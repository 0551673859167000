"""Where packages come from: pip's settings, which uv does not read, and all settings that a cached one depends on."""

from __future__ import annotations

import configparser
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

# By uv's manual these say where packages come from, or which versions are taken.
UV_SOURCES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX")
UV_CHOICES = (
    *UV_SOURCES,
    "UV_INDEX_STRATEGY",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_EXCLUDE_NEWER",
    "UV_PRERELEASE",
    "UV_RESOLUTION",
    "UV_NO_BINARY",
    "UV_ONLY_BINARY",
    "UV_NO_BUILD",
    "UV_TORCH_BACKEND",
    "UV_CONFIG_FILE",
)
PIP_CHOICES = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "constraint",
    "pre",
    "no-binary",
    "only-binary",
    "trusted-host",
    "cert",
)


def pip_settings(environ: Mapping[str, str], files: list[Path] | None = None) -> dict[str, str]:
    """What pip would be told: its configuration files in their order, then `PIP_*`. Only what chooses packages.

    Read here and not asked of `pip config list`: an environment made by uv has no pip, and its user may still rely on a
    mirror that is set up for pip.
    """
    found: dict[str, str] = {}
    for file in pip_files(environ) if files is None else files:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(file.read_text())
        except (OSError, ValueError, configparser.Error):
            continue  # pip itself says what is wrong with it
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    for name in PIP_CHOICES:
        value = environ.get("PIP_" + name.upper().replace("-", "_"))
        if value is not None:
            found[name] = value
    return {name: found[name] for name in PIP_CHOICES if found.get(name, "").strip()}


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, the weakest first."""
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:  # pip's way of saying: none at all
        return []
    home = Path(environ.get("HOME") or Path.home())
    shared = [Path(folder) / "pip/pip.conf" for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)]
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    files = [*shared, Path("/etc/pip.conf"), home / ".pip/pip.conf", own, Path(sys.prefix) / "pip.conf"]
    return files + ([Path(chosen)] if chosen else [])


@dataclass(frozen=True)
class Handover:
    """pip's settings as options of uv: for resolving only, and for whatever fetches."""

    fetch: tuple[str, ...] = ()
    resolve: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def uv_options(pip: Mapping[str, str], environ: Mapping[str, str], configured: bool) -> Handover:
    """What to tell uv so that it finds what pip finds.

    `configured`: uv has been told by its own means where packages are. Then pip's word on that is not handed over.
    """
    fetch: list[str] = []
    if not configured and not any(environ.get(name) for name in UV_SOURCES):
        main = pip.get("index-url") or pips_default()
        indexes = [url for url in (main, *pip.get("extra-index-url", "").split()) if url and _there(url)]
        if indexes and indexes != [pips_default()]:
            # uv takes its default index last, whatever the name says; the main one has to be first: of a version that
            # two indexes have, uv looks at the first one's files only. Without one to name, uv's own stays the last.
            last = indexes.pop() if main else ""
            for url in indexes:
                fetch += ["--index", url]
            fetch += ["--default-index", last] if last else []
            indexes.append(last)
        if len(indexes) > 1 and not environ.get("UV_INDEX_STRATEGY"):
            # To pip all indexes are one; uv stops at the first that knows a name, and would miss versions there.
            fetch += ["--index-strategy", "unsafe-best-match"]
        for place in pip.get("find-links", "").split():
            if _there(place):
                fetch += ["--find-links", place]
        if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            fetch.append("--no-index")
        for host in pip.get("trusted-host", "").split():
            fetch += ["--allow-insecure-host", host]
    resolve: list[str] = []
    if not environ.get("UV_CONSTRAINT"):
        for file in pip.get("constraint", "").split():
            if _there(file):
                resolve += ["--constraints", file]
    cert = pip.get("cert")
    environment = (("SSL_CERT_FILE", cert),) if cert and not environ.get("SSL_CERT_FILE") else ()
    return Handover(tuple(fetch), tuple(resolve), environment)


def pips_default() -> str | None:
    """The index that pip looks at where nobody told it another; None where there is no pip to tell."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        return None
    return str(PyPI.simple_url).rstrip("/")


def _there(place: str) -> bool:
    """pip warns of a local index or folder that does not exist, and goes on; uv stops."""
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path)).exists()
    return True


def uv_tables(environ: Mapping[str, str], here: Path) -> list[dict[str, object]]:
    """uv's own settings in files, for a command given in this folder."""
    if environ.get("UV_NO_CONFIG"):
        return []
    own = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "uv/uv.toml"
    files = [own, Path("/etc/uv/uv.toml")]
    for folder in (here, *here.parents):
        if (folder / "uv.toml").exists() or (folder / "pyproject.toml").exists():
            files += [folder / "uv.toml", folder / "pyproject.toml"]
            break
    if chosen := environ.get("UV_CONFIG_FILE"):
        files = [Path(chosen)]
    tables = []
    for file in files:
        try:
            table = tomllib.loads(file.read_text())
        except (OSError, ValueError):
            continue
        if file.name == "pyproject.toml":
            table = table.get("tool", {}).get("uv", {})
        if table:
            tables.append(table)
    return tables


def names_sources(tables: list[dict[str, object]]) -> bool:
    keys = {"index", "index-url", "extra-index-url", "find-links", "no-index", "pip"}
    return any(keys & table.keys() for table in tables)


def choices(environ: Mapping[str, str], pip: Mapping[str, str], tables: list[dict[str, object]]) -> str:
    """Everything set that may change which packages are taken, as one text for the cache's key."""
    named = {name: environ[name] for name in UV_CHOICES if environ.get(name)}
    files = [*pip.get("constraint", "").split(), *environ.get("UV_CONSTRAINT", "").split()]
    contents = {file: Path(file).read_text() for file in files if Path(file).is_file()}
    return json.dumps([named, dict(pip), tables, contents], sort_keys=True, default=str)
