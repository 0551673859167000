"""Every shipped golden, changed in every way that matters: each change is caught, with the right status and exit code.

One run for each kind of change, over all cases of all goldens at once.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.goldens.store import GoldenStore
from tests.harness import REPOSITORY, Done, Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.timeout(300)]

SHIPPED = REPOSITORY / "goldens"


@dataclasses.dataclass(frozen=True)
class Mutated:
    """A copy of the shipped goldens with one kind of change, and the checks that must notice."""

    project: Project
    cases: frozenset[tuple[str, str]]

    def run(self, registry: Path = REPOSITORY / "recipes.yaml") -> tuple[Done, dict[str, Any]]:
        folder = self.project.folder
        options = ("--goldens", str(folder / "goldens"), "--state", str(folder / "state"))
        return self.project.run("--registry", str(registry), *options)


def copied(project: Project) -> GoldenStore:
    shutil.copytree(SHIPPED, project.folder / "goldens")
    return GoldenStore(project.folder / "goldens")


def mutate(project: Project, change: Callable[[GoldenCase], GoldenCase | None]) -> Mutated:
    """Changes every case that the change applies to."""
    store, touched = copied(project), set()
    for recipe in store.recipes():
        golden = store.load(recipe)
        assert golden is not None
        with golden:
            cases = {name: golden.case(name, program=True) for name in golden.cases}
        changed = {name: new for name, case in cases.items() if (new := change(case)) is not None}
        store.update(recipe, changed)
        touched |= {(recipe, name) for name in changed}
    assert touched, "the change applies to some golden"
    return Mutated(project, frozenset(touched))


def with_leaf(case: GoldenCase, position: int, leaf: Leaf) -> GoldenCase:
    assert case.outputs is not None
    leaves = [*case.outputs.leaves[:position], leaf, *case.outputs.leaves[position + 1 :]]
    return dataclasses.replace(case, outputs=Tree(case.outputs.structure, tuple(leaves)))


def of_same_kind(leaf: Leaf, array: np.ndarray) -> Leaf:
    if leaf.impl is not None:
        return Leaf.of_key(leaf.path, array, leaf.impl, leaf.dtype, leaf.shape)
    return Leaf.of(leaf.path, array, weak_type=leaf.weak_type)


def moved(value: Any, tolerance: dict[str, Any] | None) -> Any:
    """The value, moved to three times its tolerance; an integer by one, a boolean turned over."""
    if np.asarray(value).dtype.kind == "b":
        return not value
    if np.asarray(value).dtype.kind in "iu" or tolerance is None:
        return value + 1
    wide = np.float64(value)
    allowed = tolerance["atol"] + tolerance["rtol"] * abs(wide)
    step = max(3 * allowed, 4 * float(np.spacing(np.abs(np.asarray(value, np.float32)))))
    return wide + step


def one_element(case: GoldenCase) -> GoldenCase | None:
    """The middle element of the last leaf that has one that is finite."""
    for position in reversed(range(len(case.outputs.leaves) if case.outputs else 0)):
        leaf = case.outputs.leaves[position]
        array = np.array(leaf.array())
        finite = np.flatnonzero(np.isfinite(array.astype(np.float64)).reshape(-1))
        if finite.size:
            flat = array.reshape(-1)
            index = finite[finite.size // 2]
            flat[index] = moved(flat[index], case.tolerance.get(leaf.path))
            return with_leaf(case, position, of_same_kind(leaf, flat.reshape(array.shape)))
    return None


def every_leaf_somewhere(case: GoldenCase, chosen: int) -> GoldenCase | None:
    """The first element of leaf number `chosen`."""
    leaves = case.outputs.leaves if case.outputs else ()
    if chosen >= len(leaves) or leaves[chosen].words.size == 0:
        return None
    leaf = leaves[chosen]
    array = np.array(leaf.array())
    flat = array.reshape(-1)
    if not np.isfinite(flat[:1].astype(np.float64)).all():
        return None
    flat[0] = moved(flat[0], case.tolerance.get(leaf.path))
    return with_leaf(case, chosen, of_same_kind(leaf, flat.reshape(array.shape)))


def one_nan(case: GoldenCase) -> GoldenCase | None:
    """A NaN where there is none (or a number where there is one)."""
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        array = np.array(leaf.array())
        if leaf.impl is None and array.size and array.dtype.kind not in "biu":
            flat = array.reshape(-1)
            flat[-1] = 1.0 if np.isnan(flat[-1].astype(np.float64)) else np.nan
            return with_leaf(case, position, of_same_kind(leaf, flat.reshape(array.shape)))
    return None


def other_dtype(case: GoldenCase) -> GoldenCase | None:
    """The same values in a wider dtype."""
    wider = {"float32": np.float64, "int32": np.int64, "bool": np.int32, "uint32": np.uint64, "bfloat16": np.float32}
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        if leaf.impl is None and leaf.dtype in wider:
            return with_leaf(case, position, of_same_kind(leaf, leaf.array().astype(wider[leaf.dtype])))
    return None


def other_shape(case: GoldenCase) -> GoldenCase | None:
    """The same elements with one axis more."""
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        if leaf.impl is None:
            return with_leaf(case, position, of_same_kind(leaf, leaf.array()[None]))
    return None


def other_weak_type(case: GoldenCase) -> GoldenCase | None:
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        if leaf.impl is None:
            return with_leaf(case, position, dataclasses.replace(leaf, weak_type=not leaf.weak_type))
    return None


def other_prng_key(case: GoldenCase) -> GoldenCase | None:
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        if leaf.impl is not None:
            words = np.array(leaf.words)
            words.reshape(-1)[0] ^= 1
            return with_leaf(case, position, of_same_kind(leaf, words))
    return None


def renamed_key(case: GoldenCase) -> GoldenCase | None:
    """A dict key with another name."""
    if case.outputs is None:
        return None
    text = json.dumps(case.outputs.structure)
    name = _first_key(case.outputs.structure)
    if name is None:
        return None
    structure = json.loads(text.replace(json.dumps(name) + ":", json.dumps(name + "x") + ":"))
    leaves = [
        dataclasses.replace(leaf, path=leaf.path.replace(f"['{name}']", f"['{name}x']")) for leaf in case.outputs.leaves
    ]
    return dataclasses.replace(case, outputs=Tree(structure, tuple(leaves)), tolerance={})


def _first_key(node: Any) -> str | None:
    if not isinstance(node, dict):
        return None
    if "dict" in node and isinstance(node["dict"], dict) and node["dict"]:
        return next(iter(node["dict"]))
    children = next(iter(node.values()))
    for child in children if isinstance(children, list) else ():
        found = _first_key(child[1] if isinstance(child, list) else child)
        if found:
            return found
    return None


def lost_leaf(case: GoldenCase) -> GoldenCase | None:
    """One leaf fewer: a tuple's last."""
    if case.outputs is None or not isinstance(case.outputs.structure, dict):
        return None
    children = case.outputs.structure.get("tuple")
    if not children or children[-1] != "*":
        return None
    structure = {"tuple": children[:-1]}
    return dataclasses.replace(case, outputs=Tree(structure, case.outputs.leaves[:-1]))


