"""`rollback`, `prune`, `show` and `diff` of golden files, by the real command. None of them needs a kernel to run."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck.goldens.golden import Golden
from jaxcheck.goldens.leaf import Tree
from jaxcheck.goldens.store import GoldenStore
from tests.goldens.samples import blessing, case, raising_case, rich_case, single, write_golden
from tests.harness import Project, clean_environment

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}
recipes:
  r: {kernel: "kernels:f", cases: {a: {args: {x: [1.0]}}, b: {args: {x: [2.0]}}}}
  other: {kernel: "kernels:f", cases: {a: {args: {x: [1.0]}}}}
"""
WHEN = "2026-02-03T04:05:06+00:00"


@pytest.fixture
def store(project: Project) -> GoldenStore:
    """The project's goldens, with the history that the command keeps."""
    project.write("kernels.py", "def f(x):\n    return x\n")
    project.write("recipes.yaml", REGISTRY)
    return GoldenStore(project.folder / "goldens", project.folder / ".jaxcheck" / "history")


def blessed_twice(store: GoldenStore, backend: str | None = None) -> tuple[bytes, bytes]:
    """The files of before and of now; case b is the same in both."""
    store.save("r", {"a": case(1.0), "b": case(2.0)}, backend)
    first = store.path("r", backend).read_bytes()
    store.update("r", {"a": case(1.5, blessing=blessing("moved", when=WHEN))}, backend=backend)
    return first, store.path("r", backend).read_bytes()


def reasons(path: Path) -> dict[str, str]:
    with Golden.open(path) as golden:
        return {name: golden.summary(name).blessing.reason for name in golden.cases}


# ------------------------------------------------------------------------------------------- rollback


@pytest.mark.parametrize("backend", [None, "gpu"])
def test_a_rollback_restores_the_golden_before_with_its_own_reason(
    project: Project, store: GoldenStore, backend: str | None
) -> None:
    _, now = blessed_twice(store, backend)
    path, name = store.path("r", backend), f"r@{backend}" if backend else "r"
    with Golden.open(path) as golden:
        replaced = golden.digest
    before = project.files()
    done = project.jaxcheck("rollback", name, "--reason", "by mistake", "--who", "Ada")
    assert done.code == 0, done
    after = project.files()
    assert {file for file in after if after[file] != before.get(file)} == {f"goldens/{name}.npz"}
    with Golden.open(path) as golden:
        assert golden.replaced == replaced
        assert golden.case("a").outputs == case(1.0).outputs
        assert golden.summary("a").blessing.who == "Ada"
        assert golden.summary("a").blessing.environment == case().blessing.environment
    assert reasons(path) == {"a": "rollback: by mistake", "b": "first"}, "what did not change keeps its blessing"
    assert store.versions("r", backend)[0].path.read_bytes() == now
    assert project.jaxcheck("rollback", name, "--reason", "it was none").code == 0
    with Golden.open(path) as golden:
        assert golden.case("a").outputs == case(1.5).outputs, "a second one undoes the first"


def test_what_is_kept_is_listed_and_can_be_named(project: Project, store: GoldenStore) -> None:
    for number in range(3):
        store.save("r", {"a": case(number, blessing=blessing(f"number {number}"))})
    done = project.jaxcheck("rollback", "--list", "r")
    assert done.code == 0, done
    newest, oldest = done.out.splitlines()
    assert "number 1" in newest
    assert "number 0" in oldest
    assert project.jaxcheck("rollback", "r", "--to", oldest.split()[0], "--reason", "x").code == 0
    with Golden.open(store.path("r")) as golden:
        assert golden.case("a").outputs == case(0).outputs
    done = project.jaxcheck("rollback", "r", "--to", "nothing", "--reason", "x")
    assert done.code == 2
    assert newest.split()[0] in done.err


def test_a_damaged_golden_is_rolled_back_and_damaged_history_passed_over(project: Project, store: GoldenStore) -> None:
    first, _ = blessed_twice(store)
    store.path("r").write_bytes(first[:100])
    store.save("r", {"a": case(3.0)})  # the damaged bytes are kept, too
    store.path("r").write_bytes(b"")
    assert "damaged" in project.jaxcheck("rollback", "--list", "r").out.splitlines()[0]
    done = project.jaxcheck("rollback", "r", "--reason", "the disk was full")
    assert done.code == 0, done
    assert "passed over" in done.err
    with Golden.open(store.path("r")) as golden:
        golden.verify()
        assert golden.cases == ("a", "b")


