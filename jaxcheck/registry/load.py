"""A registry from its files: everything checked that can be without importing a kernel, all faults in one go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from jaxcheck.errors import Fault, RegistryError, UsageError
from jaxcheck.registry.include import File, read_files, shown
from jaxcheck.registry.model import Recipe, Registry, in_order
from jaxcheck.registry.resolve import resolve
from jaxcheck.registry.rules import check_rules
from jaxcheck.registry.words import show

FILE_NAME = "recipes.yaml"
MAX_FAULTS = 1000


def find_registry(start: Path) -> Path:
    """The nearest recipes.yaml, in `start` or a folder above; UsageError where there is none."""
    folder = Path(os.path.abspath(start))
    for place in (folder, *folder.parents):
        if os.path.isfile(place / FILE_NAME):
            return place / FILE_NAME
    hint = "name one with --registry FILE, use --shipped for the recipes that come with jaxcheck, or jaxcheck init"
    raise UsageError(f"no {FILE_NAME} in {folder} or any folder above it", hint)


def load_registry(path: Path) -> Registry:
    """The registry whose main file is at `path`; RegistryError with every fault, in the order of the files."""
    main = Path(os.path.abspath(path))
    files, faults = read_files(main)
    recipes, more = _recipes(files, main.parent)
    faults += more
    names = tuple(file.source.file for file in files)
    if faults:
        raise RegistryError(_readable(in_order(faults, names)))
    return Registry(shown(main), str(main.parent), _digest(files), recipes, names)


def _recipes(files: Sequence[File], root: Path) -> tuple[dict[str, Recipe], list[Fault]]:
    recipes: dict[str, Recipe] = {}
    faults: list[Fault] = []
    for file in files:
        defaults = [file.defaults] if file is files[0] else [file.defaults, files[0].defaults]
        for name in _recipe_names(file):
            if name in recipes:
                place = file.source.key(("recipes", name))
                faults.append(place.fault(f"the recipe {show(name)} is given twice, first at {recipes[name].position}"))
                continue
            draft, found = resolve(file.source, name, defaults, root)
            faults += found
            if draft:
                recipes[name] = draft.recipe
                faults += check_rules(draft)
    return recipes, faults


def _recipe_names(file: File) -> Iterable[str]:
    """None where the file cannot be used: its recipes would have faults that follow from that alone."""
    recipes = file.source.data.get("recipes") if file.head else None
    return recipes if isinstance(recipes, dict) else ()


def _readable(faults: list[Fault]) -> list[Fault]:
    """All faults, unless they are more than anybody reads (a generated file, wrong throughout)."""
    if len(faults) <= MAX_FAULTS:
        return faults
    last = faults[MAX_FAULTS]
    return [*faults[:MAX_FAULTS], replace(last, message=f"{len(faults) - MAX_FAULTS} more faults from here", hint=None)]


def _digest(files: Iterable[File]) -> str:
    """Over the bytes of all files."""
    return hashlib.sha256("".join(file.source.digest for file in files).encode()).hexdigest()
