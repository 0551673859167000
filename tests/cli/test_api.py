"""The Python API and the pytest plugin, on one small project."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import jaxcheck
from jaxcheck.api import Run
from jaxcheck.errors import RegistryError
from tests.harness import Done, Project, clean_environment

KERNELS = """
import jax.numpy as jnp


def softplus(x):
    return jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0)


def double(x):
    return 2 * x


def cases():
    return {"one": {"x": 1.0}}
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-12}}}
recipes:
  softplus:
    kernel: kernels:softplus
    tags: [special-functions]
    cases: {standard: {args: {x: [-1.0, 0.0, 1.0]}}, tails: {args: {x: [-20.0, 20.0]}}}
  <b>made</b>: {kernel: "kernels:double", inputs: "kernels:cases"}
  elsewhere: {kernel: "kernels:double", when: {backend: tpu}, cases: {a: {args: {x: 1.0}}}}
"""


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import jaxcheck, jaxcheck.pytest_plugin, sys; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import pytest; {script}"], capture_output=True, text=True, check=True
    )
    loaded = {
        name for name in done.stdout.split() if name.partition(".")[0] in ("jaxcheck", "jax", "numpy", "pydantic")
    }
    assert loaded == {"jaxcheck", "jaxcheck.pytest_plugin"}
    assert set(jaxcheck.__all__) <= set(dir(jaxcheck))
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        jaxcheck.rnu  # type: ignore[attr-defined]  # noqa: B018  # that it is not there is the point


def test_compare_measures_every_leaf() -> None:
    expected = {"w": np.float32([1, 2]), "n": [np.int32(3), None], "b": np.float32(0.5)}
    actual = {"w": np.float32([1, 2.001]), "n": [np.int32(3), None], "b": np.float32(0.5)}
    found = jaxcheck.compare(expected, actual, rtol=1e-6, atol=0.0)
    assert not found
    assert [leaf.path for leaf in found.leaves] == ["['w']", "['n'][0]", "['b']"]
    assert found.violation_ratio == pytest.approx(500, rel=1e-3)
    assert str(found).startswith("['w']: ")
    assert jaxcheck.compare(expected, actual, rtol=1e-2, atol=0.0)
    assert not jaxcheck.compare(np.int32(3), np.int32(4), rtol=1.0, atol=1.0), "integers are exact"


@pytest.mark.parametrize(
    ("actual", "difference"),
    [
        ({"w": np.float32([1, 2])}, "['n']: missing"),
        ({"w": np.float32([1, 2]), "n": None, "x": 1}, "['x']: not expected"),
        ({"w": np.float64([1, 2]), "n": None}, "['w']: is float64[2], expected float32[2]"),
        ({"w": np.float32([[1, 2]]), "n": None}, "['w']: is float32[1,2], expected float32[2]"),
        ({"w": np.float32([1, 2]), "n": []}, "['n']: is an empty list, expected None"),
        ({"w": np.float32([1, np.nan]), "n": None}, "['w']: "),
    ],
)
def test_compare_names_what_is_not_alike(actual: object, difference: str) -> None:
    found = jaxcheck.compare({"w": np.float32([1, 2]), "n": None}, actual, rtol=1e-6, atol=1e-6)
    assert [text for text in found.differences if text.startswith(difference)]
    with pytest.raises(TypeError, match="no array of numbers"):
        jaxcheck.compare("a", "a", rtol=0.0, atol=0.0)


def test_compare_sees_structure_as_jax_does() -> None:
    """Trees of one leaf each, some with the same key paths."""
    import jax

    point, other = namedtuple("Point", "x"), namedtuple("Other", "x")
    one = np.float32(1)
    trees = [one, [one], (one,), {0: one}, {"0": one}, point(one), other(one), [one, []], [one, ()], [one, {}], [[one]]]
    for expected, actual in itertools.product(trees, trees):
        same = jax.tree.structure(expected) == jax.tree.structure(actual)
        assert bool(jaxcheck.compare(expected, actual, rtol=0.0, atol=0.0)) == same, (expected, actual)


def test_compare_overlooks_no_leaf_whose_key_is_written_as_another_s() -> None:
    class Key:
        def __repr__(self) -> str:
            return "key"

    with pytest.raises(ValueError, match=r"two nodes have the path \[key\]"):
        jaxcheck.compare({Key(): 1.0, Key(): 2.0}, {Key(): 1.0, Key(): 3.0}, rtol=0.0, atol=0.0)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Blessed, but for the recipe of a factory; then the tail of one kernel is lost."""
    project = Project(tmp_path_factory.mktemp("project"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.write("tests/test_own.py", "import sys\n\n\ndef test_own():\n    assert 'jax' not in sys.modules\n")
    project.bless("softplus")
    project.write("kernels.py", KERNELS.replace("log1p(", "log(1 + "))
    return project


def pytest_in(project: Project, *args: str, plugins: tuple[str, ...] = ()) -> Done:
    """pytest with this plugin and no other but these: what is installed beside it does not matter."""
    loaded = [word for name in ("jaxcheck.pytest_plugin", *plugins) for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *loaded, "-p", "no:cacheprovider", "-v", *args]
    environment = clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="")
    done = subprocess.run(command, cwd=project.folder, env=environment, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def outcomes(done: Done) -> dict[str, str]:
    """{test: PASSED, FAILED or SKIPPED}, as pytest (or its parallel twin) lists them."""
    alone = dict(re.findall(r"^(\S+::\S+(?: \S+)*?) (PASSED|FAILED|SKIPPED)\b", done.out, re.MULTILINE))
    parallel = re.findall(r"^\[gw\d\] \[.*?\] (PASSED|FAILED|SKIPPED) (\S+)", done.out, re.MULTILINE)
    return alone | {name: outcome for outcome, name in parallel}


def counts(run: Run) -> dict[str, int]:
    return {status: count for status, count in run.totals.items() if count}


EXPECTED = {
    "tests/test_own.py::test_own": "PASSED",
    "recipes.yaml::softplus::standard[eager]": "PASSED",
    "recipes.yaml::softplus::standard[jit]": "PASSED",
    "recipes.yaml::softplus::tails[eager]": "FAILED",
    "recipes.yaml::softplus::tails[jit]": "FAILED",
    "recipes.yaml::<b>made</b>::*": "FAILED",
    "recipes.yaml::elsewhere::a[eager]": "SKIPPED",
    "recipes.yaml::elsewhere::a[jit]": "SKIPPED",
}


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_pytest_knows_nothing_of_it_unless_asked(project: Project) -> None:
    assert outcomes(pytest_in(project)) == {"tests/test_own.py::test_own": "PASSED"}


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_pytest_selects_by_id_name_and_tag(project: Project) -> None:
    """Collecting takes no worker, and a registry with faults is told with its lines."""
    for selection in (["recipes.yaml::softplus::tails"], ["-m", "special-functions", "-k", "tails"]):
        done = pytest_in(project, "--jaxcheck", "--strict-markers", "--collect-only", "-qq", *selection)
        assert re.findall(r"^recipes.yaml::softplus::(\S+)$", done.out, re.MULTILINE) == ["tails[eager]", "tails[jit]"]
    done = pytest_in(project, "--collect-only", "-qq", "-o", "jaxcheck=true", "-o", "testpaths=tests", "-k", "tails")
    assert done.out.count("recipes.yaml::softplus::tails[") == 2, "the ini option, with the registry beside testpaths"
    bad = project.write("bad.yaml", "version: 2\n")
    done = pytest_in(project, "--jaxcheck", "--jaxcheck-registry", "bad.yaml")
    bad.unlink()
    assert done.code != 0
    assert "bad.yaml:1:10: " in done.out
    assert "jaxcheck init" in pytest_in(project, "--jaxcheck", "--jaxcheck-registry", "none.yaml").err


@pytest.mark.parametrize(("where", "reached"), [("sub", True), ("build", False), ("a/.recipes/b", False)])
def test_pytest_never_passes_the_registry_by(tmp_path: Path, where: str, reached: bool) -> None:
    """It does not descend into every folder: nobody is told that all passed where the checks were not collected."""
    project = Project(tmp_path)
    project.write(f"{where}/recipes.yaml", REGISTRY)
    project.write("test_own.py", "def test_own():\n    pass\n")
    given = ("--jaxcheck", "--jaxcheck-registry", f"{where}/recipes.yaml", "--collect-only", "-qq")
    done = pytest_in(project, *given)
    assert done.out.count("::standard[jit]") == reached, done
    assert (done.code == 0) == reached
    assert ("does not descend into" in done.err) != reached
    named = pytest_in(project, *given, "test_own.py")
    assert (named.code, named.out.count("::standard[jit]"), named.out.count("::test_own")) == (0, 1, 1), named


def test_the_plugin_is_the_entry_point() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\njaxcheck = "jaxcheck.pytest_plugin"' in text


@pytest.mark.needs_jax
@pytest.mark.one_version
class TestRuns:
    def test_python(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(project.folder)
        registry = jaxcheck.load("recipes.yaml")
        seen: list[str] = []
        run = jaxcheck.run(registry, jobs=1, report=lambda result: seen.append(result.id))
        assert isinstance(run, Run)
        assert not run
        assert counts(run) == {"pass": 2, "fail": 2, "missing": 2, "skip": 2}
        assert sorted(seen) == sorted(result.id for result in run.results)
        assert json.loads(Path(".jaxcheck/run.json").read_text())["totals"] == run.totals
        assert counts(jaxcheck.run(names="softplus::standard", modes="jit", backend="cpu")) == {"pass": 1}
        html = run._repr_html_()
        assert "softplus::tails[eager]" in html
        assert "&lt;b&gt;made&lt;/b&gt;" in html
        assert not re.search(r"<b>made|<script|<style|https?:", html)
        with pytest.raises(RegistryError, match=r"bad\.yaml:1:10"):
            jaxcheck.load(project.write("bad.yaml", "version: 2\n"))

    def test_pytest(self, project: Project) -> None:
        done = pytest_in(project, "--jaxcheck")
        assert outcomes(done) == EXPECTED, done
        assert done.code == 1
        blocks = done.out.partition("= FAILURES =")[2]
        assert re.search(r"FAIL softplus::tails\[eager\]\n.*\n?  differs from the golden", blocks), done
        assert "tolerance  rtol 1e-06 atol 1e-12 (recipes.yaml:3:24)" in blocks
        assert re.search(r"MISSING <b>made</b>::one\[eager\]\n  no golden", blocks), done
        assert re.search(r"^not verified: gpu", done.out, re.MULTILINE)
        assert "needs backend tpu" in pytest_in(project, "--jaxcheck", "-rs", "-k", "elsewhere").out

    def test_pytest_with_xdist(self, project: Project) -> None:
        """The controller runs once; its workers read."""
        run_file = project.folder / ".jaxcheck/run.json"
        run_file.unlink(missing_ok=True)
        done = pytest_in(project, "--jaxcheck", "-n", "2", plugins=("xdist",))
        assert outcomes(done) == EXPECTED, done
        assert len(json.loads(run_file.read_text())["results"]) == 8, "one run of all"

    def test_pytest_without_its_backend(self, project: Project) -> None:
        done = pytest_in(project, "--jaxcheck", "--jaxcheck-backend", "tpu", "-k", "standard")
        assert done.code == 1
        assert "backend 'tpu' is not available here" in done.out
        assert "--backend cpu" in done.out
