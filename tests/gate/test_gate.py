"""The gate between real releases, by the real command: what moved is found, and nothing else.

Each test builds its environments from the package index, in an empty cache.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Done, Project, by_id

pytestmark = [
    pytest.mark.needs_jax,
    pytest.mark.one_version,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        importlib.metadata.version("jax") != "0.11.2", reason="the baseline of these is the default environment, 0.11.2"
    ),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache of environments; those that one test built are there for the next."""
    return tmp_path_factory.mktemp("cache")


def gate(project: Project, cache: Path, *args: str) -> tuple[Done, dict[str, Any]]:
    report = project.folder / "gate.json"
    command = ("gate", "--shipped", "-o", str(report), *args)
    done = project.jaxcheck(*command, timeout=1400, JAXCHECK_CACHE=str(cache))
    return done, json.loads(report.read_text()) if report.exists() else {}


def moved(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """{(check, leaf): leaf} of every leaf that moved."""
    return {
        (result["id"], leaf["path"]): leaf
        for result in report["results"]
        for leaf in result["leaves"]
        if leaf["bit_equal"] < leaf["size"] or leaf["reason"]
    }


@pytest.mark.long
def test_from_0_11_2_to_0_12_0_1_on_all_shipped_recipes(project: Project, cache: Path) -> None:
    done, report = gate(project, cache, "--to", "jax==0.12.0.1")
    assert (done.code, report["verdict"]) == (1, "review"), done
    assert (report["from"]["environment"]["jax"], report["to"]["environment"]["jax"]) == ("0.11.2", "0.12.0.1")
    assert {change["name"]: change["asked"] for change in report["packages"]} == {"jax": True, "jaxlib": False}
    assert {concern["kind"] for concern in report["concerns"]} == {"improved"}

    verdicts = {result["id"]: result["verdict"] for result in report["results"]}
    improved = {check for check, verdict in verdicts.items() if verdict == "improved"}
    assert improved == {f"lgamma-near-roots::{case}[{mode}]" for case in ("one", "two") for mode in ("eager", "jit")}
    assert not {"regressed", "changed", "broken", "unstable"} & set(verdicts.values())

    leaves = moved(report)
    for (check, _), leaf in leaves.items():
        assert leaf["cause"] in ("jax", "xla"), (check, leaf["because"])
        if check in improved:
            assert leaf["cause"] == "jax"
            assert "the old program gives the old bits on the new runtime" in leaf["because"]
            assert leaf["error_to_truth"]["golden"] > 100 * leaf["error_to_truth"]["actual"]
    xla = {check for (check, _), leaf in leaves.items() if leaf["cause"] == "xla"}
    for recipe in ("block-step", "attention"):  # a layer norm and gelu with its gradient; attention with its own
        assert any(check.startswith(recipe) and check.endswith("[jit]") for check in xla), sorted(xla)


def test_from_0_11_2_to_0_12_0_1_on_a_few(project: Project, cache: Path) -> None:
    names = ("lgamma-near-roots", "newton-sqrt", "block-step", "--to", "jax==0.12.0.1")
    done, report = gate(project, cache, *names)
    assert (done.code, report["verdict"]) == (1, "review"), done
    assert "jaxcheck gate … --allow improved" in done.out
    assert "installing" in done.err or "cached environment" in done.err
    causes = {(check.partition("::")[0], leaf["verdict"], leaf["cause"]) for (check, _), leaf in moved(report).items()}
    assert ("lgamma-near-roots", "improved", "jax") in causes
    assert ("block-step", "drifted", "xla") in causes

    # The environment is there now: nothing is installed, and what was seen can be allowed.
    names = ("lgamma-near-roots::one[jit]", "--to", "jax==0.12.0.1", "--allow", "improved,slower", "--latency", "5")
    again, report = gate(project, cache, *names)
    assert (again.code, report["verdict"]) == (0, "review"), again
    assert "installing" not in again.err
    (result,) = report["results"]
    for latency in (result["latency"], result["baseline"]["latency"]):
        assert len(latency["rounds"]) == len(latency["compiling"]) == 5
        assert min(latency["rounds"]) > 0


@pytest.mark.long
def test_from_0_10_2_to_0_11_2(project: Project, cache: Path) -> None:
    names = ("exp-of-nan", "tanh-network-gradient", "newton-sqrt")
    done, report = gate(project, cache, *names, "--from", "jax==0.10.2", "--to", "jax==0.11.2")
    assert (done.code, report["verdict"]) == (1, "review"), done
    results = by_id(report)
    for case in ("ordinary", "zeros", "large"):
        jit = results[f"exp-of-nan::{case}[jit]"]
        assert jit["verdict"] == "unstable"
        assert "by its golden the baseline is wrong, the candidate right" in jit["reason"]
        assert (jit["baseline"]["status"], jit["golden_status"]) == ("fail", "pass")
        differ = [leaf for (check, _), leaf in moved(report).items() if check == jit["id"]]
        assert {leaf["cause"] for leaf in differ} == {"xla"}
        by_chance = [leaf for leaf in differ if leaf["mismatched"] == 0]  # NaN everywhere, of another kind
        assert {leaf["verdict"] for leaf in by_chance} <= {"drifted"}
        assert {leaf["verdict"] for leaf in differ if leaf not in by_chance} == {"improved"}
        assert results[f"exp-of-nan::{case}[eager]"]["verdict"] == "unchanged"
    tanh = {key: leaf for key, leaf in moved(report).items() if key[0].startswith("tanh-network-gradient")}
    assert tanh
    assert {leaf["cause"] for leaf in tanh.values()} == {"jax"}
    assert {result["verdict"] for check, result in results.items() if check.startswith("newton")} == {"unchanged"}


@pytest.mark.long
def test_optax_alone(project: Project, cache: Path) -> None:
    done, report = gate(project, cache, "-k", "optimis or schedule or train or finite", "--to", "optax==0.2.8")
    assert report["verdict"] in ("pass", "review"), done
    assert {change["name"] for change in report["packages"] if change["asked"]} == {"optax"}
    assert report["from"]["environment"]["jax"] == report["to"]["environment"]["jax"]
    for (check, _), leaf in moved(report).items():
        assert (leaf["cause"], leaf["package"]) == ("package", "optax"), (check, leaf["because"])


@pytest.mark.long
def test_downgrading_reads_right(project: Project, cache: Path) -> None:
    """An export of a newer jax is not loaded by an older one: that is undetermined, and no crash."""
    names = ("lgamma-near-roots", "tanh-network-gradient")
    done, report = gate(project, cache, *names, "--from", "jax==0.12.0.1", "--to", "jax==0.10.2")
    assert (done.code, report["verdict"]) == (1, "block"), done
    lgamma = {key: leaf for key, leaf in moved(report).items() if key[0].startswith("lgamma")}
    assert {leaf["verdict"] for leaf in lgamma.values()} == {"regressed"}
    for leaf in moved(report).values():
        assert leaf["cause"] in ("jax", "xla", "both", "undetermined")
        assert leaf["because"]
    assert "--good 0.12.0.1 --bad 0.10.2" in done.out


def test_what_cannot_be_asked(project: Project, cache: Path) -> None:
    for arguments, why in (
        ((), "nothing is to move"),
        (("--to", "jax==0.12.0.1", "--to-python", "python"), "--to-python is an environment as it stands"),
        (("--to", "jax==0.12.0.1", "--allow", "broken"), "broken blocks, and cannot be allowed"),
        (("--to", "jax=="), "jax=="),
        (("no-such-recipe", "--to", "jax==0.12.0.1"), "no recipe matches"),
    ):
        done, _ = gate(project, cache, *arguments)
        assert (done.code, done.out) == (2, ""), done
        assert why in done.err
    done, _ = gate(project, cache, "--to", "jax==99.0")
    assert done.code == 4, done
    assert "jax==99.0" in done.err
    done, _ = gate(project, cache, "-k", "no-such-check", "--to", "jax==0.12.0.1")
    assert (done.code, done.out) == (5, ""), done
    done, _ = gate(project, cache, "newton-sqrt", "--mode", "sharded", "--to", "jax==0.11.1")
    assert (done.code, done.out) == (5, ""), done
    assert "resolving" not in done.err, "no environment is built for nothing"


@pytest.mark.long
def test_one_package_at_a_time_and_since_when(project: Project, cache: Path) -> None:
    names = ("lgamma-near-roots", "optimisers*", "--to", "jax==0.12.0.1", "--to", "optax==0.2.8")
    done, report = gate(project, cache, *names, "--isolate", "--since")
    assert report["verdict"] == "review", done
    for (check, _), leaf in moved(report).items():
        if check.startswith("lgamma"):
            assert (leaf["cause"], leaf["since"]) == ("jax", "jax 0.12.0")
            assert "with only jax moved, it has the candidate's bits" in leaf["because"]
        elif "with only optax moved" in leaf["because"]:
            assert (leaf["cause"], leaf["package"]) == ("package", "optax")
