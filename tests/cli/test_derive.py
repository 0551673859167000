"""`bless --derive-tolerance`, the brake `conditioning` and the ratchet, by the real command."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import yaml

from jaxcheck.execution.verdicts import loosened
from jaxcheck.goldens.golden import Golden
from jaxcheck.registry.model import Tolerance
from tests.harness import Project, by_id

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.slow]

KERNELS = """
import jax
import jax.numpy as jnp

def waves(x):
    return {"y": jnp.tanh(x) / 3, "large": jnp.sin(x) * 1e6, "n": jnp.int32(x.size)}

def halved(x):
    return x / 2

def logistic_map(x):
    return jax.lax.fori_loop(0, 200, lambda _, v: 3.99 * v * (1 - v), x)
"""

REGISTRY = """\
version: 1
defaults: {tolerance: {float32: {rtol: 1e-3, atol: 1e-3}}} # loose, until it is known better
include: [more.yaml]
recipes:
  waves:
    kernel: kernels:waves # of two sizes
    # both cases have the same scale
    cases:
      one: {args: {x: [0.1, 0.7, 1.1]}}
      two: {args: {x: [-0.9, 0.0, 1.3]}}
"""
MORE = """\
recipes:
  halved: {kernel: "kernels:halved", tolerance: {rtol: 1e-4, atol: 0}, cases: {only: {args: {x: [1.0, 2.0]}}}}
