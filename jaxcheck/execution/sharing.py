"""Who of several workers takes which recipe next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jaxcheck.execution.process import Needs
from jaxcheck.registry.model import Recipe

Kin = tuple[Needs, str]


class Waiting:
    """Recipes that nobody has taken yet.

    Recipes whose inputs one factory makes are kin: they run the same operations at the same shapes, and only the first
    of them in a process has these compiled. Kin therefore go to one worker, and another one helps it out only where it
    would leave more than one of them behind. What took longest earlier (`seconds`, by recipe) goes first, with its kin.
    """

    def __init__(
        self, recipes: Sequence[Recipe], needs: Callable[[Recipe], Needs], seconds: Mapping[str, float] | None = None
    ) -> None:
        self._needs = needs
        self._held: dict[int, Kin] = {}
        taken: defaultdict[Kin, float] = defaultdict(float)
        for recipe in recipes:
            taken[self._kin(recipe)] += (seconds or {}).get(recipe.name, 0.0)
        self._recipes = sorted(recipes, key=lambda recipe: -taken[self._kin(recipe)])

    def _kin(self, recipe: Recipe) -> Kin:
        return self._needs(recipe), recipe.inputs or f"{recipe.name}::"  # a name that no factory can have

    def take(self, member: int, needs: Needs, has_room: Callable[[Needs], bool]) -> Recipe | None:
        """The next recipe for a member of the crew: one for its worker, which has `needs`, if there is one; else one
        for the same kind of machine; else one for a kind that has room for another worker."""
        kinds: tuple[Callable[[Needs], bool], ...] = (
            lambda other: other == needs,
            lambda other: other.resources == needs.resources,
            has_room,
        )
        mine = self._held.pop(member, None)
        found = (self._first(mine, filter(lambda recipe: kind(self._needs(recipe)), self._recipes)) for kind in kinds)
        recipe = next(filter(None, found), None)
        if recipe is not None:
            self._recipes.remove(recipe)
            self._held[member] = self._kin(recipe)
        return recipe

    def _first(self, mine: Kin | None, recipes: Iterable[Recipe]) -> Recipe | None:
        """One of kin with the member's last recipe, else one whose kin nobody has, else one that can be spared."""
        recipes = list(recipes)
        others = set(self._held.values())
        left = Counter(map(self._kin, recipes))
        orders: tuple[Iterator[Recipe], ...] = (
            (recipe for recipe in recipes if self._kin(recipe) == mine),
            (recipe for recipe in recipes if self._kin(recipe) not in others),
            (recipe for recipe in recipes if left[self._kin(recipe)] > 1),
        )
        return next((recipe for order in orders if (recipe := next(order, None))), None)

    def clear(self) -> None:
        """Nothing more is to be taken."""
        self._recipes.clear()
