"""`run` in every mode, on kernels that agree with themselves and on kernels that do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Done, Project, by_id

pytestmark = pytest.mark.needs_jax

KERNELS = """
import os

import jax
import jax.numpy as jnp
import numpy as np

def unit(n=128, d=64):
    k = np.arange(n * d, dtype=np.int64)
    a = ((((k + 5) * 7919 * (k + 17)) % 9973) / 4986.5 - 1).reshape(n, d)
    return (a / np.linalg.norm(a, axis=1, keepdims=True)).astype(np.float32)

def unit_vectors():
    return {f"v{i}": {"v": unit()[i]} for i in (2, 1, 3)}

def level(v):
    # On the boundary between 3 and 4: the order of a sum decides.
    return jnp.floor(jnp.sum(v * v) * 4)

def affine(x, params):
    return {"y": jnp.tanh(x @ params["w"] + params["b"])}

def affine_loss(x, params):
    return {"loss": (affine(x, params)["y"] ** 2).mean()}

@jax.custom_batching.custom_vmap
def doubled(x):
    return x * 2

@doubled.def_vmap
def _(size, batched, x):
    return x * 2.1, True

def wrong_batching(x):
    return doubled(x)

@jax.custom_jvp
def sine(x):
    return jnp.sin(x)

sine.defjvp(lambda p, t: (sine(p[0]), 1.01 * jnp.cos(p[0]) * t[0]))

def wrong_slope(x):
    return sine(x).sum()

def branch(x):
    return x if x[0] > 0 else -x

def loop(x):
    return jax.lax.while_loop(lambda v: v < 100, lambda v: 2 * v, x)

def noisy(x):
    def entropy():
        return np.frombuffer(os.urandom(4), np.uint32).astype(np.float32) * np.float32(1e-10)
    return x + jax.pure_callback(entropy, jax.ShapeDtypeStruct((1,), jnp.float32))

def share(x):
    return x / x.sum()

def two_draws(key):
    return jax.random.normal(key, (2,)) + jax.random.uniform(key, (2,))
