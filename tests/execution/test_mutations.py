"""Every shipped golden, changed in every way that matters: each change is caught, with the right status and exit code.

The kernels run once, in a real worker; its replies are judged again for each kind of change, over all cases of all
goldens at once. The last tests do the same with the real command.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jaxcheck.execution.cache import compiled_programs
from jaxcheck.execution.conduct import Assignment, conduct
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.run import launch_for, needs_of
from jaxcheck.execution.session import Session
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult, Run
from tests.harness import REPOSITORY, Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.slow]

SHIPPED = REPOSITORY / "goldens"


class Recording(Session):
    """A real session whose replies are kept: the same request is answered without running the kernel again. What a
    candidate would need is not exported: that takes longer than all the rest, and other tests ask for it."""

    def __init__(self, launch: Launch, needs: Needs) -> None:
        super().__init__(launch, needs)
        self._replies: dict[str, Any] = {}

    def request(self, message: Mapping[str, Any], timeout: float, memory: int | None = None) -> dict[str, Any] | Death:
        if message["op"] == "export":
            return {"reason": "no candidates here"}
        key = json.dumps({name: value for name, value in message.items() if name not in ("stored", "folder")})
        kept = f".kept-{hashlib.sha256(key.encode()).hexdigest()[:16]}"  # of each reply: their paths come again
        if key not in self._replies:
            self._replies[key] = super().request(message, timeout, memory)
            for path in files_in(self._replies[key]):
                os.link(path, path + kept)
        reply: dict[str, Any] | Death = self._replies[key]
        for path in files_in(reply, kept):
            Path(path).unlink(missing_ok=True)
            os.link(path + kept, path)
        return reply


def files_in(reply: Any, suffix: str = "") -> Iterator[str]:
    """The arrays that a reply names, where there is such a file with this suffix."""
    if isinstance(reply, str) and reply.endswith(".npz") and os.path.isfile(reply + suffix):
        yield reply
    elif isinstance(reply, dict | list):
        for each in reply.values() if isinstance(reply, dict) else reply:
            yield from files_in(each, suffix)


def plain_mode(modes: Sequence[str]) -> str:
    return "eager" if "eager" in modes else "jit"


@dataclasses.dataclass(frozen=True)
class Shipped:
    """The shipped registry, and one run of all of it."""

    registry: Registry
    sessions: Mapping[Needs, Recording]
    scratch: Path
    candidates: Path

    @property
    def selection(self) -> Selection:
        """One plain mode of each recipe: the others hold their outputs to the golden's by the same code."""
        recipes = self.registry.recipes.values()
        return Selection(last_failed_ids=[f"{each.name}::*[{plain_mode(each.modes)}]" for each in recipes])

    def judged(self, goldens: GoldenStore, only: str | None = None) -> Run:
        """What `run` would say with these goldens, of all recipes or of one."""
        recipes = [recipe for name, recipe in self.registry.recipes.items() if only in (None, name)]
        with ThreadPoolExecutor(1) as judges:
            work = Assignment(
                self.registry, self.selection, goldens, GoldenStore(self.candidates), self.scratch, judges
            )
            done = [conduct(work, recipe, self.sessions[needs_of(recipe)]) for recipe in recipes]
        damaged = tuple(text for one in done for text in one.damaged)
        return Run(jaxcheck="test", results=tuple(r for one in done for r in one.results), damaged_goldens=damaged)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "scratch").mkdir()
    registry = load_registry(REPOSITORY / "recipes.yaml")
    launch = dataclasses.replace(launch_for(registry, None), compiled=str(compiled_programs()))
    sessions = {needs: Recording(launch, needs) for needs in set(map(needs_of, registry.recipes.values()))}
    yield Shipped(registry, sessions, folder / "scratch", folder / "candidates")
    for session in sessions.values():
        session.close()


@dataclasses.dataclass(frozen=True)
class Mutated:
    """A copy of the shipped goldens with a change, and the cases that must notice."""

    store: GoldenStore
    cases: frozenset[tuple[str, str]]


def copied(folder: Path) -> GoldenStore:
    shutil.copytree(SHIPPED, folder / "goldens")
    return GoldenStore(folder / "goldens")


Change = Callable[[GoldenCase], GoldenCase | None]


def mutate(folder: Path, choose: Callable[[int], Change]) -> Mutated:
    """Changes every case that its change applies to; `choose` gives the change by the case's number."""
    store, touched, number = copied(folder), set(), 0
    for recipe in store.recipes():
        golden = store.load(recipe)
        assert golden is not None
        changed = {}
        with golden:
            for name in golden.cases:
                new = choose(number)(golden.case(name, program=True))
                number += 1
                if new is not None:
                    changed[name] = new
        store.update(recipe, changed)
        touched |= {(recipe, name) for name in changed}
    assert touched, "the change applies to some golden"
    return Mutated(store, frozenset(touched))


