"""Which worker takes what: families stay together, and nobody waits while there is work that is anybody's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from jaxcheck.execution.process import Needs
from jaxcheck.execution.sharing import Waiting
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Recipe

PLAIN, OTHER = Needs(), Needs(env=(("A", "1"),))


Made = Callable[..., list[Recipe]]


@pytest.fixture
def recipes(tmp_path: Path) -> Made:
    """Recipes of these names, whose inputs these factories make ("": cases of their own)."""

    def made(**inputs: str) -> list[Recipe]:
        lines = ["version: 1", "defaults: {tolerance: {rtol: 0, atol: 0}}", "recipes:"]
        for name, factory in inputs.items():
            given = f'inputs: "m:{factory}"' if factory else "cases: {a: {args: {x: 1.0}}}"
            lines.append(f'  {name}: {{kernel: "m:f", {given}}}')
        path = tmp_path / "recipes.yaml"
        path.write_text("\n".join(lines))
        return list(load_registry(path).recipes.values())

    return made


def waiting(given: list[Recipe], seconds: Mapping[str, float] | None = None) -> Waiting:
    return Waiting(given, lambda recipe: OTHER if recipe.name.startswith("other") else PLAIN, seconds)


def take(queue: Waiting, member: int, needs: Needs = PLAIN, *, room: bool = False) -> str | None:
    recipe = queue.take(member, needs, lambda needs: room)
    return recipe.name if recipe else None


def test_one_worker_takes_all_in_order(recipes: Made) -> None:
    queue = waiting(recipes(a="", b="f", c="", d="g"))
    assert [take(queue, 0) for _ in range(5)] == ["a", "b", "c", "d", None]


def test_a_family_stays_on_one_worker(recipes: Made) -> None:
    queue = waiting(recipes(a="f", b="g", c="f", d="g"))
    assert [take(queue, 0), take(queue, 1), take(queue, 1), take(queue, 0)] == ["a", "b", "d", "c"]


def test_the_last_of_a_family_is_left_to_the_worker_that_has_it(recipes: Made) -> None:
    queue = waiting(recipes(a="f", b="f"))
    assert take(queue, 0) == "a"
    assert take(queue, 1) is None
    assert take(queue, 0) == "b"


def test_a_large_family_is_shared_out(recipes: Made) -> None:
    queue = waiting(recipes(a="f", b="f", c="f", d="f"))
    assert [take(queue, 0), take(queue, 1), take(queue, 1), take(queue, 0), take(queue, 0)] == [
        "a",
        "b",
        "c",
        "d",
        None,
    ]


def test_recipes_with_cases_of_their_own_are_of_no_family(recipes: Made) -> None:
    queue = waiting(recipes(a="", b=""))
    assert [take(queue, 0), take(queue, 1)] == ["a", "b"]


def test_what_took_longest_goes_first_with_its_family(recipes: Made) -> None:
    queue = waiting(recipes(a="", b="f", c="g", d="f"), {"a": 2.0, "b": 0.5, "c": 1.0, "d": 3.0, "gone": 9.0})
    assert [take(queue, 0) for _ in range(4)] == ["b", "d", "a", "c"]


@pytest.mark.parametrize("member", [0, 1])
def test_another_environment_comes_after_all_that_the_worker_can_do(recipes: Made, member: int) -> None:
    queue = waiting(recipes(other="f", a="f", b="f"))
    assert [take(queue, member) for _ in range(4)] == ["a", "b", "other", None]


def test_what_needs_another_environment_is_of_another_family(recipes: Made) -> None:
    queue = waiting(recipes(a="f", other="f"))
    assert [take(queue, 0), take(queue, 1)] == ["a", "other"]


def test_nothing_is_taken_once_it_is_cleared(recipes: Made) -> None:
    queue = waiting(recipes(a="", b=""))
    queue.clear()
    assert take(queue, 0) is None


def test_thousands_are_taken_in_order_and_each_is_asked_once_what_it_needs(recipes: Made) -> None:
    (recipe,) = recipes(a="")
    asked = 0

    def needs(recipe: Recipe) -> Needs:
        nonlocal asked
        asked += 1
        return PLAIN

    many = [replace(recipe, name=f"r{number}") for number in range(3000)]
    queue = Waiting(many, needs)
    assert [take(queue, number % 4) for number in range(3000)] == [recipe.name for recipe in many]
    assert asked == 3000
