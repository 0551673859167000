"""A clock that goes backwards, and one that was wrong: durations do not come from it, and nothing is ordered by it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.scenes import Scene, content_of
from tests.harness import Project, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

# The time of day goes back by an hour whenever somebody asks for it; the monotonic clock is the system's.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static long asked;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec -= 3600 * __sync_add_and_fetch(&asked, 1);
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec then;
    int result = clock_gettime(CLOCK_REALTIME, &then);
    now->tv_sec = then.tv_sec;
    now->tv_usec = then.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec then;
    clock_gettime(CLOCK_REALTIME, &then);
    if (now) *now = then.tv_sec;
    return then.tv_sec;
}
"""


@pytest.fixture(scope="module")
def backwards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which the time of day goes backwards."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(CLOCK)
    command = [compiler, "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return {"LD_PRELOAD": str(folder / "clock.so")}


def test_a_clock_that_goes_backwards(moved: Project, tmp_path: Path, backwards: dict[str, str]) -> None:
    project = Scene.of(moved, "rollback", tmp_path).project
    done, report = project.run("-j", "1", **backwards)
    assert done.code == 1, done
    assert set(statuses(report).values()) == {"fail", "pass"}
    assert 0 < report["seconds"] < 200
    for result in report["results"]:
        assert 0 < result["seconds"] < 100
        assert 0 <= result["trace_seconds"] <= result["seconds"]
        assert 0 <= result["compile_seconds"] <= result["seconds"]
    blessed = project.jaxcheck("bless", "--no-truth", "--reason", "t", **backwards)
    assert blessed.code == 0, blessed
    assert "blessing the candidates of the last run" in blessed.err
    listed = project.jaxcheck("rollback", "--list", "first", **backwards)
    assert len(listed.out.splitlines()) == 2, listed


def test_what_was_done_in_the_future_is_what_was_done_before(moved: Project, tmp_path: Path) -> None:
    """The clock was wrong, and was set right: the last run, the goldens and all files are of the year 2099."""
    scene = Scene.of(moved, "bless --no-truth", tmp_path)
    folder = scene.project.folder
    last = json.loads((folder / ".jaxcheck" / "run.json").read_text())
    (folder / ".jaxcheck" / "run.json").write_text(json.dumps({**last, "started": "2099-01-01T00:00:00+00:00"}))
    subprocess.run(["find", str(folder), "-exec", "touch", "-d", "2099-01-01", "{}", "+"], check=True)
    blessed = scene.project.jaxcheck("bless", "--no-truth", "--reason", "t")
    assert "blessing the candidates of the last run" in blessed.err, blessed
    assert {path.name: content_of(path) for path in scene.goldens()} == scene.after
    back = scene.project.jaxcheck("rollback", "first", "--reason", "t")
    assert back.code == 0, back
    first = scene.project.folder / "goldens" / "first.npz"
    assert content_of(first) == content_of(moved.folder / "goldens" / "first.npz")


def test_durations_come_from_the_monotonic_clock() -> None:
    """The time of day is for people; the gate's cache also drops what was not used for long by it."""
    package = Path(__file__).parents[2] / "jaxcheck"
    asked = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\btime\.time(_ns)?\(", path.read_text())
    }
    assert asked == {"gate/environments/cache.py", "gate/environments/providing.py", "cli/environments.py"}
