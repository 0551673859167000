"""Who of several workers takes which recipe next."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from jaxcheck.execution.process import Needs
from jaxcheck.registry.model import Recipe

Families = dict[str, deque[Recipe]]


class Waiting:
    """Recipes that nobody has taken yet, by what their worker has to be started with.

    Recipes whose inputs one factory makes are a family: they run the same operations at the same shapes, and only the
    first of them in a process has these compiled. A family therefore goes to one worker, and another one helps it out
    only where it would leave more than one of it behind. The family that took longest earlier (`seconds`, by recipe)
    goes first.
    """

    def __init__(
        self, recipes: Sequence[Recipe], needs: Callable[[Recipe], Needs], seconds: Mapping[str, float] | None = None
    ) -> None:
        families: defaultdict[tuple[Needs, str], deque[Recipe]] = defaultdict(deque)
        for recipe in recipes:
            families[needs(recipe), recipe.inputs or f"{recipe.name}::"].append(recipe)  # no factory has such a name
        earlier = seconds or {}
        self._waiting: defaultdict[Needs, Families] = defaultdict(dict)
        for (need, name), family in sorted(families.items(), key=lambda one: -_total(earlier, one[1])):
            self._waiting[need][name] = family
        self._held: dict[int, tuple[Needs, str]] = {}

    def take(self, member: int, needs: Needs, has_room: Callable[[Needs], bool]) -> Recipe | None:
        """The next recipe for a member of the crew: one for its worker, which has `needs`, if there is one; else one
        for the same kind of machine; else one for a kind that has room for another worker."""
        mine = self._held.pop(member, None)
        fits: tuple[Callable[[Needs], bool], ...] = (
            lambda other: other == needs,
            lambda other: other.resources == needs.resources,
            has_room,
        )
        for fit in fits:
            for other in filter(fit, self._waiting):
                if (name := self._next(other, mine)) is not None:
                    self._held[member] = other, name
                    return self._taken(other, name)
        return None

    def _next(self, needs: Needs, mine: tuple[Needs, str] | None) -> str | None:
        """The family that the member has, else one that nobody has, else one of which somebody else leaves some."""
        families = self._waiting[needs]
        if mine is not None and mine[0] == needs and mine[1] in families:
            return mine[1]
        others = {name for other, name in self._held.values() if other == needs}
        free = (name for name in families if name not in others)
        return next(chain(free, (name for name, family in families.items() if len(family) > 1)), None)

    def _taken(self, needs: Needs, name: str) -> Recipe:
        families = self._waiting[needs]
        recipe = families[name].popleft()
        if not families[name]:
            del families[name]
        if not families:
            del self._waiting[needs]
        return recipe

    def clear(self) -> None:
        """Nothing more is to be taken."""
        self._waiting.clear()


def _total(seconds: Mapping[str, float], family: Iterable[Recipe]) -> float:
    return sum(seconds.get(recipe.name, 0.0) for recipe in family)
