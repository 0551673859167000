"""A bisection on the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jaxcheck.errors import Exit, UsageError
from jaxcheck.report.bisect import SAID, came_out, next_commands, render, sentence
from jaxcheck.report.formats import check_suffix, write_report
from jaxcheck.results.bisection import BisectAnswer, Bisection, BisectProbe, BisectTarget
from jaxcheck.results.gate import PackageChange


def answer(check: str = "f::a[jit]", path: str = "['y']", **more: Any) -> BisectAnswer:
    fields = {"kind": "moved", "before": "same", "after": "moved", "state": "found"}
    ends = {"last_good": "0.11.2", "first_bad": "0.12.0"}
    return BisectAnswer.model_validate({"check": check, "path": path, **fields, **ends, **more})


def bisection(*answers: BisectAnswer, **more: Any) -> Bisection:
    probes = (
        BisectProbe(version="0.10.2", attempt="baseline", seconds=3.0, folder="/s/0.10.2-baseline"),
        BisectProbe(version="0.10.2", attempt="first", outcomes=("good",) * len(answers), folder="/s/a", seconds=2.0),
        BisectProbe(version="0.12.0.1", attempt="first", outcomes=("bad",) * len(answers), folder="/s/b"),
        BisectProbe(version="0.11.0", attempt="first", reason="no wheel [for this] machine", seconds=1.0),
        BisectProbe(version="0.11.2", attempt="first", outcomes=("good",) * len(answers), folder="/s/c", reused=True),
        BisectProbe(version="0.12.0", attempt="first", outcomes=("bad",) * len(answers), folder="/s/d"),
        BisectProbe(version="0.12.0", attempt="again", outcomes=("bad",) * len(answers), folder="/s/e"),
    )
    fields = {"package": "jax", "predicate": "moved", "good": "0.10.2", "bad": "0.12.0.1", "python": "3.12.1"}
    releases = ("0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.12.0.1")
    given = {
        "jaxcheck": "1",
        "answers": answers,
        "probes": probes,
        "releases": releases,
        "compared": 4,
        "seconds": 60.0,
    }
    return Bisection.model_validate({**given, **fields, **more})


def text(shown: Bisection, verbosity: int = 0, width: int = 200) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(render(shown, verbosity), crop=False)
    return capture.get()


def test_the_log_and_the_closing_sentence() -> None:
    also = (PackageChange(name="jaxlib", before="0.11.2", after="0.12.0"),)
    shown = text(bisection(answer(also=also), answer("f::a[eager]", also=also), answer("f::b[jit]", ".", also=also)))
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[0] == "bisect jax 0.10.2 (good) -> 0.12.0.1 (bad)"
    assert lines[1] == "  any bit of an output, or an exception; 5 releases, Python 3.12.1"
    rows = [line.split(None, 1) for line in lines[4:11]]
    assert [row[0] for row in rows] == ["0.10.2", "0.10.2", "0.12.0.1", "0.11.0", "0.11.2", "0.12.0", "0.12.0"]
    assert "good end" in rows[1][1]
    assert "good (all 3)" in rows[1][1]
    assert "bad end" in rows[2][1]
    assert "skip: no wheel [for this] machine" in rows[3][1]
    assert "between (earlier)" in rows[4][1]
    assert "again" in rows[6][1]
    assert (
        "f::a[jit,eager] ['y'], f::b[jit] moved first in jax 0.12.0 (0.11.2 is the last that gives the old bits), "
        "confirmed on both neighbours" in lines
    )
    assert "  between the two these differ as well: jaxlib 0.11.2 -> 0.12.0" in lines
    assert "  jaxcheck compare /s/c /s/d" in lines
    assert lines[-1] == "3 found; 6 runs (1 skipped, 1 from an earlier command) in 60.0 s"


def test_quiet_is_the_answer_only() -> None:
    lines = text(bisection(answer()), -1).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("f::a[jit] ['y'] moved first in jax 0.12.0")


def test_outputs_that_came_out_differently_are_told_apart() -> None:
    shown = bisection(answer(), answer("g::a[jit]"))
    mixed = BisectProbe(version="0.11.2", attempt="first", outcomes=("good", "bad"), folder="/s/c")
    shown = shown.model_copy(update={"probes": (mixed,)})
    assert came_out(mixed) == "mixed"
    assert "bad: g::a[jit] ['y']; good: f::a[jit] ['y']" in text(shown)
    verbose = [" ".join(line.split()) for line in text(shown, 1).splitlines()]
    assert "f::a[jit] ['y']: good" in verbose
    assert "g::a[jit] ['y']: bad" in verbose


@pytest.mark.parametrize(("kind", "after"), SAID)
def test_every_kind_has_its_sentence(kind: Any, after: str) -> None:
    one = answer(kind=kind, after=after, before="otherwise")
    became, last = SAID[kind, after]
    assert sentence(bisection(one), [one]) == (
        f"f::a[jit] ['y'] {became} jax 0.12.0 (0.11.2 is {last}), confirmed on both neighbours"
    )


def test_the_kinds_are_those_of_the_model() -> None:
    kinds = set(BisectTarget.model_json_schema()["properties"]["kind"]["enum"])
    assert {kind for kind, _ in SAID} == kinds - {"golden"}


def test_by_the_golden() -> None:
    one = answer(kind="golden", path="", before="wrong", after="right")
    assert "f::a[jit] is right by the golden first in jax 0.12.0 (0.11.2 is the last that is wrong)" in sentence(
        bisection(one), [one]
    )
    assert "f::a[jit], g::a[jit] are right" in sentence(
        bisection(one), [one, one.model_copy(update={"check": "g::a[jit]"})]
    )


def test_a_range_and_what_is_unstable_say_so() -> None:
    ranged = answer(state="range", last_good="0.10.2", skipped=("0.11.0", "0.11.2"))
    shown = text(bisection(ranged))
    assert "moved first in one of jax 0.11.0, 0.11.2, 0.12.0 (0.10.2 is the last that gives the old bits" in shown
    unstable = answer(state="unstable", reason="it came out good, and came out bad when it was asked again")
    shown = text(bisection(unstable))
    assert "unstable: f::a[jit] ['y'] cannot be told: it came out good" in shown
    assert "jaxcheck bisect 'f::a[jit]' --good 0.10.2 --bad 0.12.0.1 --predicate golden" in shown
    assert next_commands(bisection(unstable, package="optax"))[-1].endswith("--package optax --predicate golden")


def test_nothing_that_moved_is_not_found() -> None:
    shown = text(bisection(remarks=("f::a[jit]: it has no golden",), not_offered=("0.11.1",)))
    assert shown.splitlines()[-1].startswith(
        "not found: between jax 0.10.2 and 0.12.0.1 nothing differs (any bit of an output, or an exception); 4 checks"
    )
    assert "f::a[jit]: it has no golden" in shown
    assert "not offered for this Python, and so not tried: 0.11.1" in shown


def test_commands_are_not_cut_off() -> None:
    assert "  jaxcheck compare /s/c /s/d\n" in text(bisection(answer()), width=20)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["found"], Exit.PASSED),
        (["found", "found"], Exit.PASSED),
        (["found", "unstable"], Exit.FAILED),
        (["range"], Exit.FAILED),
        (["unstable"], Exit.FAILED),
        ([], Exit.FAILED),
    ],
)
def test_exit_codes(states: list[str], code: Exit) -> None:
    assert bisection(*(answer(state=state) for state in states)).exit_code() is code


def test_json_holds_all_of_it(tmp_path: Path) -> None:
    shown = bisection(answer(), remarks=("one",))
    write_report(shown, tmp_path / "deep/report.json")
    content = json.loads((tmp_path / "deep/report.json").read_text())
    assert content["schema"] == 1
    assert Bisection.model_validate(content) == shown


def test_another_suffix_is_refused() -> None:
    with pytest.raises(UsageError) as raised:
        check_suffix(Path("report.md"), Bisection)
    assert "valid: .json" in str(raised.value)
