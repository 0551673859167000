"""Whether the functions that a registry names exist and take the arguments given, without importing them.

Only what is certain from the source text is a fault. What is decided at import time (star imports, dynamic names,
decorators, compiled modules) is left for the worker, which imports the function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from jaxcheck.errors import Fault
from jaxcheck.registry.model import Position, Recipe, Registry, in_order
from jaxcheck.registry.sources import Missing, Module, Modules, Signature
from jaxcheck.registry.words import closest, did_you_mean, label, show


def check_names(registry: Registry) -> list[Fault]:
    """Every function that certainly cannot be found, and every argument that certainly does not fit its kernel.

    Modules are searched in the registry's folder, the current one and `sys.path`, as the worker does.
    """
    modules = Modules(list(dict.fromkeys((registry.root, str(Path.cwd()), *sys.path))))
    faults = [fault for recipe in registry.recipes.values() for fault in _recipe_faults(recipe, modules)]
    return in_order(faults, registry.files)


def _recipe_faults(recipe: Recipe, modules: Modules) -> Iterator[Fault]:
    for name, where in _named_functions(recipe):
        yield from _function_faults(label("recipes", recipe.name), name, where, modules)
    kernel = _kernel(recipe, modules)
    if kernel:
        yield from _argument_faults(recipe, kernel)
        yield from _static_faults(recipe, kernel)


def _named_functions(recipe: Recipe) -> Iterator[tuple[str, Position]]:
    for key in ("kernel", "reference", "inputs"):
        name = getattr(recipe, key)
        if name is not None:
            yield name, recipe.locate(key)
    for index, name in enumerate(recipe.properties):
        yield name, recipe.locate("properties", str(index))


def _function_faults(of: str, name: str, where: Position, modules: Modules) -> Iterator[Fault]:
    module, function = name.split(":")
    found = modules.find(module)
    if isinstance(found, Missing):
        yield where.fault(f"{of}{found.message}", found.hint)
    elif found and found.surely_lacks(function) and isinstance(modules.find(f"{module}.{function}"), Missing):
        near = closest(function, found.functions)
        hint = f"did you mean {module}:{near}?" if near else f"looked in {found.place}"
        yield where.fault(f"{of}the module {module} has no {function}", hint)


def _kernel(recipe: Recipe, modules: Modules) -> Signature | None:
    module, function = recipe.kernel.split(":")
    found = modules.find(module)
    return found.signature(function) if isinstance(found, Module) else None


def _argument_faults(recipe: Recipe, kernel: Signature) -> Iterator[Fault]:
    for case in recipe.cases.values():
        if case.args is None:
            continue
        kernel_of = f"{label('recipes', recipe.name, 'cases', case.name)}the kernel {recipe.kernel}"
        for name in case.args:
            if not kernel.takes(name):
                where = recipe.locate("cases", case.name, "args", name)
                yield where.fault(f"{kernel_of} has no argument {show(name)}", did_you_mean(name, kernel.names))
        for name in kernel.required:
            if name not in case.args:
                where = recipe.locate("cases", case.name, "args")
                yield where.fault(
                    f"{kernel_of} needs the argument {show(name)}", f"arguments: {', '.join(kernel.names)}"
                )


def _static_faults(recipe: Recipe, kernel: Signature) -> Iterator[Fault]:
    given = {name for case in recipe.cases.values() for name in case.args or ()}
    for index, name in enumerate(recipe.static):
        if name not in given and not kernel.takes(name):
            where = recipe.locate("static", str(index))
            said = f"the kernel {recipe.kernel} has no argument {show(name)} that could be static"
            yield where.fault(label("recipes", recipe.name) + said, did_you_mean(name, kernel.names))
