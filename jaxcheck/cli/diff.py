"""`jaxcheck diff`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.cli.options import Project
    from jaxcheck.execution.changes import CaseChange
    from jaxcheck.execution.revisions import Pair
    from jaxcheck.registry.select import Selection

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]... | OLD.npz NEW.npz",
        help="Recipes or cases, with --rev also NAME@gpu; or two golden files.",
        show_default=False,
    ),
]


def diff(
    names: Names = None,
    rev: Annotated[
        str | None,
        typer.Option("--rev", metavar="REV", help="From the goldens of this git revision to those here; or REV..REV."),
    ] = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Compare goldens, leaf by leaf: with the candidates of the last run, with a revision of git, or two files.

    Two files need no registry: leaves are held to the tolerances that they store.

    Examples: `jaxcheck diff newton-sqrt::zeros`; `jaxcheck diff --rev origin/main`, in a pull request;
    `jaxcheck diff old.npz new.npz`. Exit 1 where something differs, 5 where there is no candidate.
    """
    from jaxcheck.errors import Exit, NothingVerified, UsageError
    from jaxcheck.report.changes import change_lines

    files = [name for name in names or () if name.endswith(".npz")]
    if files:
        if len(files) != 2 or len(names or ()) != 2 or rev:
            raise UsageError("files are compared two at a time, and alone", hint="jaxcheck diff OLD.npz NEW.npz")
        changes = of_files(*map(Path, files))
    else:
        project = opt.open_project(registry, goldens, state, shipped)
        changes = of_revision(project, names, tag, k, rev) if rev else of_candidates(project, names, tag, k)
    compared = differing = 0
    for change in changes:
        compared, differing = compared + 1, differing + change.differs
        if change.differs or not rev:
            print("\n".join(change_lines(change)))
    if not compared and not files and not rev:
        raise NothingVerified("no candidate is selected: the last run left none", hint="jaxcheck run")
    if not differing:
        print(f"no golden differs{f' from {rev}' if rev else ''}")
    raise typer.Exit(int(Exit.FAILED if differing else Exit.PASSED))


def of_candidates(
    project: Project, names: list[str] | None, tag: list[str] | None, k: str | None
) -> Iterator[CaseChange]:
    """What the last run left, against the goldens."""
    from jaxcheck.cli.bless import candidates_of
    from jaxcheck.execution.changes import candidate_change
    from jaxcheck.registry.select import selected_recipes, wants_case

    candidates, selection = candidates_of(project), opt.selection_of(names, tag, k)
    for recipe in selected_recipes(project.registry, selection):
        candidate = candidates.load(recipe.name)
        if candidate is None:
            continue
        with candidate:
            cases = candidate.cases
        for case in cases:
            if wants_case(selection, recipe, case):
                yield candidate_change(recipe, case, candidates, project.goldens)


def of_revision(
    project: Project, names: list[str] | None, tag: list[str] | None, k: str | None, rev: str
) -> Iterator[CaseChange]:
    """Every selected case of a golden that is another file than at the revision; all of them, also of what no recipe
    owns any more, where nothing is selected."""
    from jaxcheck.execution.changes import change_of
    from jaxcheck.execution.revisions import Revisions
    from jaxcheck.registry.select import wants_case

    recipes, revisions = project.registry.recipes, Revisions(project.goldens.folder, rev)
    given: Sequence[str | None] = names or ([None] if tag or k else [])
    asked = [_asked(project, name, tag, k, revisions.names) for name in given]

    def wanted(pair: Pair, case: str) -> bool:
        owner = recipes.get(pair.recipe)
        return owner is not None and any(
            pair.name in files and wants_case(selection, owner, case) for selection, files in asked
        )

    for pair in revisions.changed():
        for case in pair.cases:
            if not asked or wanted(pair, case):
                yield change_of(case, pair.old, pair.new, recipes.get(pair.recipe))


def _asked(
    project: Project, name: str | None, tag: list[str] | None, k: str | None, present: Collection[str]
) -> tuple[Selection, set[str]]:
    """(the checks that a name means, the golden files that it means, of those that there are at either end)."""
    from jaxcheck.errors import UsageError
    from jaxcheck.goldens.store import backend_stem, file_stem
    from jaxcheck.registry.select import selected_recipes

    plain, backend = opt.golden_name(name, project.registry.recipes) if name else (None, None)
    selection = opt.selection_of([plain] if plain else None, tag, k)
    owners = selected_recipes(project.registry, selection)
    if backend is None:
        stems = {file_stem(recipe.name) for recipe in owners}
        return selection, {file for file in present if file.removesuffix(".npz").partition("@")[0] in stems}
    files = {project.goldens.path(recipe.name, backend).name for recipe in owners} & set(present)
    if owners and not files:
        others = sorted({found for file in present if (found := backend_stem(file)) is not None})
        raise UsageError(
            f"{name}: no backend {backend!r} has a golden of its own of that recipe, at either end",
            hint=f"backends with goldens of their own: {', '.join(others) or 'none'}",
        )
    return selection, files


def of_files(old: Path, new: Path) -> Iterator[CaseChange]:
    from jaxcheck.execution.changes import change_of
    from jaxcheck.goldens.golden import Golden

    with Golden.open(old) as before, Golden.open(new) as after:
        for case in sorted({*before.cases, *after.cases}):
            yield change_of(case, before, after)