"""
HALVED = {"rtol": 2e-7, "atol": 1e-6}  # one ULP of 2 moves its half, the largest element, by 1.2e-7: 8 times that


@pytest.fixture
def loose(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.write("more.yaml", MORE)
    return project


def proposal(out: str) -> dict[str, Any]:
    """The block that a blessing prints, as the registry would read it."""
    block = out[out.index("\nrecipes:\n") :]
    return dict(yaml.safe_load(block)["recipes"])


def meta_of(project: Project, recipe: str) -> dict[str, Any]:
    with np.load(project.folder / "goldens" / f"{recipe}.npz", allow_pickle=False) as data:
        return dict(json.loads(str(data["__meta__"])))


def test_a_blessing_proposes_what_can_be_pasted_and_records_where_it_came_from(loose: Project) -> None:
    before = loose.files()
    done = loose.bless("--derive-tolerance", "--who", "Ada")
    after = loose.files()
    assert {name for name in after if after[name] != before.get(name)} == {"goldens/waves.npz", "goldens/halved.npz"}
    said = proposal(done.out)
    assert said["halved"] == {"tolerance": HALVED}
    assert "now {rtol: 1.0e-4, atol: 0.0} at more.yaml:2:38; allows 0.012 x that" in done.out
    assert "float32: 8 x noise floor 1.2e-7 (1 leaf in 1 case)" in done.out
    assert "at recipes.yaml:2:24; allows " in done.out

    waves = said["waves"]
    assert set(waves) == {"tolerance", "outputs"}
    assert len(waves["outputs"]) == 1, "one of two leaves whose sizes are 1e6 apart has a tolerance of its own"
    with Golden.open(loose.folder / "goldens" / "waves.npz") as golden:
        cases = {name: golden.case(name) for name in golden.cases}
        for path in ("['y']", "['large']"):
            held = waves["outputs"].get(path, {}).get("tolerance") or waves["tolerance"]["float32"]
            floors = {name: max(case.extra["floor"][path].values()) for name, case in cases.items()}
            for name, case in cases.items():
                values = np.abs(case.outputs.by_path[path].array()).astype(np.float64)  # type: ignore[union-attr]
                allowed = held["atol"] + held["rtol"] * values
                assert (allowed >= 8 * floors[name] * values.max()).all(), "8 floors, for the smallest element too"
                assert (allowed <= 80 * max(*floors.values(), 6e-8) * values.max()).all()
                record = case.extra["derived"]
                assert record["tolerance"][path]["floors"] == floors
                assert {name: record["tolerance"][path][name] for name in ("rtol", "atol")} == held
                assert record["draws"] == 4
                assert set(record["knobs"]) <= {"no fusion", "no algebraic simplifier", "no excess precision"}
                assert record["jax"] == case.blessing.environment["jax"]
                assert case.tolerance[path]["rtol"] == 1e-3, "what is in force is what the registry says"

    shown = loose.jaxcheck("show", "waves::one")
    assert "tolerances derived: 8 x noise floor (4 draws, knobs: " in shown.out
    assert re.search(r"\['y'\]: rtol \S+ atol \S+ from noise floors one \S+, two ", shown.out)


def test_pasting_the_block_is_the_same_as_writing_it(loose: Project) -> None:
    said = proposal(loose.bless("--derive-tolerance").out)
    data = yaml.safe_load(REGISTRY.replace("1e-3", "1.0e-3"))
    data["recipes"]["waves"] |= said["waves"]
    data["include"] = []
    loose.write("pasted.yaml", yaml.safe_dump(data))
    loose.bless("--derive-tolerance", "--write", "--all")
    loaded = [
        loose.jaxcheck("run", "waves", "--registry", name, "--output", f"{name}.json")
        for name in ("recipes.yaml", "pasted.yaml")
    ]
    assert [done.code for done in loaded] == [0, 0], loaded
    reports = [json.loads((loose.folder / f"{name}.json").read_text()) for name in ("recipes.yaml", "pasted.yaml")]
    bounds = [
        {
            (result["id"], leaf["path"]): (leaf["tolerance"]["rtol"], leaf["tolerance"]["atol"])
            for result in report["results"]
            for leaf in result["leaves"]
        }
        for report in reports
    ]
    assert bounds[0] == bounds[1]
    assert 1e-3 not in {rtol for rtol, _ in bounds[0].values()}


def test_a_golden_without_the_option_has_no_record_and_the_same_digest(loose: Project) -> None:
    loose.bless("waves")
    with Golden.open(loose.folder / "goldens" / "waves.npz") as golden:
        digest = golden.digest
        assert all("derived" not in golden.case(case).extra for case in golden.cases)
    assert "derived" not in loose.jaxcheck("show", "waves").out
    loose.bless("waves", "--all", "--derive-tolerance")
    loose.bless("waves", "--all")
    with Golden.open(loose.folder / "goldens" / "waves.npz") as golden:
        assert golden.digest == digest
    before = loose.files()
    loose.bless("waves", "--all")
    assert loose.files() == before


def test_write_edits_the_registry_in_place_and_the_goldens_agree(loose: Project) -> None:
    (loose.folder / "more.yaml").chmod(0o640)
    done = loose.bless("--derive-tolerance", "--write")
    new = (loose.folder / "recipes.yaml").read_text()
    words = r" # derived: 8 x noise floor \S+, jax \d+\.\d+\.\d+\S*, \d{4}-\d\d-\d\d"
    lines = REGISTRY.splitlines()
    place = lines.index("    kernel: kernels:waves # of two sizes") + 1
    assert new.splitlines()[:place] == lines[:place]
    assert new.splitlines()[-4:] == lines[place:], "comments and all"
    tolerance, outputs, leaf = new.splitlines()[place:-4]
    assert re.fullmatch(r"    tolerance: \{float32: \{rtol: \S+, atol: \S+\}\}" + words, tolerance)
    assert outputs == "    outputs:"
    assert re.fullmatch(r"""      "\['(y|large)'\]": \{tolerance: \{rtol: \S+, atol: \S+\}\}""" + words, leaf)
    more = (loose.folder / "more.yaml").read_text()
    assert more.startswith(
        'recipes:\n  halved: {kernel: "kernels:halved", tolerance: {rtol: 2.0e-7, atol: 1.0e-6}, '
        "cases: {only: {args: {x: [1.0, 2.0]}}}} # derived: 8 x noise floor 1.2e-7, jax "
    )
    assert (loose.folder / "more.yaml").stat().st_mode & 0o777 == 0o640
    assert not list(loose.folder.glob(".*.tmp"))

    with Golden.open(loose.folder / "goldens" / "halved.npz") as golden:
        held = golden.case("only").tolerance["."]
    assert held == {**HALVED, "source": "more.yaml:2:38"}
    assert proposal(done.out)["halved"] == {"tolerance": HALVED}
    done, report = loose.run()
    assert done.code == 0, done
    assert not any("loosened" in note for result in report["results"] for note in result["notes"])
    assert "hides" not in loose.jaxcheck("check").err
    before = loose.files()
    loose.bless("--derive-tolerance", "--write", "--all")
    assert loose.files() == before, "the same floors, the same tolerances"


def test_line_ends_and_links_stay_as_they_are(loose: Project) -> None:
    elsewhere = loose.write("shared/registry.yaml", "")
    elsewhere.write_bytes(MORE.replace("\n", "\r\n").encode())
    (loose.folder / "more.yaml").unlink()
    (loose.folder / "more.yaml").symlink_to(elsewhere)
    loose.bless("halved", "--derive-tolerance", "--write")
    assert (loose.folder / "more.yaml").is_symlink()
    content = elsewhere.read_bytes()
    assert b"tolerance: {rtol: 2.0e-7, atol: 1.0e-6}" in content
    assert content.count(b"\r\n") == content.count(b"\n") == 2


def test_a_tolerance_that_others_share_is_not_written_and_the_rest_is(loose: Project) -> None:
    text = """\
    recipes:
      halved: {kernel: "kernels:halved", tolerance: &t {rtol: 1e-4, atol: 0}, cases: {only: {args: {x: [1.0, 2.0]}}}}
      again: {kernel: "kernels:halved", tolerance: *t, cases: {only: {args: {x: [1.0, 2.0]}}}}
    """
    path = loose.write("more.yaml", text)
    first = path.read_text().splitlines()
    done = loose.jaxcheck("bless", "halved", "again", "--derive-tolerance", "--write", "--reason", "x")
    assert done.code == 1, done
    assert "not written: more.yaml:2:" in done.err
    assert "'tolerance' is &t, which other places share: paste it from above" in done.err
    lines = path.read_text().splitlines()
    assert lines[:2] == first[:2]
    assert "tolerance: {rtol: 2.0e-7, atol: 1.0e-6}" in lines[2]
    assert proposal(done.out)["halved"] == {"tolerance": HALVED}, "it can still be pasted"
    with Golden.open(loose.folder / "goldens" / "halved.npz") as golden:
        assert golden.case("only").tolerance["."]["rtol"] == 1e-4, "what is in force, not what was wished for"


def test_a_registry_that_cannot_be_written_stops_the_blessing(loose: Project) -> None:
    """Root ignores modes, so the path is as long as the system takes, and that of a temporary file beside it longer."""
    room = 4090 - len(str(loose.folder)) - len("/more.yaml")
    folders = ["f" * 200] * (room // 201)
    name = "/".join([*folders, "f" * (room - 201 * len(folders) - 1), "more.yaml"])
    loose.write(name, MORE)
    loose.write("recipes.yaml", f"version: 1\ninclude: [{name}]\n")
    before = loose.files()
    done = loose.jaxcheck("bless", "--derive-tolerance", "--write", "--reason", "x")
    assert done.code == 2, done
    assert "cannot be written" in done.err
    assert loose.files() == before


def test_stays_of_other_cases_count_and_what_is_kept_is_said(loose: Project) -> None:
    loose.bless("waves")
    loose.write("recipes.yaml", REGISTRY.replace("[-0.9, 0.0, 1.3]", "[-0.9, 0.0, 1.2]"))
    done = loose.bless("waves", "--derive-tolerance")
    assert "1 cases blessed, 1 kept" in done.out
    assert "leaf in 2 cases" in done.out, "the golden's other case has a floor, too"
    meta = meta_of(loose, "waves")["cases"]
    assert "derived" in meta["two"]["extra"]
    assert "derived" not in meta["one"]["extra"]
    done = loose.bless("waves", "--derive-tolerance")
    assert "--all blesses what passes as well" in done.err
    assert "\nrecipes:" not in done.out


@pytest.mark.parametrize(
    ("options", "told"),
    [(("--write",), "add --derive-tolerance"), (("--derive-tolerance", "--no-truth"), "--no-truth leaves out")],
)
def test_options_that_need_one_another(loose: Project, options: tuple[str, ...], told: str) -> None:
    before = loose.files()
    done = loose.jaxcheck("bless", "--reason", "x", *options)
    assert done.code == 2, done
    assert told in done.err
    assert loose.files() == before


CHAOS = """\
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  chaos:
    kernel: kernels:logistic_map
    cases: {wild: {args: {x: 0.3}}, still: {args: {x: 0.0}}}
