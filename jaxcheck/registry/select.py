"""Which checks are meant: names and globs, tags, a keyword expression, modes, and what failed last time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jaxcheck.errors import UsageError
from jaxcheck.registry.model import MODES, Recipe, Registry
from jaxcheck.registry.words import did_you_mean

_PATTERN = re.compile(r"(?P<recipe>[^\[\]]+?)(::(?P<case>[^\[\]]+?)(\[(?P<mode>[^\[\]]+)\])?)?")
_FORM = "RECIPE, RECIPE::CASE or RECIPE::CASE[MODE]; * and ? stand for any text and any character"
_KEYWORD_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")
_DEEPEST_KEYWORD = 100
ANY_CASE = "*"


@dataclass(frozen=True)
class Selection:
    """What to check. Names are alternatives, and so are tags, modes and ids; each kind narrows the others.

    `names` are recipes or check ids, with `*` and `?` in any part. `keyword` has pytest's form: substrings of the
    id in any case, joined by and, or, not and parentheses. `last_failed_ids` of None restricts nothing; an id in it
    whose case is `*` (a factory failed before it told its cases) stands for all cases of that recipe and mode.
    """

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keyword: str | None = None
    modes: tuple[str, ...] = ()
    last_failed_ids: Collection[str] | None = None

    def __post_init__(self) -> None:
        """Words are taken in the one spelling that names have. A set: every check is looked up in it."""
        for words in ("names", "tags"):
            object.__setattr__(self, words, tuple(unicodedata.normalize("NFC", word) for word in getattr(self, words)))
        if self.keyword is not None:
            object.__setattr__(self, "keyword", unicodedata.normalize("NFC", self.keyword))
        if self.last_failed_ids is not None:
            object.__setattr__(self, "last_failed_ids", frozenset(self.last_failed_ids))


def check_id(recipe: str, case: str, mode: str) -> str:
    return f"{recipe}::{case}[{mode}]"


def selected_recipes(registry: Registry, selection: Selection) -> tuple[Recipe, ...]:
    """The recipes that have a selected check, or may have one: a factory's cases are known to the worker only.

    UsageError for a name, tag or mode that the registry does not have, and for a keyword expression that cannot be
    read. An empty result is no error: what was named exists, and nothing is left of it.
    """
    for name in selection.names:
        _check_name(registry, _parsed(name), name)
    _check_words(selection.tags, _tags(registry), "tag")
    _check_words(selection.modes, MODES, "mode")
    _keyword(selection.keyword or "")
    return tuple(recipe for recipe in registry.recipes.values() if _may_have_check(selection, recipe))


def wants(selection: Selection, recipe: Recipe, case: str, mode: str) -> bool:
    """Whether the check is selected; `mode` is one of the recipe's."""
    identity = check_id(recipe.name, case, mode)
    return (
        _wants_recipe(selection, recipe)
        and (not selection.names or any(_parsed(name).matches(recipe.name, case, mode) for name in selection.names))
        and (not selection.modes or mode in selection.modes)
        and _keyword(selection.keyword or "")(identity.casefold())
        and (
            selection.last_failed_ids is None
            or identity in selection.last_failed_ids
            or check_id(recipe.name, ANY_CASE, mode) in selection.last_failed_ids
        )
    )


def wants_case(selection: Selection, recipe: Recipe, case: str) -> bool:
    """Whether the case is selected where it is taken as a whole, as a golden holds it: one selected mode selects it."""
    return any(wants(selection, recipe, case, mode) for mode in recipe.modes)


def unmatched_cases(selection: Selection, recipe: Recipe, case_names: Iterable[str]) -> list[str]:
    """The names that ask for a case which the recipe, now that its cases are known, does not have.

    A name with a glob for the recipe is none of them: it may mean the cases of another recipe.
    """
    cases = list(case_names)
    asked = [(name, _parsed(name)) for name in selection.names]
    return [
        name
        for name, pattern in asked
        if pattern.recipe == recipe.name and not any(_matches(pattern.case, case) for case in cases)
    ]


def _may_have_check(selection: Selection, recipe: Recipe) -> bool:
    if recipe.inputs is None:
        return any(wants_case(selection, recipe, case) for case in recipe.cases)
    failed = selection.last_failed_ids
    return (
        _wants_recipe(selection, recipe)
        and (not selection.names or any(_parsed(name).may_match(recipe) for name in selection.names))
        and (not selection.modes or not set(selection.modes).isdisjoint(recipe.modes))
        and (failed is None or any(identity.startswith(f"{recipe.name}::") for identity in failed))
    )


def _wants_recipe(selection: Selection, recipe: Recipe) -> bool:
    return not selection.tags or not set(selection.tags).isdisjoint(recipe.tags)


