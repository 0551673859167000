"""A gate's reports: pure functions of it, whatever its texts hold."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from jaxcheck.report import markdown as md
from jaxcheck.report.gate import next_commands, render, rows, verdict_line
from jaxcheck.report.github import SHOWN, annotation_lines
from jaxcheck.report.markdown import markdown
from jaxcheck.results import (
    Baseline,
    CheckResult,
    Environment,
    ErrorToTruth,
    LeafResult,
    Run,
    Status,
    ToleranceUsed,
    Worst,
    totals,
)
from jaxcheck.results.gate import Concern, Gate, PackageChange, Side

HOSTILE = "<script>|`x`[bold]\x1b[31m\u202e\n::error::x" + "y" * 10_000


def environment(jax: str) -> Environment:
    return Environment(
        backend="cpu",
        device_kind="cpu",
        device_count=1,
        jax=jax,
        jaxlib=jax,
        optax=None,
        numpy="2",
        python="3",
        cpu="c",
    )


def leaf(verdict: str = "improved", cause: str | None = "jax", path: str = "['y']", ratio: float = 1e3) -> LeafResult:
    return LeafResult(
        path=path,
        dtype="float32",
        shape=(2,),
        tolerance=ToleranceUsed(rtol=1e-6, atol=0, source="recipes.yaml:1:1"),
        size=2,
        bit_equal=1,
        mismatched=1,
        nonfinite=0,
        violation_ratio=ratio,
        max_abs=1.0,
        max_rel=1.0,
        max_ulp=9.0,
        worst=Worst(index=(1,), golden=1.5, actual=2.5, allowed=1e-6, truth=2.25),
        reason=None if verdict == "drifted" else "it moved",
        verdict=verdict,
        error_to_truth=ErrorToTruth(golden=0.3, actual=0.1),
        cause=cause,
        because="the old program gives the old bits" if cause else "",
        since="jax 2.1",
    )


def check(mode: str, verdict: str | None, *leaves: LeafResult, recipe: str = "r", reason: str = "") -> CheckResult:
    return CheckResult(
        id=f"{recipe}::c[{mode}]",
        recipe=recipe,
        case="c",
        mode=mode,
        status=Status.PASS,
        verdict=verdict,
        reason=reason,
        leaves=leaves,
        golden_status=Status.FAIL,
        baseline=Baseline(status=Status.PASS),
    )


def gate(
    *results: CheckResult, verdict: str = "review", concerns: tuple[Concern, ...] = (), name: str = "jax==2"
) -> Gate:
    sides = [
        Side(label=label, environment=environment(jax), totals={"pass": 3})
        for label, jax in (("current", "1"), (name, "2"))
    ]
    return Gate.model_validate(
        {
            "jaxcheck": "1",
            "verdict": verdict,
            "from": sides[0],
            "to": sides[1],
            "results": results,
            "totals": totals(results),
            "concerns": concerns,
            "packages": (
                PackageChange(name="jax", before="1", after="2", asked=True),
                PackageChange(name="jaxlib", before="1", after="2"),
                PackageChange(name="chex", before="1", after=None),
            ),
            "settings": ("cores: 1 -> 2",),
        }
    )


def printed(told: Gate, verbosity: int = 0) -> str:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    console.print(render(told, verbosity))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


IMPROVED = Concern(kind="improved", verdict="review", message="2 checks moved", checks=("r::c[eager]", "r::c[jit]"))


def test_a_screen_says_what_moved_and_who_moved_it() -> None:
    told = gate(check("eager", "improved", leaf()), check("jit", "improved", leaf()), concerns=(IMPROVED,))
    text = printed(told)
    lines = text.splitlines()
    assert lines[0] == "gate current -> jax==2"
    assert "  review 2 checks moved" in lines
    at = lines.index("r::c[eager,jit] ['y']  improved error 0.3 -> 0.1")  # both modes moved alike: one row
    assert lines[at + 1].split() == ["1.5", "2.5", "2.25", "jax", "jax", "2.1"]
    assert "  jax 1 -> 2, jaxlib 1 -> 2 (follows)" in lines
    assert "  only before: chex" in lines
    assert "  cores: 1 -> 2" in lines
    assert '  jaxcheck bless r::c --reason "…"   # after the upgrade' in lines
    assert lines[-1] == "review: 2 checks compared, 2 improved in 0.00 s"


def test_the_gravest_comes_first_and_what_is_left_out_is_counted() -> None:
    many = [leaf("drifted", "xla", f"[{index}]", 0.5) for index in range(40)]
    told = gate(check("jit", "regressed", *many, leaf("regressed", "xla", "worst")))
    assert rows(told)[0].leaf.path == "worst"
    assert "and 29 leaves more, drift 0.5 of tolerance at most (-v)" in printed(told)
    assert "more, drift" not in printed(told, 1)


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ((), "nothing was compared: nothing ran"),
        ((check("jit", None),), "nothing was compared: 1 not compared"),
        ((check("jit", "unchanged"), check("eager", "broken")), "review: 1 check compared, 1 broken in 0.00 s"),
    ],
)
def test_the_last_line(results: tuple[CheckResult, ...], line: str) -> None:
    assert verdict_line(gate(*results)) == line


def test_what_comes_next() -> None:
    assert next_commands(gate(check("jit", "regressed", leaf("regressed")), verdict="block")) == [
        "jaxcheck bisect 'r::c[jit]' --good 1 --bad 2"
    ]
    allowed = IMPROVED.model_copy(update={"allowed": True})
    improved = check("jit", "improved", leaf()).model_copy(update={"golden_status": Status.PASS})
    assert next_commands(gate(improved, concerns=(allowed,))) == []  # the golden is right already
    assert next_commands(gate(improved, concerns=(IMPROVED,))) == [
        "jaxcheck gate … --allow improved   # once they were looked at"
    ]
    assert "(allowed)" in printed(gate(improved, concerns=(allowed,)))


def test_texts_are_inert_in_every_format() -> None:
    concern = Concern(kind="warnings", verdict="review", message=HOSTILE, checks=(HOSTILE,))
    odd = check("jit", "broken", recipe=HOSTILE, reason=HOSTILE)
    told = gate(odd, check("jit", "changed", leaf("changed", path=HOSTILE)), concerns=(concern,), name=HOSTILE)
    for text in (printed(told), printed(told, 1), markdown(told), "\n".join(annotation_lines(told))):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "y" * 1000 not in text
    document = markdown(told)
    assert not re.search(r"(?<!\\)<script>", re.sub(r"`[^`\n]*`", "", document))
    assert all(line.startswith("::") for line in annotation_lines(told))
    for row in (line for line in document.splitlines() if line.startswith("| `")):
        assert len(re.findall(r"(?<!\\)\|", row)) in (4, 9), row


def test_markdown_has_the_table() -> None:
    document = markdown(gate(check("jit", "improved", leaf()), concerns=(IMPROVED,)))
    assert document.startswith("## current → jax==2: review\n")
    row = next(line for line in document.splitlines() if line.startswith("| `r::c"))
    assert row == "| `r::c[jit]` | `['y']` | improved (1e\\+03 x tolerance) | 1.5 | 2.5 | 2.25 | jax | jax 2.1 |"


def test_markdown_is_cut_where_a_summary_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(md, "MOST_BYTES", 600)
    document = markdown(gate(*(check("jit", "improved", leaf()) for _ in range(20)), concerns=(IMPROVED,)))
    assert len(document.encode()) <= 600
    assert document.endswith(md.CUT)


def test_a_plain_run_as_markdown() -> None:
    failed = check("jit", None, leaf("changed"), reason="it | moved").model_copy(update={"status": Status.FAIL})
    run = Run(jaxcheck="1", results=(failed,), environment=environment("1"), not_verified={"gpu": "not here"})
    document = markdown(run)
    assert "| `r::c[jit]` | fail | it \\| moved |" in document
    assert "- gpu: not here" in document


def test_annotations_are_at_most_ten_of_a_kind() -> None:
    blocks = tuple(Concern(kind="changed", verdict="block", message=f"m{n}") for n in range(SHOWN + 3))
    lines = list(annotation_lines(gate(concerns=(*blocks, IMPROVED))))
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == SHOWN
    assert errors[-1] == "::error title=jaxcheck gate::and 4 more"
    assert lines[-1] == "::warning title=jaxcheck gate%3A improved::2 checks moved (r::c[eager], r::c[jit])"
    assert list(annotation_lines(gate(check("jit", "unchanged"), verdict="pass"))) == [
        "::notice title=jaxcheck gate::pass: 1 check compared in 0.00 s"
    ]


def test_json_both_ways() -> None:
    told = gate(check("jit", "improved", leaf()), concerns=(IMPROVED,))
    assert Gate.from_json(told.to_json()) == told
    assert '"from": {' in told.to_json()
