"""`jaxcheck diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from jaxcheck.cli import options as opt

if TYPE_CHECKING:
    from jaxcheck.goldens.golden import GoldenCase
    from jaxcheck.goldens.leaf import Tree
    from jaxcheck.goldens.store import GoldenStore
    from jaxcheck.registry.model import Recipe


def diff(
    names: opt.Names = None,
    tag: opt.Tags = None,
    k: opt.Keyword = None,
    registry: opt.RegistryFile = None,
    goldens: opt.GoldensFolder = None,
    state: opt.StateFolder = None,
    shipped: opt.Shipped = False,
) -> None:
    """Compare the goldens with the candidates that the last run left, leaf by leaf.

    Example: `jaxcheck diff newton-sqrt::zeros`. Exit 1 where something differs, 5 where there is no candidate.
    """
    from jaxcheck.cli.bless import candidates_of
    from jaxcheck.errors import Exit, NothingVerified
    from jaxcheck.registry.select import selected_recipes, wants

    project = opt.open_project(registry, goldens, state, shipped)
    candidates = candidates_of(project)
    selection = opt.selection_of(names, tag, k)
    shown = 0
    for recipe in selected_recipes(project.registry, selection):
        for case in cases_of(candidates, recipe):
            if any(wants(selection, recipe, case, mode) for mode in recipe.modes):
                show_case(recipe, case, project.goldens, candidates)
                shown += 1
    if not shown:
        raise NothingVerified("no candidate is selected: the last run left none", hint="jaxcheck run")
    raise typer.Exit(int(Exit.FAILED))


def cases_of(store: GoldenStore, recipe: Recipe) -> list[str]:
    golden = store.load(recipe.name)
    if golden is None:
        return []
    with golden:
        return list(golden.cases)


def show_case(recipe: Recipe, case: str, goldens: GoldenStore, candidates: GoldenStore) -> None:
    """Old against new, in the order of the leaves; the worst element, and how the others are spread."""
    from jaxcheck.execution.comparison import Comparison
    from jaxcheck.report.lines import leaf_lines, plain_text

    candidate = candidates.load(recipe.name)
    assert candidate is not None
    with candidate:
        new = candidate.case(case)
        made = new.blessing.environment.get("backend", "cpu")
        golden = goldens.load(recipe.name, str(made))
        print(plain_text(f"{recipe.name}::{case}"))
        if golden is None or case not in golden.cases:
            print("  new: there is no golden yet")
            return
        with golden:
            old = golden.case(case)
            if old.outputs is None or new.outputs is None:
                print(f"  was {_kind(old.outputs)}, is now {_kind(new.outputs)}")
                return
            comparison = Comparison(recipe, str(made), new.inputs)
            for before, after in compared_trees(old, new):
                findings, leaves = comparison.trees("golden", before, after, "differs")
                for finding in findings:
                    print(plain_text(f"  {finding.message}"))
                for leaf in leaves:
                    for line in leaf_lines(leaf):
                        print(f"  {line}")
            if old.gradients is None and new.gradients is not None:
                print("  new: the golden holds no gradients yet")


def compared_trees(old: GoldenCase, new: GoldenCase) -> list[tuple[Tree, Tree]]:
    """Outputs, and gradients where both have them: a run without the mode grad leaves none."""
    from jaxcheck.registry.model import GRADIENT

    pairs = [(old.outputs, new.outputs)] if old.outputs and new.outputs else []
    if old.gradients and new.gradients:
        pairs.append((old.gradients.under(GRADIENT), new.gradients.under(GRADIENT)))
    return pairs


def _kind(outputs: object) -> str:
    return "an expected error" if outputs is None else "values"