@pytest.mark.parametrize(
    ("args", "environment", "code", "says"),
    [
        (("r",), {}, 2, "needs a reason"),
        (("r", "--reason", "x"), {"CI": "true"}, 1, "--yes"),
        (("other", "--reason", "x"), {}, 5, "git log"),
        (("--list", "other"), {}, 5, "no earlier golden"),
    ],
)
def test_rollbacks_that_change_nothing(
    project: Project, store: GoldenStore, args: tuple[str, ...], environment: dict[str, str], code: int, says: str
) -> None:
    blessed_twice(store)
    before = project.files()
    done = project.jaxcheck("rollback", *args, **environment)
    assert done.code == code, done
    assert says in done.err
    assert project.files() == before


def test_a_pointer_is_not_replaced_by_a_rollback(project: Project, store: GoldenStore) -> None:
    blessed_twice(store)
    store.path("r").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    before = project.files()
    done = project.jaxcheck("rollback", "r", "--reason", "x")
    assert done.code == 2, done
    assert "git lfs pull" in done.err
    assert project.files() == before


def test_goldens_of_another_folder_have_a_history_of_their_own(project: Project, store: GoldenStore) -> None:
    blessed_twice(store)
    elsewhere = GoldenStore(project.folder / "elsewhere")
    elsewhere.save("r", {"a": case(7.0)})
    assert project.jaxcheck("rollback", "r", "--goldens", "elsewhere", "--reason", "x").code == 5


# ------------------------------------------------------------------------------------------- prune


def test_prune_lists_then_removes_what_no_recipe_owns_and_nothing_else(project: Project, store: GoldenStore) -> None:
    candidates = GoldenStore(project.folder / ".jaxcheck" / "candidates")
    for name, backend in (("r", None), ("r", "gpu"), ("gone", None), ("gone", "gpu")):
        store.save(name, {"a": case()}, backend)
    for name in ("r", "gone"):
        candidates.save(name, {"a": case()})
    (store.folder / "notes.txt").write_text("not a golden")
    np.savez(store.folder / "data.npz", x=np.zeros(2))
    before, gone = project.files(), store.path("gone").read_bytes()
    done = project.jaxcheck("prune")
    assert done.code == 1, done
    assert "gone.npz would be removed: the registry has no recipe 'gone'" in done.out
    assert "2 goldens and 1 candidate" in done.out
    assert "jaxcheck prune --yes" in done.err
    assert "data.npz" in done.err, "what is no golden is left alone, and said"
    assert project.files() == before
    done = project.jaxcheck("prune", "--yes")
    assert done.code == 0, done
    assert before.keys() - project.files().keys() == {"goldens/gone.npz", "goldens/gone@gpu.npz"}
    assert list(candidates.recipes()) == ["r"]
    done = project.jaxcheck("prune")
    assert done.code == 0, done
    assert project.jaxcheck("rollback", "gone", "--reason", "it is still wanted").code == 0
    assert store.versions("gone")[0].path.read_bytes() == gone
    with Golden.open(store.path("gone")) as golden:
        assert golden.cases == ("a",)


def test_prune_needs_a_registry_that_can_be_read(project: Project, store: GoldenStore) -> None:
    store.save("gone", {"a": case()})
    project.write("recipes.yaml", REGISTRY.replace("kernel:", "kernal:"))
    done = project.jaxcheck("prune", "--yes")
    assert done.code == 2, done
    assert store.path("gone").exists()


# ------------------------------------------------------------------------------------------- show


def test_show_as_text_needs_no_registry_and_gives_every_leaf(project: Project) -> None:
    wide = case(np.arange(100, dtype=np.float32))
    path = write_golden(project.folder / "x.npz", "r", rich=rich_case(), raising=raising_case(), wide=wide)
    done = project.jaxcheck("show", "--text", "x.npz")
    assert done.code == 0, done
    assert "x.npz" not in done.out, "nothing of where it lies: git gives a temporary name"
    for golden_case in (rich_case(), wide):
        for part, tree in golden_case.trees():
            for leaf in tree.leaves:
                assert f"  {part} {leaf.path}: {leaf.dtype}{list(leaf.shape)}" in done.out
                assert leaf.digest in done.out
    assert "first [0.0, 1.0, 2.0, 3.0], last [96.0, 97.0, 98.0, 99.0]" in done.out
    assert "min 0.0, max 99.0, mean 49.5, nan 0, inf 0" in done.out
    assert "raises builtins.ZeroDivisionError" in done.out
    write_golden(path, "r", wide=wide)
    assert project.jaxcheck("show", "--text", "x.npz").out == project.jaxcheck("show", "--textconv", "x.npz").out


