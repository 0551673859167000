"""Environments are really built here, of small packages, with uv and with pip."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.cache import cache_folder
from jaxcheck.gate.environments import (
    Installation,
    Wanted,
    cached,
    changes,
    orders,
    provide,
    prune,
    select,
)
from jaxcheck.gate.environments import cache as store
from jaxcheck.gate.environments.frozen import Origin, Package, Snapshot, snapshot
from jaxcheck.gate.environments.installers import find_uv
from jaxcheck.gate.environments.interpreters import find_python
from jaxcheck.gate.environments.providing import provide_from
from tests.gate.packages import Said, base_of, editable, inside, make_project, make_wheel, plain
from tests.harness import REPOSITORY, Project, clean_environment

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def base() -> Snapshot:
    return base_of(sys.executable, *plain("alpha==1.0", "beta==1.0", "gamma==1.1rc1", "other==1.0"))


def left(cache: Path) -> list[str]:
    """What lies in the cache beside locks and whole environments."""
    folder = cache / "environments"
    names = [place.name for place in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if name != "locks" and not store.KEY.fullmatch(name)]


# What is in an environment


def test_only_what_was_asked_and_what_must(
    base: Snapshot, cache: Path, said: Said, index: Path, installer: str
) -> None:
    got = provide_from(base, Wanted(("alpha==2.0",)), cache, said)
    assert got.packages == {"alpha": "2.0", "beta": "2.5", "gamma": "1.1rc1", "other": "1.0"}
    assert inside(got, "import alpha, beta; print(alpha.version, beta.version)") == "2.0 2.5"
    assert not got.cached
    assert f"installing 4 packages with {installer}" in said
    before = Installation("current", sys.executable, base.versions, None, False, base.interpreter.version)
    moved = [(one.name, one.before, one.after, one.asked) for one in changes(before, got, ["alpha==2.0"])]
    assert moved == [("alpha", "1.0", "2.0", True), ("beta", "1.0", "2.5", False)]


def test_what_need_not_move_stays(base: Snapshot, cache: Path, said: Said, index: Path, installer: str) -> None:
    got = provide_from(base, Wanted(("Other>=1.1", "gamma<1.1")), cache, said)
    assert got.packages == {"alpha": "1.0", "beta": "1.0", "gamma": "1.0", "other": "1.1"}


def test_jaxlib_and_plugins_follow_jax(cache: Path, said: Said, index: Path, installer: str) -> None:
    """jax allows the old jaxlib, and only its extra ties the plugin to it."""
    cuda = ["jax-cuda13-plugin==2.0; extra == 'cuda13'"]
    make_wheel(index, "jax", "2.0", ["jaxlib>=1.0,<=2.0", *cuda], more="Provides-Extra: cuda13\n")
    for version in ("1.0", "2.0", "3.0"):
        make_wheel(index, "jaxlib", version)
        make_wheel(index, "jax-cuda13-plugin", version)
    old = ("jaxlib<=1.0", "jax-cuda13-plugin==1.0; extra == 'cuda13'")
    base = base_of(
        sys.executable,
        Package("jax", "1.0", None, old, ("cuda13",)),
        *plain("jaxlib==1.0", "jax-cuda13-plugin==1.0"),
    )
    got = provide_from(base, Wanted(("jax==2.0",)), cache, said)
    assert got.packages == {"jax": "2.0", "jaxlib": "2.0", "jax-cuda13-plugin": "2.0"}
    held = provide_from(base, Wanted(("jax==2.0", "jaxlib==1.0")), cache, said)
    assert held.packages == {"jax": "2.0", "jaxlib": "1.0", "jax-cuda13-plugin": "2.0"}


def test_projects_and_wheels_come_along(
    base: Snapshot, cache: Path, said: Said, index: Path, tmp_path: Path, installer: str
) -> None:
    project = make_project(tmp_path / "project")
    wheel = make_wheel(tmp_path / "own", "patched", "1.0+mine.2", ["beta"], body="patch = True\n")
    own = Package("patched", "1.0+mine.2", Origin(f"patched @ {wheel.as_uri()}", wheel, source=False), ("beta",))
    base = replace(base, packages=(*base.packages, editable(project), own))
    got = provide_from(base, Wanted(("alpha==2.0",)), cache, said)
    assert got.packages["mine"] == "3.0"
    assert inside(got, "import mine; print(mine.where)") == str(project / "mine.py")
    assert got.packages["patched"] == "1.0+mine.2"
    assert inside(got, "import patched; print(patched.patch)") == "True"
    assert "mine declares alpha<2; it is taken along all the same" in said


def test_folder_and_wheel_as_requirements(
    base: Snapshot, cache: Path, said: Said, index: Path, tmp_path: Path, installer: str
) -> None:
    project = make_project(tmp_path / "project")
    wheel = make_wheel(tmp_path / "own", "other", "7.0")
    wanted = Wanted((str(project), str(wheel)))
    got = provide_from(base, wanted, cache, said)
    assert (got.packages["mine"], got.packages["other"]) == ("3.0", "7.0")
    assert inside(got, "import mine; print(mine.where)") == str(next(got.folder.rglob("mine.py")))  # type: ignore[union-attr]
    (project / "mine.py").write_text("where = 'changed'\n")
    again = provide_from(base, wanted, cache, said)
    assert again.folder != got.folder
    assert inside(again, "import mine; print(mine.where)") == "changed"
    make_wheel(wheel.parent, "other", "7.0", body="more = 1\n")
    third = provide_from(base, wanted, cache, said)
    assert third.folder != again.folder
    assert inside(third, "import other; print(other.more)") == "1"


def test_the_current_environment_is_itself(cache: Path, said: Said) -> None:
    got = provide(Wanted(), cache, said)
    assert (got.python, got.folder, got.cached) == (sys.executable, None, False)
    assert got.packages["numpy"]
    assert got.python_version == sys.version.split()[0]
    assert not {"jaxcheck", "pip"} & got.packages.keys()
    assert not cache.exists()


def test_snapshot_reads_where_packages_came_from(
    base: Snapshot, cache: Path, said: Said, index: Path, tmp_path: Path, installer: str
) -> None:
    """What an installer records is read back as what to give it again; conda's records of its own machine are not."""
    project = make_project(tmp_path / "project")
    wheel = make_wheel(tmp_path / "own", "other", "7.0")
    base = replace(base, packages=(*base.packages, editable(project)))
    got = provide_from(base, Wanted((str(wheel),)), cache, said)
    read = {package.name: package for package in snapshot(got.python).packages}
    assert read["mine"].origin == Origin(f"-e {project.as_uri()}", project, source=True)
    assert read["other"].origin == Origin(f"other @ {wheel.as_uri()}", wheel, source=False)
    assert read["alpha"].origin is None
    assert read["alpha"].requires == ("beta<2",)
    wheel.unlink()
    gone = snapshot(got.python)
    assert {package.name: package.origin for package in gone.packages}["other"] is None
    assert gone.remarks == (f"other was installed from {wheel}, which is gone; it is taken from the index",)


