"""`review` by the real command in a real terminal; what it writes is asserted on the file tree."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxcheck.goldens.golden import Golden, GoldenCase
from tests.harness import Project, clean_environment

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

# Makes the terminal the process's own, so that Ctrl-C is a signal; between fork and exec, JAX would complain of a fork.
IN_CHARGE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
KERNELS = """
import jax.numpy as jnp

SHIFT = 0.0

def shifted(x):
    return {"y": x + SHIFT}

def product(x):
    return jnp.prod(x / 500) + SHIFT
"""

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  shifted:
    kernel: "kernels:shifted"
    cases: {one: {args: {x: [1.0]}}, two: {args: {x: [3.0]}}, three: {args: {x: [4.0]}}}
  other: {kernel: "kernels:shifted", cases: {one: {args: {x: [5.0]}}, gone: {args: {x: [6.0]}}}}
  braked:
    kernel: "kernels:product"
    cases: {only: {args: {x: {$linspace: {start: 100, stop: 900, num: 20}}}, nonfinite: allow}}
"""
ITEMS = ["shifted::one", "shifted::two", "shifted::three", "other::one", "other::gone", "braked::only"]


@pytest.fixture(scope="module")
def reviewable(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Every case moved since it was blessed, one left the registry, and of one the modes disagree."""
    project = Project(tmp_path_factory.mktemp("reviewable"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.bless("--allow", "modes")
    project.write("kernels.py", KERNELS.replace("SHIFT = 0.0", "SHIFT = 0.5"))
    project.write("recipes.yaml", REGISTRY.replace(", gone: {args: {x: [6.0]}}", ""))
    assert project.jaxcheck("run").code == 1
    return project


@pytest.fixture
def moved(reviewable: Project, tmp_path: Path) -> Project:
    """A copy: its last run is of the same bytes."""
    shutil.copytree(reviewable.folder, tmp_path / "copy")
    return Project(tmp_path / "copy")


class Terminal:
    """The command at a terminal, a person before it."""

    def __init__(self, project: Project, *args: str, **environment: str) -> None:
        self.side, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_CHARGE, *project.command("review", *args)],
            cwd=project.folder,
            env=clean_environment(**{"TERM": "xterm", **environment}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> str:
        """What is shown up to and with this text, or to the end where that is empty."""
        seen, end = "", time.monotonic() + 60
        while not text or text not in seen:
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"no {text or 'end'!r} after {self.shown}{seen}")
            if not select.select([self.side], [], [], 1)[0]:
                continue
            try:
                part = os.read(self.side, 1 << 16)
            except OSError:  # the other side was closed
                part = b""
            assert part or not text, f"ended before {text!r}: {self.shown}{seen}"
            if not part:
                break
            seen += part.decode()
        self.shown += seen
        return seen

    def press(self, keys: str, after: str = "quit [q]? ") -> str:
        """Once the question is asked; what was shown until then."""
        seen = self.until(after)
        os.write(self.side, keys.encode())
        return seen

    def end(self) -> int:
        self.until("")
        os.close(self.side)
        return self.process.wait(30)


def held(project: Project, recipe: str) -> dict[str, GoldenCase]:
    with Golden.open(project.folder / "goldens" / f"{recipe}.npz") as golden:
        return {case: golden.case(case) for case in golden.cases}


def waiting(project: Project) -> list[str]:
    done = project.jaxcheck("review", "--list", "--json")
    return [item["name"] for item in json.loads(done.out)["items"]] if done.code == 0 else []


def changed(project: Project, before: dict[str, bytes]) -> set[str]:
    after = project.files()
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_accepting_rejecting_and_skipping_write_exactly_what_was_accepted(moved: Project) -> None:
    before, old = moved.files(), held(moved, "shifted")
    with Golden.open(moved.folder / ".jaxcheck" / "candidates" / "shifted.npz") as candidates:
        candidate = candidates.case("one")
    terminal = Terminal(moved)
    first = terminal.press("l")
    assert "[1/6] shifted::one" in first
    assert "x the tolerance" in first
    assert "regressed: error to truth 0 -> 0.5;" in first
    assert "noise floors" in first
    assert "['y']: float32[1]" in terminal.press("d")
    assert "shifted::one" in terminal.press("a"), "the diff names its case"
    terminal.press("half a step\n", after="for all that is accepted: ")
    assert "[2/6] shifted::two" in terminal.press("r")
    assert "[3/6] shifted::three" in terminal.press("s")
    assert "[4/6] other::one" in terminal.press("q")
    assert terminal.end() == 0, terminal.shown
    assert "1 accepted, 1 rejected, 1 skipped, 3 left; 1 golden files written" in terminal.shown
    assert changed(moved, before) == {"goldens/shifted.npz"}
    now = held(moved, "shifted")
    assert (now["two"], now["three"]) == (old["two"], old["three"])
    assert now["one"].outputs == candidate.outputs
    assert now["one"].blessing.reason == "half a step"
    assert now["one"].blessing.environment == candidate.blessing.environment
    assert now["one"].truth is not None, "as a blessing does"
    assert now["one"].extra["floor"]
    assert waiting(moved) == [name for name in ITEMS if name not in ("shifted::one", "shifted::two")]


def test_the_rest_is_accepted_but_what_is_held_back(moved: Project) -> None:
    before = moved.files()
    terminal = Terminal(moved, "--no-truth", "--reason", "meant")
    terminal.press("s")
    terminal.press("A")
    assert terminal.end() == 1, terminal.shown
    assert "refused braked::only" in terminal.shown
    assert changed(moved, before) == {"goldens/shifted.npz", "goldens/other.npz"}
    assert held(moved, "other").keys() == {"one"}, "the case that left the registry left the golden"
    assert waiting(moved) == ["shifted::one", "braked::only"]
    kept = list((moved.folder / ".jaxcheck" / "history" / "shifted").iterdir())
    assert [path.read_bytes() for path in kept] == [before["goldens/shifted.npz"]], "one write a recipe"


def test_what_is_held_back_says_how_to_insist_and_allow_does(moved: Project) -> None:
    terminal = Terminal(moved, "braked", "--no-truth", "--reason", "meant")
    shown = terminal.press("a")
    assert "held back: the modes disagree" in shown
    assert "jaxcheck bless braked::only --allow modes" in shown
    assert "refused braked::only" in terminal.press("q"), "the question is asked again"
    assert terminal.end() == 1
    before = moved.files()
    terminal = Terminal(moved, "braked", "--no-truth", "--reason", "meant", "--allow", "modes", "--allow", "nonfinite")
    terminal.press("a")
    assert terminal.end() == 0, terminal.shown
    assert changed(moved, before) == {"goldens/braked.npz"}


def test_ctrl_c_keeps_what_was_accepted_before(moved: Project) -> None:
    before = moved.files()
    terminal = Terminal(moved, "--no-truth", "--reason", "meant")
    terminal.press("a")
    terminal.press("\x1b[A")  # an arrow is no answer
    terminal.press("\x03")
    assert terminal.end() == 130, terminal.shown
    assert changed(moved, before) == {"goldens/shifted.npz"}
    assert waiting(moved) == ITEMS[1:]


def test_a_plain_terminal_takes_lines_and_no_reason_accepts_nothing(moved: Project) -> None:
    before = moved.files()
    terminal = Terminal(moved, "other", "--no-truth", TERM="dumb")
    terminal.press("a\n")
    terminal.press("\n", after="for all that is accepted: ")
    assert "without a reason" in terminal.press("r\n")
    terminal.press("\x04")
    assert terminal.end() == 0, terminal.shown
    assert changed(moved, before) == set()


def test_a_list_needs_no_terminal_and_writes_nothing(moved: Project) -> None:
    before = moved.files()
    done = moved.jaxcheck("review", "--list", CI="true")
    assert done.code == 0, done
    assert "other::gone\n  the registry no longer has this case" in done.out
    items = json.loads(moved.jaxcheck("review", "--list", "--json").out)["items"]
    assert [item["name"] for item in items] == ITEMS
    assert [item["action"] for item in items] == ["bless"] * 4 + ["drop", "refuse"]
    assert items[-1]["override"] == "--allow modes"
    leaf = items[0]["leaves"][0]
    assert leaf["verdict"] == "regressed"
    assert leaf["error_to_truth"] == {"golden": 0.0, "actual": 0.5}
    assert leaf["floors"] > 1
    assert moved.files() == before


def test_without_a_terminal_it_says_what_to_type(moved: Project) -> None:
    done = moved.jaxcheck("review")
    assert done.code == 2
    assert all(command in done.err for command in ("review --list", "bless NAME", "reject NAME"))
    assert moved.jaxcheck("review", "--json").code == 2


def test_ci_writes_nothing_without_yes(moved: Project) -> None:
    before = moved.files()
    terminal = Terminal(moved, CI="true")
    assert terminal.end() == 1
    assert "--yes" in terminal.shown
    assert moved.files() == before


def test_a_run_that_is_not_of_these_sources_is_not_reviewed(moved: Project) -> None:
    (moved.folder / "recipes.yaml").write_text((moved.folder / "recipes.yaml").read_text() + "# later\n")
    done = moved.jaxcheck("review", "--list")
    assert done.code == 2, done
    assert "the registry changed since" in done.err
    assert "jaxcheck run" in done.err


def test_nothing_to_review(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    done = project.jaxcheck("review", "--list")
    assert done.code == 5, done
    assert "there is no last run" in done.err