def with_leaf(case: GoldenCase, position: int, leaf: Leaf) -> GoldenCase:
    assert case.outputs is not None
    leaves = [*case.outputs.leaves[:position], leaf, *case.outputs.leaves[position + 1 :]]
    return dataclasses.replace(case, outputs=Tree(case.outputs.structure, tuple(leaves)))


def of_same_kind(leaf: Leaf, array: np.ndarray) -> Leaf:
    if leaf.impl is not None:
        return Leaf.of_key(leaf.path, array, leaf.impl, leaf.dtype, leaf.shape)
    return Leaf.of(leaf.path, array, weak_type=leaf.weak_type)


def is_finite(array: np.ndarray) -> np.ndarray:
    """int4 and its like have no isfinite, and no need of one."""
    return np.isfinite(array) if array.dtype.kind in "fc" or "float" in array.dtype.name else np.ones(array.shape, bool)


def moved(value: Any, tolerance: dict[str, Any] | None) -> Any:
    """The value, moved to three times its tolerance; an integer by one, a boolean turned over."""
    if np.asarray(value).dtype.kind == "b":
        return not value
    if np.asarray(value).dtype.kind in "iu":
        return value ^ 1
    if tolerance is None:
        return value + 1
    wide = np.asarray(value).astype(np.complex128 if np.iscomplexobj(value) else np.float64)[()]
    allowed = tolerance["atol"] + tolerance["rtol"] * abs(wide)
    limits = ml_dtypes.finfo(np.asarray(value).dtype)
    representable = max(4 * float(limits.eps) * abs(wide), 4 * float(limits.smallest_subnormal), 1e-30)
    return wide + max(3 * allowed, representable)


def one_element(case: GoldenCase) -> GoldenCase | None:
    """The middle element of the last leaf that has one that is finite."""
    for position in reversed(range(len(case.outputs.leaves) if case.outputs else 0)):
        leaf = case.outputs.leaves[position]
        array = np.array(leaf.array())
        finite = np.flatnonzero(is_finite(array).reshape(-1))
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
    if not is_finite(flat[:1]).all():
        return None
    flat[0] = moved(flat[0], case.tolerance.get(leaf.path))
    return with_leaf(case, chosen, of_same_kind(leaf, flat.reshape(array.shape)))


def one_nan(case: GoldenCase) -> GoldenCase | None:
    """A NaN where there is none (or a number where there is one)."""
    for position, leaf in enumerate(case.outputs.leaves if case.outputs else ()):
        array = np.array(leaf.array())
        if leaf.impl is None and array.size and array.dtype.kind not in "biu":
            flat = array.reshape(-1)
            flat[-1] = 1.0 if np.isnan(flat[-1]) else np.nan
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


