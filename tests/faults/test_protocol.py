"""A worker that dies at any message: every check has a named status, what was not verified is not green, and the others
are what they would have been.

A death over a check costs that check; one over anything else costs nothing: a start and a preparation are repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import killed_at, messages
from tests.harness import Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

KERNELS = """
import os

def double(x):
    return 2 * x

def moved(x):
    return 2 * x + float(os.environ.get("MOVED", 0))
"""
HEAD = "version: 1\ndefaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}\nrecipes:\n"
MOMENTS = ("received", "answered", "half", "sent")


def project_of(folder: Path, recipes: dict[str, str]) -> Project:
    """Recipes by name and kernel, blessed; those that move fail from now on."""
    project = Project(folder)
    project.write("kernels.py", KERNELS)
    lines = [
        f"  {name}: {{kernel: kernels:{kernel}, cases: {{s: {{args: {{x: [1.0]}}}}}}}}\n"
        for name, kernel in recipes.items()
    ]
    project.write("recipes.yaml", HEAD + "".join(lines))
    project.bless("--no-truth")
    return project


def run(project: Project, plan: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    done, report = project.run("-j", "1", MOVED="1", **killed_at(folder, worker=plan))
    assert done.code == 1, done
    return report


def test_deaths_at_messages_of_every_kind(tmp_path: Path) -> None:
    recipes = dict.fromkeys(("eager", "jit", "prepared", "half", "sent", "last"), "double")
    project = project_of(tmp_path / "project", {"moved": "moved", **recipes})
    plan = [
        {"moment": "received", "op": "start"},
        {"moment": "received", "op": "export", "recipe": "moved"},
        {"moment": "received", "op": "check", "recipe": "eager", "mode": "eager"},
        {"moment": "answered", "op": "check", "recipe": "jit", "mode": "jit"},
        {"moment": "received", "op": "prepare", "recipe": "prepared"},
        {"moment": "half", "op": "check", "recipe": "half", "mode": "eager"},
        {"moment": "sent", "op": "check", "recipe": "sent", "mode": "jit"},
    ]
    report = run(project, plan, tmp_path / "kills")
    lost = {"eager::s[eager]", "jit::s[jit]", "half::s[eager]"}
    expected = {f"{recipe}::s[{mode}]": "pass" for recipe in recipes for mode in ("eager", "jit")}
    expected |= dict.fromkeys(lost, "crash") | dict.fromkeys(("moved::s[eager]", "moved::s[jit]"), "fail")
    found = statuses(report)
    assert found == expected
    assert all("signal 9 (SIGKILL)" in by_id(report)[check]["reason"] for check in lost)
    assert len(list((tmp_path / "kills").glob("done-*"))) == len(plan), "every one of them came"


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_death_at_every_message(tmp_path: Path, moment: str) -> None:
    project = project_of(tmp_path / "project", {"first": "double", "moved": "moved", "last": "double"})
    before = project.files()
    whole = statuses(run(project, [], tmp_path / "none"))
    sent = messages(tmp_path / "none")
    assert len(sent) >= 11
    for n, message in enumerate(sent, 1):
        folder = tmp_path / f"kill-{n}"
        report = run(project, [{"moment": moment, "n": n}], folder)
        assert (folder / "done-0").exists(), message
        found = statuses(report)
        assert found.keys() == whole.keys(), message
        changed = {check for check in whole if found[check] != whole[check]}
        assert {found[check] for check in changed} <= {"crash"}, message
        assert changed <= may_change(sent, n, moment), message
        assert {name: content for name, content in project.files().items() if name in before} == before


def may_change(sent: list[str], n: int, moment: str) -> set[str]:
    """The check that the death may cost: its own; after its reply was sent, the next one, where the worker's end is not
    noticed in time."""
    words = [message.split() for message in (sent[n - 1 : n + 1] if moment == "sent" else sent[n - 1 : n])]
    return {f"{recipe}::s[{mode}]" for op, recipe, mode in (w for w in words if w[0] == "check")}


@pytest.mark.long
def test_a_death_at_every_message_of_a_blessing(tmp_path: Path) -> None:
    """The golden is the old one or the new one, and whole; what was not blessed is told."""
    project = project_of(tmp_path / "project", {"first": "moved", "second": "moved"})
    old = project.files()
    state = {path: path.read_bytes() for path in (project.folder / ".jaxcheck").rglob("*") if path.is_file()}
    n = 0
    while True:
        n += 1
        folder = tmp_path / f"kill-{n}"
        done = project.jaxcheck(
            "bless", "--reason", "t", MOVED="1", **killed_at(folder, worker=[{"moment": "received", "n": n}])
        )
        if not (folder / "done-0").exists():
            assert done.code == 0, done
            break
        assert done.code in (0, 1), done
        refused = {
            line.split()[1].rstrip(":").partition("::")[0]
            for line in done.err.splitlines()
            if line.startswith("refused")
        }
        assert (done.code == 1) == bool(refused), done
        checked = project.jaxcheck("check", "--static")
        assert checked.code == 0, checked
        for name, content in old.items():
            path = project.folder / name
            if name.endswith(".npz"):
                assert (path.read_bytes() == content) == (path.stem in refused), (n, name)
                path.write_bytes(content)
        for path, content in state.items():
            path.write_bytes(content)
    assert n > 10
