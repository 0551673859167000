"""Names in every script and of every length: of recipes, cases, leaves, modules, arguments, tags, and of the folder."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.goldens.store import GoldenStore
from tests.harness import Done, Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

NAMES = [
    "نيوتن-جذر",  # right to left
    "שורש a1",
    "牛顿平方根",
    "뉴턴",
    "न्यूटन",
    "ราก",
    "x̂ȳ",  # combining marks that no single character stands for
    "👩\u200d🔬🧮",  # joined by what has no width
    "ﬁ",  # a ligature, and what it stands for
    "fi",
    "ß",
    "ẞ",
    "İı",
    "Newton",  # different by case only
    "newton",
    "NEWTON",
    "a/b",
    "..",
    ".hidden",
    "-rf",
    "--help",
    "con",
    "nul.txt",
    "%2F",
    "~",
    "a b",
    "a@gpu",
    "a'b\"c",
    "$(touch pwned)`touch pwned`;touch pwned",
    "*",
    "a?",
    "<b>&amp;",
    "x" * 255,
    "é" * 127 + "x",  # 255 bytes, as many as a file's name may have
    "字" * 85,
    "long " * 2000 + "end",
]
KEYS = [*NAMES, "", "\x00\x1b[31m\u202e\n", "half \udcff", "e\u0301"]
MODULE, FUNCTION, ARGUMENT, TAG = "核函数", "функция", "größe", "تجربة"


def folder_below(place: Path) -> Path:
    """A folder with a name that a shell, a terminal and a report each would read in their own way."""
    return place / "проект 🔥 'a' \"b\" $(x) %41\n[red]" / ("é" * 127)


@dataclass(frozen=True)
class Named:
    """A project of all these names, blessed and run."""

    project: Project
    blessed: Done
    done: Done
    report: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.project.folder

    def jaxcheck(self, *args: str, **environment: str) -> Done:
        return self.project.jaxcheck(*args, **environment)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Named:
    folder = folder_below(tmp_path_factory.mktemp("names"))
    folder.mkdir(parents=True)
    project = Project(folder)
    leaves = f"{{key: {ARGUMENT} for key in {KEYS!r}}}"
    project.write(f"{MODULE}.py", f"def {FUNCTION}({ARGUMENT}):\n    return {leaves}\n\ndef plain(x):\n    return x\n")
    # A key of more than 1024 characters has to be announced by a question mark.
    quoted = [json.dumps(name, ensure_ascii=False) for name in NAMES]
    recipes = [f"  ? {name}\n  : {{kernel: {MODULE}:plain, cases: {{s: {{args: {{x: [1.0]}}}}}}}}\n" for name in quoted]
    cases = "".join(f"      ? {name}\n      : {{args: {{{ARGUMENT}: [2.0]}}}}\n" for name in quoted[::3])
    head = "version: 1\ndefaults: {tolerance: {rtol: 0, atol: 0}, modes: [eager]}\nrecipes:\n"
    all_cases = f"  all: \n    kernel: {MODULE}:{FUNCTION}\n    tags: [{TAG}]\n    cases:\n{cases}"
    (folder / "recipes.yaml").write_text(head + "".join(recipes) + all_cases, encoding="utf-8")
    blessed = project.jaxcheck("bless", "--no-truth", "--reason", "t")
    return Named(project, blessed, *project.run())


def test_each_is_blessed_verified_and_told(named: Named) -> None:
    blessed, done, report = named.blessed, named.done, named.report
    assert blessed.code == 0, blessed
    assert done.code == 0, done
    assert set(statuses(report)) == {f"{name}::s[eager]" for name in NAMES} | {
        f"all::{name}[eager]" for name in NAMES[::3]
    }
    assert len(by_id(report)[f"all::{NAMES[0]}[eager]"]["leaves"]) == len(KEYS)
    goldens = GoldenStore(named.folder / "goldens")
    assert set(goldens.recipes()) == {*NAMES, "all"}
    assert len(list((named.folder / "goldens").iterdir())) == len(NAMES) + 1
    assert not any(ord(c) < 32 and c != "\n" for c in blessed.out + done.out)
    assert not any(path.name == "pwned" for path in named.folder.rglob("*"))


@pytest.mark.parametrize("name", ["نيوتن-جذر", "a@gpu"], ids=["rtl", "at"])
def test_each_can_be_asked_for(named: Named, name: str) -> None:
    listed = named.jaxcheck("list", name, "--ids")
    assert listed.out == f"{name}::s[eager]\n", listed
    assert named.jaxcheck("rollback", "--list", "--", name).code == 5, "it was never replaced"


def test_a_name_may_be_typed_in_either_normal_form(named: Named) -> None:
    decomposed = "e\u0301" * 127 + "x"
    assert named.jaxcheck("list", decomposed, "--ids").out == f"{'é' * 127}x::s[eager]\n"
    assert named.jaxcheck("list", "--tag", TAG, "--ids").out.splitlines()[0] == f"all::{NAMES[0]}[eager]"


def test_every_form_of_the_report_holds_them(named: Named) -> None:
    names = ["report.md", "report.xml", "report.html", "é" * 120 + ".json"]
    done = named.jaxcheck("report", ".jaxcheck/run.json", *[part for name in names for part in ("--output", name)])
    assert done.code == 0, done
    for name in names:
        assert "牛顿平方根" in (named.folder / name).read_text(encoding="utf-8")


def test_a_terminal_that_lacks_the_characters_shows_escapes(named: Named) -> None:
    listed = named.jaxcheck("list", "牛顿平方根", "--ids", PYTHONIOENCODING="latin-1")
    assert (listed.code, listed.out) == (0, "\\u725b\\u987f\\u5e73\\u65b9\\u6839::s[eager]\n")


def test_a_folder_whose_name_is_no_text(named: Named, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes text only")
    for name in ("recipes.yaml", f"{MODULE}.py"):
        shutil.copy(named.folder / name, folder)
    shutil.copytree(named.folder / "goldens", folder / "goldens")
    done, report = Project(folder).run("牛顿平方根")
    assert done.code == 0, done
    assert statuses(report) == {"牛顿平方根::s[eager]": "pass"}