@dataclass(frozen=True)
class _Pattern:
    """A name, taken apart. Parts left out match everything."""

    recipe: str
    case: str = "*"
    mode: str = "*"

    def matches(self, recipe: str, case: str, mode: str) -> bool:
        return _matches(self.recipe, recipe) and _matches(self.case, case) and _matches(self.mode, mode)

    def may_match(self, recipe: Recipe) -> bool:
        """Whether some case of the recipe could match; its own word where only its factory knows the cases."""
        cases = list(recipe.cases) if recipe.inputs is None else [self.case]
        return any(self.matches(recipe.name, case, mode) for case in cases for mode in recipe.modes)


@lru_cache(maxsize=4096)
def _parsed(name: str) -> _Pattern:
    parts = _PATTERN.fullmatch(name)
    if parts is None:
        raise UsageError(f"{name!r} is not the name of a recipe or a check", f"write {_FORM}")
    return _Pattern(parts["recipe"], parts["case"] or "*", parts["mode"] or "*")


def _matches(pattern: str, text: str) -> bool:
    return pattern in ("*", text) or _glob(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    """Only `*` and `?` are special: brackets set off the mode of a check id."""
    special = {"*": ".*", "?": "."}
    parts = re.split(r"(\*+|\?)", pattern)
    return re.compile("".join(special.get(part[:1], re.escape(part)) for part in parts), re.DOTALL)


def _check_name(registry: Registry, pattern: _Pattern, name: str) -> None:
    """Refuse a name that no check can have, naming the part that is wrong."""
    recipes = [recipe for recipe in registry.recipes.values() if _matches(pattern.recipe, recipe.name)]
    if not recipes:
        hint = did_you_mean(pattern.recipe, registry.recipes) or "the registry has no recipes"
        raise UsageError(f"no recipe matches {pattern.recipe!r}", hint)
    if any(pattern.may_match(recipe) for recipe in recipes):
        return
    modes = list(dict.fromkeys(mode for recipe in recipes for mode in recipe.modes))
    if not any(_matches(pattern.mode, mode) for mode in modes):
        raise UsageError(f"{name!r}: no mode matches {pattern.mode!r}", did_you_mean(pattern.mode, modes))
    cases = list(dict.fromkeys(case for recipe in recipes for case in recipe.cases))
    raise UsageError(f"{name!r}: no case matches {pattern.case!r}", did_you_mean(pattern.case, cases))


def _tags(registry: Registry) -> Sequence[str]:
    return list(dict.fromkeys(tag for recipe in registry.recipes.values() for tag in recipe.tags))


def _check_words(words: Iterable[str], valid: Sequence[str], what: str) -> None:
    for word in words:
        if word not in valid:
            hint = did_you_mean(word, valid) or f"no recipe has a {what}"
            raise UsageError(f"unknown {what} {word!r}", hint)


@lru_cache(maxsize=64)
def _keyword(text: str) -> Callable[[str], bool]:
    """The predicate over case-folded ids that a keyword expression means; an empty one selects everything."""
    return _Keyword(text).predicate() if text.strip() else lambda identity: True


class _Keyword:
    """A recursive descent over `or`, `and`, `not`, parentheses and words, each binding tighter than the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(match[1], match.start(1) + 1) for match in _KEYWORD_TOKEN.finditer(text)]
        self._depth = 0

    def predicate(self) -> Callable[[str], bool]:
        parsed = self._any()
        if self._tokens:
            raise self._error("and, or, or the end")
        return parsed

    def _any(self) -> Callable[[str], bool]:
        terms = [self._all()]
        while self._take("or"):
            terms.append(self._all())
        return lambda identity: any(term(identity) for term in terms)

    def _all(self) -> Callable[[str], bool]:
        terms = [self._not()]
        while self._take("and"):
            terms.append(self._not())
        return lambda identity: all(term(identity) for term in terms)

    def _not(self) -> Callable[[str], bool]:
        self._depth += 1
        if self._depth > _DEEPEST_KEYWORD:
            raise UsageError(f"-k: more than {_DEEPEST_KEYWORD} words and parentheses", "name checks instead")
        if self._take("not"):
            term = self._not()
            return lambda identity: not term(identity)
        if self._take("("):
            inner = self._any()
            if not self._take(")"):
                raise self._error(")")
            return inner
        return self._word()

    def _word(self) -> Callable[[str], bool]:
        if not self._tokens or self._tokens[0][0] in ("and", "or", ")"):
            raise self._error("a word, not, or (")
        word = self._tokens.pop(0)[0].casefold()
        return lambda identity: word in identity

    def _take(self, token: str) -> bool:
        if not self._tokens or self._tokens[0][0] != token:
            return False
        self._tokens.pop(0)
        return True

    def _error(self, expected: str) -> UsageError:
        token, column = self._tokens[0] if self._tokens else ("the end", len(self._text) + 1)
        return UsageError(f"-k {self._text!r}, column {column}: expected {expected}, found {token}")
