"""The files of a registry: the main one and what it includes, each read and its head checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaxcheck.errors import Fault
from jaxcheck.registry.model import Position
from jaxcheck.registry.schema import DefaultsBlock, RegistryBlock
from jaxcheck.registry.validate import Validated, validate
from jaxcheck.registry.words import show
from jaxcheck.registry.yaml_source import Source, read_source

MAX_DEPTH = 16


@dataclass(frozen=True)
class Defaults:
    """The `defaults:` of a file; `faulty` names the keys that were left out, as they have faults of their own."""

    block: DefaultsBlock
    source: Source
    faulty: frozenset[str] = frozenset()


@dataclass(frozen=True)
class File:
    """A file of the registry. `head` is all of it but its defaults and recipes; None where it cannot be used."""

    source: Source
    head: RegistryBlock | None
    defaults: Defaults


def read_files(main: Path) -> tuple[list[File], list[Fault]]:
    """The main file and all that it includes, directly or not, each once, in the order of reading; and the faults
    of the files as such, of their versions, includes and defaults. `main` is absolute.
    """
    items = list(_read(main, _Trail(main.parent, set()), ()))
    files = [item for item in items if isinstance(item, File)]
    return files, [item for item in items if isinstance(item, Fault)]


def shown(path: Path) -> str:
    """A path as a user would type it: relative where it lies below the current folder."""
    absolute, here = Path(os.path.abspath(path)), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


class _Trail(NamedTuple):
    """The folder that no include may leave, and the files (without links) that were read."""

    root: Path
    seen: set[Path]


def _read(path: Path, trail: _Trail, above: tuple[Path, ...]) -> Iterator[File | Fault]:
    """`above` are the files, without links, that lead here by including each other."""
    above = (*above, _without_links(path))
    trail.seen.add(above[-1])
    source = read_source(path, shown(path))
    yield from source.faults
    head = _validated_head(source, included=len(above) > 1)
    defaults = _validated_defaults(source)
    yield from (*head.faults, *defaults.faults)
    yield File(source, head.block, Defaults(defaults.block or DefaultsBlock(), source, defaults.faulty))
    for index, pattern in enumerate(head.block.include if head.block else ()):
        where = source.value(("include", index))
        for item in _targets(path.parent, pattern, trail.root, where):
            if isinstance(item, Fault):
                yield item
            else:
                yield from _follow(item, trail, above, where)


def _without_links(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _validated_head(source: Source, *, included: bool) -> Validated[RegistryBlock]:
    """All but defaults and recipes, which are validated by themselves. An included file needs no version."""
    if not source.complete:
        return Validated(None)
    data = source.data
    if isinstance(data, dict):
        data = {"version": 1, **data} if included else dict(data)
        data |= {key: {} for key in ("defaults", "recipes") if isinstance(data.get(key), dict)}
    return validate(RegistryBlock, data, source, (), {"version": 1})


def _validated_defaults(source: Source) -> Validated[DefaultsBlock]:
    data = source.data.get("defaults", {}) if isinstance(source.data, dict) and source.complete else {}
    if isinstance(data, dict):
        return validate(DefaultsBlock, data, source, ("defaults",))
    return Validated(None, faulty=frozenset(DefaultsBlock.model_fields))


def _targets(folder: Path, pattern: str, root: Path, where: Position) -> list[Path | Fault]:
    """The files that a pattern names, sorted; a fault where it names none."""
    if not Path(os.path.normpath(folder / pattern)).is_relative_to(root):
        return [_leaves(pattern, where)]
    try:
        files: list[Path | Fault] = [*sorted(path for path in folder.glob(pattern) if path.is_file())]
        is_folder = (folder / pattern).is_dir()
    except (ValueError, OSError, RuntimeError, NotImplementedError) as error:
        return [where.fault(f"{show(pattern)} is not a pattern of files: {error}")]
    hint = f"for the files in it, {pattern.rstrip('/')}/*.yaml" if is_folder else f"searched in {shown(folder)}"
    return files or [where.fault(f"no file matches {show(pattern)}", hint)]


def _leaves(name: str, where: Position) -> Fault:
    return where.fault(f"{show(name)} leaves the folder of the main registry file", "include files below that folder")


def _follow(target: Path, trail: _Trail, above: tuple[Path, ...], where: Position) -> Iterator[File | Fault]:
    real = _without_links(target)
    if not real.is_relative_to(_without_links(trail.root)):
        yield _leaves(shown(target), where)
    elif real in above:
        chain = " includes ".join(shown(path) for path in (*above[above.index(real) :], real))
        yield where.fault(f"the files include each other: {chain}", "keep included files in a folder of their own")
    elif len(above) > MAX_DEPTH:
        yield where.fault(f"files include each other more than {MAX_DEPTH} deep")
    elif real not in trail.seen:
        yield from _read(target, trail, above)
