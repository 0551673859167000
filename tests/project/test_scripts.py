"""The scripts that make environments, on a clone of this checkout with stand-ins for Python: no installation."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = """
    sh bash env cat cmp tr sed mkdir rm rmdir sleep readlink touch dirname mktemp tee tail cp chmod kill
"""

# A Python that answers the three calls which the scripts make, and writes down the last two.
STAND_IN = """#!/bin/sh
version={version}
case "$*" in
  "-I -c "*"!= '$version'"*) exit 0 ;;
  "-I -c "*) exit 1 ;;
  "-I -m venv "*)
    echo "venv $version" >>"$LOG"
    mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
    ;;
  "-I -m pip install "*)
    echo "$*" >>"$LOG"
    touch "$LOG.pip"
    [ -z "${{PIP_HANGS:-}}" ] || sleep 30
    [ -z "${{PIP_WAITS:-}}" ] || sleep 1
    [ -z "${{PIP_FAILS:-}}" ] || {{ echo "ERROR: no matching distribution"; exit 1; }}
    printf '#!/bin/sh\\nprintf "<%%s>" "$PWD" "$@"\\n' >"${{0%/*}}/jaxcheck"
    chmod +x "${{0%/*}}/jaxcheck"
    ;;
  "-m pytest "*) shift 2; echo "3 passed: $*" ;;
  *) exit 9 ;;
