"""A disk that is full, or of which nothing may be written: named, with nothing lost and nothing half written.

The project is on a small disk of its own, which only the command's processes have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.scenes import ALREADY, COMMANDS, EXPECTED, Scene, Zygote, content_of
from tests.harness import Project

ALONE = ("unshare", "--user", "--map-root-user", "--mount")
pytestmark = [
    pytest.mark.needs_jax,
    pytest.mark.one_version,
    pytest.mark.skipif(
        shutil.which("unshare") is None or subprocess.run([*ALONE, "true"], check=False).returncode != 0,
        reason="no mounts of its own for a process here",
    ),
]
KIB = 1024


class Disk:
    """A mounted folder, and the processes that see it."""

    def __init__(self, folder: Path, size: int) -> None:
        self.inside = folder / "disk"
        self.inside.mkdir(parents=True)
        mount = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
        self.zygote = Zygote(folder, (*ALONE, "sh", "-c", mount, str(self.inside)))
        assert self.zygote.run(self.inside, ("--version",)) == 0, "the mount is there once something has run"
        self.outside = Path(f"/proc/{self.zygote.process.pid}/root{self.inside}")

    def fill(self, free: int) -> None:
        """Leaves so many bytes, in whole pages."""
        there = os.statvfs(self.outside)
        (self.outside / "fill").write_bytes(bytes(there.f_bavail * there.f_frsize - free))

    def clear(self) -> None:
        (self.outside / "fill").unlink()

    def remount(self, how: str) -> None:
        command = ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(self.zygote.process.pid)]
        subprocess.run([*command, "mount", "-o", f"remount,{how}", str(self.inside)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path, 4096 * KIB)
    yield disk
    disk.zygote.end()


def on_disk(scene: Scene, disk: Disk) -> Scene:
    """The same scene, with its project there."""
    there = replace(scene, project=Project(disk.outside / "copy"))
    there.restore()
    return there


@pytest.mark.parametrize(
    "name",
    ["bless --no-truth", *(pytest.param(name, marks=pytest.mark.long) for name in ("rollback", "prune", "reject"))],
)
def test_a_full_disk_loses_nothing(moved: Project, tmp_path: Path, disk: Disk, name: str) -> None:
    scene = on_disk(Scene.of(moved, name, tmp_path / "scene"), disk)
    codes = set()
    for free in (0, 4, 8, 16, 32, 64):
        disk.fill(free * KIB)
        code = disk.zygote.run(disk.inside / "copy", COMMANDS[name])
        said = disk.zygote.output
        untouched = scene.check()
        codes.add(code)
        assert code in (2, EXPECTED[name], *ALREADY.get(name, ())), said
        if code == 2:
            assert "No space left on device" in said
            assert "try: free some space: df -h" in said
        assert "Traceback" not in said
        assert list(scene.litter()) == []
        disk.clear()
        if not untouched:
            scene.restore()
    code = disk.zygote.run(disk.inside / "copy", COMMANDS[name])
    assert code in (EXPECTED[name], *ALREADY.get(name, ())), disk.zygote.output
    assert {path.name: content_of(path) for path in scene.goldens()} == scene.after
    assert 2 in codes or name == "reject", "a reject frees space: it needs none"


def test_a_run_on_a_full_disk(moved: Project, tmp_path: Path, disk: Disk, pytestconfig: pytest.Config) -> None:
    scene = on_disk(Scene.of(moved, "reject", tmp_path / "scene"), disk)
    for free in (0, 4, 8) if pytestconfig.getoption("--long") else (0,):
        disk.fill(free * KIB)
        code = disk.zygote.run(disk.inside / "copy", ("run", "-j", "1", "-o", "report.json"))
        said = disk.zygote.output
        assert code in (1, 2), said
        assert free or "No space left on device" in said
        if code == 1:
            json.loads((disk.outside / "copy/report.json").read_text())
            kept = len(list((disk.outside / "copy/.jaxcheck/candidates").iterdir()))
            assert kept == 2 or "no candidate is kept" in said
        assert "Traceback" not in said
        assert scene.check()
        disk.clear()


def test_a_folder_that_may_only_be_read(moved: Project, tmp_path: Path, disk: Disk) -> None:
    scene = on_disk(Scene.of(moved, "reject", tmp_path / "scene"), disk)
    disk.remount("ro")
    folder = disk.inside / "copy"
    for name in ("run", "bless --no-truth", "rollback", "prune", "reject"):
        assert disk.zygote.run(folder, COMMANDS[name]) == 2, disk.zygote.output
        assert "Read-only file system" in disk.zygote.output
        assert "  try: " in disk.zygote.output
        assert "Traceback" not in disk.zygote.output
        assert scene.check()
    elsewhere = ("--state", str(tmp_path / "state"), "-j", "1")
    assert disk.zygote.run(folder, ("run", "third", *elsewhere)) == 0, disk.zygote.output
    assert disk.zygote.run(folder, ("list",)) == 0
    assert disk.zygote.run(folder, ("check", "--static")) == 0, disk.zygote.output
