import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxcheck import files as replaced_files
from jaxcheck.errors import GoldenError
from jaxcheck.goldens.golden import Golden, GoldenCase
from jaxcheck.goldens.store import HISTORY, GoldenStore
from tests.goldens.samples import arguments, blessing, case, raising_case, rich_case, write_golden
from tests.goldens.test_golden import edit


@pytest.fixture
def store(tmp_path: Path) -> GoldenStore:
    return GoldenStore(tmp_path / "goldens", history=tmp_path / "history")


def loaded(store: GoldenStore, recipe: str = "r", backend: str | None = None) -> Golden:
    golden = store.load(recipe, backend)
    assert golden is not None
    return golden


def held(store: GoldenStore, recipe: str = "r") -> dict[str, GoldenCase]:
    golden = loaded(store, recipe)
    return {name: golden.case(name, program=True) for name in golden.cases}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------------- finding


def test_files_are_named_by_recipe_and_backend(store: GoldenStore) -> None:
    assert store.path("a/b").name == "a%2Fb.npz"
    assert store.path("r", "gpu").name == "r@gpu.npz"
    assert store.path("r@gpu") != store.path("r", "gpu")


def test_nothing_is_found_where_nothing_is(store: GoldenStore) -> None:
    assert store.find("r") is None
    assert store.load("r", "gpu") is None
    assert store.recipes() == {}
    assert store.damaged() == {}
    assert not store.folder.exists(), "reading makes no folder"


def test_a_golden_of_the_backend_comes_before_the_general_one(store: GoldenStore) -> None:
    store.save("r", {"standard": case(1.0)})
    assert store.find("r", "gpu") == store.path("r")
    store.save("r", {"standard": case(2.0)}, backend="gpu")
    assert store.find("r", "gpu") == store.path("r", "gpu")
    assert store.find("r", "tpu") == store.path("r")
    assert loaded(store, backend="gpu").case("standard") == case(2.0)
    assert loaded(store).case("standard") == case(1.0)


def test_a_golden_under_another_recipes_name_is_refused(store: GoldenStore) -> None:
    store.save("r", {"standard": case()})
    copy = store.path("copy", "gpu")
    copy.write_bytes(store.path("r").read_bytes())
    with pytest.raises(GoldenError, match=r"copy@gpu\.npz is the golden of another recipe, 'r'") as caught:
        store.load("copy", "gpu")
    assert caught.value.hint == f"mv {copy} {store.path('r', 'gpu')}, or rename one of the two recipes"
    for change in (store.save, store.update):
        with pytest.raises(GoldenError, match="of another recipe"):
            change("copy", {"standard": case()}, backend="gpu")
    assert copy.read_bytes() == store.path("r").read_bytes()


def test_the_folder_is_listed_with_what_cannot_be_read(store: GoldenStore) -> None:
    store.save("b", {"standard": case()})
    store.save("a/b", {"standard": case()})
    store.save("b", {"standard": case()}, backend="gpu")
    store.path("pointer").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    store.path("copy").write_bytes(store.path("b").read_bytes())
    (store.folder / "README.md").touch()
    assert store.recipes() == {"a/b": [store.path("a/b")], "b": [store.path("b"), store.path("b", "gpu")]}
    assert {path.name: str(error).split(" ", 1)[1] for path, error in store.damaged().items()} == {
        "copy.npz": "is the golden of another recipe, 'b'",
        "pointer.npz": "is a git LFS pointer: the golden itself was not fetched",
    }


# ------------------------------------------------------------------------------------------- writing


def test_a_save_replaces_every_case(store: GoldenStore) -> None:
    assert store.save("r", {"a": case(), "b": rich_case()})
    assert store.save("r", {"c": raising_case()})
    assert held(store) == {"c": raising_case()}
    assert files(store.folder) == ["r.npz"]


def test_an_update_keeps_the_other_cases_bit_for_bit(store: GoldenStore) -> None:
    store.save("r", {"a": rich_case(), "b": case(), "c": case()})
    assert store.update("r", {"b": case(9.0), "d": raising_case()}, remove=["c", "unknown"])
    assert held(store) == {"a": rich_case(), "b": case(9.0), "d": raising_case()}


def test_an_update_without_a_golden_makes_one(store: GoldenStore) -> None:
    assert store.update("r", {"a": case()}, remove=["b"], backend="gpu")
    assert files(store.folder) == ["r@gpu.npz"]
    assert loaded(store, backend="gpu").cases == ("a",)


@pytest.mark.parametrize("change", ["save", "update"])
def test_content_that_did_not_change_is_not_written(store: GoldenStore, change: str) -> None:
    store.save("r", {"a": rich_case()})
    before = store.path("r").stat()
    later = dataclasses.replace(rich_case(), blessing=blessing("again", when="2030-01-01T00:00:00+00:00"))
    assert not getattr(store, change)("r", {"a": later})
    after = store.path("r").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert store.versions("r") == []


