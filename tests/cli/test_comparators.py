"""Comparators by the real command: what is arbitrary may change, what is wrong fails; `check` says where to use one."""

from __future__ import annotations

import pytest

from tests.harness import Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

KERNELS = """
import jax
import jax.numpy as jnp

VARIANT = "blessed"

def spectrum(sym):
    w, v = jnp.linalg.eigh(sym)
    if VARIANT == "other":
        v = -v
    if VARIANT == "wrong":
        v = v[:, ::-1]
    return {"w": w, "v": v}

def singular(x):
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    if VARIANT == "other":
        return -u, s, -vh
    return (-u, s, vh) if VARIANT == "wrong" else (u, s, vh)

def triangular(x):
    q, r = jnp.linalg.qr(x)
    if VARIANT == "other":
        return {"q": -q, "r": -r}
    return {"q": -q, "r": r} if VARIANT == "wrong" else {"q": q, "r": r}

def best(x):
    values, indices = jax.lax.top_k(x, 3)
    if VARIANT == "other":
        indices = len(x) - 1 - jax.lax.top_k(x[::-1], 3)[1]
    return {"values": values, "indices": indices[::-1] if VARIANT == "wrong" else indices}

def order(x):
    if VARIANT == "other":
        return len(x) - 1 - jnp.argsort(x[::-1])
    return jnp.argsort(-x) if VARIANT == "wrong" else jnp.argsort(x)

def roots(x):
    if VARIANT == "other":
        return x[::-1]
    return x + (VARIANT == "wrong")

def logits(x):
    return x + {"blessed": 0, "other": 50}.get(VARIANT, x)

def rounded(x):
    return x * {"blessed": 1, "other": 1.0000002, "wrong": 1.000002}[VARIANT]
"""

MATRIX = "[[2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 5.0]]"
TALL = "[[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]]"
SCORES = "[3.0, 1.0, 3.0, 2.0, 1.0]"
RECIPES = {
    "eigh": ("spectrum", f"sym: {MATRIX}", """"['v']": {comparator: {eigh: {values: "['w']", matrix: sym}}}"""),
    "svd": ("singular", f"x: {TALL}", """"*": {comparator: {svd: {u: "[0]", s: "[1]", vh: "[2]", matrix: x}}}"""),
    "qr": ("triangular", f"x: {TALL}", """"*": {comparator: {qr: {q: "['q']", r: "['r']", matrix: x}}}"""),
    "top-k": ("best", f"x: {SCORES}", """"['indices']": {comparator: {topk: {operand: x}}}"""),
    "argsort": ("order", f"x: {SCORES}", ".: {comparator: {topk: {operand: x}}}"),
    "permutation": ("roots", f"x: {SCORES}", ".: {comparator: permutation}"),
    "kl": ("logits", f"x: {SCORES}", ".: {comparator: {kl: {max_kl: 1e-6, of: logits}}}"),
    "ulp": ("rounded", f"x: {SCORES}", ".: {comparator: {ulp: {max_ulp: 4}}}"),
}
COMPARED = tuple(name for name in RECIPES if name != "ulp")  # whose plain twin is beyond the tolerance


def registry(project: Project, tolerance: str = "{rtol: 1e-5, atol: 1e-5}") -> Project:
    """Every recipe with its comparator, and without it as `plain-…`."""
    lines = ["version: 1", "defaults: {tolerance: {float32: " + tolerance + "}}", "recipes:"]
    for name, (kernel, argument, outputs) in RECIPES.items():
        rest = f'kernel: "kernels:{kernel}", cases: {{one: {{args: {{{argument}}}}}}}'
        lines += [f"  {name}: {{{rest}, outputs: {{{outputs}}}}}", f"  plain-{name}: {{{rest}}}"]
    project.write("recipes.yaml", "\n".join(lines) + "\n")
    project.write("kernels.py", KERNELS)
    return project


def become(project: Project, variant: str) -> None:
    project.write("kernels.py", KERNELS.replace('VARIANT = "blessed"', f'VARIANT = "{variant}"'))


