"""Going back to a golden that was replaced, and removing goldens that no recipe owns."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from jaxcheck.errors import GoldenError, NothingVerified, UsageError
from jaxcheck.goldens.golden import Blessing, Golden
from jaxcheck.goldens.store import GoldenStore, Version

SHORT = 12  # digits of an address that are shown; --to takes as few as tell it from the others


@dataclass(frozen=True)
class Restored:
    """What a rollback did. `skipped` are kept files that could not be used, newest first, and why."""

    path: Path
    version: Version
    cases: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def roll_back(
    goldens: GoldenStore, recipe: str, backend: str | None, blessing: Blessing, address: str | None = None
) -> Restored:
    """Makes the golden that was replaced last, or the one of this address, the golden again, atomically.

    The cases that it changes get the blessing, with the environment that made their numbers; the golden it replaces is
    kept in its turn. GoldenError where the one of that address is damaged, or the present file is not ours to replace.
    """
    versions = goldens.versions(recipe, backend)
    if not versions:
        raise NothingVerified(f"no earlier golden of {recipe!r} is kept here", hint=_git_hint(goldens, recipe, backend))
    chosen, skipped = (_addressed(versions, address), []) if address else _before(goldens, versions, recipe, backend)
    with chosen.open() as golden:
        cases = {}
        for name in golden.cases:
            case = golden.case(name, program=True)
            made = dataclasses.replace(blessing, environment=case.blessing.environment)
            cases[name] = dataclasses.replace(case, blessing=made)
        if not goldens.save(recipe, cases, backend):
            raise NothingVerified(f"the golden of {recipe!r} holds just what {chosen.address[:SHORT]} does")
        return Restored(goldens.path(recipe, backend), chosen, golden.cases, tuple(skipped))


def _addressed(versions: Collection[Version], address: str) -> Version:
    found = [version for version in versions if version.address.startswith(address)]
    if len(found) == 1:
        return found[0]
    kept = ", ".join(version.address[:SHORT] for version in versions)
    raise UsageError(f"{address!r} is the address of {len(found)} kept goldens", hint=f"--to one of: {kept}")


def _before(
    goldens: GoldenStore, versions: Collection[Version], recipe: str, backend: str | None
) -> tuple[Version, list[str]]:
    """The newest that is whole and holds something else than the present golden does; those passed over, and why."""
    present, skipped = _sound_digest(goldens.path(recipe, backend)), list[str]()
    for version in versions:
        try:
            with version.open() as golden:
                if golden.digest != present:
                    return version, skipped
                skipped.append(f"{version.address[:SHORT]} holds what the golden holds now")
        except GoldenError as error:
            skipped.append(str(error))
    raise NothingVerified(
        f"none of the kept goldens of {recipe!r} can be gone back to: {'; '.join(skipped)}",
        hint=_git_hint(goldens, recipe, backend),
    )


def _sound_digest(path: Path) -> str | None:
    """Of the content at `path`; None where there is none, or none that can be trusted."""
    if not path.exists():
        return None
    try:
        with Golden.open(path) as golden:
            golden.verify()
            return golden.digest
    except GoldenError:
        return None


def _git_hint(goldens: GoldenStore, recipe: str, backend: str | None) -> str:
    return f"git log -- {goldens.path(recipe, backend)}"


@dataclass(frozen=True)
class Unowned:
    """Files of recipes that the registry does not have, each with the recipe; `left` are files that are no goldens, or
    that cannot be read, and why: they stay."""

    goldens: tuple[tuple[Path, str], ...] = ()
    candidates: tuple[tuple[Path, str], ...] = ()
    left: tuple[str, ...] = ()


def unowned(recipes: Collection[str], goldens: GoldenStore, candidates: GoldenStore) -> Unowned:
    """What no recipe of the registry owns, whatever the last run ran; a recipe owns the goldens of every backend."""
    gone, unused = (_of_others(recipes, store) for store in (goldens, candidates))
    owned = {goldens.path(recipe) for recipe in recipes}
    return Unowned(gone, unused, tuple(str(e) for path, e in goldens.damaged().items() if path not in owned))


def _of_others(recipes: Collection[str], store: GoldenStore) -> tuple[tuple[Path, str], ...]:
    found = store.recipes().items()
    return tuple((path, name) for name, paths in found if name not in recipes for path in paths)


def prune(found: Unowned, goldens: GoldenStore) -> None:
    """Removes what is unowned; goldens are kept in the history, so that a rollback brings them back."""
    for path, _ in found.goldens:
        goldens.discard(path)
    for path, _ in found.candidates:
        path.unlink(missing_ok=True)