"""

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1.0e-5, atol: 1.0e-6}}}
recipes:
  level: {kernel: "kernels:level", inputs: "kernels:unit_vectors", modes: [eager, vmap], vmap: {rows: 64}}
  affine:
    kernel: kernels:affine
    modes: [eager, jit, disable_jit, vmap, grad, sharded]
    devices: 4
    vmap: [{axes: {x: 0, params: null}}, {axes: {x: -1}}]
    sharded: {axes: {x: 0}, outputs: {"['y']": [batch]}}
    cases:
      a: {args: {x: {$normal: {shape: [8, 4], seed: 1}}, params: {w: {$ones: [4, 2]}, b: [0.0, 0.0]}}}
      b: {args: {x: {$normal: {shape: [8, 4], seed: 2}}, params: {w: {$ones: [4, 2]}, b: [0.0, 0.0]}}}
  affine-loss:
    kernel: kernels:affine_loss
    modes: [eager, grad]
    grad: {arguments: [params], output: "['loss']"}
    cases:
      a: {args: {x: {$normal: {shape: [8, 4], seed: 1}}, params: {w: {$ones: [4, 2]}, b: [0.0, 0.0]}}}
  wrong-batching: {kernel: "kernels:wrong_batching", modes: [eager, vmap], cases: {a: {args: {x: [1.0]}}}}
  wrong-slope: {kernel: "kernels:wrong_slope", modes: [eager, grad], cases: {a: {args: {x: [1.0, 2.0]}}}}
  branch: {kernel: "kernels:branch", modes: [eager, vmap], cases: {a: {args: {x: [1.0]}}}}
  expected:
    kernel: kernels:branch
    modes: [eager, vmap]
    cases: {a: {args: {x: [1.0]}, raises: {type: TracerBoolConversionError, modes: [vmap]}}}
  loop: {kernel: "kernels:loop", modes: [eager, grad], cases: {a: {args: {x: 3.0}}}}
  noisy: {kernel: "kernels:noisy", modes: [eager, jit], cases: {a: {args: {x: [1.0]}}}}
  share:
    kernel: kernels:share
    modes: [eager, sharded]
    devices: 4
    sharded: {axes: {x: 0}, outputs: {.: [null]}}
    cases: {a: {args: {x: {$arange: {stop: 65, start: 1, dtype: float32}}}}, uneven: {args: {x: [1.0, 2.0, 3.0]}}}
  keys: {kernel: "kernels:two_draws", cases: {a: {args: {key: {$key: {seed: 1}}}}}}
  allowed-keys: {kernel: "kernels:two_draws", allow_key_reuse: true, cases: {a: {args: {key: {$key: {seed: 1}}}}}}
  raw-keys: {kernel: "kernels:two_draws", cases: {a: {args: {key: {$array: {value: [0, 1], dtype: uint32}}}}}}
"""
ALLOWED = ("modes", "error", "gradient", "keys", "sharding", "conditioning")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, dict[str, dict[str, Any]]]:
    """One run of everything, every check called three times, over goldens blessed whatever the brakes said."""
    project = Project(tmp_path_factory.mktemp("modes"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    project.bless(*(word for brake in ALLOWED for word in ("--allow", brake)))
    done, report = project.run("--repeat", "3")
    assert done.code == 1, done
    return done, by_id(report)


@pytest.mark.parametrize("mode", ["eager", "jit", "disable_jit", "vmap", "grad", "sharded"])
@pytest.mark.parametrize("case", ["a", "b"])
def test_a_kernel_that_agrees_with_itself_passes_in_every_mode(ran: Any, case: str, mode: str) -> None:
    result = ran[1][f"affine::{case}[{mode}]"]
    assert result["status"] == "pass", result
    gradients = ["grad['params']['b']", "grad['params']['w']", "grad['x']"]
    assert [leaf["path"] for leaf in result["leaves"]] == (gradients if mode == "grad" else ["['y']"])


def test_the_gradient_of_one_output_by_one_argument_passes(ran: Any) -> None:
    assert ran[1]["affine-loss::a[grad]"]["status"] == "pass"


def test_rows_of_a_batch_that_differ_from_their_own_call_are_named(ran: Any) -> None:
    results = [result for name, result in ran[1].items() if name.startswith("level::") and result["mode"] == "vmap"]
    messages = [finding["message"] for result in results for finding in result["findings"]]
    assert "fail" in {result["status"] for result in results}
    assert any("vmap disagrees with eager" in message for message in messages)
    assert any("vmap disagrees with the single call: row" in message for message in messages)
    assert {finding["kind"] for result in results for finding in result["findings"]} == {"golden", "modes"}


def findings(ran: Any, check: str) -> list[tuple[str, str]]:
    result = ran[1][check]
    assert result["status"] == "fail", result
    return [(finding["kind"], finding["message"]) for finding in result["findings"]]


def test_a_wrong_batching_rule_is_found(ran: Any) -> None:
    found = findings(ran, "wrong-batching::a[vmap]")
    assert ("modes", True) in [(kind, message.startswith("vmap disagrees with eager")) for kind, message in found]


def test_a_wrong_derivative_is_found(ran: Any) -> None:
    ((kind, message),) = findings(ran, "wrong-slope::a[grad]")
    assert kind == "gradient"
    assert "the gradient by x is wrong" in message


def test_what_cannot_be_batched_or_differentiated_is_an_error_with_jaxs_message(ran: Any) -> None:
    branch, loop = ran[1]["branch::a[vmap]"], ran[1]["loop::a[grad]"]
    assert (branch["status"], loop["status"]) == ("error", "error")
    assert "TracerBoolConversionError" in branch["reason"]
    assert "Reverse-mode differentiation does not work" in loop["reason"]


def test_an_expected_error_of_one_mode_passes(ran: Any) -> None:
    assert ran[1]["expected::a[vmap]"]["status"] == "pass"
    assert ran[1]["expected::a[eager]"]["status"] == "pass"


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_other_bits_at_every_call_are_a_finding_of_their_own(ran: Any, mode: str) -> None:
    found = findings(ran, f"noisy::a[{mode}]")
    assert ("determinism", "call 2 of 3 differs from call 1: . 1 of 1 elements") in found


def test_an_output_that_is_sharded_otherwise_is_found(ran: Any) -> None:
    ((kind, message),) = findings(ran, "share::a[sharded]")
    assert kind == "sharding"
    assert "output . is sharded as" in message


def test_an_axis_that_cannot_be_split_evenly_is_an_error(ran: Any) -> None:
    result = ran[1]["share::uneven[sharded]"]
    assert result["status"] == "error"
    assert "divi" in result["reason"]


def test_a_key_that_is_used_twice_is_found_once_and_where(ran: Any) -> None:
    ((kind, message),) = findings(ran, "keys::a[jit]")
    assert kind == "keys"
    assert "kernels.py:" in message
    assert ran[1]["keys::a[eager]"]["status"] == "pass"


def test_reuse_can_be_allowed_and_raw_keys_are_said_to_be_unchecked(ran: Any) -> None:
    allowed, raw = ran[1]["allowed-keys::a[jit]"], ran[1]["raw-keys::a[jit]"]
    assert (allowed["status"], allowed["notes"]) == ("pass", [])
    assert raw["status"] == "pass"
    assert "raw uint32 keys" in raw["notes"][0]


def test_without_repetition_nothing_is_called_twice(project: Project) -> None:
    project.write("kernels.py", "def count(x):\n    open('calls', 'a').write('.')\n    return x\n")
    head = "version: 1\ndefaults: {tolerance: {rtol: 0, atol: 0}, modes: [eager]}\n"
    project.write("recipes.yaml", head + 'recipes: {count: {kernel: "kernels:count", cases: {a: {args: {x: 1.0}}}}}')
    project.run()
    once = len((project.folder / "calls").read_text())
    project.run("--repeat", "4")
    assert len((project.folder / "calls").read_text()) - once == once + 3


def test_faults_of_modes_come_with_their_places(project: Project) -> None:
    project.write(
        "recipes.yaml",
        """\
        version: 1
        defaults: {tolerance: {rtol: 0, atol: 0}, modes: [eager]}
        recipes:
          a:
            kernel: kernels:f
            static: [n]
            vmap: {axes: {x: 0, w: null, n: 0}}
            grad: {arguments: [z]}
            modes: [eager, sharded]
            cases: {one: {args: {x: 1.0, n: 2}}}
        """,
    )
    done = project.jaxcheck("check", "--static")
    assert done.code == 2
    for said in (
        "recipes.yaml:7:5: a, vmap: the recipe is not run in mode vmap",
        "a, vmap.axes.w: no case has an argument 'w'",
        "a, vmap.axes.n: 'n' is static",
        "recipes.yaml:8:24: a, grad.arguments[0]: no case has an argument 'z'",
        "recipes.yaml:9:5: a: the mode sharded needs devices",
        "a: the mode sharded needs to know which arguments are split",
    ):
        assert said in done.err
