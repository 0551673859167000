"""One run on several machines: which recipe is whose, and the parts put together again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxcheck.errors import UsageError
from jaxcheck.registry.model import Recipe
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult, CompiledPrograms, Environment, Run, Shard, totals

# What makes numbers: parts that differ in these are no parts of one run.
SAME_EVERYWHERE = ("backend", "device_kind", "jax", "jaxlib", "optax", "numpy", "python")


@dataclass(frozen=True)
class Sharding:
    """Part `index` of `count`, from 1. `seconds` are what recipes took earlier, by name; None shares out by name."""

    index: int
    count: int
    seconds: Mapping[str, float] | None = None


def parse_shard(text: str, seconds: Mapping[str, float] | None = None) -> Sharding:
    """`2/4`; UsageError for anything else."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {text}: that is no part of a run", hint="--shard 1/4, 2/4, 3/4 and 4/4")
    return Sharding(index, count, seconds)


def seconds_by_recipe(results: Sequence[CheckResult]) -> dict[str, float]:
    """What the recipes of an earlier run took."""
    taken: dict[str, float] = {}
    for result in results:
        taken[result.recipe] = taken.get(result.recipe, 0.0) + result.seconds
    return taken


def plan(names: Sequence[str], sharding: Sharding) -> dict[str, int]:
    """{recipe: its part}, the same on every machine.

    By name a recipe is always in the same part, whatever else the registry has. By earlier durations the longest goes
    first, to the part with least to do; a recipe that the earlier run did not have counts as an average one.
    """
    if sharding.seconds is None:
        return {name: _hash(name) % sharding.count + 1 for name in names}
    known = sharding.seconds
    average = sum(known.values()) / len(known) if known else 1.0
    load = [0.0] * sharding.count
    found = {}
    for name in sorted(names, key=lambda name: (-known.get(name, average), name)):
        least = load.index(min(load))
        load[least] += known.get(name, average)
        found[name] = least + 1
    return {name: found[name] for name in names}


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest())


def share_of(
    recipes: Sequence[Recipe], selection: Selection, sharding: Sharding | None
) -> tuple[tuple[Recipe, ...], Shard | None]:
    """The recipes of one part, and what the run says of it; all of them where there are no parts."""
    if sharding is None:
        return tuple(recipes), None
    parts = plan([recipe.name for recipe in recipes], sharding)
    mine = tuple(recipe for recipe in recipes if parts[recipe.name] == sharding.index)
    shard = Shard(index=sharding.index, count=sharding.count, selection=_digest(selection), plan=parts)
    return mine, shard


def _digest(selection: Selection) -> str:
    said = dataclasses.asdict(selection)
    said["last_failed_ids"] = selection.last_failed_ids and sorted(selection.last_failed_ids)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def merged(named: Mapping[str, Run]) -> Run:
    """The run that the parts are of, {where it was read: part}; it is as one that was never divided, but for times.

    `seconds` are those of the longest part. UsageError where a part is missing or there twice, and where they are not
    of one run: another registry, jaxcheck, selection, plan, kernel source or environment.
    """
    parts = _in_order(named)
    runs = [run for _, run in parts]
    first = runs[0]
    for name, run in parts[1:]:
        _refuse_strangers(parts[0][0], first, name, run)
    _refuse_other_environments(parts)
    plainest = min(runs, key=_plainness)
    results = _results(runs)
    return first.model_copy(
        update={
            "shard": None,
            "nodes": tuple(node for run in runs for node in run.nodes),
            "started": min(run.started for run in runs),
            "seconds": max(run.seconds for run in runs),
            "sources": _sources(parts),
            "golden_digests": {name: digest for run in runs for name, digest in run.golden_digests.items()},
            "environment": plainest.environment,
            "not_verified": plainest.not_verified,
            "programs": _programs(runs),
            "interrupted": any(run.interrupted for run in runs),
            "damaged_goldens": tuple(text for run in runs for text in run.damaged_goldens),
            "totals": totals(results),
            "results": results,
        }
    )