def test_a_case_that_did_not_change_keeps_its_blessing(store: GoldenStore) -> None:
    store.save("r", {"a": case(1.0), "b": case(2.0)})
    new = blessing("b moved")
    assert store.save("r", {"a": case(1.0, blessing=new), "b": case(3.0, blessing=new), "c": case(4.0, blessing=new)})
    assert {name: held(store)[name].blessing.reason for name in "abc"} == {"a": "first", "b": "b moved", "c": "b moved"}


def test_a_golden_names_the_one_that_it_replaced(store: GoldenStore) -> None:
    store.save("r", {"a": case(1.0)})
    first = loaded(store).digest
    store.save("r", {"a": case(2.0)})
    assert loaded(store).replaced == first


def test_a_golden_without_cases_is_removed_and_kept_in_the_history(store: GoldenStore) -> None:
    store.save("r", {"a": case()})
    before = store.path("r").read_bytes()
    assert store.update("r", {}, remove=["a"])
    assert not store.path("r").exists()
    assert [version.path.read_bytes() for version in store.versions("r")] == [before]
    assert not store.update("r", {}, remove=["a"])
    assert not store.save("r", {})


def test_the_last_goldens_are_kept_byte_for_byte(store: GoldenStore) -> None:
    written = []
    for number in range(HISTORY + 3):
        store.save("r", {"a": case(number)})
        written.append(store.path("r").read_bytes())
    assert [version.path.read_bytes() for version in store.versions("r")] == written[-2 : -HISTORY - 2 : -1]
    assert store.versions("r", "gpu") == []
    assert store.versions("r")[0].open().recipe == "r"


def test_the_same_bytes_are_kept_once(store: GoldenStore) -> None:
    contents = [write_golden(store.folder.parent / f"{n}.npz", "r", a=case(n)).read_bytes() for n in range(2)]
    store.folder.mkdir()
    for number in range(4):  # as a checkout of two branches in turns would leave them
        store.path("r").write_bytes(contents[number % 2])
        store.save("r", {"a": case(10 + number)})
    kept = [version.path.read_bytes() for version in store.versions("r")]
    assert kept == [contents[1], contents[0]]
    assert [v.address for v in store.versions("r")] == [hashlib.sha256(content).hexdigest() for content in kept]


def test_what_is_discarded_is_kept_in_the_history(store: GoldenStore) -> None:
    store.save("r", {"a": case()}, backend="gpu")
    before = store.path("r", "gpu").read_bytes()
    store.discard(store.path("r", "gpu"))
    assert files(store.folder) == []
    assert [version.path.read_bytes() for version in store.versions("r", "gpu")] == [before]
    assert store.versions("r") == []


def test_a_kept_golden_that_changed_since_is_not_trusted(store: GoldenStore) -> None:
    for number in range(2):
        store.save("r", {"a": case(number)})
    (version,) = store.versions("r")
    write_golden(version.path, "r", a=case(5))
    with pytest.raises(GoldenError, match="is not what was kept"):
        version.open()


def test_without_a_history_nothing_is_kept(store: GoldenStore) -> None:
    forgetful = GoldenStore(str(store.folder))
    forgetful.save("r", {"a": case(1.0)})
    forgetful.save("r", {"a": case(2.0)})
    assert forgetful.versions("r") == []
    assert files(store.folder.parent) == ["goldens"]


def test_what_a_killed_writer_left_behind_is_swept_up(store: GoldenStore) -> None:
    store.save("r", {"a": case(1.0)})
    (store.folder / ".r.npz.0badcafe.tmp").touch()
    (store.folder / ".other.npz.0badcafe.tmp").touch()
    store.save("r", {"a": case(2.0)})
    assert files(store.folder) == [".other.npz.0badcafe.tmp", "r.npz"]


# ------------------------------------------------------------------------------------------- damage


def damage_output(meta: Any, arrays: dict[str, Any]) -> None:
    arrays["a/out/."] = np.float32(99)


def test_a_damaged_file_is_replaced_by_a_save_and_stops_an_update(store: GoldenStore) -> None:
    store.save("r", {"a": case(), "b": case()})
    damaged = store.path("r").read_bytes()[:-40]
    store.path("r").write_bytes(damaged)
    with pytest.raises(GoldenError, match="cut short"):
        store.update("r", {"a": case()})
    assert store.path("r").read_bytes() == damaged
    assert store.save("r", {"a": case()})
    assert held(store) == {"a": case()}
    assert loaded(store).replaced is None
    assert [version.path.read_bytes() for version in store.versions("r")] == [damaged]


