"""`jaxcheck bisect`, whole: a package of six releases in a folder, and a kernel whose numbers it moves."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.gate.environments.installers import find_uv
from jaxcheck.gate.environments.reasons import NETWORK
from tests.gate.packages import make_wheel
from tests.harness import Done, Project, clean_environment

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version, pytest.mark.slow, pytest.mark.timeout(900)]
needs_installer = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="this environment has no pip to list releases with"
)

# What `slope` and `shift` are in each release; 1.3 cannot be installed, 1.4 raises.
RELEASES = {
    "1.0": "slope, shift = 3.0, 0.0",
    "1.1": "slope, shift = 3.0, 0.0",
    "1.2": "slope, shift = 3.0, 2.0 ** -20",
    "1.3": "slope, shift = 3.0, 2.0 ** -20",
    "1.4": "raise RuntimeError('1.4 does not import')",
    "1.5": "slope, shift = 4.0, 2.0 ** -20",
}
KERNELS = """
import jax.numpy as jnp
import numpy as np

def line(x):
    import ruler
    return {"sloped": x * ruler.slope, "shifted": x + ruler.shift, "same": x * 2}

def line_reference(x):
    return {"sloped": np.float64(x) * 3, "shifted": np.float64(x), "same": np.float64(x) * 2}
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-5, atol: 1e-5}}}
recipes:
  line:
    kernel: "kernels:line"
    reference: "kernels:line_reference"
    cases: {plain: {args: {x: [1.0, 2.0, 4.0]}}}
  other:
    kernel: "kernels:line"
    when: {jax: "<0.1"}
    cases: {plain: {args: {x: [1.0]}}}
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the package is, beside all that this machine's pip knows; and a cache, for all tests here together."""
    wheels = tmp_path_factory.mktemp("wheels")
    for version, body in RELEASES.items():
        requires = ["no-such-package>=7"] if version == "1.3" else []
        make_wheel(wheels, "ruler", version, requires, body=f"{body}\n")
    links = " ".join(filter(None, [os.environ.get("PIP_FIND_LINKS", ""), str(wheels)]))
    return {"PIP_FIND_LINKS": links, "JAXCHECK_CACHE": str(tmp_path_factory.mktemp("cache"))}


@dataclass(frozen=True)
class Ruled(Project):
    """A project whose kernel uses the package."""

    variables: dict[str, str] = field(default_factory=dict)

    def bisect(self, *args: str) -> tuple[Done, dict[str, Any]]:
        report = self.folder / "bisection.json"
        report.unlink(missing_ok=True)
        given = ("bisect", *args, "--package", "ruler", "-o", str(report))
        done = self.jaxcheck(*given, timeout=800, **self.variables)
        return done, json.loads(report.read_text()) if report.exists() else {}


@pytest.fixture
def ruler(tmp_path: Path, variables: dict[str, str]) -> Ruled:
    project = Ruled(tmp_path, variables)
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    return project


def answers(report: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str, str]]:
    return {(a["check"], a["path"]): (a["state"], a["last_good"], a["first_bad"]) for a in report["answers"]}


