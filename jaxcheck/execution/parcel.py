"""What a worker on another machine needs of this one: this very jaxcheck and the user's files, in one archive.

    jaxcheck/    the package
    project/     the folder that kernels are imported from
    wheels/      packages to install, where the user gave some as files

The same files give the same bytes, so that machines which have the archive already are not sent it again.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jaxcheck
from jaxcheck.errors import UsageError
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Registry

PACKAGE, PROJECT, WHEELS = "jaxcheck", "project", "wheels"
MOST_BYTES = 200 << 20
SHOWN = 3
LEFT_OUT = frozenset({"__pycache__", "node_modules"})
MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")  # of a virtual environment; of what can be made again
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Parcel:
    """The archive, and where in it each folder of this machine is."""

    file: Path
    places: dict[str, str] = field(default_factory=dict)


def pack(registry: Registry, goldens: GoldenStore, state: Path, file: Path, wheels: Collection[Path] = ()) -> Parcel:
    """Writes the archive. Goldens are no part of it: each worker gets those that it is asked about.

    Left out are hidden files and folders, bytecode, virtual environments, folders with a CACHEDIR.TAG, and links to
    folders. UsageError, naming the largest folders, where it would be too large.
    """
    top = _top(Path(registry.root))
    own = Path(jaxcheck.__file__).parent
    stored = GoldenStore(goldens.folder.absolute())
    owned = {path for name in registry.recipes for path in (stored.path(name), *_of_backends(stored, name))}
    files = {
        f"{PROJECT}/{path.relative_to(top).as_posix()}": path
        for path in _not_too_many(top, _files(top, {state.absolute()}, owned))
    }
    files |= {f"{PACKAGE}/{path.relative_to(own).as_posix()}": path for path in _files(own, set(), set())}
    files |= {f"{WHEELS}/{path.name}": path for path in wheels}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo(f"{PROJECT}/", _EPOCH), b"")
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, _content(files[name]))
    return Parcel(file, {str(top): PROJECT, str(own): PACKAGE})


def _top(root: Path) -> Path:
    """The current folder where it holds the registry's, as modules are imported from there too; else the registry's."""
    here, root = Path.cwd(), Path(os.path.abspath(root))
    if not root.is_relative_to(here) or here in (Path("/"), Path.home()):
        return root
    between = [folder for folder in (root, *root.parents) if folder.is_relative_to(here) and folder != here]
    return root if any(map(_is_left_out, between)) else here


def _files(top: Path, folders: Collection[Path], files: Collection[Path]) -> Iterator[Path]:
    """Everything below `top` that is sent, without these folders and files."""
    for where, below, names in os.walk(top):
        place = Path(where)
        below[:] = [name for name in below if place / name not in folders and not _is_left_out(place / name)]
        yield from (
            place / name
            for name in names
            if not name.startswith(".") and place / name not in files and (place / name).is_file()
        )


def _is_left_out(folder: Path) -> bool:
    name = folder.name
    return name.startswith(".") or name in LEFT_OUT or any((folder / mark).exists() for mark in MARKS)


def _of_backends(goldens: GoldenStore, recipe: str) -> Iterator[Path]:
    stem = goldens.path(recipe).stem
    return (path for path in goldens.folder.glob("*.npz") if path.name.startswith(f"{stem}@"))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be sent to the cluster: {error.strerror}", hint=f"ls -l {path}") from error


def _not_too_many(top: Path, files: Iterable[Path]) -> Iterator[Path]:
    """The files; UsageError as soon as they are too much, so that nobody waits for a whole disk to be counted."""
    sizes: Counter[str] = Counter()
    for path in files:
        sizes[path.relative_to(top).parts[0]] += path.stat().st_size
        if sizes.total() > MOST_BYTES:
            largest = sizes.most_common(SHOWN)
            told = ", ".join(f"{name} has {size >> 20:,} MiB" for name, size in largest if size >> 20)
            raise UsageError(
                f"no more than {MOST_BYTES >> 20} MiB are sent to a cluster, {top} has more: {told or 'many files'}",
                hint=f"leave a folder out that no kernel reads from: touch {top / largest[0][0] / 'CACHEDIR.TAG'}",
            )
        yield path