def _in_order(named: Mapping[str, Run]) -> list[tuple[str, Run]]:
    """All parts, from the first to the last."""
    found: dict[int, str] = {}
    counts: dict[int, str] = {}
    for name, run in named.items():
        if run.shard is None:
            raise UsageError(f"{name} is not a part of a run", hint="jaxcheck run --shard 1/4 -o FILE.json makes parts")
        index = run.shard.index
        if index in found:
            raise UsageError(f"shard {index}/{run.shard.count} is there twice: {found[index]} and {name}")
        found[index] = name
        counts.setdefault(run.shard.count, name)
    if len(counts) > 1:
        told = ", ".join(f"{name} of {count}" for count, name in counts.items())
        raise UsageError(f"the parts are of different numbers of shards: {told}")
    (count,) = counts
    missing = [f"{index}/{count}" for index in range(1, count + 1) if index not in found]
    if missing:
        plural = "shards are" if len(missing) > 1 else "shard is"
        shown = ", ".join(missing[:10]) + (f" and {len(missing) - 10} more" if missing[10:] else "")
        raise UsageError(
            f"the run is not whole, {plural} missing: {shown}", hint=f"jaxcheck run --shard {missing[0]} -o FILE.json"
        )
    return [(found[index], named[found[index]]) for index in sorted(found)]


def _refuse_strangers(one: str, first: Run, other: str, run: Run) -> None:
    assert first.shard
    assert run.shard
    alike = {
        "registries": (first.registry_digest, run.registry_digest),
        "versions of jaxcheck": (first.jaxcheck, run.jaxcheck),
        "selections": (first.shard.selection, run.shard.selection),
        "plans (give each of them the same --durations)": (first.shard.plan, run.shard.plan),
    }
    for what, (mine, theirs) in alike.items():
        if mine != theirs:
            raise UsageError(f"{one} and {other} are of different {what}, and so not of one run")


def _refuse_other_environments(parts: Sequence[tuple[str, Run]]) -> None:
    known = [(name, run.environment) for name, run in parts if run.environment]
    for name, environment in known[1:]:
        first, theirs = known[0]
        for field in SAME_EVERYWHERE:
            one, other = getattr(theirs, field), getattr(environment, field)
            if one != other:
                raise UsageError(f"{first} has {field} {one}, {name} has {other}: these are not parts of one run")


def _plainness(run: Run) -> tuple[bool, bool, int, int]:
    """A run tells the environment of a worker that no recipe asked anything of, if it had one."""
    environment: Environment | None = run.environment
    if environment is None:
        return True, True, 0, 0
    return False, environment.x64, environment.device_count, len(environment.config)


def _sources(parts: Sequence[tuple[str, Run]]) -> dict[str, str]:
    sources: dict[str, tuple[str, str]] = {}
    for name, run in parts:
        for path, digest in run.sources.items():
            where, known = sources.setdefault(path, (name, digest))
            if known != digest:
                raise UsageError(f"{path} was another file for {where} than for {name}: these are not parts of one run")
    return {path: digest for path, (_, digest) in sources.items()}


def _programs(runs: Sequence[Run]) -> CompiledPrograms | None:
    known = [run.programs for run in runs if run.programs]
    if not known:
        return None
    off = ", ".join(dict.fromkeys(one.off for one in known if one.off))
    hits, misses = (sum(getattr(one, name) for one in known) for name in ("hits", "misses"))
    return CompiledPrograms(hits=hits, misses=misses, off=off)


def _results(runs: Sequence[Run]) -> tuple[CheckResult, ...]:
    """In the order of the registry, which the plan has."""
    assert runs[0].shard
    by_recipe: dict[str, list[CheckResult]] = {name: [] for name in runs[0].shard.plan}
    for run in runs:
        for result in run.results:
            by_recipe.setdefault(result.recipe, []).append(result)
    return tuple(result for results in by_recipe.values() for result in results)
