"""What the keys of a recipe mean together: one generator of faults for each rule. To add one, add it to `RULES`.

A rule passes over a recipe where a key that it looks at has a fault of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import get_args

from jaxcheck.errors import Fault
from jaxcheck.registry.model import (
    BOUNDED_BY_THEMSELVES,
    BY_ELEMENT,
    GRADIENT,
    Case,
    Contract,
    OutputRule,
    Raises,
    Recipe,
)
from jaxcheck.registry.resolve import Draft
from jaxcheck.registry.tolerance import output_rule
from jaxcheck.registry.words import did_you_mean, label, show


def check_rules(draft: Draft) -> Iterator[Fault]:
    for keys, rule in RULES:
        if draft.faulty.isdisjoint(keys):
            yield from rule(draft.recipe)


def has_cases(recipe: Recipe) -> Iterator[Fault]:
    if not recipe.cases and recipe.inputs is None:
        hint = "for example cases: {standard: {args: {x: 1.0}}}"
        yield recipe.position.fault(f"{_label(recipe)}has neither cases nor inputs", hint)


def has_tolerance(recipe: Recipe) -> Iterator[Fault]:
    """Nobody's default is right for every kernel: each recipe, or the defaults, must say what may move."""
    keys = ("*", f"{GRADIENT}*") if GRADIENT in recipe.modes else ("*",)
    if not any(recipe.tolerances) and not all(_is_bounded(recipe.outputs.get(key)) for key in keys):
        hint = "for example tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}, here or in defaults"
        yield recipe.position.fault(f"{_label(recipe)}tolerance is missing, here and in defaults", hint)


def _is_bounded(rule: OutputRule | None) -> bool:
    return rule is not None and (rule.tolerance is not None or rule.comparator in BOUNDED_BY_THEMSELVES)


def some_comparators_need_no_tolerance(recipe: Recipe) -> Iterator[Fault]:
    for path, rule in recipe.outputs.items():
        if rule.comparator in BOUNDED_BY_THEMSELVES and rule.tolerance is not None:
            where = recipe.locate("outputs", path, "tolerance")
            said = f"{_label(recipe, 'outputs', path)}the comparator {rule.comparator} takes no tolerance"
            yield where.fault(said, "remove one")


def conditioning_is_of_allclose(recipe: Recipe) -> Iterator[Fault]:
    """Only a leaf compared element by element within a tolerance is asked how it is conditioned."""
    for path, rule in recipe.outputs.items():
        if rule.unstable is not None and rule.comparator != "allclose":
            said = f"{_label(recipe, 'outputs', path)}the comparator {rule.comparator} does not ask for conditioning"
            yield recipe.locate("outputs", path, "conditioning").fault(said, "remove one")


def digests_are_compared_by_element(recipe: Recipe) -> Iterator[Fault]:
    """What looks at a whole leaf needs all of it in the golden, also where it is another leaf that it looks at."""
    for path, rule in recipe.outputs.items():
        if rule.digest and rule.comparator not in BY_ELEMENT:
            said = f"{_label(recipe, 'outputs', path)}the comparator {rule.comparator} looks at the whole leaf"
            yield recipe.locate("outputs", path, "store").fault(said, "store: whole")
        for parameter, other in rule.outputs().items():
            kept = output_rule(recipe, other)
            if kept is not None and kept.digest and other != path:
                keys = ("outputs", path, "comparator", rule.comparator, parameter)
                said = f"{_label(recipe, *keys)}looks at the leaf {other}, of which the golden keeps a digest"
                yield recipe.locate(*keys).fault(said, f"store: whole, for {other}")


def comparators_stand_at_their_leaf(recipe: Recipe) -> Iterator[Fault]:
    """At one of the leaves that they speak of, or at a pattern for these."""
    for path, rule in recipe.outputs.items():
        parts = {"svd": ("u", "s", "vh"), "qr": ("q", "r")}.get(rule.comparator, ())
        named = [rule.parameters[part] for part in parts]
        if named and "*" not in path and path not in named:
            said = f"{_label(recipe, 'outputs', path)}{rule.comparator} names {', '.join(named)}, not this leaf"
            yield recipe.locate("outputs", path, "comparator").fault(said, f"{path} must be one of {', '.join(parts)}")
        if rule.comparator == "eigh" and rule.parameters["values"] == path:
            said = f"{_label(recipe, 'outputs', path)}eigh belongs to the eigenvectors, this leaf is their values"
            yield recipe.locate("outputs", path, "comparator").fault(said, "move it to the leaf of the vectors")


