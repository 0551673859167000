"""What holds for the repository as a whole: its files, versions and layers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from jaxcheck.execution.inspect import golden_remarks
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.load import load_registry

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = {"0.10.2": "3.11", "0.11.2": "3.12", "0.12.0.1": "3.13"}

# In pieces, so that this file does not contain them.
FORBIDDEN = [
    "".join(parts).encode()
    for parts in (
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("deb.", "debian.org"),
        ("--index", "-url"),
        ("/wo", "rk/"),
        ("/ro", "ot/"),
    )
]


def repository_files() -> list[Path]:
    """Every file that is tracked or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this copy of the project is not a git checkout, so nothing says which files belong to it")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(*extras: str) -> dict[str, Requirement]:
    project = pyproject()["project"]
    lines = [*project["dependencies"], *(line for name in extras for line in project["optional-dependencies"][name])]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def pins(jax: str) -> dict[str, Version]:
    text = (ROOT / f"constraints/jax-{jax}.txt").read_text() + (ROOT / "constraints/common.txt").read_text()
    return {_normal(name): Version(version) for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_file_names_a_registry_or_a_machine() -> None:
    files = repository_files()
    assert ROOT / "pyproject.toml" in files
    found = [(path.name, word) for path in files for word in FORBIDDEN if word in path.read_bytes()]
    assert found == []


@pytest.mark.parametrize(
    "script",
    ["scripts/jaxcheck", "scripts/test", "scripts/bench", "scripts/docs", "scripts/faults", "scripts/lock", ".ci/run"],
)
def test_scripts_are_executable_and_say_what_runs_them(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111 == 0o111
    assert path.read_text().startswith("#!")


@pytest.mark.parametrize("jax", SUPPORTED)
def test_lower_bounds_admit_every_supported_environment(jax: str) -> None:
    pinned = pins(jax)
    wanted = requirements("test", "dev")
    wanted.pop("jaxcheck")
    assert str(pinned["jax"]) == str(pinned["jaxlib"]) == jax
    for name, requirement in wanted.items():
        assert requirement.specifier.contains(pinned[_normal(name)]), requirement


@pytest.mark.parametrize(
    ("jax", "extras"), [(jax, ("test", "dev") if jax == "0.11.2" else ("test",)) for jax in SUPPORTED]
)
def test_locks_have_hashes_of_all_that_the_constraints_pin(jax: str, extras: tuple[str, ...]) -> None:
    """What does not hold here, `scripts/lock` mends."""
    text = (ROOT / f"constraints/lock-{extras[-1]}-{jax}.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines)
    here = {_normal(line.partition("==")[0]): line.split()[0] for line in lines if "; os_name == 'nt'" not in line}
    versions = {name: Version(pin.partition("==")[2]) for name, pin in here.items()}
    assert versions.items() <= pins(jax).items()
    assert {_normal(name) for name in requirements(*extras)} - {"jaxcheck"} <= set(here)


def test_lower_bounds_have_no_upper_ones() -> None:
    bounds = {str(bound) for requirement in requirements().values() for bound in requirement.specifier}
    assert {bound for bound in bounds if not bound.startswith(">=")} == set()


@pytest.mark.parametrize(("jax", "python"), SUPPORTED.items())
def test_every_supported_version_is_named_wherever_versions_are(jax: str, python: str) -> None:
    assert f"{python}:{jax}" in (ROOT / "scripts/lib/environment.sh").read_text()
    assert f"| {jax} | {python}" in (ROOT / "README.md").read_text()
    assert re.search(rf'python: "{re.escape(python)}"', (ROOT / ".github/workflows/ci.yml").read_text())
    assert f"Programming Language :: Python :: {python}" in pyproject()["project"]["classifiers"]


def test_shipped_goldens_are_those_of_the_registry_and_its_tolerances() -> None:
    """A gate over the shipped recipes must not stop at what nobody but us can bless."""
    faults, remarks = golden_remarks(load_registry(ROOT / "recipes.yaml"), GoldenStore(ROOT / "goldens"))
    assert faults == []
    assert [remark.text for remark in remarks if remark.kind != "other" or "hides changes" not in remark.text] == []


def test_license_is_the_official_text() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("\n                                 Apache License\n")
    assert text.endswith("governing permissions and\n   limitations under the License.\n")
    assert text.count("\n") == 202


# The layers: the rules stand in pyproject.toml; here is shown that breaking one is found.


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([program, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers")
    shutil.copytree(ROOT / "jaxcheck", folder / "jaxcheck", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_layers_hold(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("results", "import jaxcheck.registry.model", "Each layer imports only what stands below it"),
        ("registry/model", "import jaxcheck.goldens.store", "Each layer imports only what stands below it"),
        ("execution/run", "import jaxcheck.worker.channel", "Each layer imports only what stands below it"),
        ("newcomer", "", "Each layer imports only what stands below it"),
        ("cli/main", "def late() -> None:\n    import jax", "Only the worker and the kernels import jax"),
        ("goldens/store", "import optax", "Only the worker and the kernels import jax"),
        ("worker/checks", "import jaxcheck.kernels.scan", "Kernels are found by name: nobody imports them"),
        ("kernels/scan", "import jaxcheck.errors", "Kernels know nothing of jaxcheck"),
    ],
)
def test_a_broken_layer_is_found(copy: Path, module: str, line: str, rule: str) -> None:
    path = copy / "jaxcheck" / f"{module}.py"
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        done = lint_imports(copy)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{rule} BROKEN" in done.stdout