CHANGES: dict[str, Callable[[GoldenCase], GoldenCase | None]] = {
    "one element": one_element,
    "first leaf": lambda case: every_leaf_somewhere(case, 0),
    "second leaf": lambda case: every_leaf_somewhere(case, 1),
    "third leaf": lambda case: every_leaf_somewhere(case, 2),
    "one NaN": one_nan,
    "dtype": other_dtype,
    "shape": other_shape,
    "weak type": other_weak_type,
    "PRNG key": other_prng_key,
    "dict key": renamed_key,
    "leaf lost": lost_leaf,
}


@pytest.mark.parametrize("kind", CHANGES)
def test_change_is_caught(project: Project, kind: str) -> None:
    mutated = mutate(project, CHANGES[kind])
    done, report = mutated.run()
    assert done.code == 1, done
    seen = set()
    for result in report["results"]:
        touched = (result["recipe"], result["case"]) in mutated.cases
        assert result["status"] == ("fail" if touched else "pass"), (kind, result["id"], result["reason"])
        if touched:
            seen.add((result["recipe"], result["case"]))
            assert any(finding["kind"] == "golden" for finding in result["findings"]), result
    assert seen == mutated.cases


def test_deleted_goldens_are_missing(project: Project) -> None:
    (project.folder / "goldens").mkdir()
    done, report = Mutated(project, frozenset()).run()
    assert done.code == 1
    assert {result["status"] for result in report["results"]} == {"missing"}
    assert all("jaxcheck bless" in result["hint"] for result in report["results"])


def test_deleted_case_is_missing(project: Project) -> None:
    store, gone = copied(project), set()
    for recipe in store.recipes():
        golden = store.load(recipe)
        assert golden is not None
        with golden:
            if len(golden.cases) > 1:
                gone.add((recipe, golden.cases[0]))
    for recipe, case in gone:
        store.update(recipe, {}, [case])
    done, report = Mutated(project, frozenset(gone)).run()
    assert done.code == 1
    for result in report["results"]:
        expected = "missing" if (result["recipe"], result["case"]) in gone else "pass"
        assert result["status"] == expected, result["id"]


def test_case_deleted_from_the_registry_is_stale(project: Project) -> None:
    copied(project)
    text = (REPOSITORY / "recipes.yaml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("      limit-reached:"))
    registry = project.write("recipes.yaml", "")
    registry.write_text(text.replace(line + "\n", ""))
    done, report = Mutated(project, frozenset()).run(registry)
    assert done.code == 1
    odd = [result for result in report["results"] if result["status"] != "pass"]
    assert [(result["id"], result["status"]) for result in odd] == [("newton-sqrt::limit-reached[eager]", "stale")]


def test_changed_bytes_are_damage(project: Project) -> None:
    """Content changed behind the codec's back does not match its digest, in any golden."""
    copied(project)
    damaged = set()
    for path in sorted((project.folder / "goldens").glob("*.npz")):
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        name = next((n for n in arrays if "/out/" in n and arrays[n].size and arrays[n].dtype.kind == "f"), None)
        if name is None:
            continue
        arrays[name] = arrays[name] + np.float32(1)
        np.savez(path, **arrays)
        damaged.add(path.stem)
    assert len(damaged) >= 10
    done, report = Mutated(project, frozenset()).run()
    assert done.code == 2, done
    assert {result["recipe"] for result in report["results"] if result["status"] == "error"} == damaged
    assert {result["status"] for result in report["results"]} == {"error", "pass"}, "the other cases are as good as before"
    assert len(report["damaged_goldens"]) >= len(damaged)