def test_show_says_what_is_wrong_with_a_damaged_file(project: Project) -> None:
    path = write_golden(project.folder / "x.npz", "r", a=case())
    path.write_bytes(path.read_bytes()[:-30])
    for options in ((), ("--text",)):
        done = project.jaxcheck("show", *options, "x.npz")
        assert done.code == 2, done
        assert "cut short" in done.err
    done = project.jaxcheck("show", "--textconv", "x.npz")
    assert done.code == 0, "git stops at a converter that fails"
    assert "cut short" in done.out


@pytest.mark.parametrize("options", [(), ("--text",), ("--textconv",)])
def test_what_others_wrote_is_neither_a_line_of_its_own_nor_acts_on_the_terminal(
    project: Project, options: tuple[str, ...]
) -> None:
    spoof = "ok\ndigest 0\n  digest 0\x1b[31m\u202e"
    one = case(1.0, blessing=blessing(spoof, who=spoof), statics={"n": spoof}, program_reason=spoof)
    write_golden(project.folder / "x.npz", spoof, **{spoof: one})
    done = project.jaxcheck("show", *options, "x.npz")
    assert done.code == 0, done
    digests = [line for line in done.out.splitlines() if line.strip().startswith("digest 0")]
    assert not digests
    assert "ok\\ndigest 0" in done.out
    (project.folder / f"{spoof}.npz").write_bytes(b"")
    damaged = project.jaxcheck("show", *options, f"{spoof}.npz")
    for text in (done.out, damaged.out, damaged.err):
        assert not set("\x1b\u202e") & set(text)


# ------------------------------------------------------------------------------------------- check


@pytest.mark.parametrize("backend", [None, "gpu"])
@pytest.mark.parametrize("entry", ["a/out/..npy", "a/program.npy", ""])
def test_check_reads_all_of_every_golden(project: Project, store: GoldenStore, backend: str | None, entry: str) -> None:
    """One bit of an output or of the program is another, or the end is missing."""
    for own in (None, "gpu"):
        store.save("r", {"a": case(1.0, program=b"program"), "b": case(2.0)}, own)
    store.save("other", {"a": case(1.0)})
    done = project.jaxcheck("check", "--static")
    assert done.code == 0, done
    assert "r::a (r@gpu.npz): stale" in done.err
    path = store.path("r", backend)
    content = bytearray(path.read_bytes())
    if entry:
        with zipfile.ZipFile(path) as archive:
            end = archive.getinfo(entry).header_offset + archive.getinfo(entry).compress_size
        content[end] ^= 1
    else:
        del content[-30:]
    path.write_bytes(content)
    done = project.jaxcheck("check", "--static")
    assert done.code == 2, done
    assert path.name in done.err


# ------------------------------------------------------------------------------------------- git


