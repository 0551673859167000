"""Compiled programs are kept between runs: taken again, never half, and never for a gate's numbers."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.errors import UsageError
from jaxcheck.execution import cache
from tests.harness import Project

KERNELS = """
    import jax.numpy as jnp

    def wave(x):
        return jnp.sin(x) * 2
"""
REGISTRY = """
    version: 1
    defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-7}}}
    recipes:
      wave: {kernel: "kernels:wave", cases: {one: {args: {x: [0.1, 0.5]}}}}
"""


@pytest.fixture
def wave(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    return project


def kept(folder: Path) -> list[Path]:
    return [path for path in (folder / cache.COMPILED).rglob("*") if path.is_file()]


def numbers(report: dict[str, Any]) -> list[Any]:
    return [(result["id"], result["status"], result["warnings"], result["leaves"]) for result in report["results"]]


@pytest.mark.needs_jax
def test_programs_are_taken_again(wave: Project, tmp_path: Path) -> None:
    """The same bits, in the second run out of the cache; an entry that was damaged is compiled again, silently."""
    folder = tmp_path / "cache"
    with_cache = {"JAXCHECK_CACHE": str(folder)}
    wave.jaxcheck("bless", "--reason", "test", "--no-truth", "--no-cache", **with_cache)
    assert not kept(folder)
    first = wave.run(**with_cache)[1]
    entries = kept(folder)
    assert first["programs"] == {"hits": 0, "misses": len(entries), "off": ""}
    assert len(entries) >= 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    second = wave.run(**with_cache)[1]
    assert second["programs"] == {"hits": len(entries), "misses": 0, "off": ""}
    assert numbers(second) == numbers(first)
    entries[0].write_bytes(entries[0].read_bytes()[:-1])
    done, third = wave.run(**with_cache)
    assert third["programs"] == {"hits": len(entries) - 1, "misses": 1, "off": ""}
    assert numbers(third) == numbers(first)
    assert f"{len(entries) - 1} from the cache, 1 compiled" in done.out


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_without_a_cache(wave: Project, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for option in (["--no-cache"], ["--latency", "2"], ["--save", "saved"]):
        _, report = wave.run(*option, JAXCHECK_CACHE=str(folder))
        assert report["programs"] == {"hits": 0, "misses": 0, "off": option[0]}
        assert not kept(folder)
    (tmp_path / "file").write_text("")
    done, report = wave.run(JAXCHECK_CACHE=str(tmp_path / "file"))
    assert "cannot write to the cache" in report["programs"]["off"]
    assert done.code == 1, "nothing was blessed, and everything was run"
    assert "all compiled (no cache: cannot write to the cache" in done.out


def test_another_users_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXCHECK_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        cache.compiled_programs()


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "older", "oldest"]):
        path = tmp_path / name / "program"
        path.parent.mkdir()
        path.write_bytes(b"x" * 100)
        os.utime(path, (1e9 - age, 1e9 - age))
    cache.trim(tmp_path, 300)
    assert len(list(tmp_path.rglob("program"))) == 3
    cache.trim(tmp_path, 250)
    assert sorted(path.parent.name for path in tmp_path.rglob("program")) == ["new", "older"]
    cache.trim(tmp_path, 0)
    assert not list(tmp_path.rglob("program"))