"""


def test_an_ill_conditioned_output_needs_a_word(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", CHAOS)
    done = project.jaxcheck("bless", "--reason", "x")
    assert done.code == 1, done
    assert "blessed chaos::still" in done.out
    assert "refused chaos::wild: an output moves far for no reason: . is ill-conditioned" in done.err
    assert "write `conditioning: unstable` at recipes.yaml:4:3" in done.err
    assert "jaxcheck bless chaos::wild --allow conditioning" in done.err
    done = project.jaxcheck("bless", "--reason", "x", "--allow", "conditioning", "--derive-tolerance")
    assert done.code == 0, done
    assert "# wild . is passed over: unstable: 8 x its noise floor of " in done.out
    assert meta_of(project, "chaos")["cases"]["wild"]["extra"]["derived"]["tolerance"] == {}


def test_check_names_what_is_ill_conditioned_until_it_is_declared(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", CHAOS)
    project.bless("--allow", "conditioning")
    done = project.jaxcheck("check", "--static")
    assert done.code == 0, done
    assert "note: chaos::wild: . is ill-conditioned: its noise floor is " in done.err
    assert "at recipes.yaml:4:3" in done.err
    assert "still" not in done.err
    stable = CHAOS.replace("wild: {", "wild: {conditioning: stable,")
    project.write("recipes.yaml", stable)
    assert "ill-conditioned" in project.jaxcheck("check", "--static").err
    for place in ("    cases:", "wild: {"):
        said = (
            "    conditioning: unstable\n    cases:" if place.strip() == "cases:" else "wild: {conditioning: unstable, "
        )
        project.write("recipes.yaml", CHAOS.replace(place, said))
        assert "ill-conditioned" not in project.jaxcheck("check", "--static").err
    assert project.run()[0].code == 0, "nothing is stale for that"
    done = project.jaxcheck("bless", "--all", "--reason", "declared")
    assert "2 cases blessed" in done.out, done


def test_loosening_is_told_until_it_is_blessed(loose: Project) -> None:
    loose.bless("halved")

    def notes() -> list[str]:
        done, report = loose.run("halved")
        assert done.code == 0, done
        return [note for note in by_id(report)["halved::only[eager]"]["notes"] if "loosened" in note]

    assert notes() == []
    loose.write("more.yaml", MORE.replace("rtol: 1e-4, atol: 0", "rtol: 1e-5, atol: 0"))
    assert notes() == [], "tighter is no loosening"
    loose.write("more.yaml", MORE.replace("rtol: 1e-4, atol: 0", "rtol: 1e-4, atol: 1e-5"))
    assert len(notes()) == 1
    loose.bless("halved")
    assert len(notes()) == 1, "what passes is not blessed in passing, nor is its tolerance"
    assert "halved::only: the tolerance of . was loosened since the blessing" in loose.jaxcheck("check", "--static").err
    loose.bless("halved", "--all")
    assert notes() == []
    with Golden.open(loose.folder / "goldens" / "halved.npz") as golden:
        assert golden.case("only").tolerance["."]["atol"] == 1e-5
        assert golden.case("only").blessing.reason == "test"


@pytest.mark.parametrize(
    ("rtol", "atol", "told"),
    [
        (1e-6, 1e-6, False),
        (5e-7, 0.0, False),
        (2e-6, 1e-6, True),
        (1e-6, 2e-6, True),
        (2e-6, 0.0, True),  # wider for large elements, whatever it is for small ones
        (0.0, 2e-6, True),
    ],
)
def test_the_ratchet_as_a_table(rtol: float, atol: float, told: bool) -> None:
    blessed = {"['a']": {"rtol": 1e-6, "atol": 1e-6, "source": "old:1:1"}}
    now = {"['a']": Tolerance(rtol, atol, "new:2:2"), "['new']": Tolerance(1.0, 1.0, "new:3:3")}
    found = loosened(blessed, now)
    assert bool(found) == told, "a leaf that the golden does not know has nothing to be wider than"
    if told:
        (words,) = found
        for part in ("['a']", f"1e-06 -> {rtol:g}", f"1e-06 -> {atol:g}", "new:2:2"):
            assert part in words
