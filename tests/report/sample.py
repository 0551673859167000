"""A fixed run with every status, for the tests of all formats."""

from __future__ import annotations

import math
from typing import Any

from jaxcheck.results import (
    Baseline,
    CapturedWarning,
    CheckResult,
    Environment,
    Finding,
    Latency,
    LeafResult,
    Run,
    Status,
    totals,
)
from jaxcheck.results.gate import Concern, Gate, PackageChange, Side

TOLERANCE = {"rtol": 2e-6, "atol": 2e-6, "source": "recipes.yaml:12:5"}
EVIL = "[bold red]evil[/bold red]\x1b[31m\u202e\n"


def leaf(path: str = "[0]['w']", **fields: Any) -> LeafResult:
    equal = {
        "path": path,
        "dtype": "float32",
        "shape": (4, 3),
        "size": 12,
        "bit_equal": 12,
        "mismatched": 0,
        "nonfinite": 0,
        "violation_ratio": 0.0,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "max_ulp": 0.0,
        "tolerance": TOLERANCE,
    }
    return LeafResult.model_validate(equal | fields)


def beyond(path: str = "[0]['w']", **fields: Any) -> LeafResult:
    told = "3 of 12 beyond tolerance, worst 20.4 x at [1, 2]: 0.1234567 was 0.1234111, allowed 2.2e-06"
    numbers = {
        "bit_equal": 3,
        "mismatched": 3,
        "violation_ratio": 20.37,
        "max_abs": 4.56e-5,
        "max_rel": 3.7e-4,
        "max_ulp": 6120.0,
        "worst": {"index": (1, 2), "golden": 0.12341109663248062, "actual": 0.12345670163631439, "allowed": 2.247e-6},
        "reason": told,
    }
    return leaf(path, **(numbers | fields))


def drifted(path: str = "[0]") -> LeafResult:
    return leaf(path, bit_equal=7, violation_ratio=0.12, max_abs=2.4e-7, max_rel=1e-7, max_ulp=2.0)


def not_a_number() -> LeafResult:
    return leaf(
        "[1]",
        nonfinite=2,
        mismatched=2,
        violation_ratio=float("inf"),
        bit_equal=0,
        worst={"index": (0, 0), "golden": 1.5, "actual": "nan", "allowed": 5e-6},
        reason="NaN at [0, 0] where golden has 1.5; 2 of 12 disagree in NaN or infinity",
    )


def check(recipe: str, case: str, mode: str, status: str, **fields: Any) -> CheckResult:
    known = {"id": f"{recipe}::{case}[{mode}]", "recipe": recipe, "case": case, "mode": mode, "status": status}
    return CheckResult.model_validate({"seconds": 0.12, **known, **fields})


def failed() -> CheckResult:
    """Differs from the golden and from eager, and did something else besides."""
    reason = beyond().reason
    findings = (
        Finding(kind="golden", message=f"differs from the golden: [0]['w']: {reason}"),
        Finding(kind="modes", message=f"jit disagrees with eager: [0]['w']: {reason}"),
        Finding(kind="mutation", message="the kernel changed its argument x"),
    )
    return check(
        "newton-sqrt",
        "standard",
        "jit",
        "fail",
        leaves=(beyond(), leaf("[2]")),
        against={"eager": (beyond(),)},
        golden="goldens/newton-sqrt.npz",
        reason="; ".join(finding.message for finding in findings),
        findings=findings,
        hint="jaxcheck diff newton-sqrt::standard",
    )


def environment(**fields: Any) -> Environment:
    known = {
        "backend": "cpu",
        "device_kind": "cpu",
        "device_count": 8,
        "jax": "0.11.2",
        "jaxlib": "0.11.1",
        "optax": "0.2.6",
        "numpy": "2.5.5",
        "python": "3.12.1",
        "cpu": "AMD EPYC",
        "cpu_count": 2,
        "xla_flags": "--xla_force_host_platform_device_count=8",
        "config": {"jax_debug_nans": True},
    }
    return Environment.model_validate(known | fields)


def run_of(*results: CheckResult, **fields: Any) -> Run:
    known = {
        "jaxcheck": "0.1.0",
        "seconds": 3.4,
        "environment": environment(),
        "not_verified": {"gpu": "not available here", "tpu": "not available here"},
        "totals": totals(results),
        "results": results,
    }
    return Run.model_validate(known | fields)


