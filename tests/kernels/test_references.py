"""A reference that used JAX would agree with JAX's own mistakes: it must be pure NumPy."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types

import pytest

import jaxcheck.kernels
from jaxcheck.kernels import apply_if_finite, value_and_grad

pytestmark = pytest.mark.needs_jax
FOREIGN = ("jax", "jaxlib", "optax")


def kernel_modules():
    names = [each.name for each in pkgutil.iter_modules(jaxcheck.kernels.__path__)]
    return [importlib.import_module(f"jaxcheck.kernels.{name}") for name in names]


def references():
    found = [
        function
        for module in kernel_modules()
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_reference") and function.__module__ == module.__name__
    ]
    return [pytest.param(each, id=f"{each.__module__.rpartition('.')[2]}:{each.__name__}") for each in found]


def foreign_names(function, seen=None):
    """Names of JAX or Optax that a function, or a function of this project that it calls, refers to."""
    seen = set() if seen is None else seen
    if function in seen:
        return set()
    seen.add(function)
    found = set()
    for name in all_names(function.__code__):
        value = function.__globals__.get(name)
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
        if home.partition(".")[0] in FOREIGN:
            found.add(name)
        elif inspect.isfunction(value) and home.startswith("jaxcheck."):
            found |= foreign_names(value, seen)
    return found


def all_names(code):
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(all_names, inner))


@pytest.mark.parametrize("reference", references())
def test_reference_is_pure_numpy(reference):
    assert foreign_names(reference) == set()


def test_every_module_with_a_formula_has_a_reference():
    assert len(references()) >= 12


def test_search_finds_jax_in_a_function_and_in_those_it_calls():
    assert foreign_names(value_and_grad.forward) == {"jax"}
    assert foreign_names(value_and_grad.sgd_step) == {"jax", "jnp"}
    assert "optax" in foreign_names(apply_if_finite.guarded_updates)
