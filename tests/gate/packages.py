"""Small packages, as wheels in a folder, for environments that take a second to make."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

from jaxcheck.gate.environments import Installation
from jaxcheck.gate.environments.frozen import Origin, Package, Snapshot
from jaxcheck.gate.environments.interpreters import probe

# A project whose build needs no package: it is its own backend, and writes the wheels itself.
BACKEND = """
import pathlib, zipfile

def _wheel(folder, files):
    name = "mine-3.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in {**files, **_info()}.items():
            wheel.writestr(path, text)
        record = "".join(f"{path},,\\n" for path in [*files, *_info(), "mine-3.0.dist-info/RECORD"])
        wheel.writestr("mine-3.0.dist-info/RECORD", record)
    return name

def _info():
    return {
        "mine-3.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: mine\\nVersion: 3.0\\nRequires-Dist: alpha<2\\n",
        "mine-3.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\n",
    }

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"mine.py": pathlib.Path("mine.py").read_text()})

def build_editable(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"mine.pth": str(pathlib.Path.cwd()) + "\\n"})
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mine"
version = "3.0"
dependencies = ["alpha<2"]
"""


class Said(list[str]):
    """What was told on the way."""

    def __call__(self, line: str) -> None:
        self.append(line)

    def __str__(self) -> str:
        return "\n".join(self)


def inside(installation: Installation, code: str) -> str:
    """What the environment's own interpreter prints."""
    command = [installation.python, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def make_wheel(
    folder: Path, name: str, version: str, requires: Iterable[str] = (), *, more: str = "", body: str = ""
) -> Path:
    """A wheel with one module, which knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, module = f"{name.replace('-', '_')}-{version}", name.replace("-", "_")
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    files = {
        f"{module}.py": f"version = {version!r}\n{body}",
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{stem}.dist-info/RECORD"])
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name_, text in {**files, f"{stem}.dist-info/RECORD": record}.items():
            wheel.writestr(name_, text)
    return path


def make_index(folder: Path) -> Path:
    """`beta` must move with `alpha`, `gamma` has a newer pre-release and release, `other` need not move."""
    make_wheel(folder, "alpha", "1.0", ["beta<2"])
    make_wheel(folder, "alpha", "2.0", ["beta>=2"])
    for version in ("1.0", "1.5", "2.0", "2.5"):
        make_wheel(folder, "beta", version)
    for version in ("1.0", "1.1rc1", "1.2rc1", "1.3"):
        make_wheel(folder, "gamma", version)
    for version in ("1.0", "1.1"):
        make_wheel(folder, "other", version)
    make_wheel(folder, "future", "1.0", more="Requires-Python: >=3.99\n")
    return folder


def make_project(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "mine.py").write_text("where = __file__\n")
    return folder


def base_of(python: str, *packages: Package) -> Snapshot:
    return Snapshot(probe(python)[0], packages)


def plain(*pins: str) -> list[Package]:
    return [Package(*pin.split("==")) for pin in pins]


def editable(folder: Path) -> Package:
    return Package("mine", "3.0", Origin(f"-e {folder.as_uri()}", folder, source=True), ("alpha<2",))
