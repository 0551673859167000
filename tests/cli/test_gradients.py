"""Golden gradients and counts of traces, by the real commands."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.harness import Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

KERNELS = """
import jax
import jax.numpy as jnp
import numpy as np

def loss(params, x):
    return {"loss": (jnp.tanh(x @ params["w"]) ** 2).mean(), "steps": jnp.int32(1)}

def cubed(x):
    return SCALE * x ** 3

def root(x):
    return jnp.sqrt(x)

def scaled(x, rate):
    return x * rate

class Static:
    def __repr__(self):
        return "Static()"

class Box:
    def __init__(self, value):
        self.value = value

jax.tree_util.register_pytree_node(Box, lambda box: ((box.value,), Static()), lambda _, children: Box(*children))

def boxes():
    return {"a": {"box": Box(np.ones(3, np.float32))}}

def opened(box):
    return box.value * 2

SCALE = 1.0
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1.0e-5, atol: 1.0e-6}}}
recipes:
  loss:
    kernel: kernels:loss
    modes: [eager, jit, grad]
    grad: {arguments: [params], output: "['loss']"}
    traces: 1
    cases: {a: {args: {x: {$normal: {shape: [8, 4], seed: 1}}, params: {w: {$normal: {shape: [4], seed: 2}}}}}}
  cubed:
    kernel: kernels:cubed
    modes: [eager, grad]
    outputs: {"grad['x']": {tolerance: {rtol: 1.0e-3, atol: 0.0}}}
    cases: {a: {args: {x: [1.0, 2.0]}}}