def runs(report: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return [(probe["version"], probe["attempt"], probe["reused"]) for probe in report["probes"]]


@needs_installer
def test_every_output_that_moved_is_found_over_runs_that_they_share(ruler: Ruled) -> None:
    done, report = ruler.bisect("line", "--good", "1.0", "--bad", "1.5")
    assert done.code == 1, done  # `sloped` moved behind two releases that can tell nothing
    assert report["releases"] == ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]
    assert answers(report) == {
        ("line::plain[eager]", "['shifted']"): ("found", "1.1", "1.2"),
        ("line::plain[jit]", "['shifted']"): ("found", "1.1", "1.2"),
        ("line::plain[eager]", "['sloped']"): ("range", "1.2", "1.5"),
        ("line::plain[jit]", "['sloped']"): ("range", "1.2", "1.5"),
    }
    sloped = next(answer for answer in report["answers"] if answer["path"] == "['sloped']")
    assert sloped["skipped"] == ["1.3", "1.4"]
    made = [(version, attempt) for version, attempt, _ in runs(report)]
    assert len(made) == len(set(made))
    assert made[:3] == [("1.0", "baseline"), ("1.0", "first"), ("1.5", "first")]
    assert {version for version, attempt in made if attempt == "again"} == {"1.1", "1.2", "1.5"}
    skipped = {probe["version"]: probe["reason"] for probe in report["probes"] if not probe["folder"]}
    assert "no-such-package" in skipped["1.3"]
    broken = next(probe for probe in report["probes"] if probe["version"] == "1.4")
    assert "1.4 does not import" in broken["reason"]
    text = " ".join(done.out.split())
    assert (
        "line::plain[eager,jit] ['shifted'] moved first in ruler 1.2 (1.1 is the last that gives the old bits), "
        "confirmed on both neighbours" in text
    )
    assert (
        "line::plain[eager,jit] ['sloped'] moved first in one of ruler 1.3, 1.4, 1.5 (1.2 is the last that gives "
        "the old bits" in text
    )
    assert done.out.splitlines()[-1].startswith("2 found, 2 to a range only; ")

    # The same again: nothing is run. Another predicate: the same runs tell that too.
    again, second = ruler.bisect("line", "--good", "1.0", "--bad", "1.5")
    assert answers(second) == answers(report)
    assert all(reused for _, _, reused in runs(second))
    assert "runs are there (--restart forgets them)" in again.err
    assert "resolving" not in again.err
    within, third = ruler.bisect("line", "--good", "1.0", "--bad", "1.5", "--predicate", "tolerance")
    assert {path for _, path in answers(third)} == {"['sloped']"}
    assert within.code == 1
    assert all(reused for _, _, reused in runs(third))

    # A kernel that changed is another kernel.
    ruler.write("kernels.py", KERNELS.replace("x * 2", "x * 5"))
    fresh, fourth = ruler.bisect("line", "--good", "1.0", "--bad", "1.2")
    assert fresh.code == 0, fresh
    assert not any(reused for _, _, reused in runs(fourth))
    assert set(answers(fourth).values()) == {("found", "1.1", "1.2")}


@needs_installer
@pytest.mark.long
def test_downwards_by_the_golden_and_by_exceptions(ruler: Ruled) -> None:
    done, report = ruler.bisect("line", "--good", "1.2", "--bad", "1.0", "--mode", "jit")
    assert done.code == 0, done
    assert report["releases"] == ["1.2", "1.1", "1.0"]
    assert answers(report) == {("line::plain[jit]", "['shifted']"): ("found", "1.2", "1.1")}

    done, report = ruler.bisect("line", "--good", "1.2", "--bad", "1.4", "--predicate", "error", "--mode", "jit")
    assert done.code == 1, done
    assert answers(report) == {("line::plain[jit]", ""): ("range", "1.2", "1.4")}
    assert "broke first in one of ruler 1.3, 1.4 (1.2 is the last that runs" in " ".join(done.out.split())

    done, report = ruler.bisect("line", "--good", "1.0", "--bad", "1.1")
    assert done.code == 1, done
    assert report["answers"] == []
    assert "not found: between ruler 1.0 and 1.1 nothing differs" in " ".join(done.out.split())

    done, report = ruler.bisect("line", "--good", "1.0", "--bad", "1.5", "--predicate", "golden", "--mode", "jit")
    assert done.code == 1, done
    assert report["answers"] == []
    assert "line::plain[jit]: at the good end: " in " ".join(done.out.split())  # nothing was blessed


