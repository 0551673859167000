"""Annotations of a run: the gravest first, at the place that they are about, as GitHub escapes them."""

from __future__ import annotations

from jaxcheck.report.github import SHOWN, annotation_lines
from jaxcheck.results import CapturedWarning
from tests.report import sample


def test_the_gravest_comes_first_and_the_rest_is_counted() -> None:
    missing = [sample.check("new", f"c{n}", "jit", "missing", reason="no golden") for n in range(20)]
    near, far = (
        sample.check("r", name, "jit", "fail", leaves=(sample.beyond(violation_ratio=ratio),), reason="moved")
        for name, ratio in (("near", 2.0), ("far", 50.0))
    )
    lines = list(annotation_lines(sample.run_of(*missing, near, far, sample.check("x", "a", "jit", "crash"))))
    assert lines[:3] == [
        "::error title=crash%3A x%3A%3Aa[jit]::crash",
        "::error title=fail%3A r%3A%3Afar[jit]::moved",
        "::error title=fail%3A r%3A%3Anear[jit]::moved",
    ]
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == SHOWN
    assert errors[-1] == "::error title=jaxcheck::and 14 more"
    assert lines[-1].startswith("::notice title=jaxcheck::2 failed, 1 crashed, 20 missing")


def test_a_check_is_shown_where_the_registry_has_it() -> None:
    check = sample.check("r", "c", "jit", "fail", reason="100% off: a, b", position="recipes,%:1.yaml:12:3")
    (line, _) = annotation_lines(sample.run_of(check))
    assert line == ("::error file=recipes%2C%25%3A1.yaml,line=12,title=fail%3A r%3A%3Ac[jit]::100%25 off: a, b")


def test_warnings_of_kernels_are_shown_once_where_they_were_raised() -> None:
    warning = CapturedWarning(category="DeprecationWarning", message="old", file="k.py", line=14)
    checks = [sample.check("r", "c", mode, "pass", warnings=(warning,)) for mode in ("eager", "jit")]
    assert next(annotation_lines(sample.run_of(*checks))) == (
        "::warning file=k.py,line=14,title=DeprecationWarning::old"
    )


def test_a_run_that_verified_nothing_is_a_warning() -> None:
    (line,) = annotation_lines(sample.run_of())
    assert line.startswith("::warning title=jaxcheck::nothing was verified")
