"""The first registry: what init finds out about functions, and that all it prints works as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from jaxcheck.execution import examine
from jaxcheck.execution.initial import tell_git
from jaxcheck.registry.compose import Sketch, registry_text
from tests.harness import Done, Project

KERNELS = '''
from __future__ import annotations

import jax
import jax.numpy as jnp


def forward(x, w):
    """One layer.

    x: float32[batch, features]
    w: float32[features, 5]
    """
    return jnp.tanh(x @ w)


def scores(query, key):
    """query, key: float32[tokens, 6]"""
    return query @ key.T


def logit(p, scale=1.0):
    return scale * (jnp.log(p) - jnp.log1p(-p))


def noise(key, x: "Float[Array, 'n']"):
    return x + jax.random.normal(key, x.shape)


def power(x, n):
    for _ in range(n):
        x = x * x
    return x


def branch(x):
    return x if x > 0 else -x
'''
FUNCTIONS = [f"mypkg.model:{name}" for name in ("forward", "scores", "logit", "noise", "power", "branch")]


def test_it_refuses_what_it_cannot_do(project: Project) -> None:
    registry = project.write("recipes.yaml", "version: 1\n")
    done = project.jaxcheck("init", "mypkg.model:forward")
    assert done.code == 2
    assert "is there already" in done.err
    assert "--force" in done.err
    assert registry.read_text() == "version: 1\n"
    done = project.jaxcheck("init", "mypkg/model.py:forward", "--registry", "other.yaml")
    assert done.code == 2
    assert "write mypkg.model:forward" in done.err
    assert list(project.files()) == ["recipes.yaml"]


def test_no_function_loses_its_recipe_to_another_of_nearly_its_name() -> None:
    kernels = ["m:f", "m:_f", "m:f_", "n:f", "m:g_h", "m:__", "m.n:g"]
    recipes = yaml.safe_load(registry_text([Sketch(kernel) for kernel in kernels])[0])["recipes"]
    assert [recipe["kernel"] for recipe in recipes.values()] == kernels
    assert list(recipes) == ["m.f", "m._f", "m.f_", "n.f", "g-h", "m.__", "g"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b".jaxcheck/\n"),
        (b"*.log", b"*.log\n.jaxcheck/\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r\n.jaxcheck/\r\n"),
        (b"caf\xe9\n", b"caf\xe9\n.jaxcheck/\n"),
        (b".jaxcheck/\r\n", b".jaxcheck/\r\n"),
    ],
)
def test_what_git_is_told_stands_behind_what_is_there(tmp_path: Path, before: bytes | None, after: bytes) -> None:
    file = tmp_path / ".gitignore"
    if before is not None:
        file.write_bytes(before)
    told = tell_git(tmp_path)
    assert file.read_bytes() == after
    assert (".gitignore" in told) == (before != after)
    assert tell_git(tmp_path) == []


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Done]:
    project = Project(tmp_path_factory.mktemp("project"))
    project.write("mypkg/model.py", KERNELS)
    project.write(".gitignore", "*.log")
    return project, project.jaxcheck("init", *FUNCTIONS)


@pytest.mark.needs_jax
@pytest.mark.one_version
class TestAProject:
    def test_cases_are_what_the_functions_say_and_take(self, started: tuple[Project, Done]) -> None:
        project, done = started
        assert done.code == 0, done
        recipes = yaml.safe_load((project.folder / "recipes.yaml").read_text())["recipes"]
        assert list(recipes) == ["forward", "scores", "logit", "noise", "power", "branch"]
        cases = recipes["forward"]["cases"]
        assert list(cases) == ["standard", "single", "zeros", "invalid-shape"]
        assert recipes["forward"]["description"] == "One layer."
        assert cases["standard"]["args"]["x"]["$normal"]["shape"] == [4, 3]
        assert cases["standard"]["args"]["w"]["$normal"]["shape"] == [3, 5]
        assert cases["invalid-shape"]["raises"]["type"] == "TypeError"
        assert recipes["scores"]["cases"]["standard"]["args"]["key"]["$normal"]["shape"] == [4, 6]
        assert "$uniform" in recipes["logit"]["cases"]["standard"]["args"]["p"], "a logarithm needs positive numbers"
        assert "scale" not in recipes["logit"]["cases"]["standard"]["args"], "it has a default"
        assert recipes["logit"]["cases"]["zeros"]["nonfinite"] == "allow"
        assert "$key" in recipes["noise"]["cases"]["standard"]["args"]["key"]
        assert recipes["power"]["static"] == ["n"]
        assert recipes["branch"]["modes"] == ["eager"]

    def test_git_is_told_once(self, started: tuple[Project, Done]) -> None:
        project, _ = started
        assert (project.folder / ".gitignore").read_text() == "*.log\n.jaxcheck/\n"
        assert (project.folder / ".gitattributes").read_text() == "goldens/*.npz binary diff=jaxcheck\n"

    def test_the_commands_it_prints_work(self, started: tuple[Project, Done]) -> None:
        project, done = started
        printed = [shlex.split(line)[1:] for line in done.out.splitlines() if line.startswith("  jaxcheck ")]
        assert [words[0] for words in printed] == ["check", "bless", "run"]
        for words in printed:
            last = project.jaxcheck(*words)
            assert last.code == 0, last
        assert re.search(r"^\d+ passed", last.out, re.MULTILINE)

    def test_names_that_lead_nowhere_and_arguments_that_nobody_can_guess(self, started: tuple[Project, Done]) -> None:
        project, _ = started
        done = project.jaxcheck("init", "mypkg.model:foward", "nopkg:f", "--registry", "new.yaml")
        assert done.code == 2
        assert "did you mean 'forward'?" in done.err
        assert "no module 'nopkg'" in done.err
        assert not (project.folder / "new.yaml").exists()
        project.write("mypkg/losses.py", "def loss(params, x):\n    return (params['w'] * x).sum()\n")
        done = project.jaxcheck("init", "mypkg.losses:loss", "--registry", "new.yaml")
        assert done.code == 1
        found = re.search(r"new\.yaml:(\d+): mypkg\.losses:loss: could not guess params, x", done.err)
        assert found, done
        line = (project.folder / "new.yaml").read_text().splitlines()[int(found[1]) - 1]
        assert line.lstrip().startswith("standard: {args: {params: 0.0, x: 0.0}}")
        assert "jaxcheck check --registry new.yaml" in done.out
        assert project.jaxcheck("check", "--static", "--registry", "new.yaml").code == 0


def test_the_supported_versions_are_those_of_the_tests() -> None:
    root = Path(__file__).resolve().parents[2]
    pinned = sorted(Version(path.stem.removeprefix("jax-")) for path in root.glob("constraints/jax-*.txt"))
    assert (str(pinned[0]), str(pinned[-1])) == (examine.OLDEST, examine.NEWEST)
    classifiers = re.findall(r"Python :: (3\.\d+)", (root / "pyproject.toml").read_text())
    assert (classifiers[0], classifiers[-1]) == (examine.OLDEST_PYTHON, examine.NEWEST_PYTHON)


@pytest.mark.parametrize(
    ("version", "age"),
    [("0.10.1", -1), ("0.10.2", 0), ("0.11.2.dev1", 0), ("0.12.0.1", 0), ("0.12.1", 1), ("0.13", 1), ("odd", 1)],
)
def test_versions_older_and_newer_than_the_supported(version: str, age: int) -> None:
    assert examine.version_age(version, examine.OLDEST, examine.NEWEST) == age
