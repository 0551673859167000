"""A fixed run with every status, for the tests of all formats."""

from __future__ import annotations

from typing import Any

from jaxcheck.results import CapturedWarning, CheckResult, Environment, Finding, LeafResult, Run, totals

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