@needs_installer
def test_what_cannot_be_meant_or_had_ends_before_anything_is_run(ruler: Ruled) -> None:
    for args, code, words in [
        (("lime", "--good", "1.0", "--bad", "1.5"), 2, "no recipe matches 'lime'"),
        (("line", "--good", "1.0", "--bad", "1.0"), 2, "--good and --bad are both 1.0"),
        (("line", "--good", "one", "--bad", "1.0"), 2, "'one' is not a version"),
        (("line", "--good", "1.0", "--bad", "1.5", "--predicate", "worse"), 2, "worse"),
        (("line", "--good", "1.0", "--bad", "1.5", "--from", "ruler==1.1"), 2, "is about ruler"),
        (("line", "--good", "1.0", "--bad", "1.5", "-k", "nothing-of-it"), 5, "nothing is selected"),
        (("line", "--good", "1.0", "--bad", "9.9"), 4, "--bad 9.9: no ruler 9.9 is offered"),
        (("line", "--good", "1.3", "--bad", "1.5"), 4, "--good 1.3: "),
    ]:
        done, report = ruler.bisect(*args)
        assert done.code == code, (args, done)
        assert words in done.err, done
        assert "Traceback" not in done.err
        assert not report
        assert "baseline" not in done.err
    done = ruler.jaxcheck("bisect", "line", "--good", "1", "--bad", "2", "-o", "report.txt")
    assert done.code == 2
    assert "valid: .json" in done.err


@needs_installer
def test_checks_that_run_at_neither_end_are_nothing_verified(ruler: Ruled) -> None:
    done, _ = ruler.bisect("other", "--good", "1.0", "--bad", "1.2")
    assert done.code == 5, done
    assert "no check ran at both ends: skipped by the baseline" in done.err
    assert "gate: always" in done.err


@needs_installer
@pytest.mark.long
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on(ruler: Ruled, stop: signal.Signals) -> None:
    args = ["bisect", "line", "--mode", "jit", "--good", "1.0", "--bad", "1.2", "--package", "ruler"]
    process = subprocess.Popen(
        ruler.command(*args),
        cwd=ruler.folder,
        env=clean_environment(**ruler.variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    logged = 0
    deadline = time.monotonic() + 600
    while logged < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        logs = list((ruler.folder / ".jaxcheck/bisect").glob("*.json"))
        logged = len(json.loads(logs[0].read_text())["entries"]) if logs else 0
    assert process.poll() is None, "it was over before it could be stopped"
    os.killpg(process.pid, stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if stop is signal.SIGINT else -stop), err

    done, report = ruler.bisect(*args[1:-2])
    assert done.code == 0, done
    assert f"going on from {ruler.folder}" in done.err.replace("\n", "")
    reused = [(version, attempt) for version, attempt, reused in runs(report) if reused]
    assert reused[:3] == [("1.0", "baseline"), ("1.0", "first"), ("1.2", "first")]
    assert any(not reused for _, _, reused in runs(report))
    assert set(answers(report).values()) == {("found", "1.1", "1.2")}

    done, report = ruler.bisect(*args[1:-2], "--restart")
    assert done.code == 0, done
    assert not any(reused for _, _, reused in runs(report))


def test_uv_or_pip_is_there() -> None:
    """Else every other test here was skipped, and nobody would know."""
    assert find_uv() or importlib.util.find_spec("pip"), "neither uv nor pip: install jaxcheck[gate]"


def test_help_has_an_example(project: Project) -> None:
    done = project.jaxcheck("bisect", "--help")
    assert done.code == 0
    assert "jaxcheck bisect lgamma-near-roots --good 0.11.2 --bad 0.12.0.1" in " ".join(done.out.split())


@needs_installer
@pytest.mark.long
def test_the_release_that_moved_lgamma(project: Project) -> None:
    """With the real packages. By hand, lgamma(1.0000542) is -3.0994e-5 in jax 0.11.2 and -3.1306e-5 in 0.12.0."""
    given = ("bisect", "lgamma-near-roots::one", "--mode", "jit", "--shipped", "--good", "0.11.2", "--bad", "0.12.0.1")
    report = project.folder / "report.json"
    done = project.jaxcheck(*given, "-o", str(report), timeout=800, JAXCHECK_CACHE=str(project.folder / "cache"))
    if done.code == 4 and NETWORK.search(done.err):
        pytest.skip(f"the index cannot be reached: {done.err}")
    assert done.code == 0, done
    found = json.loads(report.read_text())
    assert answers(found) == {("lgamma-near-roots::one[jit]", "."): ("found", "0.11.2", "0.12.0")}
    assert found["releases"] == ["0.11.2", "0.12.0", "0.12.0.1"]
    assert ["jaxlib", "0.11.2", "0.12.0"] in [[c["name"], c["before"], c["after"]] for c in found["answers"][0]["also"]]
