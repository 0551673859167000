"""The whole command on small kernels with a known fault, each of another kind."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

import pytest

from jaxcheck.results.diagnosis import Diagnosis
from tests.diagnose.conftest import Diagnose
from tests.harness import Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.slow]

KERNELS = """
    import jax
    import jax.numpy as jnp
    import numpy as np

    def rounded(x):
        with jax.named_scope("forward"):
            h = jnp.tanh(x)
        with jax.named_scope("loss"):
            return jnp.sum(h * h)

    def scaled(x):
        with jax.named_scope("forward"):
            return jnp.sin(x) * 1.5

    def scaled_exactly(x):
        return np.sin(np.asarray(x, np.float64)) * 2.5

    def cancels(x):
        with jax.named_scope("forward"):
            y = jnp.exp(x)
        with jax.named_scope("loss"):
            return (1.0 + y) - 1.0

    def cancels_exactly(x):
        return np.exp(np.asarray(x, np.float64))

    def contracted(a, b, c, d):
        with jax.named_scope("forward"):
            return a * d - b * c

    def nothing_finite(x):
        with jax.named_scope("forward"):
            return jax.nn.softmax(x * jnp.nan)

    def branches(x):
        return x if x > 0 else -x

    def draws(x):
        return x + jax.random.normal(jax.random.key(3), x.shape)

    def dies(x):
        raise RuntimeError("out of cheese")
"""
REGISTRY = """
    version: 1
    defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-7}}}
    recipes:
      rounded: {kernel: "kernels:rounded", cases: {one: {args: {x: [0.1, 0.5, 0.9]}}}}
      scaled: {kernel: "kernels:scaled", reference: "kernels:scaled_exactly", cases: {one: {args: {x: [0.1, 0.5]}}}}
      cancels:
        kernel: kernels:cancels
        reference: kernels:cancels_exactly
        tolerance: {float32: {rtol: 1e-5, atol: 0.0}}
        cases: {one: {args: {x: [-12.0, -14.0]}}}
      nothing-finite: {kernel: "kernels:nothing_finite", nonfinite: allow, cases: {one: {args: {x: [1.0, 2.0, 3.0]}}}}
      branches: {kernel: "kernels:branches", modes: [eager], cases: {one: {args: {x: -1.0}}}}
      draws: {kernel: "kernels:draws", cases: {one: {args: {x: [1.0, 2.0]}}}}
      dies: {kernel: "kernels:dies", cases: {one: {args: {x: 1.0}}}}
      contracted:
        kernel: kernels:contracted
        cases: {one: {args: {a: [1.1, 0.3], b: [1.1000001, 0.7], c: [1.3, 2.5], d: [1.3000001, 5.8333]}}}
"""


@pytest.fixture
def kernels(project: Project) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    return project


def edit(project: Project, name: str, old: str, new: str) -> None:
    path = project.folder / name
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))


def rungs(report: dict[str, Any]) -> dict[str, str]:
    return {rung["rung"]: rung["status"] for rung in report["ladder"]}


def line_of(project: Project, text: str) -> int:
    lines = (project.folder / "kernels.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_nothing_diverges(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("rounded")
    before = kernels.files()
    done, report = diagnose("rounded::one")
    assert done.code == 0, done
    assert report["verdict"]["kind"] == "none"
    assert rungs(report)["data"] == "ok"
    assert rungs(report)["program"] == rungs(report)["first equation"] == "skipped"
    assert "Nothing diverges from the golden" in done.out
    assert {name: text for name, text in kernels.files().items() if name != "diagnosis.json"} == before
    assert Diagnosis.model_validate(report) == Diagnosis.from_json(Diagnosis.model_validate(report).to_json())


def test_mode_that_the_recipe_does_not_ask_for_may_raise(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("branches")
    done, report = diagnose("branches::one")
    assert (done.code, report["mode"], report["verdict"]["kind"]) == (0, "eager", "none"), done


def test_rounding_in_one_operation(kernels: Project, diagnose: Diagnose) -> None:
    """The golden's program still gives the golden, so that the edit alone did it; and the edit is named."""
    kernels.bless("rounded")
    edit(kernels, "kernels.py", "h = jnp.tanh(x)", "h = jnp.tanh(x).astype(jnp.bfloat16).astype(x.dtype)")
    done, report = diagnose("rounded::one")
    assert done.code == 1, done
    verdict = report["verdict"]
    assert rungs(report)["environment"] == rungs(report)["data"] == rungs(report)["signature"] == "ok"
    assert rungs(report)["program"] == "differs"
    assert (verdict["rung"], verdict["kind"], verdict["primitive"]) == ("program", "program", "convert_element_type")
    assert verdict["scope"].endswith("forward")
    assert (os.path.basename(verdict["file"]), verdict["line"]) == ("kernels.py", line_of(kernels, "h = jnp.tanh(x)"))
    assert "`convert_element_type` in `forward` (kernels.py:" in done.out.replace("\n", " ")