"""


def blessed(project: Project, kernels: str = KERNELS, registry: str = REGISTRY, *options: str) -> Project:
    project.write("kernels.py", kernels)
    project.write("recipes.yaml", registry)
    project.bless(*options)
    return project


def test_a_golden_keeps_gradients_their_truth_and_their_floor(project: Project) -> None:
    blessed(project)
    with np.load(project.folder / "goldens" / "loss.npz") as golden:
        assert golden["a/grad/['params']['w']"].shape == (4,)
        assert golden["a/truth/grad['params']['w']"].dtype == np.float64
        meta = json.loads(str(golden["__meta__"]))["cases"]["a"]
    assert meta["extra"]["truth"]["sources"]["grad['params']['w']"] == "shadow"
    assert 0 < meta["extra"]["floor"]["grad['params']['w']"]["truth"] < 1e-5
    assert meta["tolerance"]["grad['params']['w']"]["rtol"] == 1e-5
    done, report = project.run()
    assert done.code == 0, done
    (leaf,) = by_id(report)["loss::a[grad]"]["leaves"]
    assert (leaf["path"], leaf["verdict"]) == ("grad['params']['w']", "unchanged")
    assert leaf["error_to_truth"]["actual"] < 1e-5
    shown = project.jaxcheck("show", "loss")
    assert "grad['params']['w']: float32[4]  rtol 1e-05" in shown.out, shown


def test_a_gradient_that_moved_fails_and_says_by_how_much(project: Project) -> None:
    blessed(project)
    project.write("kernels.py", KERNELS.replace("SCALE = 1.0", "SCALE = 1.01"))
    done, report = project.run("cubed")
    result = by_id(report)["cubed::a[grad]"]
    assert (done.code, result["status"], result["leaves"][0]["verdict"]) == (1, "fail", "regressed"), done
    assert "the gradient differs from the golden: grad['x']" in result["reason"]
    assert [finding["kind"] for finding in result["findings"]] == ["golden"]
    assert "grad['x']: float32[2]: 10 x the tolerance" in project.jaxcheck("diff", "cubed").out
    project.bless("cubed")
    assert project.run("cubed")[0].code == 0


def test_a_tolerance_of_its_own_holds_for_a_gradient_alone(project: Project) -> None:
    blessed(project)
    project.write("kernels.py", KERNELS.replace("SCALE = 1.0", "SCALE = 1.0005"))
    _, report = project.run("cubed")
    assert statuses(report) == {"cubed::a[eager]": "fail", "cubed::a[grad]": "pass"}


def test_gradients_that_the_golden_lacks_or_has_of_something_else_are_stale(project: Project) -> None:
    without = REGISTRY.replace("modes: [eager, grad]\n    outputs", "modes: [eager]\n    unused").replace(
        "    unused: {\"grad['x']\": {tolerance: {rtol: 1.0e-3, atol: 0.0}}}\n", ""
    )
    blessed(project, registry=without)
    project.write("recipes.yaml", REGISTRY.replace("output: \"['loss']\"", "rtol: 1.0e-2"))
    done, report = project.run()
    assert done.code == 1
    ours = {name: result for name, result in by_id(report).items() if result["status"] == "stale"}
    assert ours["cubed::a[grad]"]["reason"] == "the golden holds no gradients"
    assert ours["cubed::a[grad]"]["hint"].startswith("jaxcheck bless cubed")
    assert ours["loss::a[grad]"]["reason"] == (
        "the golden holds gradients of ['loss'] by params, the recipe now asks for those of every output by params"
    )
    assert set(ours) == {"cubed::a[grad]", "loss::a[grad]"}
    assert "new: the golden holds no gradients yet" in project.jaxcheck("diff", "cubed").out
    project.bless()
    assert project.run()[0].code == 0


def test_a_gradient_that_is_not_finite_is_named_with_leaf_and_index(project: Project) -> None:
    registry = """
        version: 1
        defaults: {tolerance: {float32: {rtol: 1.0e-5, atol: 1.0e-6}}}
        recipes:
          root:
            kernel: kernels:root
            modes: [eager, grad]
            cases: {a: {args: {x: [1.0, 0.0]}}, b: {args: {x: [1.0, 0.0]}, nonfinite: allow}}
        """
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", registry)
    refused = project.jaxcheck("bless", "--reason", "test")
    assert (refused.code, "--allow nonfinite" in refused.err) == (1, True), refused
    project.bless("--allow", "nonfinite")
    done, report = project.run()
    (finding,) = by_id(report)["root::a[grad]"]["findings"]
    assert done.code == 1
    assert finding["kind"] == "nonfinite"
    assert "inf at [1] of grad['x']" in finding["message"]
    assert by_id(report)["root::b[grad]"]["status"] == "pass"


TRACES = """
version: 1
defaults: {tolerance: {float32: {rtol: 1.0e-5, atol: 1.0e-6}}}
recipes:
  loss: {kernel: "kernels:cubed", traces: 1, cases: {a: {args: {x: [1.0, 2.0]}}}}
  tight: {kernel: "kernels:scaled", traces: 1, cases: {a: {args: {x: [1.0], rate: {$python: 0.5}}}}}
  wide: {kernel: "kernels:scaled", traces: 2, cases: {a: {args: {x: [1.0], rate: {$python: 0.5}}}}}
  unset: {kernel: "kernels:scaled", cases: {a: {args: {x: [1.0], rate: {$python: 0.5}}}}}
  boxes: {kernel: "kernels:opened", inputs: "kernels:boxes"}
  leaks: {kernel: "kernels:opened", inputs: "kernels:boxes", config: {check_tracer_leaks: true}}
"""


def test_traces_beyond_what_is_allowed_hold_a_blessing_back(project: Project) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", TRACES)
    refused = project.jaxcheck("bless", "--reason", "test", "tight", "wide", "boxes")
    assert (refused.code, refused.err.count("--allow traces")) == (1, 2), refused
    assert "refused tight::a: the kernel is traced more often than it may be: jit: traced 2 times" in refused.err


def test_traces_beyond_what_is_allowed_fail(project: Project) -> None:
    blessed(project, KERNELS, TRACES, "--allow", "traces", "--no-truth")
    _, report = project.run()
    results = by_id(report)
    failed = {name for name, result in results.items() if result["status"] != "pass"}
    assert failed == {"tight::a[jit]", "boxes::a[jit]"}
    assert {finding["kind"] for name in failed for finding in results[name]["findings"]} == {"traces"}
    assert results["tight::a[jit]"]["reason"] == (
        "traced 2 times, 1 allowed: the first call, "
        "the call with arrays in place of Python numbers (rate weak float32[] -> float32[])"
    )
    assert "the tree structure of box is not equal to itself" in results["boxes::a[jit]"]["reason"]
    assert results["leaks::a[jit]"]["notes"] == [
        "traces were not counted: under jax_check_tracer_leaks every call is traced"
    ]
