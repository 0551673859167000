"""Which recipe is in which part of a run, and when parts are not parts of one run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from jaxcheck.errors import UsageError
from jaxcheck.execution.shards import Sharding, merged, parse_shard, plan, seconds_by_recipe
from jaxcheck.results import CompiledPrograms, Run, Shard
from tests.report import sample

NAMES = [f"recipe-{number}" for number in range(200)]


def test_by_name_a_recipe_stays_where_it_is() -> None:
    found = plan(NAMES, Sharding(1, 4))
    assert list(found) == NAMES
    assert set(found.values()) == {1, 2, 3, 4}
    assert min(Counter(found.values()).values()) > 30
    assert plan(["another", *NAMES[50:]], Sharding(3, 4)).items() >= {name: found[name] for name in NAMES[50:]}.items()


def test_by_durations_every_part_takes_as_long() -> None:
    seconds = {name: float(number % 7 + 1) for number, name in enumerate(NAMES)}
    seconds["recipe-0"] = 150.0
    found = plan([*NAMES, "new"], Sharding(1, 4, seconds))
    load: Counter[int] = Counter()
    for name, part in found.items():
        load[part] += int(seconds.get(name, 1))
    assert max(load.values()) - min(load.values()) <= 8
    assert found == plan([*NAMES, "new"], Sharding(4, 4, dict(reversed(seconds.items()))))
    assert set(plan(["a", "b"], Sharding(1, 2, {})).values()) == {1, 2}


def test_durations_are_those_of_recipes() -> None:
    results = [sample.check("a", "x", mode, "pass", seconds=1.5) for mode in ("eager", "jit")]
    assert seconds_by_recipe(results) == {"a": 3.0}


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4", "1/4/4", "", "1/9999999"])
def test_no_part(text: str) -> None:
    with pytest.raises(UsageError, match="no part of a run") as refused:
        parse_shard(text)
    assert refused.value.hint
    assert parse_shard("2/4") == Sharding(2, 4)


def part(index: int, count: int = 3, **fields: Any) -> Run:
    """One of three parts; the second has two recipes, the third none."""
    names = {1: ["b"], 2: ["a", "c"]}.get(index, [])
    results = [sample.check(name, "x", "jit", "pass") for name in names]
    shard = Shard(index=index, count=count, selection="s", plan={"a": 2, "b": 1, "c": 2})
    known = {"shard": shard, "registry_digest": "d", "started": f"2026-0{index}-01", "seconds": float(index)}
    known |= {"programs": CompiledPrograms(hits=index, misses=1)}
    if not names:
        known |= {"environment": None, "not_verified": dict.fromkeys(("cpu", "gpu", "tpu"), "no worker ran")}
    return sample.run_of(*results, **(known | {"sources": {"k.py": "1"}} | fields))


def parts(**changed: Run) -> dict[str, Run]:
    """`three=Run` is another third one; None leaves it out."""
    found = {"one": part(1), "two": part(2), "three": part(3)} | changed
    return {name: run for name, run in found.items() if run is not None}


def test_parts_are_put_together_in_the_order_of_the_registry() -> None:
    found = merged(dict(reversed(parts().items())))
    assert [result.recipe for result in found.results] == ["a", "b", "c"]
    assert found.shard is None
    assert found.totals["pass"] == 3
    assert (found.started, found.seconds) == ("2026-01-01", 3.0)
    assert found.environment == sample.environment()
    assert "cpu" not in found.not_verified
    assert found.sources == {"k.py": "1"}
    assert found.programs == CompiledPrograms(hits=6, misses=3)


def test_one_part_that_was_cut_short_makes_the_run_so() -> None:
    found = merged(parts(two=part(2, interrupted=True, damaged_goldens=("broken",))))
    assert found.interrupted
    assert found.damaged_goldens == ("broken",)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"two": None}, "shard is missing: 2/3"),
        ({"two": None, "three": None}, "shards are missing: 2/3, 3/3"),
        ({"again": part(1)}, "shard 1/3 is there twice: one and again"),
        ({"two": part(2, shard=None)}, "two is not a part of a run"),
        ({"two": part(2, count=4)}, "different numbers of shards: one of 3, two of 4"),
        ({"two": part(2, registry_digest="other")}, "one and two are of different registries"),
        ({"two": part(2, jaxcheck="0.2.0")}, "different versions of jaxcheck"),
        ({"two": part(2, shard=Shard(index=2, count=3, selection="t", plan={}))}, "different selections"),
        ({"two": part(2, shard=Shard(index=2, count=3, selection="s", plan={}))}, "the same --durations"),
        ({"two": part(2, environment=sample.environment(jax="0.12.0"))}, "one has jax 0.11.2, two has 0.12.0"),
        ({"two": part(2, sources={"k.py": "2"})}, "k.py was another file for one than for two"),
    ],
)
def test_what_is_not_one_run_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        merged(parts(**changed))
    assert told in str(refused.value)
