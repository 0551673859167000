"""What is sent to another machine: this jaxcheck and the files that kernels are imported from, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from jaxcheck.errors import UsageError
from jaxcheck.execution import parcel
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.load import load_registry
from tests.harness import Project

REGISTRY = "version: 1\nrecipes: {f: {kernel: kernels:f, tolerance: {rtol: 0, atol: 0}, cases: {a: {}}}}\n"


def packed(project: Project, root: str = ".", wheels: tuple[Path, ...] = ()) -> parcel.Parcel:
    folder = project.folder / root
    project.write(f"{root}/recipes.yaml", REGISTRY)
    store, state = GoldenStore(folder / "goldens"), folder / "state"
    registry = load_registry(folder / "recipes.yaml")
    return parcel.pack(registry, store, state, project.folder / ".sent.zip", wheels)


def names(made: parcel.Parcel) -> set[str]:
    with zipfile.ZipFile(made.file) as archive:
        return set(archive.namelist())


def test_the_user_s_files_and_this_jaxcheck(project: Project) -> None:
    kept = ["kernels.py", "package/data.bin", "goldens/notes.txt", "goldens/other.npz"]
    left = [".git/config", ".hidden", "__pycache__/kernels.pyc", "venv/lib/huge.so", "made/x", "state/run.json"]
    for name in (*kept, *left, "venv/pyvenv.cfg", "made/CACHEDIR.TAG", "goldens/f.npz", "goldens/f@gpu.npz"):
        project.write(name, name)
    made = packed(project)
    sent = {name for name in names(made) if name.startswith("project/")}
    assert sent == {"project/", "project/recipes.yaml", *(f"project/{name}" for name in kept)}
    assert {"jaxcheck/__init__.py", "jaxcheck/worker/__main__.py"} <= names(made)
    assert made.places == {str(project.folder): "project", str(Path(parcel.jaxcheck.__file__).parent): "jaxcheck"}


def test_the_same_files_give_the_same_bytes(project: Project) -> None:
    path = project.write("kernels.py", "def f(): pass\n")
    first = packed(project).file.read_bytes()
    path.touch()
    assert packed(project).file.read_bytes() == first


def test_the_current_folder_is_sent_where_it_holds_the_registry(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("kernels.py", "")
    monkeypatch.chdir(project.folder)
    assert "project/checks/recipes.yaml" in names(packed(project, "checks"))
    assert "project/kernels.py" not in names(packed(project, ".venv/shipped"))
    monkeypatch.chdir("/")
    assert "project/kernels.py" not in names(packed(project, "checks"))


def test_wheels_go_along(project: Project) -> None:
    wheel = project.write("dist/alpha-1.0-py3-none-any.whl", "")
    assert "wheels/alpha-1.0-py3-none-any.whl" in names(packed(project, wheels=(wheel,)))


def test_what_is_too_large_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel, "MOST_BYTES", 1 << 20)
    project.write("data/large", "").write_bytes(b"0" * (2 << 20))
    with pytest.raises(UsageError, match=r"no more than 1 MiB are sent to a cluster, .*: data has 2 MiB") as refused:
        packed(project)
    assert str(refused.value.hint).endswith(f"touch {project.folder}/data/CACHEDIR.TAG")
    project.write("data/CACHEDIR.TAG", "")
    assert "project/data/large" not in names(packed(project))