def test_a_damaged_array_is_mended_by_saving_the_same_content(store: GoldenStore) -> None:
    store.save("r", {"a": case(), "b": case()})
    edit(store.path("r"), damage_output)
    with pytest.raises(GoldenError, match="does not match its digest"):
        store.update("r", {"b": case(2.0)})
    assert store.update("r", {"a": case()})
    assert held(store) == {"a": case(), "b": case()}


@pytest.mark.parametrize(
    ("content", "hint"),
    [(b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"), (b"<<<<<<< HEAD\n", "git checkout --ours")],
)
def test_a_file_that_is_whole_elsewhere_is_never_replaced(store: GoldenStore, content: bytes, hint: str) -> None:
    store.save("r", {"a": case()})
    store.path("r").write_bytes(content)
    for change in (store.save, store.update):
        with pytest.raises(GoldenError) as caught:
            change("r", {"a": case()})
        assert str(caught.value.hint).startswith(hint)
    assert store.path("r").read_bytes() == content


def test_a_golden_of_a_newer_jaxcheck_is_never_replaced(store: GoldenStore) -> None:
    store.save("r", {"a": case()})
    edit(store.path("r"), lambda meta, _: meta.update(schema=3))
    with pytest.raises(GoldenError, match="of a newer jaxcheck"):
        store.save("r", {"a": case(2.0)})


def test_a_failing_save_leaves_the_old_golden_and_frees_the_lock(
    store: GoldenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save("r", {"a": case(1.0)})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(GoldenError, match="cannot be written: No space left on device") as caught:
            store.save("r", {"a": case(2.0)})
    assert str(caught.value.hint).startswith("free some space: df -h ")
    assert held(store) == {"a": case(1.0)}
    assert files(store.folder) == ["r.npz"]
    assert store.save("r", {"a": case(2.0)})


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "goldens").touch()
    with pytest.raises(GoldenError, match=r"goldens cannot be written: File exists"):
        GoldenStore(tmp_path / "goldens").save("r", {"a": case()})


def test_a_folder_that_may_not_be_written_to(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(replaced_files, "open", refuse, raising=False)
    with pytest.raises(GoldenError, match=r"r\.npz cannot be written: Permission denied") as caught:
        store.save("r", {"a": case()})
    assert caught.value.hint == f"make the folder writable: chmod u+w {store.folder}"


def test_a_golden_that_is_in_use_can_be_replaced(store: GoldenStore) -> None:
    store.save("r", {"a": case(arguments(x=1.0) and 1.0)})
    old = loaded(store)
    store.save("r", {"a": case(2.0)})
    assert old.case("a") == case(1.0)
    assert write_golden(store.folder / "x.npz").exists()


# ------------------------------------------------------------------------------------------- several processes

KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from jaxcheck.goldens.store import GoldenStore
from tests.goldens.samples import case

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
store = GoldenStore(folder)
contents = [case(np.full(300_000, value)) for value in (1, 2)]
allowed = set()
for content in contents:
    store.save("r", {"a": content})
    allowed.add(store.load("r").digest)
start = time.perf_counter()
store.save("r", {"a": contents[0]})
longest = time.perf_counter() - start
seen, halfway = set(), 0
for _ in range(kills):
    child = os.fork()
    if not child:
        while True:
            for content in contents:
                store.save("r", {"a": content})
    time.sleep(random.uniform(0, 3 * longest))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with store.load("r") as golden:
        golden.verify()
        assert golden.digest in allowed
        seen.add(golden.digest)
    halfway += any(path.suffix == ".tmp" for path in folder.iterdir())
store.save("r", {"a": contents[0]})
store.save("r", {"a": contents[1]})
assert [path.name for path in folder.iterdir()] == ["r.npz"]
print(len(seen), halfway)
"""

UPDATES = """
import sys
from jaxcheck.goldens.store import GoldenStore
from tests.goldens.samples import case

folder, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    assert GoldenStore(folder).update("r", {f"{name}{number}": case(number)})
"""


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    return subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_kill_at_any_moment_leaves_the_old_golden_or_the_new_one(tmp_path: Path) -> None:
    process = python(KILLED, str(tmp_path), "40")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    seen, halfway = map(int, output.split())
    assert seen == 2, "neither content was always the one that was left"
    assert halfway > 0, "some kills came in the middle of a write"


def test_processes_that_update_one_golden_lose_nothing(tmp_path: Path) -> None:
    processes = [python(UPDATES, str(tmp_path), name, "15") for name in "ab"]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert set(held(GoldenStore(tmp_path))) == {f"{name}{number}" for name in "ab" for number in range(15)}
    assert files(tmp_path) == ["r.npz"]
