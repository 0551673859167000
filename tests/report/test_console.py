"""The terminal report, as text of a given width."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from jaxcheck.report.console import render
from jaxcheck.results import Finding, Run
from tests.report import sample


def printed(run: Run, width: int = 80, verbosity: int = 0, **options: Any) -> str:
    """What a caller's console makes of it, without the blanks at the ends of lines."""
    file = io.StringIO()
    Console(file=file, width=width, highlight=False, **options).print(render(run, verbosity))
    return "\n".join(text.rstrip() for text in file.getvalue().splitlines())


def test_a_failure_tells_what_where_by_how_much_and_what_to_type_next() -> None:
    assert (
        printed(sample.run_of(sample.failed())).partition("\n\n")[0]
        == """\
FAIL newton-sqrt::standard[jit]
  the kernel changed its argument x
  jit disagrees with eager
    [0]['w'] float32[4, 3]: 20.4 x tolerance, 3 of 12 beyond, worst at [1, 2]
          eager  0.1234111  max abs  4.56e-05
            jit  0.1234567  max rel  0.00037
        allowed  2.25e-06   max ULP  6,120
      tolerance  rtol 2e-06 atol 2e-06 (recipes.yaml:12:5)
  differs from the golden (goldens/newton-sqrt.npz)
    [0]['w'] float32[4, 3]: 20.4 x tolerance, 3 of 12 beyond, worst at [1, 2]
         golden  0.1234111  max abs  4.56e-05
         actual  0.1234567  max rel  0.00037
        allowed  2.25e-06   max ULP  6,120
      tolerance  rtol 2e-06 atol 2e-06 (recipes.yaml:12:5)
  hint: jaxcheck diff newton-sqrt::standard"""
    )


def test_the_whole_report_at_80_columns() -> None:
    after_failures = printed(sample.every_status()).partition("    step 1\n\n")[2]
    assert (
        after_failures
        == """\
recipe       result                            checks  drifted    time
newton-sqrt  1 fail, 1 pass, 20.4 x tolerance       2           0.24 s
lgamma       pass, drift 0.12 of tolerance          2        2  0.24 s
mlp          fail, NaN or inf disagrees             1           0.12 s
cross        error                                  1           0.12 s
rank7        crash                                  1           0.12 s
endless      timeout                                1           0.12 s
new          missing                                2           0.24 s
old one      stale                                  1           0.12 s
gpu-only     skip                                   1           0.12 s

warnings from kernels
  DeprecationWarning: jnp.cross of 2-vectors is deprecated (kernels/cross.py:14,
  2 times)

waiting for bless
  missing new (2 checks): there is no golden yet
  stale old one (1 check): the arguments changed since it was blessed
  jaxcheck bless new 'old one'

environment
  backend    cpu, 8 x cpu
  versions   jax 0.11.2, jaxlib 0.11.1, optax 0.2.6, numpy 2.5.5, Python 3.12.1
  cpu        AMD EPYC, 2 cores
  XLA flags  --xla_force_host_platform_device_count=8
  precision  x64 off, matmul precision default
  config     jax_debug_nans=True

skipped
  gpu-only (1 check): wants backend gpu, this is cpu

not verified: gpu, tpu (not available here)

3 passed (2 drifted), 2 failed, 1 error, 1 crashed, 1 timed out, 2 missing, 1
stale, 1 skipped in 3.40 s"""
    )


def test_an_exception_a_crash_and_a_timeout_show_the_end_of_their_output() -> None:
    text = printed(sample.every_status())
    assert (
        """\
ERROR cross::standard[eager]
  AttributeError: cross
  traceback
    Traceback (most recent call last):
      File "kernels/cross.py", line 14, in cross
    AttributeError: cross
  stderr
    W: XLA
"""
        in text
    )
    assert (
        """\
CRASH rank7::standard[jit]
  killed by SIGSEGV
  stderr (the last 8 of 30 lines; -v shows more)
    22
"""
        in text
    )
    assert "TIMEOUT endless::standard[jit]\n  no answer within 60 s\n  stdout\n    step 1\n" in text


def test_nan_shows_what_the_golden_has() -> None:
    text = printed(sample.run_of(sample.check("mlp", "a", "jit", "fail", leaves=(sample.not_a_number(),))))
    assert "[1] float32[4, 3]: NaN at [0, 0] where golden has 1.5; 2 of 12 disagree in\n    NaN or infinity\n" in text
    assert "         actual  NaN" in text


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_no_line_is_wider_than_the_terminal(width: int, verbosity: int) -> None:
    lines = printed(sample.every_status(), width, verbosity).splitlines()
    assert len(lines) > 3
    assert [text for text in lines if cell_len(text) > width] == []


def test_quiet_gives_failures_a_line_each_and_the_totals() -> None:
    lines = printed(sample.every_status(), 80, -1).splitlines()
    assert lines[0].startswith("FAIL newton-sqrt::standard[jit]: differs from the golden: ")
    assert "STALE old one::standard[jit]: the arguments changed since it was blessed" in lines
    assert len(lines) == 10
    assert printed(sample.run_of(sample.check("a", "b", "jit", "pass")), 80, -1) == "1 passed in 3.40 s"