def every_status() -> Run:
    deprecation = CapturedWarning(
        category="DeprecationWarning", message="jnp.cross of 2-vectors is deprecated", file="kernels/cross.py", line=14
    )
    traceback = (
        'Traceback (most recent call last):\n  File "kernels/cross.py", line 14, in cross\nAttributeError: cross\n'
    )
    return run_of(
        check("newton-sqrt", "standard", "eager", "pass", leaves=(leaf(),)),
        failed(),
        check("lgamma", "roots", "eager", "pass", leaves=(drifted(),), drifted=True, warnings=(deprecation,)),
        check("lgamma", "roots", "jit", "pass", leaves=(drifted(),), drifted=True, warnings=(deprecation,)),
        check("mlp", "standard", "jit", "fail", leaves=(not_a_number(),), reason="differs"),
        check(
            "cross", "standard", "eager", "error", reason="AttributeError: cross", error=traceback, stderr="W: XLA\n"
        ),
        check("rank7", "standard", "jit", "crash", reason="killed by SIGSEGV", stderr="\n".join(map(str, range(30)))),
        check("endless", "standard", "jit", "timeout", reason="no answer within 60 s", stdout="step 1\n"),
        check("new", "standard", "eager", "missing", reason="there is no golden yet"),
        check("new", "standard", "jit", "missing", reason="there is no golden yet"),
        check("old one", "standard", "jit", "stale", reason="the arguments changed since it was blessed"),
        check("gpu-only", "standard", "jit", "skip", reason="wants backend gpu, this is cpu"),
    )


# All that a text can do to a terminal, a page, a table, an annotation or an XML document.
HOSTILE = (
    "<script>document.documentElement.dataset.evil='1'</script>",
    "\"'><img src=x onerror=alert(1)>]]>&amp;<!--",
    "\x1b[31mred\x1b[0m\x9b31m\x07\x08\x7f",
    "one\ntwo\r\nthree\u2028four\n::error::injected\n````\n| a | b |",
    "\u202eright to left\u2066\u200f",
    "\x00\x01\x0b\x0c\ufffe\uffff",
    "</style></title></template></textarea><style>*{display:none}</style>",
    "[link](javascript:alert(1)) `code` **bold** | pipe | %0A,title=x::y [bold red]rich[/bold red]",
    "long " + "x" * 10_000,
)


def moved(path: str = "['w']", shape: tuple[int, ...] = (8, 8), **fields: Any) -> LeafResult:
    """Beyond its tolerance, with all that pictures are made of."""
    size = math.prod(shape)
    rows, columns = (1, size) if len(shape) == 1 else shape
    by_position = tuple(tuple(10.0 ** (row + column - 4) for column in range(columns)) for row in range(rows))
    values = tuple(float(number) for number in range(size))
    numbers = {
        "shape": shape,
        "size": size,
        "bit_equal": 0,
        "histogram": {"0": 3, "<=1": 20, ">100": size - 24, "nonfinite": 1},
        "error_to_truth": {"golden": 1e-7, "actual": 3e-5},
        "eps": 1.19e-7,
        "sample": {
            "measure": "violation ratio",
            "by_position": by_position,
            "golden": values,
            "actual": values[::-1],
        },
    }
    return beyond(path, **(numbers | fields))


def latency(**fields: Any) -> Latency:
    points = {"min": 1e-5, "p50": 1.2e-5, "p90": 2e-5, "p99": 3e-5, "max": 4e-5}
    return Latency.model_validate({"samples": 50, "first": 0.1, "spread": 0.8, **points, **fields})


def hostile() -> Run:
    """A run in which every text is as bad as it can be."""
    results = []
    for text in HOSTILE:
        tolerance = {"rtol": 1e-6, "atol": 0, "source": text}
        worst = {"index": (1, 2), "golden": text, "actual": text, "allowed": 1e-6, "truth": text}
        leaves = (moved(text, tolerance=tolerance, worst=worst, reason=text, dtype=text, cause="jax", because=text),)
        results.append(
            check(
                text,
                text,
                text,
                "fail",
                id=text,
                reason=text,
                hint=text,
                position=f"{text}:3:4",
                leaves=leaves,
                against={"eager": leaves},
                findings=(Finding(kind="golden", message=text),),
                golden=text,
                error=text,
                stdout=text,
                stderr=text,
                notes=(text,),
                details=(text,),
                tags=(text,),
                warnings=(CapturedWarning(category=text, message=text, file=text, line=1),),
                conditions={text: text},
                latency=latency(conditions={text: text}),
                device_kind=text,
            )
        )
    every = " ".join(HOSTILE)
    return run_of(
        *results,
        check("skipped", "a", "jit", "skip", reason=every),
        jaxcheck=every,
        command=every,
        registry=every,
        started=every,
        registry_digest=every,
        not_verified={every: every},
        damaged_goldens=HOSTILE,
        environment=environment(cpu=every, config={every: every}),
    )


def hostile_gate() -> Gate:
    """The same of a gate."""
    run = hostile()
    sides = {
        name: Side(label=" ".join(HOSTILE), environment=run.environment, totals={"fail": 1}) for name in ("from", "to")
    }
    known = run.model_dump(by_alias=True)
    baseline = Baseline(status=Status.PASS, reason=" ".join(HOSTILE), latency=latency())
    results = [
        one.model_copy(update={"verdict": "regressed", "baseline": baseline}).model_dump() for one in run.results
    ]
    return Gate.model_validate(
        known
        | sides
        | {
            "verdict": "block",
            "results": results,
            "concerns": [
                Concern(kind="regressed", verdict="block", message=text, checks=(text,) * 5) for text in HOSTILE
            ],
            "packages": [PackageChange(name=text, before=text, after=None) for text in HOSTILE],
            "settings": HOSTILE,
            "remarks": HOSTILE,
        }
    )