def test_what_is_arbitrary_may_change_and_what_is_wrong_fails(project: Project) -> None:
    registry(project).bless()
    done, report = project.run()
    assert done.code == 0, done

    become(project, "other")
    done, report = project.run()
    assert done.code == 1, done
    found = statuses(report)
    assert {name: found[f"{name}::one[jit]"] for name in RECIPES} == dict.fromkeys(RECIPES, "pass")
    assert {name: found[f"plain-{name}::one[jit]"] for name in COMPARED} == dict.fromkeys(COMPARED, "fail")
    eigh = by_id(report)["eigh::one[eager]"]
    assert eigh["drifted"]
    assert [leaf["violation_ratio"] < 1 for leaf in eigh["leaves"]] == [True, True]

    become(project, "wrong")
    done, report = project.run()
    results = by_id(report)
    reasons = {name: results[f"{name}::one[eager]"]["reason"] for name in RECIPES}
    assert {results[f"{name}::one[eager]"]["status"] for name in RECIPES} == {"fail"}, done
    assert "['v']: residual |A v - w v| of column " in reasons["eigh"]
    assert "[0]: residual |A v - s u| of vector 0" in reasons["svd"]
    assert "['q']: residual |A - QR| of the worst column" in reasons["qr"]
    assert (
        "indices differ where the elements do not tie, worst at [2]: 0 (element 3) was 3 (element 2)"
        in reasons["top-k"]
    )
    assert "indices differ where the elements do not tie" in reasons["argsort"]
    assert "not a permutation of golden: " in reasons["permutation"]
    assert "KL divergence 0." in reasons["kl"]
    assert "are more than 4 ULP apart, worst " in reasons["ulp"]


def test_check_names_the_comparator_to_use(project: Project) -> None:
    done = registry(project).jaxcheck("check")
    assert done.code == 0, done
    notes = [line for line in done.err.splitlines() if "compared element by element" in line]
    said = {
        (line.split(": ")[2], line.split(": ")[3].split(" ")[0], line.split("{")[1].split(":")[0]) for line in notes
    }
    assert said == {
        ("plain-eigh", "['v']", "eigh"),
        ("plain-svd", "[0]", "svd"),
        ("plain-svd", "[2]", "svd"),
        ("plain-qr", "['q']", "qr"),
        ("plain-qr", "['r']", "qr"),
        ("plain-top-k", "['indices']", "topk"),
        ("plain-argsort", ".", "topk"),
    }, done
    assert project.jaxcheck("check", "--static").err.count("compared element by element") == 0


def test_a_comparator_that_does_not_fit_is_an_error_with_its_place(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write(
        "recipes.yaml",
        """
        version: 1
        defaults: {tolerance: {float32: {rtol: 1e-5, atol: 1e-5}}}
        recipes:
          eigh:
            kernel: kernels:spectrum
            cases: {one: {args: {sym: [[2.0, 1.0], [1.0, 3.0]]}}}
            outputs: {"['v']": {comparator: {eigh: {values: "['u']"}}}}
        """,
    )
    done, report = project.run()
    assert done.code == 1, done
    reason = by_id(report)["eigh::one[jit]"]["reason"]
    place = "recipes.yaml:8:25: the comparator eigh does not fit ['v']: "
    assert place + "values: there is no output leaf ['u']; leaves: ['v'], ['w']" in reason


def test_a_comparator_with_its_own_bound_needs_no_tolerance(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write(
        "recipes.yaml",
        """
        version: 1
        recipes:
          ulp:
            kernel: kernels:rounded
            cases: {one: {args: {x: [1.0, 2.0]}}}
            outputs: {"*": {comparator: {ulp: {max_ulp: 4}}}}
        """,
    )
    project.bless()
    become(project, "other")
    done, report = project.run()
    assert done.code == 0, done
    (leaf,) = by_id(report)["ulp::one[jit]"]["leaves"]
    assert leaf["tolerance"]["source"] == "comparator: ulp, max_ulp 4"
    assert 0 < leaf["violation_ratio"] <= 1