def comparators_look_at_arguments(recipe: Recipe) -> Iterator[Fault]:
    given = dict.fromkeys(name for case in recipe.cases.values() for name in case.args or ())
    for path, rule in recipe.outputs.items() if given else ():
        for parameter, input_path in rule.inputs().items():
            argument = re.split(r"\W", input_path, maxsplit=1)[0]
            if argument not in given:
                keys = ("outputs", path, "comparator", rule.comparator, parameter)
                said = f"{_label(recipe, *keys)}no case has an argument {show(argument)}"
                yield recipe.locate(*keys).fault(said, did_you_mean(argument, given))


def golden_comes_from_a_mode(recipe: Recipe) -> Iterator[Fault]:
    contract = recipe.golden
    if contract != "truth" and contract not in recipe.modes:
        where = recipe.locate("golden") if ("golden",) in recipe.where else recipe.locate("modes")
        said = f"{_label(recipe)}golden is {contract} (what that mode gives), but modes lacks {contract}"
        yield where.fault(said, f"modes: {', '.join(recipe.modes)}; name one of them as golden, or add {contract}")


def factory_makes_all_arguments(recipe: Recipe) -> Iterator[Fault]:
    for case in recipe.cases.values() if recipe.inputs else ():
        if case.args is not None:
            where = recipe.locate("cases", case.name, "args")
            said = f"{_label(recipe, 'cases', case.name)}has args, but the recipe's inputs make the arguments"
            yield where.fault(said, "remove args, or move the case into a recipe of its own")


def raising_modes_are_run(recipe: Recipe) -> Iterator[Fault]:
    for case, raises in _raising(recipe):
        for index, mode in enumerate(raises.modes or ()):
            if mode not in recipe.modes:
                where = recipe.locate("cases", case.name, "raises", "modes", str(index))
                of = _label(recipe, "cases", case.name, "raises", "modes", index)
                yield where.fault(f"{of}the recipe is not run in mode {mode}", f"its modes: {', '.join(recipe.modes)}")


def golden_exists_where_a_mode_does_not_raise(recipe: Recipe) -> Iterator[Fault]:
    """A mode that gives values is compared with the golden: the mode that makes the golden must not raise then."""
    for case, raises in _raising(recipe):
        values = [mode for mode in recipe.modes if not raises.expected_in(mode)]
        if values and recipe.golden != "truth" and raises.expected_in(recipe.golden):
            where = recipe.locate("cases", case.name, "raises")
            said = (
                f"{_label(recipe, 'cases', case.name)}raises in mode {recipe.golden}, which makes the golden, "
                f"but not in {', '.join(values)}, which need one"
            )
            hint = f"add {', '.join(values)} to raises.modes, or drop it from modes"
            other = next((mode for mode in values if mode in get_args(Contract)), None)
            yield where.fault(said, f"golden: {other}" if other else hint)


def _raising(recipe: Recipe) -> Iterator[tuple[Case, Raises]]:
    return ((case, case.raises) for case in recipe.cases.values() if case.raises)


def static_names_are_arguments(recipe: Recipe) -> Iterator[Fault]:
    given = dict.fromkeys(name for case in recipe.cases.values() for name in case.args or ())
    for index, name in enumerate(recipe.static if given else ()):
        if name not in given:
            said = f"{_label(recipe, 'static', index)}no case has an argument {show(name)}"
            yield recipe.locate("static", str(index)).fault(said, did_you_mean(name, given))


