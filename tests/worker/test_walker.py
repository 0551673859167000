"""The walk: faults at known equations, amplifiers, flips, budgets, and what stays in memory."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402
import optax  # noqa: E402

from jaxcheck.execution.conduct import recipe_message  # noqa: E402
from jaxcheck.registry.load import load_registry  # noqa: E402
from jaxcheck.worker import errors, internals  # noqa: E402
from jaxcheck.worker.faults import NoFault, injected  # noqa: E402
from jaxcheck.worker.interpreter import Plain  # noqa: E402
from jaxcheck.worker.program import flat_function  # noqa: E402
from jaxcheck.worker.service import Prepared, Service  # noqa: E402
from jaxcheck.worker.walker import Walker, walk  # noqa: E402
from tests.harness import REPOSITORY  # noqa: E402

pytestmark = pytest.mark.needs_jax

RANDOM = np.random.RandomState(0)
X = jnp.asarray(RANDOM.randn(4, 8).astype(np.float32))
W = jnp.asarray((RANDOM.randn(8, 8) / 3).astype(np.float32))
GIVEN = {"x": X, "w": W}


def forward(x: Any, w: Any) -> Any:
    with jax.named_scope("forward"):
        return jnp.exp(jnp.tanh(x @ w) * 0.5)


def scanned(x: Any, w: Any) -> Any:
    def cell(carry: Any, row: Any) -> Any:
        with jax.named_scope("cell"):
            carry = jnp.tanh(0.9 * carry + row @ w)
        return carry, carry.sum()

    return jax.lax.scan(cell, jnp.zeros(8), x)


def reversed_scan(x: Any) -> Any:
    return jax.lax.scan(lambda c, a: (jnp.sin(c + a), c), jnp.zeros(8), x, reverse=True)


def looped(x: Any) -> Any:
    return jax.lax.while_loop(lambda v: v.sum() < 1000.0, lambda v: v * 1.7 + 0.3, jnp.abs(x))


def branched(x: Any) -> Any:
    with jax.named_scope("choice"):
        return jax.lax.cond(x[0, 0] > 0, lambda v: jnp.sin(v) * 3.0, lambda v: jnp.cos(v) + 1.0, x)


@jax.custom_jvp
def softplus(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softplus.defjvps(lambda tangent, out, x: tangent * jax.nn.sigmoid(x))


@jax.custom_vjp
def cube(x: Any) -> Any:
    return x * x * x


cube.defvjp(lambda x: (cube(x), x), lambda x, g: (3.0 * x * x * g,))


def updated(w: Any) -> Any:
    with jax.named_scope("update"):
        optimiser = optax.adamw(1e-2)
        updates, _ = optimiser.update(jnp.sin(w), optimiser.init(w), w)
        return optax.apply_updates(w, updates)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "forward": forward,
    "backward": lambda x, w: jax.grad(lambda w: forward(x, w).sum())(w),
    "scan": scanned,
    "scan gradient": lambda x, w: jax.grad(lambda w: scanned(x, w)[1].sum())(w),
    "reverse scan": reversed_scan,
    "while": looped,
    "cond": branched,
    "custom jvp": lambda x: softplus(x).sum(),
    "custom jvp gradient": lambda x: jax.grad(lambda x: softplus(x).sum())(x),
    "custom vjp": lambda x: cube(x).sum(),
    "custom vjp gradient": lambda x: jax.grad(lambda x: cube(x).sum())(x),
    "remat gradient": lambda x: jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.exp(x)))))(x),
    "jit": jax.jit(lambda x: jnp.sqrt(jnp.abs(x) + 1.0)),
    "update": updated,
}
# (function, primitive, which of its executions, fault)
FAULTS = [
    ("forward", "dot_general", 0, "bf16"),
    ("forward", "tanh", 0, "sign"),
    ("forward", "mul", 0, "constant"),
    ("forward", "exp", 0, "nan"),
    ("backward", "tanh", 0, "bf16"),
    ("backward", "mul", -1, "constant"),
    ("backward", "dot_general", -1, "sign"),
    ("backward", "transpose", 0, "nan"),
    ("scan", "tanh", 2, "bf16"),
    ("scan", "tanh", 3, "sign"),
    ("scan", "add", 1, "dropped"),
    ("scan", "dot_general", 0, "constant"),
    ("scan gradient", "mul", -1, "bf16"),
    ("scan gradient", "tanh", 1, "constant"),
    ("scan gradient", "dot_general", -2, "nan"),
    ("reverse scan", "sin", 0, "bf16"),
    ("reverse scan", "add", -1, "dropped"),
    ("while", "mul", 1, "constant"),
    ("while", "add", -1, "dropped"),
    ("cond", "sin", 0, "bf16"),
    ("cond", "mul", 0, "sign"),
    ("custom jvp", "exp", 0, "constant"),
    ("custom jvp", "log1p", 0, "bf16"),
    ("custom jvp gradient", "logistic", 0, "bf16"),
    ("custom jvp gradient", "mul", 0, "nan"),
    ("custom vjp", "mul", 1, "bf16"),
    ("custom vjp gradient", "mul", -1, "sign"),
    ("remat gradient", "exp", -1, "constant"),
    ("remat gradient", "cos", 0, "sign"),
    ("jit", "sqrt", 0, "bf16"),
    ("update", "sqrt", 0, "constant"),
    ("update", "div", -1, "sign"),
    ("update", "add", -1, "dropped"),
]


def walked(function: Callable[..., Any], folder: Path, *args: Any, **options: Any) -> tuple[dict[str, Any], list[Any]]:
    found = walk(function, args or arguments(function), folder / "steps.jsonl", **options)
    return found, [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


def arguments(function: Callable[..., Any]) -> list[Any]:
    return [GIVEN[name] for name in inspect.signature(function).parameters]


CLEAN: dict[str, list[Any]] = {}


def clean(name: str, folder: Path) -> list[Any]:
    if name not in CLEAN:
        found, CLEAN[name] = walked(FUNCTIONS[name], folder)
        assert "origin" not in found["kinds"], found["first"]
        assert found["partial"] is None
        assert max(found["outputs"].values()) < 1e-5
    return CLEAN[name]


@pytest.mark.parametrize(("name", "primitive", "which", "kind"), FAULTS)
def test_the_origin_is_the_equation_that_was_made_wrong(
    name: str, primitive: str, which: int, kind: str, tmp_path: Path
) -> None:
    step = [row for row in clean(name, tmp_path) if row["primitive"] == primitive][which]
    found, rows = walked(FUNCTIONS[name], tmp_path, intervene=injected({str(step["n"]): kind}))
    origins = [row for row in rows if row["kind"] == "origin"]
    assert [row["n"] for row in origins] == [step["n"]], "only what is wrong by itself"
    assert found["first"]["origin"] == origins[0]
    for fact in ("primitive", "scope", "iteration", "path", "file", "line"):
        assert origins[0][fact] == step[fact]
    assert origins[0]["local"] > origins[0]["bound"]


def test_a_line_says_where_the_user_wrote_it(tmp_path: Path) -> None:
    rows = clean("scan gradient", tmp_path)
    tanh = [row for row in rows if row["primitive"] == "tanh"]
    lines, start = inspect.getsourcelines(scanned)
    at = start + next(number for number, line in enumerate(lines) if "jnp.tanh" in line)
    assert {(Path(row["file"]).name, row["line"], row["function"]) for row in tanh} == {
        (Path(__file__).name, at, "cell")
    }
    assert [row["iteration"] for row in tanh] == [[0], [1], [2], [3]]
    assert [row["path"] for row in tanh] == [f"scan[{step}]" for step in range(4)]
    assert tanh[0]["scope"].endswith("cell")
    assert any("transpose(" in row["scope"] and row["iteration"] == [3] for row in rows), "the reverse pass runs back"


def test_reverse_scans_count_backwards(tmp_path: Path) -> None:
    rows = [row for row in clean("reverse scan", tmp_path) if row["primitive"] == "sin"]
    assert [row["iteration"] for row in rows] == [[3], [2], [1], [0]]


def test_a_cancellation_is_an_amplifier(tmp_path: Path) -> None:
    def cancels(x: Any) -> Any:
        a = jnp.exp(x)
        b = a * (1 + 1e-6)
        return (b - a) / a

    found, rows = walked(cancels, tmp_path, jnp.ones(4))
    (amplifier,) = [row for row in rows if row["kind"]]
    assert (amplifier["primitive"], amplifier["kind"]) == ("sub", "amplifier")
    assert amplifier["amplification"] > 1e5
    assert amplifier["local"] <= 1
    assert found["outputs"]["."] > 1e-3


def test_what_is_zero_but_for_rounding_amplifies_nothing(tmp_path: Path) -> None:
    found, _ = walked(lambda x: (x - x.mean(1, keepdims=True)).sum(1), tmp_path)
    assert found["kinds"] == {}


def test_flips_are_no_origins(tmp_path: Path) -> None:
    roots = [np.float32(np.sqrt(k)) for k in range(2, 50)]
    x = next(x for x in roots if (x * x >= np.round(x * x)) != (np.float64(x) ** 2 >= np.round(x * x)))
    square = float(np.round(x**2))
    found, rows = walked(lambda x: jax.lax.cond(x * x >= square, jnp.sin, jnp.cos, x), tmp_path, jnp.asarray(x))
    assert {row["primitive"] for row in rows if row["kind"] == "flip"} == {"ge", "cond"}
    assert set(found["kinds"]) == {"flip"}


def test_what_is_badly_determined_excuses_no_other(tmp_path: Path) -> None:
    near = jnp.asarray([np.pi / 2, np.pi, 0.5], jnp.float32)  # a pole, a root, and a good place
    for function, given, kind in (
        (jnp.tan, near, "dropped"),
        (jnp.log, jnp.asarray([1.0, -1.0, 0.0, np.nan, np.inf]), "sign"),  # nothing finite but a zero
    ):
        assert walked(function, tmp_path, given)[0]["kinds"] == {}
        found, _ = walked(function, tmp_path, given, intervene=injected({"0": kind}))
        assert set(found["kinds"]) == {"origin"}


@pytest.mark.parametrize(
    ("dtype", "value", "exact", "right"),
    [
        ("float8_e4m3fn", np.nan, 480.0, True),  # it has no infinity
        ("float8_e4m3fn", np.nan, 100.0, False),
        ("float8_e5m2", np.inf, 70000.0, True),
        ("float8_e5m2", np.inf, 1.0, False),
        ("float32", np.nan, 1e39, False),
        ("float32", np.inf, 1e39, True),
    ],
)
def test_what_is_too_large_for_a_dtype(dtype: str, value: float, exact: float, right: bool) -> None:
    found = errors.measured(np.asarray([value]), np.asarray([exact]), errors.Format.of(jnp.dtype(dtype)), None)
    assert (found.error == 0) == right


def test_a_fault_that_changes_nothing_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoFault, match="sign changes nothing at 0, a sin"):
        walked(jnp.sin, tmp_path, jnp.zeros(3), intervene=injected({"0": "sign"}))


def test_low_precision_is_held_to_its_own_eps(tmp_path: Path) -> None:
    def model(x: Any, w: Any) -> Any:
        return jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).sum().astype(jnp.float32)

    found, _ = walked(model, tmp_path)
    assert found["program"]["policy"] == "quantised"
    assert "origin" not in found["kinds"]


def test_shard_map_is_a_leaf(tmp_path: Path) -> None:
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
    spec = jax.sharding.PartitionSpec
    function = jax.shard_map(lambda x: jax.lax.psum(jnp.sin(x), "d"), mesh=mesh, in_specs=spec("d"), out_specs=spec())
    found, (row,) = walked(function, tmp_path, jnp.ones(4))
    assert (row["primitive"], row["kind"], found["program"]["opaque"]) == ("shard_map", None, [])
    _, (wrong,) = walked(function, tmp_path, jnp.ones(4), intervene=injected({"0": "bf16"}))
    assert wrong["kind"] == "origin"


def test_a_python_function_is_taken_as_it_is(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return jnp.sin(jax.pure_callback(np.cos, jax.ShapeDtypeStruct(x.shape, x.dtype), x))

    found, rows = walked(function, tmp_path)
    assert found["program"]["opaque"] == ["pure_callback"]
    assert [row["local"] is None for row in rows] == [True, False]


@pytest.mark.parametrize(("budget", "words"), [({"most_equations": 5}, "as many as allowed"), ({"seconds": 0}, "0 s")])
def test_a_budget_leaves_a_partial_answer(budget: dict[str, Any], words: str, tmp_path: Path) -> None:
    found, rows = walked(FUNCTIONS["scan"], tmp_path, **budget)
    assert words in found["partial"]
    assert found["outputs"] == {}
    assert len(rows) == found["program"]["executed"] == budget.get("most_equations", 0)


def test_only_what_is_needed_stays_in_memory() -> None:
    def long(x: Any) -> Any:
        for _ in range(30):
            x = jnp.sin(x) + 1.0
        return x

    seen: list[int] = []

    def look(number: int, equation: Any, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        seen.append(sum(array.shape == (321, 7) for array in jax.live_arrays()))
        return outputs

    x = jnp.ones((321, 7))
    Plain(look).evaluate(jax.make_jaxpr(jax.jit(long))(x), [x])
    assert len(seen) == 60
    assert max(seen) <= 4, "the program's input, an equation's input and output, and what was just read"


def test_the_worker_answers(tmp_path: Path) -> None:
    registry = load_registry(REPOSITORY / "recipes.yaml")
    service = Service()
    service.prepare(recipe_message(registry.recipes["newton-sqrt-fixed-steps"], str(Path(registry.root))))
    given = {"recipe": "newton-sqrt-fixed-steps", "case": "standard", "stored": None, "folder": str(tmp_path)}

    def walk(**more: Any) -> dict[str, Any]:
        return service.answer({"op": "walk", **given, **more})

    for mode in ("jit", "eager", "grad"):
        reply = walk(mode=mode)
        assert "origin" not in reply["kinds"]
        assert json.loads(json.dumps(reply["program"])) == reply["program"]
    rows = [json.loads(line) for line in Path(walk(mode="jit")["steps"]).read_text().splitlines()]
    step = next(row["n"] for row in rows if row["primitive"] == "div" and row["iteration"] == [2])
    reply = walk(mode="jit", faults={str(step): "constant"})
    assert reply["first"]["origin"]["n"] == step
    assert reply["first"]["origin"]["scope"].endswith("update")
    assert "KeyError" in walk(mode="jit", case="nothing")["reason"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_self_test_on_shipped_recipes() -> None:
    """At the declared dtypes an equation differs from itself nowhere, and the outputs are the ordinary run's."""
    registry = load_registry(REPOSITORY / "recipes.yaml")
    compared = 0
    for name, recipe in list(registry.recipes.items())[::4]:
        cases = [case for case in recipe.cases.values() if case.args is not None and case.raises is None][:1]
        if recipe.devices or recipe.env or recipe.config.get("enable_x64") or not cases:
            continue
        prepared = Prepared(recipe_message(recipe, str(Path(registry.root))))
        function, flat = flat_function(prepared.kernel, prepared.arguments(cases[0].name))
        judge = Walker("declared")
        low, _ = judge.run(jax.make_jaxpr(function)(*flat), flat, flat)
        assert judge.kinds == {}, name
        for mine, theirs in zip(low, jax.tree.leaves(function(*flat)), strict=True):
            if internals.is_key(mine):
                mine, theirs = map(jax.random.key_data, (mine, theirs))
            one, other = (np.asarray(value, np.complex128) for value in (mine, theirs))
            scale = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
            assert np.allclose(one, other, rtol=1e-5, atol=1e-6 * scale, equal_nan=True), name
        compared += 1
    assert compared >= 8
