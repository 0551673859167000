"""Which tolerance holds for a leaf: the nearest one that was written for its dtype."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Protocol

from jaxcheck.registry.model import GRADIENT, OutputRule, Recipe, Tolerance

Layer = Mapping[str, Tolerance]

UNIFORM = "*"
_SAME_AS = {"complex64": "float32", "complex128": "float64"}
INEXACT = ("float", "bfloat", "complex")


def choose(recipe: Recipe, path: str, dtype: str, backend: str) -> Tolerance | None:
    """The tolerance for the leaf at key path `path` (`.` is the root), or None where none was written for its dtype.

    Layers from the nearest: the leaf's own, then the recipe's for this backend, the recipe's, and the same two of
    each block of defaults. Within a layer the dtype's own entry wins, then for complex numbers that of their parts,
    then the uniform one, which outside the leaf's own layer means floating and complex dtypes only.
    """
    rule = output_rule(recipe, path)
    inexact = dtype.startswith(INEXACT)
    own = _look_up(rule.tolerance, dtype, uniform=True) if rule and rule.tolerance else None
    found = (own, *(_look_up(layer, dtype, uniform=inexact) for layer in _layers(recipe, backend)))
    nearest = next((tolerance for tolerance in found if tolerance), None)
    if nearest or inexact:
        return nearest
    return Tolerance(0.0, 0.0, f"exact: {dtype}")


def _layers(recipe: Recipe, backend: str) -> Iterator[Layer]:
    """The recipe's layers and those of the defaults, each after the one for this backend."""
    for_backend = recipe.backend_tolerances.get(backend, ())
    return chain.from_iterable(zip_longest(for_backend, recipe.tolerances, fillvalue={}))


def _look_up(layer: Layer, dtype: str, *, uniform: bool) -> Tolerance | None:
    names = (dtype, _SAME_AS.get(dtype, dtype), *((UNIFORM,) if uniform else ()))
    return next((layer[name] for name in names if name in layer), None)


class OutputRules(Protocol):
    """What knows the `outputs:` of a recipe."""

    @property
    def outputs(self) -> Mapping[str, OutputRule]: ...


def output_rule(recipe: OutputRules, path: str) -> OutputRule | None:
    """What `outputs:` says of the leaf at `path`: its own entry, else the first with a `*` that matches.

    A gradient is no output: only a `*` that begins as its path does (`grad*`) speaks of it.
    """
    key = output_key(recipe, path)
    return None if key is None else recipe.outputs[key]


def output_key(recipe: OutputRules, path: str) -> str | None:
    """The key of `outputs:` that speaks of the leaf at `path`."""
    if path in recipe.outputs:
        return path
    globs = (key for key in recipe.outputs if "*" in key and key.startswith(GRADIENT) == path.startswith(GRADIENT))
    return next((key for key in globs if _pattern(key).fullmatch(path)), None)


def is_unstable(recipe: Recipe, case: str, path: str) -> bool:
    """Whether `conditioning: unstable` holds for a leaf of a case: the leaf's word, the case's, the recipe's."""
    rule = output_rule(recipe, path)
    return recipe.case(case).unstable if rule is None or rule.unstable is None else rule.unstable


def is_digest(recipe: OutputRules, path: str) -> bool:
    """Whether goldens keep a digest and an excerpt of the leaf at `path`, and no more."""
    rule = output_rule(recipe, path)
    return rule is not None and rule.digest


@lru_cache(maxsize=1024)
def _pattern(key: str) -> re.Pattern[str]:
    """Only `*` is special in a key path: its brackets are meant as they stand."""
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", key))), re.DOTALL)