CHANGES: dict[str, Change] = {
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


def verified(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Without the recipes whose `when:` keeps them from this version of jax."""
    return [result for result in results if result.status != "skip"]


def assert_caught(results: Sequence[CheckResult], mutated: Mutated) -> None:
    """Every changed case fails for its golden, and nothing else does."""
    seen = {(result.recipe, result.case) for result in results if result.status == "skip"} & mutated.cases
    for result in verified(results):
        raised_as_expected = result.error is not None  # in this mode the case has no values
        touched = (result.recipe, result.case) in mutated.cases and not raised_as_expected
        assert result.status == ("fail" if touched else "pass"), (result.id, result.reason)
        if touched:
            seen.add((result.recipe, result.case))
            assert any(finding.kind == "golden" for finding in result.findings), result
    assert seen == mutated.cases


def test_unchanged_goldens_pass(shipped: Shipped) -> None:
    run = shipped.judged(GoldenStore(SHIPPED))
    assert {result.status for result in verified(run.results)} == {"pass"}
    assert run.exit_code() == 0


def first_that_applies(kind: int) -> Change:
    """The change of this number, or where a case has nothing that it could change, the next one."""
    kinds = list(CHANGES.values())
    rotated = [kinds[(kind + shift) % len(kinds)] for shift in range(len(kinds))]
    return lambda case: next((new for change in rotated if (new := change(case)) is not None), None)


@pytest.mark.parametrize("shift", range(len(CHANGES)))
def test_change_is_caught(shipped: Shipped, tmp_path: Path, shift: int) -> None:
    """Every case with another kind of change than its neighbour; by all shifts, with every kind that applies."""
    mutated = mutate(tmp_path, lambda number: first_that_applies(number + shift))
    run = shipped.judged(mutated.store)
    assert_caught(run.results, mutated)
    assert run.exit_code() == 1


def test_every_deleted_golden_is_missing(shipped: Shipped, tmp_path: Path) -> None:
    store = copied(tmp_path)
    for recipe in shipped.registry.recipes:
        store.path(recipe).unlink()
        run = shipped.judged(store, recipe)
        found = verified(run.results)
        assert {result.status for result in found} <= {"missing"}, recipe
        assert run.exit_code() == (1 if found else 5)


@pytest.mark.parametrize("position", range(3))
def test_every_deleted_case_is_missing(shipped: Shipped, tmp_path: Path, position: int) -> None:
    """The first case of each golden, the second, the third."""
    store, gone = copied(tmp_path), set()
    for recipe in store.recipes():
        golden = store.load(recipe)
        assert golden is not None
        with golden:
            if len(golden.cases) > position:
                gone.add((recipe, golden.cases[position]))
    for recipe, case in gone:
        store.update(recipe, {}, [case])
    run = shipped.judged(store)
    for result in verified(run.results):
        assert result.status == ("missing" if (result.recipe, result.case) in gone else "pass"), result.id
    assert run.exit_code() == 1


def changes(array: np.ndarray) -> bool:
    """Whether adding 1 makes other bytes of it."""
    return array.dtype.kind == "f" and not np.array_equal(array + array.dtype.type(1), array, equal_nan=True)


def test_content_changed_behind_the_codecs_back_is_damage(shipped: Shipped, tmp_path: Path) -> None:
    store, damaged = copied(tmp_path), set()
    for path in sorted(store.folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        name = next((n for n in arrays if "/out/" in n and changes(arrays[n])), None)
        if name is not None:
            arrays[name] = arrays[name] + arrays[name].dtype.type(1)
            np.savez(path, **arrays)
            damaged.add(path.stem)
    assert len(damaged) >= 10
    run = shipped.judged(store)
    found = verified(run.results)
    damaged &= {result.recipe for result in found}
    assert {result.recipe for result in found if result.status == "error"} == damaged
    assert {result.status for result in found} == {"error", "pass"}, "the other cases are as good as before"
    assert len(run.damaged_goldens) == len(damaged)
    assert run.exit_code() == 2


def test_the_real_command_catches_a_change_in_every_golden(project: Project) -> None:
    """Each case with the next kind of change, in one run."""
    mutated = mutate(project.folder, first_that_applies)
    done, report = project.run(*real(project, REPOSITORY / "recipes.yaml"), "--tag", "seed", "--mode", "eager")
    assert done.code == 1, done
    results = [CheckResult.model_validate(result) for result in report["results"]]
    chosen = {(result.recipe, result.case) for result in results}
    assert len(chosen) > 40
    assert_caught(results, dataclasses.replace(mutated, cases=mutated.cases & chosen))


def real(project: Project, registry: Path) -> tuple[str, ...]:
    folder = project.folder
    return "--registry", str(registry), "--goldens", str(folder / "goldens"), "--state", str(folder / "state")


def test_a_case_deleted_from_the_registry_is_stale(project: Project) -> None:
    copied(project.folder)
    text = (REPOSITORY / "recipes.yaml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("      limit-reached:"))
    registry = project.write("recipes.yaml", "")
    alone = re.sub("^include:.*$", "", text, flags=re.MULTILINE)
    registry.write_text(alone.replace(line + "\n", ""))
    done, report = project.run(*real(project, registry), "newton-sqrt")
    assert done.code == 1
    odd = [(result["id"], result["status"]) for result in report["results"] if result["status"] != "pass"]
    assert odd == [("newton-sqrt::limit-reached[eager]", "stale")]


def test_a_damaged_golden_by_the_real_command(project: Project) -> None:
    store = copied(project.folder)
    path = store.path("newton-sqrt")
    path.write_bytes(path.read_bytes()[:-1000])
    done, report = project.run(*real(project, REPOSITORY / "recipes.yaml"), "newton-sqrt", "newton-carry-dtype")
    assert done.code == 2, done
    assert {r["status"] for r in report["results"] if r["recipe"] == "newton-sqrt"} == {"error"}
    assert {r["status"] for r in report["results"] if r["recipe"] == "newton-carry-dtype"} == {"pass"}
    assert "cut short" in done.out
    assert "git checkout" in done.out
