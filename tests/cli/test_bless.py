"""`bless` and `reject` by the real command: what is written, and what is refused, asserted on the file tree."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.harness import Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.slow]

KERNELS = """
import jax
import jax.numpy as jnp
import pathlib

SHIFT = 0.0

def shifted(x):
    return {"y": x + SHIFT, "n": jnp.int32(x.size)}

def reference(x):
    return {"y": x}

def small(inputs, outputs):
    assert (abs(outputs["y"]) < 100).all(), f"too large: {outputs['y'].max()}"

def root(x):
    return jnp.sqrt(x)

def product(x):
    return jnp.prod(x / 500)
"""

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  shifted:
    kernel: "kernels:shifted"
    cases: {one: {args: {x: [1.0, 2.0]}}, two: {args: {x: [3.0]}}}
  other: {kernel: "kernels:shifted", cases: {one: {args: {x: [5.0]}}}}
"""


@pytest.fixture
def blessed(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.bless()
    return project


def shift(project: Project, amount: float) -> None:
    project.write("kernels.py", KERNELS.replace("SHIFT = 0.0", f"SHIFT = {amount}"))


def test_first_blessing_writes_one_file_a_recipe_and_run_passes(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    before = project.files()
    done, report = project.run()
    assert done.code == 1
    assert set(statuses(report).values()) == {"missing"}
    assert project.files().keys() - before.keys() == {"report.json"}, "run writes no golden"
    done = project.bless()
    assert project.files().keys() - before.keys() == {"report.json", "goldens/shifted.npz", "goldens/other.npz"}
    assert "3 cases blessed" in done.out
    done, report = project.run()
    assert done.code == 0, done
    assert set(statuses(report).values()) == {"pass"}


def test_provenance_is_in_the_golden(blessed: Project) -> None:
    blessed.jaxcheck("bless", "--all", "--reason", "because", "--who", "Ada", "shifted")
    with np.load(blessed.folder / "goldens" / "shifted.npz", allow_pickle=False) as data:
        meta = json.loads(str(data["__meta__"]))
        assert np.array_equal(data["one/out/['y']"], np.float32([1, 2]))
        assert np.array_equal(data["one/in/x"], np.float32([1, 2]))
        assert data["one/program"].dtype == np.uint8
    assert meta["schema"] == 1
    blessing = meta["blessings"][meta["cases"]["one"]["blessing"]]
    assert blessing["environment"]["jax"]
    assert {"reason", "who", "when", "commit"} <= blessing.keys()


def test_what_passes_is_not_touched_and_unchanged_content_not_rewritten(blessed: Project) -> None:
    before = blessed.files()
    done = blessed.jaxcheck("bless", "--reason", "again")
    assert done.code == 0, done
    assert "0 cases blessed, 3 kept" in done.out
    assert blessed.files() == before
    done = blessed.jaxcheck("bless", "--all", "--reason", "again")
    assert "0 golden files written" in done.out
    assert blessed.files() == before


def test_only_what_differs_is_blessed_and_the_move_is_shown(blessed: Project) -> None:
    shift(blessed, 0.5)
    before = blessed.files()
    done, report = blessed.run()
    assert done.code == 1
    assert statuses(report)["shifted::one[eager]"] == "fail"
    assert by_id(report)["shifted::one[eager]"]["hint"] == "jaxcheck diff shifted::one"
    shown = blessed.jaxcheck("diff", "shifted")
    assert shown.code == 1
    assert "1 -> 1.5" in shown.out
    done = blessed.jaxcheck("bless", "shifted::one", "--reason", "half a step")
    assert done.code == 0, done
    assert "1 -> 1.5" in done.out
    assert "x the tolerance" in done.out
    after = blessed.files()
    assert {name for name in after if after[name] != before.get(name)} == {"goldens/shifted.npz", "report.json"}
    _, report = blessed.run()
    assert statuses(report)["shifted::one[eager]"] == "pass"
    assert statuses(report)["shifted::two[eager]"] == "fail", "the other case was not blessed"


def test_the_bytes_of_the_last_run_are_blessed_unless_something_changed(blessed: Project) -> None:
    shift(blessed, 0.5)
    blessed.run()
    done = blessed.jaxcheck("bless", "--reason", "seen")
    assert "candidates of the last run" in done.err
    shift(blessed, 0.25)
    done = blessed.jaxcheck("bless", "--reason", "not seen")
    assert "candidates of the last run" not in done.err, "the kernel changed since: it runs again"
    assert "1.5 -> 1.25" in done.out


def test_what_passed_is_not_kept_where_its_golden_is_not_the_one_it_was_compared_with(blessed: Project) -> None:
    golden = blessed.folder / "goldens" / "shifted.npz"
    before = golden.read_bytes()
    assert blessed.run()[0].code == 0
    golden.unlink()
    done = blessed.bless()
    assert "2 cases blessed, 1 kept" in done.out, done
    assert golden.exists()
    assert blessed.run()[0].code == 0
    golden.write_bytes(before)
    done = blessed.bless()
    assert "candidates of the last run" in done.err, "it has the same content"
    assert "0 cases blessed, 3 kept" in done.out
    done = blessed.bless("--goldens", "elsewhere")
    assert "3 cases blessed" in done.out, done
    assert (blessed.folder / "elsewhere" / "other.npz").exists()


def test_a_run_with_other_packages_is_not_blessed_as_it_is(blessed: Project) -> None:
    file = blessed.folder / ".jaxcheck" / "run.json"
    for name in ("optax", "python"):
        assert blessed.run()[0].code == 0
        said = json.loads(file.read_text())
        said["environment"][name] = "0.0.1"
        file.write_text(json.dumps(said))
        assert "candidates of the last run" not in blessed.bless("other").err


@pytest.mark.parametrize("options", [(), ("--reason", "  ")])
def test_a_reason_is_required(blessed: Project, options: tuple[str, ...]) -> None:
    shift(blessed, 0.5)
    before = blessed.files()
    done = blessed.jaxcheck("bless", *options)
    assert done.code == 2
    assert "--reason" in done.err
    assert blessed.files() == before


def test_ci_writes_no_golden(blessed: Project) -> None:
    shift(blessed, 0.5)
    before = blessed.files()
    done = blessed.jaxcheck("bless", "--reason", "in passing", CI="true")
    assert done.code == 1
    assert "--yes" in done.err
    assert blessed.files() == before
    assert blessed.jaxcheck("bless", "--reason", "meant", "--yes", CI="true").code == 0
    assert blessed.files() != before


BRAKES = [
    ("modes", "kernels:product", "x: {$linspace: {start: 100, stop: 900, num: 20}}", "nonfinite: allow", ""),
    ("nonfinite", "kernels:root", "x: [-1.0]", "", ""),
    ("property", "kernels:shifted", "x: [500.0]", "", "properties: ['kernels:small']"),
    ("reference", "kernels:root", "x: [4.0]", "", "reference: 'kernels:reference_of_root'"),
    ("error", "kernels:branches", "x: 1.0", "", ""),
]


@pytest.mark.parametrize(("brake", "kernel", "args", "case", "recipe"), BRAKES, ids=[b[0] for b in BRAKES])
def test_brakes_hold_and_name_their_override(
    project: Project, brake: str, kernel: str, args: str, case: str, recipe: str
) -> None:
    more = "\ndef reference_of_root(x):\n    return x / 3\n\ndef branches(x):\n    return x if x > 0 else -x\n"
    project.write("kernels.py", KERNELS + more)
    options = ", ".join(filter(None, [f"args: {{{args}}}", case]))
    project.write(
        "recipes.yaml",
        "version: 1\ndefaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}\nrecipes:\n"
        f"  braked:\n    kernel: '{kernel}'\n    cases: {{only: {{{options}}}}}\n"
        + (f"    {recipe}\n" if recipe else ""),
    )
    before = project.files()
    done = project.jaxcheck("bless", "--reason", "try")
    assert done.code == 1, done
    assert f"jaxcheck bless braked::only --allow {brake}" in done.err
    assert project.files() == before
    done = project.jaxcheck("bless", "--reason", "insist", "--allow", brake)
    assert done.code == 0, done
    assert (project.folder / "goldens" / "braked.npz").exists()


def test_unknown_brake(blessed: Project) -> None:
    done = blessed.jaxcheck("bless", "--reason", "x", "--allow", "everything")
    assert done.code == 2
    assert "modes" in done.err


def test_a_case_that_left_the_registry_leaves_the_golden_with_the_next_blessing(blessed: Project) -> None:
    blessed.write("recipes.yaml", REGISTRY.replace(", two: {args: {x: [3.0]}}", ""))
    done, report = blessed.run()
    assert done.code == 1
    assert statuses(report)["shifted::two[eager]"] == "stale"
    done = blessed.jaxcheck("bless", "shifted", "--reason", "no longer wanted")
    assert done.code == 0, done
    done, report = blessed.run()
    assert done.code == 0, done
    assert "shifted::two[eager]" not in statuses(report)


def test_changed_arguments_are_stale(blessed: Project) -> None:
    blessed.write("recipes.yaml", REGISTRY.replace("x: [3.0]", "x: [4.0]"))
    done, report = blessed.run()
    assert done.code == 1
    result = by_id(report)["shifted::two[eager]"]
    assert result["status"] == "stale"
    assert "jaxcheck bless shifted" in result["hint"]
    assert statuses(report)["shifted::one[eager]"] == "pass"


def test_a_changed_tolerance_is_not_stale(blessed: Project) -> None:
    blessed.write("recipes.yaml", REGISTRY.replace("rtol: 1e-6", "rtol: 1e-5"))
    done, _ = blessed.run()
    assert done.code == 0, done


def test_reject_drops_candidates_and_keeps_goldens(blessed: Project) -> None:
    shift(blessed, 0.5)
    blessed.run()
    before = blessed.files()
    done = blessed.jaxcheck("reject", "shifted::one")
    assert done.code == 0, done
    assert "1 candidate dropped" in done.out
    assert blessed.jaxcheck("diff", "shifted::one").code == 5
    assert blessed.jaxcheck("diff", "shifted::two").code == 1
    assert blessed.jaxcheck("reject").code == 0
    done = blessed.jaxcheck("reject")
    assert done.code == 5
    assert "the last run left none" in done.err
    assert blessed.files() == before


def test_read_only_goldens_lose_nothing(blessed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is a file's parent that cannot be written: nothing half is left. Root ignores modes, so a file is put
    where the folder should be."""
    shift(blessed, 0.5)
    elsewhere = blessed.write("elsewhere", "a file, not a folder")
    done = blessed.jaxcheck("bless", "--reason", "x", "--goldens", str(elsewhere))
    assert done.code == 2, done
    assert "elsewhere" in done.err
    assert elsewhere.read_text() == "a file, not a folder"


def test_a_damaged_golden_can_be_blessed_anew(blessed: Project) -> None:
    golden = blessed.folder / "goldens" / "shifted.npz"
    golden.write_bytes(golden.read_bytes()[:100])
    assert blessed.run()[0].code == 2
    done = blessed.jaxcheck("bless", "shifted", "--reason", "the file was cut short")
    assert done.code == 0, done
    assert blessed.run()[0].code == 0


def test_a_backends_own_golden_is_used_before_the_general_one(blessed: Project) -> None:
    done = blessed.jaxcheck("bless", "shifted", "--all", "--for-backend", "--reason", "its own")
    assert done.code == 0, done
    assert (blessed.folder / "goldens" / "shifted@cpu.npz").exists()
    _, report = blessed.run()
    assert by_id(report)["shifted::one[eager]"]["golden"].endswith("shifted@cpu.npz")
    assert by_id(report)["other::one[eager]"]["golden"].endswith("other.npz")