def test_verbose_gives_every_check_and_leaf() -> None:
    raised = sample.check("shape", "wrong", "jit", "pass", error="TypeError: shape", compile_seconds=0.5)
    text = printed(sample.run_of(*sample.every_status().results, raised), 80, 1)
    assert (
        """\
FAIL newton-sqrt::standard[jit] 20.4 x tolerance (0.12 s)
  [0]['w'] float32[4, 3]: 20.4 x tolerance
    max abs 4.56e-05, max rel 0.00037, max ULP 6,120, 3 of 12 bit-equal
    rtol 2e-06 atol 2e-06 (recipes.yaml:12:5)
  [2] float32[4, 3]: bit-equal
  against eager: 20.4 x tolerance
PASS lgamma::roots[eager] drift 0.12 of tolerance (0.12 s)
"""
        in text
    )
    assert "PASS shape::wrong[jit] (0.12 s, compiling 0.50 s)\n  raised as expected: TypeError: shape\n" in text
    assert "    29\n" in text
    assert "-v shows more" not in text


def test_many_leaves_are_cut_to_those_that_moved_furthest() -> None:
    leaves = [sample.beyond(f"[{place}]", violation_ratio=2.0 + place) for place in range(7)]
    run = sample.run_of(sample.check("mlp", "a", "jit", "fail", leaves=leaves))
    text = printed(run)
    assert text.index("[6] float32") < text.index("[5] float32") < text.index("[4] float32")
    assert "and 4 more leaves (-v shows them): [3], [2], [1], [0]" in text
    assert "[0] float32" in printed(run, verbosity=1)


def test_many_failures_are_cut_to_a_line_each() -> None:
    results = [sample.check("mlp", str(n), "jit", "fail", leaves=(sample.beyond(),), reason="moved") for n in range(30)]
    text = printed(sample.run_of(*results))
    assert text.count("tolerance  rtol") == 20
    assert "FAIL mlp::29[jit]: moved" in text


def test_a_missing_golden_with_a_finding_has_a_block_of_its_own() -> None:
    finding = Finding(kind="modes", message="jit disagrees with eager: structure: 2 leaves, not 1")
    text = printed(sample.run_of(sample.check("new", "a", "jit", "missing", reason="no golden", findings=(finding,))))
    assert text.startswith("MISSING new::a[jit]\n  jit disagrees with eager: structure: 2 leaves, not 1\n")
    assert "jaxcheck bless new" in text


def test_notes_of_passing_checks_are_told_once() -> None:
    results = [sample.check("a", str(n), "jit", "pass", notes=("the error was ValueError: x",)) for n in range(3)]
    assert "notes\n  the error was ValueError: x (a::0[jit] and 2 more)\n" in printed(sample.run_of(*results))


def test_damaged_goldens_are_named() -> None:
    run = sample.run_of(sample.check("a", "b", "jit", "pass"), damaged_goldens=("goldens/a.npz is a Git LFS pointer",))
    assert "damaged goldens\n  goldens/a.npz is a Git LFS pointer\n" in printed(run)
    assert "1 damaged golden" in printed(run).splitlines()[-1]


@pytest.mark.parametrize(
    ("run", "line", "style"),
    [
        (sample.run_of(sample.check("a", "b", "jit", "pass")), "1 passed in 3.40 s", "32"),
        (sample.run_of(sample.check("a", "b", "jit", "fail")), "1 failed in 3.40 s", "31"),
        (sample.run_of(sample.check("a", "b", "jit", "skip")), "nothing was verified, 1 skipped in 3.40 s", "33"),
        (sample.run_of(), "nothing was verified in 3.40 s", "33"),
        (
            sample.run_of(sample.check("a", "b", "jit", "pass"), interrupted=True),
            "interrupted: 1 passed in 3.40 s",
            "33",
        ),
        (sample.run_of(sample.check("a", "b", "jit", "pass"), seconds=1234.5), "1 passed in 1,234.5 s", "32"),
    ],
)
def test_only_what_was_verified_and_passed_is_green(run: Run, line: str, style: str) -> None:
    coloured = printed(run, force_terminal=True, color_system="standard", no_color=False).splitlines()[-1]
    assert coloured == f"\x1b[1;{style}m{line}\x1b[0m"


def test_no_color_leaves_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(sample.every_status(), force_terminal=True, color_system="standard")
    assert "FAIL" in text
    assert "\x1b[31m" not in text
    assert "\x1b[1;31m" not in text


def test_untrusted_text_is_inert_wherever_it_stands() -> None:
    evil = sample.EVIL
    worst = {"index": (0, 0), "golden": evil, "actual": evil, "allowed": 0.0}
    leaf = sample.beyond(evil, reason=evil, dtype=evil, worst=worst, tolerance=sample.TOLERANCE | {"source": evil})
    texts = dict.fromkeys(("reason", "hint", "error", "stdout", "stderr", "golden"), evil)
    warning = {"category": evil, "message": evil, "file": evil, "line": 1}
    finding = {"kind": "property", "message": evil + "!"}
    more = {"leaves": (leaf,), "against": {"eager": (leaf,)}, "notes": (evil,), "warnings": (warning,)}
    results = [
        sample.check(evil + status, evil, evil, status, findings=(finding,), **texts, **more)
        for status in ("fail", "error", "crash", "missing", "skip", "pass")
    ]
    run = sample.run_of(
        *results,
        environment=sample.environment(cpu=evil, xla_flags=evil, config={evil: evil}),
        not_verified={evil: evil},
        damaged_goldens=(evil,),
    )
    for verbosity in (-1, 0, 1):
        text = printed(run, 400, verbosity)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"[bold red]evil[/bold red]\x1b[31m\u202e" in text
        assert text.count("evil") == text.count("[bold red]evil[/bold red]")


def test_very_long_text_is_cut() -> None:
    run = sample.run_of(sample.check("a", "b", "jit", "fail", reason="x" * 100_000))
    text = printed(run)
    assert "... (99,600 more characters)" in text
    assert len(text) < 3000