# What cannot be had


@pytest.mark.parametrize(
    ("requirements", "words", "hint"),
    [
        (("alpha==99.0",), "alpha==99.0", "a version that exists: python -m pip index versions alpha"),
        (("alpha==2.0", "beta==1.0"), "beta", "versions that go together"),
        (("nowhere",), "nowhere", "a version that exists: python -m pip index versions nowhere"),
        (("future==1.0",), ">=3.99", "--python 3.99"),
    ],
)
def test_the_resolvers_reason_in_two_lines(
    base: Snapshot,
    cache: Path,
    said: Said,
    index: Path,
    installer: str,
    requirements: tuple[str, ...],
    words: str,
    hint: str,
) -> None:
    with pytest.raises(Unavailable) as caught:
        provide_from(base, Wanted(requirements), cache, said)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{', '.join(requirements)} cannot be installed"
    assert 2 <= len(lines) <= 3
    assert words in " ".join(lines[1:])
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
    assert left(cache) == []
    assert cached(cache) == []


def test_no_network(
    base: Snapshot, cache: Path, said: Said, index: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://who:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(Unavailable, match="Connection refused") as caught:
        provide_from(base, Wanted(("alpha==2.0",)), cache, said)
    assert "secret" not in str(caught.value)
    assert caught.value.hint is not None
    assert "PIP_INDEX_URL or UV_DEFAULT_INDEX" in caught.value.hint
    assert left(cache) == []


def test_an_interpreter_that_exists(cache: Path, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = provide(Wanted(interpreter=sys.executable), cache, said)
    assert (got.label, got.python, got.folder) == (sys.executable, sys.executable, None)
    assert got.packages["jax"]
    with pytest.raises(UsageError, match="there is no such interpreter"):
        provide(Wanted(interpreter=str(tmp_path / "python")), cache, said)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python today >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(Unavailable, match="does not run as a Python interpreter: no python today"):
        provide(Wanted(interpreter=str(broken)), cache, said)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    with pytest.raises(Unavailable, match="has no jax") as caught:
        provide(Wanted(interpreter=str(tmp_path / "empty/bin/python")), cache, said)
    assert "pip install jax" in str(caught.value.hint)
    with pytest.raises(UsageError, match="taken as it is"):
        provide(Wanted(("jax",), interpreter=sys.executable), cache, said)


def test_pythonpath_must_not_hold_jax(cache: Path, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "shadow/jax-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.1\n")
    monkeypatch.setenv("PYTHONPATH", str(info.parent))
    with pytest.raises(UsageError, match=r"jax 0\.1 is in .*, which PYTHONPATH names"):
        provide(Wanted(("jax",)), cache, said)


def test_pythons(base: Snapshot, cache: Path, said: Said, index: Path, fast: str) -> None:
    current = ".".join(map(str, sys.version_info[:2]))
    assert find_python(current, None).version == sys.version.split()[0]
    with pytest.raises(Unavailable, match=r"there is no Python 3\.98 here") as caught:
        find_python("3.98", find_uv())
    assert "--to-python PATH" in str(caught.value.hint)
    with pytest.raises(Unavailable, match=r"Python 3\.10 is too old"):
        provide_from(base, Wanted(python="3.10"), cache, said)
    with pytest.raises(UsageError, match="not a version of Python"):
        find_python("/usr/bin/python3", None)
    got = provide_from(base, Wanted(python=current), cache, said)
    assert got.packages == base.versions
    assert got.label == f"Python {current}"


def test_another_python(base: Snapshot, cache: Path, said: Said, index: Path, installer: str) -> None:
    current = sys.version_info[1]
    for minor in (13, 12, 11):
        if minor != current:
            try:
                other = find_python(f"3.{minor}", find_uv())
                break
            except Unavailable:
                continue
    else:
        pytest.skip("there is one Python here")
    got = provide_from(base, Wanted(("alpha==2.0",), python=f"3.{minor}"), cache, said)
    assert got.python_version == other.version
    assert inside(got, "import sys, alpha; print(sys.version_info[1], alpha.version)") == f"{minor} 2.0"


# The cache


def test_the_second_time_it_is_there(base: Snapshot, cache: Path, said: Said, index: Path, fast: str) -> None:
    first = provide_from(base, Wanted(("alpha==2.0",)), cache, said)
    said.clear()
    second = provide_from(base, Wanted(("alpha==2.0",)), cache, said)
    assert second == replace(first, cached=True)
    assert said == [f"cached environment {first.folder.name}"]  # type: ignore[union-attr]
    another = provide_from(base, Wanted(("alpha==1.0",)), cache, said)
    assert another.folder != first.folder
    older = replace(base, packages=tuple(plain("alpha==1.0", "beta==1.5", "gamma==1.1rc1", "other==1.0")))
    assert provide_from(older, Wanted(("alpha==2.0",)), cache, said).folder != first.folder
    fresh = provide_from(base, Wanted(("alpha==2.0",)), cache, said, refresh=True)
    assert (fresh.folder, fresh.cached) == (first.folder, False)


def test_the_cache_is_its_owners(
    base: Snapshot, cache: Path, said: Said, index: Path, fast: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache.mkdir(mode=0o777)
    provide_from(base, Wanted(("other==1.1",)), cache, said)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    monkeypatch.setenv("JAXCHECK_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("JAXCHECK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/jaxcheck"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache/jaxcheck"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to the cache"):
        provide_from(base, Wanted(("other==1.1",)), tmp_path / "file/cache", said)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user(base: Snapshot, cache: Path, said: Said, index: Path) -> None:
    cache.mkdir()
    os.chown(cache, 12345, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        provide_from(base, Wanted(("other==1.1",)), cache, said)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda place: (place / "complete.json").unlink(), "complete.json cannot be read"),
        (lambda place: (place / "complete.json").write_text("{"), "complete.json cannot be read"),
        (lambda place: (place / "bin/python").unlink(), "does not run"),
        (lambda place: shutil.rmtree(next(place.rglob("other-1.1.dist-info"))), "other is gone now, and was 1.1"),
    ],
    ids=["no-record", "half-record", "no-python", "no-package"],
)
def test_a_broken_one_is_built_again(
    base: Snapshot, cache: Path, said: Said, index: Path, fast: str, damage: object, words: str
) -> None:
    wanted = Wanted(("other==1.1",))
    place = provide_from(base, wanted, cache, said).folder
    assert place is not None
    damage(place)  # type: ignore[operator]
    assert words in str(cached(cache)[0].fault)
    said.clear()
    again = provide_from(base, wanted, cache, said)
    assert (again.folder, again.cached) == (place, False)
    assert f"the cached environment {place.name} is broken, and is built again" in said[0]
    assert [entry.fault for entry in cached(cache)] == [None]
    assert left(cache) == []


def test_an_open_requirement_is_looked_up_again_after_a_day(
    base: Snapshot, cache: Path, said: Said, index: Path, fast: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Wanted(("other",))
    first = provide_from(base, wanted, cache, said)
    make_wheel(index, "other", "1.2")
    assert provide_from(base, wanted, cache, said).packages["other"] == "1.1"
    place = first.folder
    assert place is not None
    record = json.loads((place / "complete.json").read_text())
    (place / "complete.json").write_text(json.dumps({**record, "created": time.time() - 90_000}))
    hidden = index.rename(index.with_name("hidden"))
    index.mkdir()
    said.clear()
    assert provide_from(base, wanted, cache, said).packages["other"] == "1.1"
    assert "nothing newer can be had, so the cached environment" in str(said)
    index.rmdir()
    hidden.rename(index)
    renewed = provide_from(base, wanted, cache, said)
    assert (renewed.packages["other"], renewed.cached) == ("1.2", False)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_stopping_leaves_nothing(
    base: Snapshot,
    cache: Path,
    said: Said,
    index: Path,
    fast: str,
    monkeypatch: pytest.MonkeyPatch,
    stop: type[BaseException],
) -> None:
    def stopped(*_: object) -> None:
        raise stop

    with monkeypatch.context() as patched:
        patched.setattr(orders.Changed, "examine", stopped)
        with pytest.raises(stop):
            provide_from(base, Wanted(("other==1.1",)), cache, said)
    assert left(cache) == []
    assert cached(cache) == []
    assert provide_from(base, Wanted(("other==1.1",)), cache, said).packages["other"] == "1.1"


DRIVER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {repository!r})
from jaxcheck.gate.environments import Wanted
from jaxcheck.gate.environments.providing import provide_from
from tests.gate.packages import base_of, plain

base = base_of(sys.executable, *plain("alpha==1.0", "beta==1.0", "other==1.0"))
print("begin", flush=True)
got = provide_from(base, Wanted(("alpha==2.0",)), Path(sys.argv[1]), print, refresh="refresh" in sys.argv)
print("done", got.folder, flush=True)
if "hold" in sys.argv:
    time.sleep(600)
"""


def drive(cache: Path, *arguments: str) -> subprocess.Popen[str]:
    """`provide` in a process of its own, once it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(repository=str(REPOSITORY)), str(cache), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    return process


def finished(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out


@pytest.mark.parametrize("refresh", [False, True], ids=["new", "replacing"])
def test_killed_at_any_moment(base: Snapshot, cache: Path, index: Path, fast: str, refresh: bool) -> None:
    """Whenever it dies, what the cache offers afterwards works, and the next call leaves nothing lying about."""
    start = time.monotonic()
    finished(drive(cache))
    whole = time.monotonic() - start
    if not refresh:
        prune(cache)
    moments = random.Random(4)
    killed = 0
    for number in range(24):
        process = drive(cache, *(["refresh"] if refresh else []))
        time.sleep(moments.uniform(0, whole))
        if process.poll() is None:
            killed += 1
        else:
            whole *= 0.8  # it goes faster than the first time
        with contextlib.suppress(ProcessLookupError):
            # By itself, its installer going on, or with all that it started.
            (os.kill if number % 3 == 2 else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate()
        assert [entry.fault for entry in cached(cache) if entry.fault] == []
        if not refresh and moments.random() < 0.5:
            prune(cache)
        if number >= 5 and killed >= 3:
            break
    assert killed >= 3
    for _ in range(3):
        got = finished(drive(cache))
        if not left(cache):
            break
        time.sleep(whole)  # an installer that outlived its jaxcheck may still write where the sweep has been
    assert left(cache) == []
    (entry,) = cached(cache)
    assert entry.fault is None
    assert str(entry.folder) in got


def test_two_at_once_build_one(cache: Path, index: Path, fast: str) -> None:
    both = [drive(cache), drive(cache)]
    outputs = [finished(process) for process in both]
    assert sum("installing" in output for output in outputs) == 1
    assert len({output.split()[-1] for output in outputs}) == 1
    assert len(cached(cache)) == 1
    assert left(cache) == []


def test_prune(base: Snapshot, cache: Path, said: Said, index: Path, fast: str) -> None:
    used = drive(cache, "hold")
    try:
        assert used.stdout is not None
        while not used.stdout.readline().startswith("done"):
            pass
        (held,) = cached(cache)
        mine = provide_from(base, Wanted(("other==1.1",)), cache, said).folder
        assert mine is not None
        store.Lock.drop(cache / "environments", mine.name)
        old = time.time() - 40 * 86_400
        os.utime(mine / "complete.json", (old, old))
        with pytest.raises(UsageError, match="no environment with a key that begins with 'zz'"):
            prune(cache, ["zz"])
        assert prune(cache, older_than_days=50).removed == ()
        assert [entry.key for entry in prune(cache, older_than_days=30).removed] == [mine.name]
        assert [entry.key for entry in prune(cache, [held.key[:6]]).in_use] == [held.key]
        assert cached(cache)[0].fault is None
    finally:
        os.killpg(used.pid, signal.SIGKILL)
        used.communicate()
    assert [entry.key for entry in prune(cache).removed] == [held.key]
    assert cached(cache) == []
    assert left(cache) == []


def test_keys_must_be_clear(base: Snapshot, cache: Path, said: Said, index: Path, fast: str) -> None:
    provide_from(base, Wanted(("other==1.1",)), cache, said)
    provide_from(base, Wanted(("other==1.0",)), cache, said)
    found = cached(cache)
    assert select(found, [found[0].key, found[0].key]) == [found[0]]
    with pytest.raises(UsageError, match="2 environments with a key that begins with ''"):
        select(found, [""])


def test_doctor_lists_and_prunes(
    base: Snapshot, cache: Path, said: Said, index: Path, fast: str, project: Project
) -> None:
    place = provide_from(base, Wanted(("other==1.1",)), cache, said).folder
    assert place is not None
    store.Lock.drop(cache / "environments", place.name)
    where = {"JAXCHECK_CACHE": str(cache)}
    done = project.jaxcheck("doctor", "--environments", **where)
    assert done.code == 0, done
    assert f"{place.name}  other==1.1" in done.out
    version = sys.version.split()[0]
    assert f"Python {version}, jax not there" in done.out
    assert "healthy" in done.out
    (place / "complete.json").unlink()
    assert (
        f"{place.name}  broken: its complete.json cannot be read"
        in project.jaxcheck("doctor", "--environments", **where).out
    )
    assert project.jaxcheck("doctor", "--environments", "nokey", **where).code == 2
    assert project.jaxcheck("doctor", "--older-than", "3", **where).code == 2
    done = project.jaxcheck("doctor", "--prune", place.name[:5], **where)
    assert f"removed {place.name}" in done.out, done
    assert f"none in {cache}" in project.jaxcheck("doctor", "--environments", **where).out
    assert "nothing to remove" in project.jaxcheck("doctor", "--prune", **where).out


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_jax(cache: Path, said: Said) -> None:
    wanted = Wanted(("jax==0.12.0.1",))
    got = provide(wanted, cache, said)
    moved = {one.name: one for one in changes(provide(Wanted(), cache, said), got, wanted.requirements)}
    assert (moved["jax"].after, moved["jax"].asked) == ("0.12.0.1", True)
    assert (moved["jaxlib"].after, moved["jaxlib"].asked) == ("0.12.0.1", False)
    assert moved.keys() == {"jax", "jaxlib"}
    assert inside(got, "import jax; print(jax.__version__, jax.numpy.ones(3).sum())") == "0.12.0.1 3.0"
    assert provide(wanted, cache, said).cached
