"""The wheel is useful by itself: installed elsewhere, it verifies the recipes that it carries."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.harness import clean_environment

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.needs_jax, pytest.mark.one_version]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as for a release: what the sdist lacks is missed."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python"
    packages = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # Paths in a .pth file come after this environment's own, and .pth files found there are not followed:
    # the editable installation of this checkout is out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def call(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=clean_environment(PYTHONPATH=""), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_carries_recipes_goldens_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = {path.name for path in (ROOT / "goldens").glob("*.npz")}
    assert shipped
    assert {f"jaxcheck/shipped/goldens/{name}" for name in shipped} <= names
    assert {"jaxcheck/shipped/recipes.yaml", "jaxcheck/py.typed", "jaxcheck/kernels/while_loop.py"} <= names
    assert {"jaxcheck/report/html/style.css", "jaxcheck/report/html/script.js"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"jaxcheck"}


def test_installed_wheel_is_what_is_imported(installed: Path, tmp_path: Path) -> None:
    where = call(installed, "-c", "import jaxcheck; print(jaxcheck.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parents[1])


def test_shipped_recipes_pass_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    call(installed, "-m", "jaxcheck", "run", "--shipped", "--tag", "seed", "--output", "report.json", cwd=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["results"]
    assert {result["status"] for result in report["results"]} <= {"pass", "skip"}
