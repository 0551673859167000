"""The releases to bisect: their order, their ends, and where they are asked for."""

from __future__ import annotations

import importlib.util
import sys
import venv
from pathlib import Path

import pytest

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate import releases
from jaxcheck.gate.releases import Offer, check_ends, in_order, offer, row, sources
from tests.gate.packages import make_wheel

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")
THERE = Offer(
    "jax",
    "3.12",
    ("0.9.2", "0.10.2", "0.11.0rc1", "0.11.0", "0.11.2", "0.12.0", "0.12.0.1", "0.13.0.dev7"),
    ("0.11.1", "0.14.0"),
)


def test_versions_are_in_the_order_of_releases_not_of_letters() -> None:
    assert in_order(["0.9.0", "0.10.0", "0.12.0.1", "0.12.0", "1.0rc1", "1.0", "nonsense", "0.10.0"]) == (
        "0.9.0",
        "0.10.0",
        "0.12.0",
        "0.12.0.1",
        "1.0rc1",
        "1.0",
    )


def test_a_row_is_what_lies_between_both_ends_included() -> None:
    found = row(THERE, "0.10.2", "0.12.0.1", pre=False)
    assert found.versions == ("0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.12.0.1")
    assert found.not_offered == ("0.11.1",)
    assert row(THERE, "0.12.0", "0.12.0.1", pre=False).versions == ("0.12.0", "0.12.0.1")


def test_downwards_where_the_good_one_is_newer() -> None:
    assert row(THERE, "0.12.0", "0.10.2", pre=False).versions == ("0.12.0", "0.11.2", "0.11.0", "0.10.2")


def test_pre_releases_on_request_or_as_an_end() -> None:
    assert "0.11.0rc1" in row(THERE, "0.10.2", "0.12.0", pre=True).versions
    assert row(THERE, "0.11.0rc1", "0.11.2", pre=False).versions == ("0.11.0rc1", "0.11.0", "0.11.2")
    assert row(THERE, "0.12.0", "0.13.0.dev7", pre=False).versions == ("0.12.0", "0.12.0.1", "0.13.0.dev7")


def test_an_end_may_be_written_in_another_way() -> None:
    assert row(THERE, "0.12", "v0.11.0", pre=False).versions == ("0.12.0", "0.11.2", "0.11.0")


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("0.11.2", "0.11.2", "are both 0.11.2"),
        ("0.11", "0.11.0", "are both 0.11"),
        ("eleven", "0.11.0", "--good eleven: 'eleven' is not a version"),
        ("0.11.0", ">=0.12", "--bad >=0.12: '>=0.12' is not a version"),
    ],
)
def test_ends_that_cannot_be_meant(good: str, bad: str, words: str) -> None:
    for ask in (lambda: check_ends(good, bad), lambda: row(THERE, good, bad, pre=False)):
        with pytest.raises(UsageError) as raised:
            ask()
        assert words in str(raised.value)


def test_an_end_for_another_python_says_so() -> None:
    with pytest.raises(Unavailable) as raised:
        row(THERE, "0.10.2", "0.14.0", pre=False)
    assert str(raised.value) == "--bad 0.14.0: jax 0.14.0 asks for another Python than 3.12"
    assert "--python 3.13" in (raised.value.hint or "")


def test_an_end_that_nobody_offers_names_its_neighbours() -> None:
    with pytest.raises(Unavailable) as raised:
        row(THERE, "0.12.1", "0.11.0", pre=False)
    assert "--good 0.12.1: no jax 0.12.1 is offered for Python 3.12" in str(raised.value)
    assert "0.12.0, 0.12.0.1" in str(raised.value)
    assert raised.value.hint == "python -m pip index versions jax"


def test_uv_is_told_where_to_look_and_so_is_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "find_uv", lambda: "/bin/uv")
    monkeypatch.setattr(releases, "pip_settings", lambda environ: {"find-links": "/one\n/two", "constraint": "c.txt"})
    said = sources({})
    assert said["PIP_FIND_LINKS"] == "/one /two"
    assert "PIP_CONSTRAINT" not in said
    uv = {"UV_DEFAULT_INDEX": "https://a/simple", "UV_INDEX": "mirror=https://b/simple?x=1 https://c/?y=2"}
    said = sources(uv)
    assert said["PIP_INDEX_URL"] == "https://a/simple"
    assert said["PIP_EXTRA_INDEX_URL"] == "https://b/simple?x=1 https://c/?y=2"
    assert "PIP_INDEX_URL" not in sources({**uv, "JAXCHECK_INSTALLER": "pip"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with one package, the only place where pip looks."""
    page = tmp_path / "simple/ruler/index.html"
    links = []
    for version, more in {
        "1.0": "",
        "1.10": "",
        "1.1": "",
        "1.2": 'data-yanked="it was wrong"',
        "2.0rc1": "",
        "3.0": 'data-requires-python="&gt;=3.99"',
    }.items():
        wheel = make_wheel(page.parent, "ruler", version)
        links.append(f'<a href="{wheel.name}" {more}>{wheel.name}</a>')
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    return tmp_path


@needs_pip
def test_pip_is_asked(folder: Path) -> None:
    """What was yanked is in neither list."""
    there = offer("ruler", sys.executable, "3.12")
    assert there.versions == ("1.0", "1.1", "1.10", "2.0rc1")
    assert there.elsewhere == ("3.0",)


@needs_pip
def test_an_interpreter_without_pip_is_spoken_for_by_the_pip_at_hand(folder: Path) -> None:
    venv.create(folder / "bare", with_pip=False, symlinks=True)
    assert offer("ruler", str(folder / "bare/bin/python"), "3.12").versions == ("1.0", "1.1", "1.10", "2.0rc1")


def test_no_pip_anywhere_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(folder / "bare", with_pip=False, symlinks=True)
    bare = str(folder / "bare/bin/python")
    monkeypatch.setattr(releases, "find_uv", lambda: None)
    monkeypatch.setattr(releases.sys, "executable", bare)
    with pytest.raises(Unavailable) as raised:
        offer("ruler", bare, "3.12")
    assert "there is no pip" in str(raised.value)
    assert "-m ensurepip" in (raised.value.hint or "")


@needs_pip
def test_a_package_that_nobody_has(folder: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        offer("ruhler", sys.executable, "3.12")
    assert "the releases of ruhler cannot be listed" in str(raised.value)
    assert "No matching distribution found for ruhler" in str(raised.value)


def test_what_is_no_name_of_a_package_is_not_handed_to_pip() -> None:
    for name in ("jax==1.0", "--pre", "", "a b"):
        with pytest.raises(UsageError):
            offer(name, "/does/not/exist", "3.12")