esac
"""

PATIENCE = 90  # seconds after which a process hangs, on a slow machine too


@dataclass
class Clone:
    """A copy of the scripts and what they read, a folder of tools without any Python, and a log of what was run."""

    root: Path
    tools: Path
    log: Path
    elsewhere: Path

    def add_python(self, version: str, folder: Path | None = None, name: str | None = None) -> None:
        folder = folder or self.tools
        folder.mkdir(parents=True, exist_ok=True)
        python = folder / (name or f"python{version}")
        python.write_text(STAND_IN.format(version=version))
        python.chmod(0o755)

    def add_tool(self, name: str, body: str = "") -> None:
        tool = self.root / ".venv/bin" / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)

    def env(self, **extra: str) -> dict[str, str]:
        return {"PATH": str(self.tools), "HOME": str(self.elsewhere), "LOG": str(self.log), **extra}

    def start(self, *command: str | Path, **extra: str) -> subprocess.Popen[str]:
        command = command or (self.root / "scripts/jaxcheck", "list", "two words")
        return subprocess.Popen(
            command,
            cwd=self.elsewhere,
            env=self.env(**extra),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *command: str | Path, **extra: str) -> tuple[int, str, str]:
        process = self.start(*command, **extra)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def environments(self) -> list[str]:
        return sorted(path.name for path in self.root.glob(".venv*") if path.name != ".venv.lock")

    @property
    def ran(self) -> str:
        return f"<{self.elsewhere}><list><two words>"


@pytest.fixture(params=["flock", "mkdir"])
def locking(request: pytest.FixtureRequest) -> str:
    if request.param == "flock" and not shutil.which("flock"):
        pytest.skip("this machine has no flock; the scripts then lock with a folder, which is tested")
    return str(request.param)


@pytest.fixture
def clone(tmp_path: Path, locking: str) -> Clone:
    made = Clone(tmp_path / "my clone", tmp_path / "tools", tmp_path / "log", tmp_path / "else where")
    for folder in (made.root, made.tools, made.elsewhere):
        folder.mkdir()
    for name in ("scripts", "constraints"):
        shutil.copytree(ROOT / name, made.root / name)
    shutil.copy(ROOT / "pyproject.toml", made.root)
    for tool in [*TOOLS.split(), *(["flock"] if locking == "flock" else [])]:
        found = shutil.which(tool)
        assert found, f"this test needs {tool}"
        (made.tools / tool).symlink_to(found)
    return made


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"waited {PATIENCE} s in vain"
        time.sleep(0.02)


def test_first_call_installs_and_says_so_and_second_is_silent(clone: Clone) -> None:
    clone.add_python("3.12")
    status, out, err = clone.run()
    assert (status, out) == (0, clone.ran)
    assert err.splitlines() == ["jaxcheck: installing into .venv: Python 3.12, jax 0.11.2 (a minute or two)"]
    before = clone.calls
    assert clone.run() == (0, clone.ran, "")
    assert clone.calls == before
    assert clone.environments == [".venv"]


@pytest.mark.parametrize(
    ("present", "chosen", "jax"),
    [
        (["3.11", "3.12", "3.13"], "3.12", "0.11.2"),
        (["3.11", "3.13"], "3.13", "0.11.2"),
        (["3.10", "3.11"], "3.11", "0.10.2"),
    ],
)
def test_best_python_present_is_taken_with_its_jax(clone: Clone, present: list[str], chosen: str, jax: str) -> None:
    for version in present:
        clone.add_python(version)
    assert clone.run()[0] == 0
    venv, install = clone.calls
    assert venv == f"venv {chosen}"
    assert f"--constraint constraints/jax-{jax}.txt --editable ." in install
    assert (clone.root / f"constraints/jax-{jax}.txt").is_file()


def test_tools_are_installed_from_the_lock_by_hash(clone: Clone) -> None:
    clone.add_python("3.12")
    script = f". '{clone.root}/scripts/lib/environment.sh'; ensure \"$root/.venv\" dev 3.12:0.11.2"
    assert clone.run("sh", "-c", f"root='{clone.root}'; {script}")[0] == 0
    _, locked, project = clone.calls
    assert "--require-hashes --requirement constraints/lock-dev-0.11.2.txt" in locked
    assert "--no-deps --no-build-isolation --editable ." in project


def test_shim_of_an_unselected_version_leads_to_pyenv_versions(clone: Clone) -> None:
    """The shim has the right name and does not run; HOME and PYENV_ROOT do not say where pyenv is."""
    pyenv = clone.elsewhere / "pyenv"
    clone.add_python("0.0", pyenv / "shims", name="python3.12")
    clone.add_python("3.12", pyenv / "versions/3.12.1/bin", name="python")
    clone.add_python("3.11")
    status, _, _ = clone.run(PATH=f"{pyenv}/shims:{clone.tools}")
    assert status == 0
    assert clone.calls[0] == "venv 3.12"


@pytest.mark.parametrize("variable", ["PYENV_ROOT", "HOME"])
def test_pyenv_is_found_by_its_variables(clone: Clone, variable: str) -> None:
    home = clone.elsewhere / "home"
    pyenv = home / ".pyenv" if variable == "HOME" else home
    clone.add_python("3.13", pyenv / "versions/3.13.0/bin", name="python")
    assert clone.run(**{variable: str(home)})[0] == 0
    assert clone.calls[0] == "venv 3.13"


def test_plain_python3_is_taken_where_it_is_new_enough(clone: Clone) -> None:
    clone.add_python("3.9", name="python3")
    clone.add_python("3.13", name="python")
    assert clone.run()[0] == 0
    assert clone.calls[0] == "venv 3.13"


def test_no_python_names_what_was_looked_for(clone: Clone) -> None:
    clone.add_python("3.9", name="python3")
    status, out, err = clone.run()
    assert (status, out) == (4, "")
    assert "no usable Python found" in err
    for version in ("3.11", "3.12", "3.13"):
        assert f"python{version}, python3 and python on PATH, and versions/{version}.* of pyenv" in err
    assert f"not usable: {clone.tools}/python3" in err
    assert clone.environments == []


def test_failed_installation_shows_all_of_pip_and_leaves_nothing(clone: Clone) -> None:
    clone.add_python("3.12")
    status, out, err = clone.run(PIP_FAILS="yes")
    assert (status, out) == (4, "")
    assert "ERROR: no matching distribution" in err
    assert clone.environments == []
    assert clone.run()[:2] == (0, clone.ran)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interrupted_installation_leaves_nothing(clone: Clone, number: signal.Signals) -> None:
    clone.add_python("3.12")
    process = clone.start(PIP_HANGS="yes")
    until(Path(f"{clone.log}.pip").exists)
    os.killpg(process.pid, number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    until(lambda: clone.environments == [])
    assert clone.run()[:2] == (0, clone.ran)


def test_killed_installation_is_not_taken_for_finished(clone: Clone) -> None:
    clone.add_python("3.12")
    process = clone.start(PIP_HANGS="yes")
    until(Path(f"{clone.log}.pip").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    left_lock = clone.root / ".venv.lock.d"
    if left_lock.exists():
        left_lock.rmdir()
    assert clone.environments == [".venv", ".venv.log"]
    assert clone.run()[:2] == (0, clone.ran)
    assert [call for call in clone.calls if call.startswith("venv")] == ["venv 3.12"] * 2


def test_two_at_once_wait_for_one_another_and_install_once(clone: Clone) -> None:
    clone.add_python("3.12")
    first = clone.start(PIP_WAITS="yes")
    until(Path(f"{clone.log}.pip").exists)
    status, out, err = clone.run()
    assert (status, out) == (0, clone.ran)
    assert "waiting for another installation" in err
    assert first.communicate(timeout=PATIENCE)[0] == clone.ran
    assert len(clone.calls) == 2
    assert clone.environments == [".venv"]


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints/common.txt"])
def test_changed_dependencies_update_the_environment(clone: Clone, changed: str) -> None:
    clone.add_python("3.12")
    clone.run()
    with (clone.root / changed).open("a") as file:
        file.write("\n# changed\n")
    assert "installing" in clone.run()[2]
    assert [call.split()[0] for call in clone.calls] == ["venv", "-I", "-I"]
    assert clone.run() == (0, clone.ran, "")


def test_moved_checkout_gets_a_new_environment(clone: Clone) -> None:
    clone.add_python("3.12")
    clone.run()
    clone.root = clone.root.rename(clone.root.parent / "moved")
    assert "installing" in clone.run()[2]
    assert [call.split()[0] for call in clone.calls] == ["venv", "-I"] * 2


def test_runs_through_symbolic_links_and_by_bare_name(clone: Clone) -> None:
    clone.add_python("3.12")
    (clone.elsewhere / "bin").mkdir()
    (clone.elsewhere / "bin/one").symlink_to("../two")
    (clone.elsewhere / "two").symlink_to(clone.root / "scripts/jaxcheck")
    assert clone.run("bin/one", "list", "two words")[:2] == (0, clone.ran)
    assert clone.run("one", "list", "two words", PATH=f"{clone.elsewhere}/bin:{clone.tools}") == (0, clone.ran, "")
    status, out, _ = clone.run("sh", "-c", f"cd '{clone.root}/scripts' && sh jaxcheck list")
    assert (status, out) == (0, f"<{clone.root}/scripts><list>")


def test_asking_for_a_version_without_its_python_fails(clone: Clone) -> None:
    status, out, err = clone.run(clone.root / "scripts/test", "--jax", "0.12.0.1")
    assert status == 1
    assert "--- jax 0.12.0.1: failed\nno Python 3.13" in out
    assert out.endswith("scripts/test: 0 steps ok, 1 failed, 0 not checked\n")
    assert "jax 0.12.0.1 is not checked: no Python 3.13" in err


@pytest.mark.parametrize(("ci", "status", "word"), [("", 0, "NOT CHECKED"), ("true", 1, "failed")])
def test_supported_version_without_its_python_is_loud_and_fails_under_ci(
    clone: Clone, ci: str, status: int, word: str
) -> None:
    """The tools themselves are stand-ins that succeed."""
    clone.add_python("3.12")
    clone.run(clone.root / "scripts/test")
    for tool in ("ruff", "mypy", "lint-imports"):
        clone.add_tool(tool)
    found, out, _ = clone.run(clone.root / "scripts/test", "--versions", CI=ci)
    assert found == status
    assert f"--- jax 0.10.2: {word}\nno Python 3.11" in out
    assert f"--- jax 0.12.0.1: {word}\nno Python 3.13" in out
    assert "--- jax 0.11.2: jaxcheck run: ok" in out
    assert "needs_jax" not in out


def test_each_other_version_is_tested_in_an_environment_of_its_own(clone: Clone) -> None:
    for version in ("3.11", "3.12", "3.13"):
        clone.add_python(version)
    status, out, _ = clone.run(clone.root / "scripts/test", "--jax", "0.11.2", "-k", "some")
    assert status == 0
    arguments = "-n auto --dist loadfile --no-loadscope-reorder -m needs_jax and not one_version -k some"
    assert f"--- jax 0.11.2: pytest -m needs_jax: ok\n3 passed: {arguments}" in out
    assert "--- jax 0.11.2: jaxcheck run: ok\n" in out
    clone.run(clone.root / "scripts/test")
    _, out, _ = clone.run(clone.root / "scripts/test", "--versions")
    assert re.findall("^--- (.*) needs_jax: ok$", out, re.MULTILINE) == [
        "jax 0.10.2: pytest -m",
        "jax 0.12.0.1: pytest -m",
    ]
    assert re.findall("^--- (.*): jaxcheck run: ok$", out, re.MULTILINE) == [
        "jax 0.10.2",
        "jax 0.11.2",
        "jax 0.12.0.1",
    ]
    assert sorted(path.name for path in (clone.root / ".venvs").iterdir()) == [
        "jax-0.10.2",
        "jax-0.11.2",
        "jax-0.12.0.1",
    ]


def test_one_failing_linter_stops_no_other_step(clone: Clone) -> None:
    clone.add_python("3.12")
    clone.run(clone.root / "scripts/test")
    clone.add_tool("ruff", "echo lint; exit 1")
    clone.add_tool("mypy", "echo typed")
    clone.add_tool("lint-imports", "echo layered")
    status, out, _ = clone.run(clone.root / "scripts/test", "tests/x", "-k", "y z")
    assert status == 1
    assert "--- ruff check: failed\nexit 1; lint" in out
    assert "--- mypy: ok\ntyped" in out
    assert "--- lint-imports: ok\nlayered" in out
    assert "--- pytest: ok\n3 passed: tests/x -k y z" in out
    assert out.endswith("scripts/test: 3 steps ok, 2 failed, 0 not checked\n")


def test_unsupported_version_is_refused_with_the_valid_ones(clone: Clone) -> None:
    status, _, err = clone.run(clone.root / "scripts/test", "--jax", "0.4.1")
    assert status == 2
    assert "--jax takes one of: 0.10.2 0.11.2 0.12.0.1" in err


def test_help_of_the_test_script_is_its_comment(clone: Clone) -> None:
    status, out, err = clone.run(clone.root / "scripts/test", "--help")
    assert (status, err) == (0, "")
    assert out.startswith("Checks this checkout")
    assert "scripts/test --versions" in out
