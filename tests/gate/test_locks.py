"""A requirements file as an environment: with its hashes held to, and nothing in it that it does not name."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jaxcheck.cli.diagnose import check_against
from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments import Installation, Wanted, changes, wheels_of
from jaxcheck.gate.environments import cache as store
from jaxcheck.gate.environments.frozen import Origin, Package, Snapshot
from jaxcheck.gate.environments.installers import Uv
from jaxcheck.gate.environments.lockfile import lock_of, read_lock
from jaxcheck.gate.environments.model import PYTHON
from jaxcheck.gate.environments.providing import provide_from
from jaxcheck.gate.environments.requests import names_a_lock, parse_request
from tests.gate.packages import PYPROJECT, Said, base_of, editable, inside, make_project, make_wheel, plain
from tests.harness import REPOSITORY, Project

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(300)]

ANOTHER = "0" * 64


@pytest.fixture
def base() -> Snapshot:
    return base_of(sys.executable, *plain("jax==1.0", "beta==1.0", "other==1.0"))


@pytest.fixture
def jax(index: Path) -> Path:
    """An index with a jax, which needs a beta and the exporting of programs."""
    make_wheel(index, "jax", "2.0", ["beta>=2", "flatbuffers"])
    make_wheel(index, "flatbuffers", "1.0")
    return index


def locked(index: Path, *pins: str, digest: str = "") -> str:
    """The lines of `pip-compile --generate-hashes`, or with another digest."""
    lines = []
    for pin in pins:
        content = (index / f"{pin.replace('==', '-')}-py3-none-any.whl").read_bytes()
        lines.append(
            f"{pin} \\\n    --hash=sha256:{digest or hashlib.sha256(content).hexdigest()}\n    # via -r in.txt\n"
        )
    return "".join(lines)


WHOLE = ("jax==2.0", "beta==2.0", "flatbuffers==1.0")


# What is in it


def test_what_the_lock_says_and_nothing_else(
    base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """beta 2.5 would be newer, and other is installed here."""
    monkeypatch.chdir(tmp_path)
    Path("new.txt").write_text(f"# pip install --require-hashes --hash=\n{locked(jax, *WHOLE)}")
    got = provide_from(base, Wanted(("new.txt",)), cache, said)
    assert (got.label, got.remarks) == ("new.txt (with hashes)", ())
    assert got.packages == {"jax": "2.0", "beta": "2.0", "flatbuffers": "1.0"}
    assert said == [f"installing new.txt (with hashes) with {installer}"]
    assert inside(got, "import jax, beta; print(jax.version, beta.version)") == "2.0 2.0"
    before = Installation("current", sys.executable, base.versions, None, False, got.python_version)
    moved = {one.name: (one.before, one.after, one.asked) for one in changes(before, got, ["new.txt"])}
    assert moved == {
        "beta": ("1.0", "2.0", True),
        "flatbuffers": (None, "1.0", True),
        "jax": ("1.0", "2.0", True),
        "other": ("1.0", None, True),
    }


def test_without_hashes_it_says_so(
    base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, installer: str
) -> None:
    """What it does not name but its packages need comes from the index, as `pip install -r` has it."""
    lock = tmp_path / "new.txt"
    lock.write_text("jax==2.0  # --hash=sha256:0\n")
    got = provide_from(base, Wanted((str(lock),), python=base.interpreter.short), cache, said)
    assert got.label == f"{lock} (without hashes), Python {base.interpreter.short}"
    assert got.packages == {"jax": "2.0", "beta": "2.5", "flatbuffers": "1.0"}


def test_what_it_includes_and_where_it_looks(
    base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Included files and folders of wheels are found from where the lock is; its index is in the place of pip's."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    folder = tmp_path / "pins"
    folder.mkdir()
    (folder / "new.txt").write_text(f"--no-index\n--find-links ../index\n-r more.txt\n{locked(jax, 'jax==2.0')}")
    (folder / "more.txt").write_text(locked(jax, "beta==2.0", "flatbuffers==1.0"))
    monkeypatch.chdir(folder)
    got = provide_from(base, Wanted(("new.txt",)), cache, said)
    assert (got.label, got.packages["beta"]) == ("new.txt (with hashes)", "2.0")


def test_own_projects_come_along_alone(
    base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, installer: str
) -> None:
    project = make_project(tmp_path / "project")
    patched = Package("patched", "1.0", Origin("patched @ https://host/patched-1.0.zip", None, source=False))
    base = replace(base, packages=(*base.packages, editable(project), patched))
    lock = tmp_path / "new.txt"
    lock.write_text(locked(jax, *WHOLE))
    got = provide_from(base, Wanted((str(lock),)), cache, said)
    assert got.packages == {"jax": "2.0", "beta": "2.0", "flatbuffers": "1.0", "mine": "3.0"}
    assert inside(got, "import mine; print(mine.where)") == str(project / "mine.py")
    assert got.remarks == (
        f"mine declares alpha<2, which {lock} does not have",
        f"patched is installed here from no index and not in {lock}: it is left out",
    )
    assert not any("from the index" in line for line in said)

    make_wheel(jax, "tool", "1.0")
    (project / "pyproject.toml").write_text(PYPROJECT.replace("requires = []", 'requires = ["tool"]'))
    again = provide_from(base, Wanted((str(lock),)), cache, said)
    assert again.folder != got.folder
    assert again.packages == got.packages
    assert f"mine is built with tools from the index: {lock} does not have them" in said


# What cannot be had


@pytest.mark.parametrize(
    ("lines", "words", "hint"),
    [
        (
            lambda index: locked(index, *WHOLE, digest=ANOTHER),
            r"==\d\.0.* found (sha256:)?\w{64}$",
            "the index has another file",
        ),
        (lambda index: locked(index, "jax==2.0") + "beta==2.0\n", "hash.*beta==2.0", "a lock with the hash of every"),
        (lambda index: locked(index, "jax==2.0"), "require.*beta", "a lock with the hash of every"),
        (lambda index: locked(index, *WHOLE) + "-e ./project\n", "hash.*project|project.*hash", "a lock with the hash"),
        (lambda index: f"jax==9.0 --hash=sha256:{ANOTHER}\n", "jax==9.0", "a version that exists"),
        (lambda index: locked(index, *WHOLE) + "[[package]]\n", r"Unexpected '\['|\[\[package\]\]", ""),
        (lambda index: locked(index, *WHOLE) + "-r gone.txt\n", "No such file.*|gone.txt", ""),
    ],
    ids=["another-file", "no-hash", "no-package", "folder", "no-version", "no-requirement", "no-file"],
)
def test_the_installers_reason_in_two_lines(
    base: Snapshot,
    cache: Path,
    said: Said,
    jax: Path,
    tmp_path: Path,
    installer: str,
    monkeypatch: pytest.MonkeyPatch,
    lines: object,
    words: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path / "project")
    Path("new.txt").write_text(lines(jax))  # type: ignore[operator]
    with pytest.raises(Unavailable) as caught:
        provide_from(base, Wanted(("new.txt",)), cache, said)
    first, *reason = str(caught.value).splitlines()
    assert first == "new.txt (with hashes) cannot be installed"
    assert 1 <= len(reason) <= 2
    assert re.search(words, " ".join(reason)), reason
    assert str(caught.value.hint).startswith(hint), caught.value.hint
    assert [place.name for place in (cache / "environments").iterdir()] == ["locks"]


def test_a_lock_has_to_have_jax(base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, fast: str) -> None:
    lock = tmp_path / "new.txt"
    lock.write_text(locked(jax, "beta==2.0"))
    with pytest.raises(Unavailable, match=r"new\.txt has no jax"):
        provide_from(base, Wanted((str(lock),)), cache, said)
    make_wheel(jax, "jax", "3.0")
    lock.write_text(locked(jax, "jax==3.0"))
    got = provide_from(base, Wanted((str(lock),)), cache, said)
    assert got.remarks == (f"{lock} has no flatbuffers: programs cannot be exported there, so no cause can be told",)
    assert said[-1] == got.remarks[0]


def test_changed_while_it_was_installed(
    base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "new.txt"
    lock.write_text(locked(jax, *WHOLE))
    install = Uv.install_lock

    def meanwhile(self: Uv, *arguments: object) -> None:
        install(self, *arguments)  # type: ignore[arg-type]
        lock.write_text("")

    monkeypatch.setattr(Uv, "install_lock", meanwhile)
    with pytest.raises(Unavailable, match="was changed while it was installed"):
        provide_from(base, Wanted((str(lock),)), cache, said)
    assert not [place for place in (cache / "environments").iterdir() if store.KEY.fullmatch(place.name)]


# The cache


def test_known_by_its_content(base: Snapshot, cache: Path, said: Said, jax: Path, tmp_path: Path, fast: str) -> None:
    lock, copy = tmp_path / "new.txt", tmp_path / "copy.txt"
    lock.write_text(locked(jax, *WHOLE))
    first = provide_from(base, Wanted((str(lock),)), cache, said)
    copy.write_bytes(lock.read_bytes())
    newer = replace(base, packages=tuple(plain("jax==2.0", "beta==2.5")))
    second = provide_from(newer, Wanted((str(copy),)), cache, said)
    assert (second.folder, second.cached, second.label) == (first.folder, True, f"{copy} (with hashes)")
    lock.write_text(locked(jax, "jax==2.0", "beta==2.5", "flatbuffers==1.0"))
    edited = provide_from(base, Wanted((str(lock),)), cache, said)
    assert edited.folder != first.folder
    assert (edited.cached, edited.packages["beta"]) == (False, "2.5")
    record = json.loads((edited.folder / "complete.json").read_text())  # type: ignore[operator]
    (edited.folder / "complete.json").write_text(json.dumps({**record, "created": 0.0}))  # type: ignore[operator]
    assert provide_from(base, Wanted((str(lock),)), cache, said).cached, "with hashes there is nothing newer to find"


def test_what_a_lock_says_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, more, wheel = tmp_path / "a.txt", tmp_path / "more.in", tmp_path / "own/thing-1.0-py3-none-any.whl"
    make_wheel(wheel.parent, "thing", "1.0")
    make_project(tmp_path / "project")
    lock.write_text(f"-r more.in\n--requirement={more}\n-c ${{LIMITS}}\n-e ./project[gpu]\nthing @ {wheel.as_uri()}\n")
    more.write_text("-r project/../a.txt\nbeta~=1.0\nalpha ~= 1.0  # -r gone.txt\n")
    monkeypatch.setenv("LIMITS", "limits.txt")
    digests = [read_lock(str(lock)).digest]
    for change in (
        lambda: more.write_text("beta~=2.0\n"),
        lambda: (tmp_path / "limits.txt").write_text("beta<3\n"),
        lambda: make_wheel(wheel.parent, "thing", "1.0", body="more = 1\n"),
        lambda: (tmp_path / "project/mine.py").write_text(""),
        lambda: monkeypatch.setenv("LIMITS", "other.txt"),
        lambda: lock.write_text(lock.read_text() + "--hash"),
    ):
        assert read_lock(str(lock)).digest == digests[-1]
        change()
        digests.append(read_lock(str(lock)).digest)
    assert len(set(digests)) == len(digests)
    assert not read_lock(str(lock)).hashed


def test_an_index_of_its_own(tmp_path: Path) -> None:
    lock = tmp_path / "new.txt"
    for line in ("-i https://host/simple", "--index-" + "url=https://host", "--no-index"):
        lock.write_text(f"{line}\njax==2.0\n")
        assert read_lock(str(lock)).own_index, line
    lock.write_text("--extra-index-" + "url https://host\n--find-links wheels\nindex-thing==1.0\n")
    assert not read_lock(str(lock)).own_index


# What cannot be meant


def test_what_is_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_wheel(tmp_path, "thing", "1.0")
    for name in ("new.txt", "jax", "jax==0.12.0", "uv.lock", "new.lock", "new.TXT"):
        (tmp_path / name).write_text("")
    locks = ("new.txt", "./jax", str(tmp_path / "new.txt"), "./jax==0.12.0", "uv.lock", "new.lock", "new.TXT")
    assert [text for text in locks if not names_a_lock(text)] == []
    no_locks = ("jax", "jax==0.12.0", "gone.txt", "thing-1.0-py3-none-any.whl", ".", "new.txt @ https://host/new.txt")
    assert [text for text in no_locks if names_a_lock(text)] == []
    assert lock_of(["jax==0.12.0", "optax"]) is None
    check_against("new.txt")
    with pytest.raises(UsageError, match="there is no such file"):
        check_against("gone.txt")
    with pytest.raises(UsageError, match="one requirement is meant"):
        parse_request("new.txt")
    with pytest.raises(UsageError, match="no requirements file") as caught:
        lock_of(["uv.lock"])
    assert caught.value.hint == "uv export --no-emit-project -o requirements.txt"
    for others in (("new.txt", "optax==0.2.8"), ("new.lock", "new.txt")):
        with pytest.raises(UsageError, match=f"{others[0]} is all that .*: {others[1]} cannot"):
            lock_of(others)
    Path("new.txt").write_text("-r https://host/more.txt\n")
    with pytest.raises(UsageError, match=r"includes https://host/more\.txt"):
        lock_of(["new.txt"])
    Path("new.txt").write_bytes(b"PK\0\0")
    with pytest.raises(UsageError, match="it is not text"):
        lock_of(["new.txt"])
    with pytest.raises(UsageError, match="nodes of a Ray cluster") as caught:
        wheels_of(["new.txt"])
    assert "without --executor" in str(caught.value.hint)


def test_where_a_lock_cannot_be(project: Project) -> None:
    (project.folder / "new.txt").write_text("jax==0.12.0.1\n")
    for arguments, why in (
        (("gate", "--to", "new.txt", "--isolate"), "--isolate and --since change the current environment"),
        (("gate", "--from", "new.txt", "--to", "jax==0.12.0.1", "--since"), "new.txt is another one"),
        (("gate", "--to", "new.txt", "--to", "jax==0.12.0.1"), "jax==0.12.0.1 cannot be asked for beside it"),
        (("bisect", "--from", "new.txt", "--good", "0.11.2", "--bad", "0.12.0.1"), "new.txt is a requirements file"),
    ):
        done = project.jaxcheck(*arguments)
        assert (done.code, done.out) == (2, ""), done
        assert why in done.err


# The real thing


@pytest.mark.needs_jax
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_gate_between_two_locks(project: Project, tmp_path: Path) -> None:
    """The developers' own locks, of jax and what it needs: workers do without typer, rich and pydantic."""
    for name, version in (("old", "dev-0.11.2"), ("new", "test-0.12.0.1")):
        text = (REPOSITORY / f"constraints/lock-{version}.txt").read_text()
        wanted = re.findall(
            r"(?m)^(?:jax|jaxlib|numpy|scipy|ml-dtypes|opt-einsum|flatbuffers)==.*(?:\n +--hash.*)+", text
        )
        (project.folder / f"{name}.txt").write_text("\n".join(wanted))
    names = ("lgamma-near-roots", "newton-sqrt", "--from", "old.txt", "--to", "new.txt", "-o", "gate.json")
    done = project.jaxcheck("gate", "--shipped", *names, timeout=1400, JAXCHECK_CACHE=str(tmp_path / "cache"))
    assert done.code == 1, done
    report = json.loads((project.folder / "gate.json").read_text())
    assert report["verdict"] == "review", done
    assert (report["from"]["label"], report["to"]["label"]) == ("old.txt (with hashes)", "new.txt (with hashes)")
    moved = {change["name"]: change["after"] for change in report["packages"]}
    assert (moved["jax"], moved["jaxlib"]) == ("0.12.0.1", "0.12.0.1")
    assert PYTHON not in moved
    assert {one["verdict"] for one in report["results"] if one["recipe"] == "newton-sqrt"} == {"unchanged"}
    causes = {leaf["cause"] for one in report["results"] for leaf in one["leaves"] if leaf["verdict"] == "improved"}
    assert causes == {"jax"}
    assert report["remarks"] == []