def test_other_inputs(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("rounded")
    edit(kernels, "recipes.yaml", "{x: [0.1, 0.5, 0.9]}", "{x: [0.1, 0.5, 0.8]}")
    done, report = diagnose("rounded::one")
    assert done.code == 1, done
    assert (report["verdict"]["rung"], report["verdict"]["kind"]) == ("data", "data")
    assert "x (1 of 3 elements)" in report["verdict"]["sentence"]
    assert "still gives the golden here" in report["verdict"]["sentence"]


def test_other_shapes(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("rounded")
    edit(kernels, "kernels.py", "return jnp.sum(h * h)", "return (jnp.sum(h * h),)")
    done, report = diagnose("rounded::one")
    assert done.code == 1, done
    assert (report["verdict"]["rung"], report["verdict"]["kind"]) == ("signature", "signature")
    assert "structure" in report["verdict"]["sentence"]


def test_it_raises_now(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("rounded")
    edit(kernels, "kernels.py", "return jnp.sum(h * h)", 'raise ValueError("no loss")')
    done, report = diagnose("rounded::one")
    assert done.code == 1, done
    assert (report["verdict"]["rung"], report["verdict"]["kind"]) == ("signature", "raises")
    assert "ValueError: no loss" in report["verdict"]["sentence"]


def test_setting_of_the_environment(kernels: Project, diagnose: Diagnose) -> None:
    kernels.bless("draws")
    done, report = diagnose("draws::one", JAX_THREEFRY_PARTITIONABLE="false")
    assert done.code == 1, done
    assert (report["verdict"]["rung"], report["verdict"]["kind"]) == ("environment", "environment")
    assert "threefry partitionable True -> False" in report["verdict"]["sentence"]
    assert "the golden's again" in report["verdict"]["sentence"]


def test_wrong_constant_is_another_formula(kernels: Project, diagnose: Diagnose) -> None:
    done, report = diagnose("scaled::one", "--against", "truth")
    assert done.code == 1, done
    assert report["verdict"]["kind"] == "formula", report["verdict"]
    assert rungs(report)["forward"] == "ok"
    assert "another formula" in report["verdict"]["sentence"]


def test_cancellation_is_an_amplifier(kernels: Project, diagnose: Diagnose) -> None:
    done, report = diagnose("cancels::one", "--against", "truth")
    assert done.code == 1, done
    verdict = report["verdict"]
    assert (verdict["kind"], verdict["primitive"], verdict["scope"]) == ("amplifier", "sub", "loss")
    assert (os.path.basename(verdict["file"]), verdict["line"]) == ("kernels.py", line_of(kernels, "(1.0 + y) - 1.0"))
    assert [scope["scope"] for scope in report["scopes"]] == ["forward", "loss"]
    assert "amplifier" in done.out


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the knob is one of x86")
def test_contraction_is_cured_by_its_knobs(kernels: Project, diagnose: Diagnose) -> None:
    done, report = diagnose("contracted::one", "--against", "jit")
    assert done.code == 1, done
    verdict = report["verdict"]
    assert (verdict["rung"], verdict["kind"]) == ("jit against eager", "fusion")
    assert "FMA contraction" in verdict["sentence"]
    knobs = {knob["knob"]: knob["status"] for knob in report["knobs"]}
    assert knobs["no FMA"] == knobs["no fusion"] == "cures"
    assert knobs["no algebraic simplifier"] == "keeps"
    assert report["mode"] == "eager"
    assert rungs(report)["inside the compiled function"] == "differs"
    place = ("sub", "forward", line_of(kernels, "a * d - b * c"))
    assert (verdict["primitive"], verdict["scope"], verdict["line"]) == place
    compiled = report["compiled"]
    assert (compiled["primitive"], compiled["scope"], compiled["line"]) == place
    assert (compiled["confirmed"], compiled["stable"], compiled["repeatable"]) == (True, True, True)
    assert f"inside fusion `{compiled['fusion']}`" in verdict["sentence"]
    assert "subtract" in compiled["hlo"]
    assert report["scopes"][0]["effect"] > 1000, "everything hangs on the products that cancel"
    assert [step["primitive"] for step in report["sensitive"]] == ["mul", "mul", "sub"]
    assert "that the outcome hangs on most" in done.out


def test_nan_lost_inside_the_compiled_function(kernels: Project, diagnose: Diagnose) -> None:
    """XLA's fault of jax 0.10.2: memory that was never written, another at every call."""
    done, report = diagnose("nothing-finite::one", "--against", "eager", "--no-sensitivity")
    verdict = report["verdict"]
    if importlib.metadata.version("jax") != "0.10.2":
        assert (done.code, verdict["kind"], report["compiled"]) == (0, "none", None), done
        return
    assert done.code == 1, done
    assert (report["mode"], verdict["rung"], verdict["kind"]) == ("jit", "jit against eager", "fusion")
    assert rungs(report)["forward"] == "ok", "each equation by itself keeps the NaN"
    assert {knob["knob"] for knob in report["knobs"] if knob["status"] == "cures"} == {"no fusion"}
    assert rungs(report)["inside the compiled function"] == "differs"
    assert (verdict["primitive"], report["compiled"]["primitive"]) == ("exp", "exp"), verdict
    assert not report["compiled"]["repeatable"]
    assert "every call gives other values" in verdict["sentence"]
    assert report["sensitive"] == []
    assert all(scope["effect"] is None for scope in report["scopes"])


def test_time_that_is_up_leaves_a_partial_answer(kernels: Project, diagnose: Diagnose) -> None:
    done, report = diagnose("contracted::one", "--against", "jit", "--time", "1")
    assert done.code == 1, done
    assert report["verdict"]["rung"] == "jit against eager"
    late = [knob for knob in report["knobs"] if "time" in knob["finding"]]
    assert late
    assert all(knob["status"] == "unknown" for knob in late)
    assert any(text.startswith("sensitivity: not measured: the time") for text in report["remarks"])


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("rounded",), 2, "is not one case"),
        (("rounded::*",), 2, "is not one case"),
        (("nothing::one",), 2, "no recipe 'nothing'"),
        (("rounded::two",), 2, "has no case 'two'"),
        (("rounded::one",), 2, "has no golden"),
        (("rounded::one", "--against", "gold"), 2, "nothing to be held against"),
        (("rounded::one", "--against", "jax=0.1"), 2, "is not a requirement"),
        (("rounded::one[jit]", "--against", "jit"), 2, "not held against itself"),
        (("rounded::one[jit]", "--mode", "eager"), 2, "different modes"),
        (("rounded::one", "--mode", "vmap"), 2, "is not run in mode vmap"),
        (("rounded::one", "-o", "report.txt"), 2, "not a report format"),
    ],
)
def test_what_cannot_be_meant(kernels: Project, args: tuple[str, ...], code: int, said: str) -> None:
    done = kernels.jaxcheck("diagnose", *args)
    assert (done.code, said in done.err) == (code, True), done
    assert "Traceback" not in done.err


def test_case_that_cannot_be_run(kernels: Project, diagnose: Diagnose) -> None:
    edit(kernels, "kernels.py", "raise RuntimeError", "import os; os.abort()  # ")
    done, report = diagnose("dies::one", "--against", "truth")
    assert (done.code, report) == (5, {}), done
    assert "cannot be examined: the worker was killed" in done.err
