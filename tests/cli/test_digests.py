"""`store: digest`: what a golden keeps of large leaves, and what every command makes of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.harness import Project, by_id, statuses

SIZE = 300_000
KEPT = 65_536  # of which the golden keeps, in 64 blocks

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]  # what goldens hold and reports say is the parent's


@pytest.fixture
def large(project: Project) -> Project:
    project.write(
        "kernels.py",
        """
        import jax.numpy as jnp

        MOVED, BY = (), 0.0

        def large(x):
            y = x * jnp.float32(2)
            for place in MOVED:
                y = y.at[place].add(jnp.float32(BY))
            return {"y": y, "rank": jnp.round(y * 1000).astype(jnp.int32), "small": y[:3]}
        """,
    )
    project.write(
        "recipes.yaml",
        f"""
        version: 1
        recipes:
          large:
            kernel: kernels:large
            modes: [eager, jit]
            tolerance: {{rtol: 1e-5, atol: 1e-5}}
            outputs: {{"*": {{store: digest}}}}
            cases:
              standard: {{args: {{x: {{$normal: {{shape: {SIZE}, seed: 1}}}}}}}}
        """,
    )
    return project


def moved(project: Project, places: list[int], by: float) -> None:
    text = (project.folder / "kernels.py").read_text().splitlines()
    line = next(number for number, line in enumerate(text) if line.startswith("MOVED"))
    text[line] = f"MOVED, BY = {tuple(places)!r}, {by!r}"
    (project.folder / "kernels.py").write_text("\n".join(text) + "\n")


def kept(project: Project) -> np.ndarray:
    """Positions of the elements of y that the golden has."""
    with np.load(project.folder / "goldens/large.npz", allow_pickle=False) as file:
        (leaf,) = (
            leaf
            for leaf in json.loads(str(file["__meta__"]))["cases"]["standard"]["outputs"]["leaves"]
            if leaf["path"] == "['y']"
        )
        excerpt = leaf["excerpt"]
        positions = (np.array(excerpt["starts"])[:, None] + np.arange(excerpt["length"])).reshape(-1)
        assert file["standard/out/['y']"].shape == positions.shape
    return positions


def test_a_golden_of_digests_is_small_and_passes_by_every_bit(large: Project) -> None:

    assert "1 cases blessed" in large.bless().out
    with np.load(large.folder / "goldens/large.npz", allow_pickle=False) as file:
        sizes = {name: file[name].size for name in file.files}
    assert sizes["standard/out/['y']"] == sizes["standard/truth/['y']"] == KEPT
    assert sizes["standard/out/['rank']"] == 0
    assert sizes["standard/out/['small']"] == 3
    assert sizes["standard/in/x"] == SIZE  # runs use the stored inputs: these are never cut
    done, report = large.run()
    assert done.code == 0, done
    leaves = {leaf["path"]: leaf for leaf in by_id(report)["large::standard[eager]"]["leaves"]}
    assert leaves["['y']"]["bit_equal"] == leaves["['y']"]["size"] == SIZE
    assert leaves["['y']"]["compared"] is None
    assert leaves["['y']"]["verdict"] == "unchanged"
    before = large.files()
    assert "1 cases blessed" in large.bless("--all").out
    assert large.files() == before  # the same content gives the same bytes


def test_what_moved_in_the_excerpt_is_measured_and_what_moved_elsewhere_is_told(large: Project) -> None:
    large.bless()
    places = kept(large)
    unseen = next(place for place in range(SIZE) if place not in set(places.tolist()))

    moved(large, [int(places[-1])], 0.5)
    done, report = large.run()
    assert set(statuses(report).values()) == {"fail"}, done
    leaves = {leaf["path"]: leaf for leaf in by_id(report)["large::standard[jit]"]["leaves"]}
    assert leaves["['y']"]["worst"]["index"] == [SIZE - 1]
    assert (leaves["['y']"]["mismatched"], leaves["['y']"]["compared"]) == (1, KEPT)
    assert f"1 of {KEPT:,} compared (of {SIZE:,}) beyond tolerance" in leaves["['y']"]["reason"]
    assert "beside it the golden keeps no element" in leaves["['rank']"]["reason"]
    shown = large.jaxcheck("diff")
    assert shown.code == 1, shown
    assert f"1 of {KEPT:,} compared (of {SIZE:,}) beyond" in shown.out
    listed = json.loads(large.jaxcheck("review", "--list", "--json").out)
    assert {leaf["path"]: leaf["compared"] for leaf in listed["items"][0]["leaves"]}["['y']"] == KEPT

    moved(large, [unseen], 1e-6)
    done, report = large.run("--mode", "eager")
    result = by_id(report)["large::standard[eager]"]
    assert done.code == 0, done
    assert result["drifted"]
    assert f"['y']: {KEPT:,} of {SIZE:,} elements were compared" in " ".join(result["notes"])
    assert f"({KEPT:,} of {SIZE:,} elements compared)" in large.jaxcheck("run", "-v").out


def test_a_moved_leaf_is_blessed_and_shown(large: Project) -> None:
    large.bless()
    old = (large.folder / "goldens/large.npz").read_bytes()
    moved(large, [0], 0.5)
    large.run()
    assert f"1 of {KEPT:,} compared (of {SIZE:,}) beyond" in large.bless().out
    (large.folder / "old.npz").write_bytes(old)
    shown = large.jaxcheck("diff", "old.npz", "goldens/large.npz")
    assert f"1 of {KEPT:,} compared (of {SIZE:,}) beyond" in shown.out, shown
    text = large.jaxcheck("show", "large")
    assert f"of {SIZE:,} elements 64 blocks of 1,024" in text.out, text
    assert f"of {SIZE:,} elements none" in text.out
    stable = large.jaxcheck("show", "--text", "large")
    assert f"kept: of {SIZE:,} elements 64 blocks of 1,024" in stable.out, stable
    done, _ = large.run()
    assert done.code == 0, done


def test_check_names_large_goldens_and_digests_that_are_not_kept_as_said(large: Project) -> None:
    registry = large.folder / "recipes.yaml"
    said = registry.read_text()
    registry.write_text(said.replace(f"shape: {SIZE}", "shape: 1200000").replace("store: digest", "store: whole"))
    large.bless("--no-truth")
    done = large.jaxcheck("check")
    assert done.code == 0, done
    assert "large.npz has 13 MiB" in done.err
    assert """or `outputs: {"['rank']": {store: digest}, "['y']": {store: digest}}`""" in done.err
    registry.write_text(registry.read_text().replace("store: whole", "store: digest"))
    done = large.jaxcheck("check")
    assert "large::standard: ['y'] is kept whole, the registry says `store: digest`" in done.err, done
    large.bless("--all", "--no-truth")
    registry.write_text(registry.read_text().replace("store: digest", "store: whole"))
    done = large.jaxcheck("check")
    assert "large::standard: ['y'] is kept as a digest, the registry says `store: whole`" in done.err, done


def test_what_looks_at_a_whole_leaf_cannot_have_a_digest(large: Project) -> None:
    large.write(
        "recipes.yaml",
        """
        version: 1
        recipes:
          large:
            kernel: kernels:large
            tolerance: {rtol: 1e-5, atol: 1e-5}
            outputs:
              "['y']": {store: digest, comparator: {ulp: {max_ulp: 4}}}
              "['rank']": {comparator: {topk: {values: "['y']"}}}
            cases: {standard: {args: {x: 1.0}}}
        """,
    )
    done = large.jaxcheck("check")
    assert done.code == 2, done
    assert "the comparator ulp looks at the whole leaf" in done.err
    assert "looks at the leaf ['y'], of which the golden keeps a digest" in done.err