def modes_have_what_they_need(recipe: Recipe) -> Iterator[Fault]:
    """Options of a mode that is not run verify nothing; `sharded` needs several devices and something to split."""
    for mode in ("vmap", "grad", "sharded"):
        if getattr(recipe, mode) and mode not in recipe.modes:
            hint = f"add {mode} to modes, or remove the key"
            yield recipe.locate(mode).fault(f"{_label(recipe, mode)}the recipe is not run in mode {mode}", hint)
    if recipe.processes > 1 and ("processes",) in recipe.where and "sharded" not in recipe.modes:
        hint = "add sharded to modes, or remove the key"
        said = f"{_label(recipe, 'processes')}the recipe is not run in mode sharded, the only one of several processes"
        yield recipe.locate("processes").fault(said, hint)
    if recipe.traces and "jit" not in recipe.modes:
        hint = "add jit to modes, or remove the key"
        yield recipe.locate("traces").fault(f"{_label(recipe, 'traces')}the recipe is not run in mode jit", hint)
    for path in recipe.outputs if GRADIENT not in recipe.modes else ():
        if path.startswith(GRADIENT):
            said = f"{_label(recipe, 'outputs', path)}is of a gradient, and the recipe is not run in mode grad"
            yield recipe.locate("outputs", path).fault(said, "add grad to modes, or remove the key")
    if "sharded" in recipe.modes:
        where = recipe.locate("modes")
        if recipe.devices is None:
            yield where.fault(f"{_label(recipe)}the mode sharded needs devices", "for example devices: 4")
        if recipe.sharded is None:
            hint = "for example sharded: {axes: {x: 0}}"
            yield where.fault(f"{_label(recipe)}the mode sharded needs to know which arguments are split", hint)


def modes_name_arguments(recipe: Recipe) -> Iterator[Fault]:
    given = dict.fromkeys(name for case in recipe.cases.values() for name in case.args or ())
    for keys, name in _named_by_modes(recipe) if given else ():
        where = recipe.locate(*map(str, keys))
        if name in recipe.static:
            yield where.fault(f"{_label(recipe, *keys)}{show(name)} is static", "name arguments that are arrays")
        elif name not in given:
            yield where.fault(f"{_label(recipe, *keys)}no case has an argument {show(name)}", did_you_mean(name, given))


def _named_by_modes(recipe: Recipe) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(where it stands, the argument) for every argument that the options of a mode name."""
    for index, batch in enumerate(recipe.vmap):
        above: tuple[str | int, ...] = ("vmap", index) if ("vmap", str(index)) in recipe.where else ("vmap",)
        yield from (((*above, "axes", name), name) for name in batch.axes)
    for index, name in enumerate((recipe.grad and recipe.grad.arguments) or ()):
        yield ("grad", "arguments", index), name
    for name in recipe.sharded.axes if recipe.sharded else ():
        yield ("sharded", "axes", name), name


def _label(recipe: Recipe, *keys: str | int) -> str:
    return label("recipes", recipe.name, *keys)


RULES: tuple[tuple[frozenset[str], Callable[[Recipe], Iterator[Fault]]], ...] = (
    (frozenset({"cases", "inputs"}), has_cases),
    (frozenset({"tolerance", "outputs", "modes"}), has_tolerance),
    (frozenset({"outputs"}), some_comparators_need_no_tolerance),
    (frozenset({"outputs"}), conditioning_is_of_allclose),
    (frozenset({"outputs"}), digests_are_compared_by_element),
    (frozenset({"outputs"}), comparators_stand_at_their_leaf),
    (frozenset({"outputs", "cases", "inputs"}), comparators_look_at_arguments),
    (frozenset({"golden", "modes"}), golden_comes_from_a_mode),
    (frozenset({"inputs"}), factory_makes_all_arguments),
    (frozenset({"modes"}), raising_modes_are_run),
    (frozenset({"golden", "modes"}), golden_exists_where_a_mode_does_not_raise),
    (frozenset({"cases", "static", "inputs"}), static_names_are_arguments),
    (
        frozenset({"modes", "devices", "processes", "vmap", "grad", "sharded", "traces", "outputs"}),
        modes_have_what_they_need,
    ),
    (frozenset({"cases", "static", "inputs", "vmap", "grad", "sharded"}), modes_name_arguments),
)