def git(project: Project, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *args],
        cwd=project.folder,
        env=clean_environment(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def committed(project: Project, store: GoldenStore) -> Project:
    """A repository; since its one commit r moved towards its truth, `old` is gone and `other` is new."""
    truth = single(np.array(2.0))
    store.save("r", {"a": case(1.0, truth=truth), "b": case(2.0)})
    store.save("old", {"a": case()})
    git(project, "init", "-q")
    project.write(".gitignore", ".jaxcheck/\n")
    project.write(".gitattributes", "goldens/*.npz binary diff=jaxcheck\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    tolerance = {".": {"rtol": 1e-3, "atol": 0.0, "source": "recipes.yaml:9:9"}}
    moved = case(1.75, truth=truth, tolerance=tolerance, blessing=blessing("nearer", when=WHEN))
    store.update("r", {"a": moved})
    store.discard(store.path("old"))
    store.save("other", {"a": case()})
    return project


def test_git_diff_shows_goldens_as_text(committed: Project) -> None:
    git(committed, "config", "diff.jaxcheck.textconv", f"{sys.executable} -m jaxcheck show --textconv")
    shown = git(committed, "diff", "goldens/r.npz")
    assert "\n-    values [1.0]\n" in shown
    assert "\n+    values [1.75]\n" in shown
    assert "\n+  reason: nearer\n" in shown
    assert "values [2.0]" not in "".join(line for line in shown.splitlines() if line.startswith(("+", "-")))
    path = committed.folder / "goldens" / "r.npz"
    path.write_bytes(path.read_bytes()[:-30])
    assert "cut short" in git(committed, "diff", "goldens/r.npz")


def test_diff_explains_what_changed_since_a_revision(committed: Project) -> None:
    before = committed.files()
    done = committed.jaxcheck("diff", "--rev", "HEAD")
    assert done.code == 1, done
    assert "r::a\n  was blessed 2026-01-02T03:04:05+00:00 by me: first\n  is blessed" in done.out
    assert "improved: error to truth 0.5 -> 0.12" in done.out
    assert "the tolerance of . was loosened: rtol 1e-06 -> 0.001" in done.out
    assert "r::b" not in done.out, "it is the same"
    assert "old::a\n  gone" in done.out
    assert "other::a\n  new" in done.out
    assert "old::a" not in committed.jaxcheck("diff", "r", "--rev", "HEAD").out
    assert committed.jaxcheck("diff", "r::b", "--rev", "HEAD").code == 0
    assert committed.files() == before
    git(committed, "add", ".")
    git(committed, "commit", "-qm", "second")
    assert committed.jaxcheck("diff", "--rev", "HEAD").code == 0
    assert "improved" in committed.jaxcheck("diff", "--rev", "HEAD~1..HEAD").out


def test_diff_says_what_git_does_not_know(committed: Project) -> None:
    done = committed.jaxcheck("diff", "--rev", "nowhere")
    assert done.code == 2, done
    assert "no revision 'nowhere'" in done.err
    path = committed.folder / "goldens" / "r.npz"
    path.write_bytes(path.read_bytes()[:-30])
    done = committed.jaxcheck("diff", "--rev", "HEAD")
    assert done.code == 2, done
    assert "r.npz now is cut short" in done.err


def test_diff_of_a_backend_s_own_golden(committed: Project, store: GoldenStore) -> None:
    done = committed.jaxcheck("diff", "r@gpu", "--rev", "HEAD")
    assert done.code == 2, "nothing was compared"
    assert "no backend 'gpu' has a golden of its own" in done.err
    store.save("r", {"a": case(1.0), "b": case(2.0)}, "gpu")
    done = committed.jaxcheck("diff", "r@gpu::b", "--rev", "HEAD")
    assert done.code == 1, done
    assert done.out.splitlines()[0] == "r::b"
    assert "r::a" not in done.out
    done = committed.jaxcheck("diff", "r@cpu", "--rev", "HEAD")
    assert done.code == 2, done
    assert "goldens of their own: gpu" in done.err


def test_what_git_cannot_give_is_not_taken_for_equal(committed: Project) -> None:
    """Both ends are read through a filter that is not installed here, as those of git LFS may be."""
    git(committed, "add", ".")
    git(committed, "commit", "-qm", "second")
    committed.write(".gitattributes", "goldens/*.npz filter=broken\n")
    git(committed, "config", "filter.broken.smudge", "false")
    git(committed, "config", "filter.broken.required", "true")
    done = committed.jaxcheck("diff", "--rev", "HEAD~1..HEAD")
    assert done.code == 2, done
    assert "git cat-file" in done.err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gradients": None}, "gone: it holds no gradients"),
        ({"truth": None}, "gone: the truth"),
        ({"truth": single(np.array(9.0))}, "the truth changed: ."),
        ({"tolerance": {}}, "gone: the tolerance of ."),
        ({"extra": {"floor": {".": {"inputs": 0.5}}}}, "changed: floor"),
        ({"inputs": Tree({"tuple": ["*"]}, case().inputs.leaves)}, "other inputs: their structure"),
        ({"program_reason": "another"}, "another digest"),
    ],
)
def test_whatever_two_goldens_hold_differently_is_told(project: Project, change: dict[str, Any], told: str) -> None:
    """The content's digest says that they differ: so must `diff`."""
    one = case(1.0, truth=single(np.array(2.0)), gradients=single(np.float32([1, 2, 3]), "['x']"))
    for name, held in (("old.npz", one), ("new.npz", dataclasses.replace(one, **change))):
        write_golden(project.folder / name, "r", a=held)
    with Golden.open(project.folder / "old.npz") as old, Golden.open(project.folder / "new.npz") as new:
        assert old.digest != new.digest
    done = project.jaxcheck("diff", "old.npz", "new.npz")
    assert (done.code, told in done.out) == (1, True), done


def test_another_reason_is_no_difference(project: Project) -> None:
    for name, why in (("old.npz", "one"), ("new.npz", "another")):
        write_golden(project.folder / name, "r", a=case(1.0, blessing=blessing(why)))
    assert project.jaxcheck("diff", "old.npz", "new.npz").code == 0


def test_diff_of_two_files(project: Project) -> None:
    write_golden(project.folder / "old.npz", "r", a=case(1.0, truth=single(np.array(2.0))), b=case())
    write_golden(project.folder / "new.npz", "r", a=case(0.5, statics={"n": 3}), b=case())
    done = project.jaxcheck("diff", "old.npz", "new.npz")
    assert done.code == 1, done
    assert "regressed: error to truth 0.5 -> 0.75" in done.out
    assert "n: None -> 3" in done.out
    assert "(recipes.yaml:3:5)" in done.out, "the tolerance that the golden stores"
    assert project.jaxcheck("diff", "old.npz", "old.npz").code == 0
    assert project.jaxcheck("diff", "old.npz").code == 2
