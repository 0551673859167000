"""`jaxcheck diff`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.cli.options import Project
    from jaxcheck.execution.changes import CaseChange
    from jaxcheck.goldens.golden import Golden
    from jaxcheck.goldens.store import GoldenStore
    from jaxcheck.registry.model import Recipe
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
    shown = 0
    for change in changes:
        if change.differs or not rev:
            print("\n".join(change_lines(change)))
            shown += change.differs or not files
    if not shown and not files and not rev:
        raise NothingVerified("no candidate is selected: the last run left none", hint="jaxcheck run")
    if not shown:
        print(f"no golden differs{f' from {rev}' if rev else ''}")
    raise typer.Exit(int(Exit.FAILED if shown else Exit.PASSED))


def of_candidates(
    project: Project, names: list[str] | None, tag: list[str] | None, k: str | None
) -> Iterator[CaseChange]:
    """What the last run left, against the goldens."""
    from jaxcheck.cli.bless import candidates_of
    from jaxcheck.registry.select import selected_recipes

    candidates, selection = candidates_of(project), opt.selection_of(names, tag, k)
    for recipe in selected_recipes(project.registry, selection):
        candidate = candidates.load(recipe.name)
        if candidate is None:
            continue
        with candidate:
            for case in candidate.cases:
                if wanted(selection, recipe, case):
                    yield candidate_change(recipe, case, project.goldens, candidate)


def candidate_change(recipe: Recipe, case: str, goldens: GoldenStore, candidate: Golden) -> CaseChange:
    """From the golden that is in use where the candidate was made."""
    from contextlib import nullcontext

    from jaxcheck.execution.changes import change_of

    made = candidate.summary(case).blessing.environment.get("backend", "cpu")
    golden = goldens.load(recipe.name, str(made))
    with golden or nullcontext():
        return change_of(case, golden, candidate, recipe)


def of_revision(
    project: Project, names: list[str] | None, tag: list[str] | None, k: str | None, rev: str
) -> Iterator[CaseChange]:
    """Every selected case of a golden that is another file than at the revision."""
    from jaxcheck.execution.changes import change_of
    from jaxcheck.execution.revisions import changed_since
    from jaxcheck.registry.select import selected_recipes

    plain, files = [], dict[str, set[str]]()
    for name in names or ():
        recipe, backend = opt.golden_name(name, project.registry.recipes)
        plain.append(recipe)
        if backend:
            files.setdefault(recipe, set()).add(project.goldens.path(recipe, backend).name)
    selection = opt.selection_of(plain, tag, k)
    selected = {recipe.name for recipe in selected_recipes(project.registry, selection)}
    everything = not (names or tag or k)  # also what no recipe owns any more
    for pair in changed_since(project.goldens.folder, rev):
        if not (everything or pair.recipe in selected) or pair.name not in files.get(pair.recipe, {pair.name}):
            continue
        owner = project.registry.recipes.get(pair.recipe)
        for case in pair.cases:
            if everything or (owner is not None and wanted(selection, owner, case)):
                yield change_of(case, pair.old, pair.new, owner)


def of_files(old: Path, new: Path) -> Iterator[CaseChange]:
    from jaxcheck.execution.changes import change_of
    from jaxcheck.goldens.golden import Golden

    with Golden.open(old) as before, Golden.open(new) as after:
        for case in sorted({*before.cases, *after.cases}):
            yield change_of(case, before, after)


def wanted(selection: Selection, recipe: Recipe, case: str) -> bool:
    """A case is compared as a whole: one selected mode selects it."""
    from jaxcheck.registry.select import wants

    return any(wants(selection, recipe, case, mode) for mode in recipe.modes)
