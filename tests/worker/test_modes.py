"""The modes themselves, in this process: the gradient check above all, batches, and repeated calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcheck.registry.model import MODES as NAMES
from jaxcheck.worker import repeated
from jaxcheck.worker.checks import execute
from jaxcheck.worker.derivatives import NotDifferentiableError
from jaxcheck.worker.inputs import from_factory
from jaxcheck.worker.internals import CompileClock
from jaxcheck.worker.keys import RAW, examine
from jaxcheck.worker.modes import MODES
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.trees import tree_of

pytestmark = pytest.mark.needs_jax
SIZES = (10, 1_000, 100_000)
Call = Callable[..., Any]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def subject(kernel: Call, options: Any = None, static: tuple[str, ...] = (), **arguments: Any) -> Subject:
    return Subject(kernel, static, from_factory(arguments, static), options)


def gradient(kernel: Call, *, by: tuple[str, ...] | None = None, **arguments: Any) -> Produced:
    options = {"arguments": by, "output": arguments.pop("output", None), "rtol": arguments.pop("rtol", None)}
    return MODES["grad"](subject(kernel, options, **arguments), {})


def messages(produced: Produced) -> list[str]:
    assert {kind for kind, _ in produced.findings} <= {"gradient"}
    return [message for _, message in produced.findings]


def sine_with_slope(factor: float) -> Call:
    """sin with a derivative that is wrong by a factor."""

    @jax.custom_jvp
    def sine(x: Any) -> Any:
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(primals[0]), factor * jnp.cos(primals[0]) * tangents[0]))
    return sine


def mlp(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return {"loss": ((hidden @ params["w2"] - y) ** 2).mean(), "steps": jnp.int32(1)}


def mlp_arguments(width: int) -> dict[str, Any]:
    w1, w2 = draw(width, width, seed=1) / np.float32(width) ** 0.5, draw(width, 2, seed=2)
    params = {"w1": w1, "b1": np.zeros(width, np.float32), "w2": w2}
    return {"params": params, "x": draw(8, width), "y": draw(8, 2, seed=3)}


def test_there_is_one_function_for_each_name() -> None:
    assert tuple(MODES) == NAMES


# --- grad ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("factor", [1.01, 0.99])
def test_a_derivative_wrong_by_one_percent_is_found_at_any_size(size: int, factor: float) -> None:
    found = messages(gradient(lambda x: sine_with_slope(factor)(x).sum(), x=draw(size)))
    assert len(found) == 1
    assert "the gradient by x is wrong" in found[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (lambda x: jnp.sin(x).sum(), "x"),
        (lambda x: sine_with_slope(1.0)(x).sum(), "x"),
        (jnp.dot, "ab"),
        (jax.nn.softmax, "x"),
    ],
    ids=["sines", "custom-jvp", "dot", "softmax"],
)
def test_right_derivatives_pass_at_any_size(size: int, kernel: Call, names: str) -> None:
    produced = gradient(kernel, **{name: draw(size, seed=seed) for seed, name in enumerate(names)})
    assert (messages(produced), produced.notes) == ([], ())
    assert list(produced.outputs) == list(names)


@pytest.mark.parametrize("width", [3, 32, 316])
def test_the_loss_of_a_network_passes_and_its_gradient_is_the_output(width: int) -> None:
    arguments = mlp_arguments(width)
    produced = gradient(mlp, by=("params",), output="['loss']", **arguments)
    assert messages(produced) == []
    expected = jax.grad(lambda params: mlp(params, arguments["x"], arguments["y"])["loss"])(arguments["params"])
    assert list(produced.outputs) == ["params"]
    for mine, theirs in zip(jax.tree.leaves(produced.outputs), jax.tree.leaves(expected), strict=True):
        weight = np.max(np.abs(mine)) / np.max(np.abs(theirs))  # the loss has one fixed weight
        np.testing.assert_allclose(np.abs(mine), np.abs(theirs) * weight, rtol=0, atol=1e-5 * np.max(np.abs(mine)))


def test_the_wrong_leaf_is_named_however_small_its_part() -> None:
    def kernel(p: Any) -> Any:
        return (p["large"] ** 2).sum() + 1e-4 * sine_with_slope(1.01)(p["small"]).sum()

    found = messages(gradient(kernel, p={"large": draw(50), "small": draw(50, seed=1)}))
    assert len(found) == 1
    assert "p['small']" in found[0]


def test_a_wrong_reverse_rule_without_a_forward_one_is_found() -> None:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, g: (2.02 * x * g,))
    produced = gradient(lambda x: square(x).sum(), x=draw(20))
    assert "is wrong" in messages(produced)[0]
    assert "no forward mode" in produced.notes[0]


def test_forward_and_reverse_mode_that_disagree_are_found() -> None:
    """A linear map whose transpose is wrong: only reverse mode uses it."""
    wrong = jax.custom_derivatives.linear_call

    def kernel(x: Any) -> Any:
        return wrong(lambda _, v: 2 * v, lambda _, v: 2.02 * v, (), x).sum()

    assert "forward and reverse mode disagree" in messages(gradient(kernel, x=draw(20)))[0]


def test_a_gradient_that_is_wrong_in_its_own_precision_only_is_found() -> None:
    def kernel(x: Any) -> Any:
        return sine_with_slope(1.0 if x.dtype == jnp.float64 else 1.01)(x).sum()

    assert "not what it is in float64" in messages(gradient(kernel, x=draw(20)))[0]


def test_a_stopped_gradient_is_found() -> None:
    found = messages(gradient(lambda x: jax.lax.stop_gradient(x) ** 2, x=draw(20)))
    assert "it says 0," in found[0]


@pytest.mark.parametrize("kernel", [jax.nn.relu, jnp.abs], ids=["relu", "abs"])
def test_a_kink_at_the_inputs_is_passed_by(kernel: Call) -> None:
    produced = gradient(kernel, x=np.zeros(5, np.float32))
    assert messages(produced) == []
    assert "just beside them" in produced.notes[0]


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (lambda x: jnp.sin(x).sum(), {"x": 1e6 * draw(50)}),
        (lambda x: jnp.log(x).sum(), {"x": np.abs(draw(50)) * np.float32(1e-3) + np.float32(1e-6)}),
        (lambda x: jnp.sin(x.astype(jnp.float32)).sum(), {"x": draw(50)}),
        (lambda x: 0 * x.sum(), {"x": draw(50)}),
        (lambda x: jnp.sin(x).sum(), {"x": draw(50).astype(jnp.bfloat16)}),
        (lambda x: (x**2).sum() if x[0] > 0 else (x**3).sum(), {"x": np.abs(draw(50))}),
        (lambda x: jax.lax.scan(lambda c, v: ((c + v * v).astype(c.dtype), c), jnp.float32(0), x)[0], {"x": draw(9)}),
    ],
    ids=["large", "logarithm", "float32-inside", "constant", "bfloat16", "python-branch", "carry-of-fixed-dtype"],
)
def test_difficult_but_right_derivatives_pass(kernel: Call, arguments: dict[str, Any]) -> None:
    assert messages(gradient(kernel, **arguments)) == []


def test_low_precision_inside_is_said() -> None:
    produced = gradient(lambda x: (x.astype(jnp.bfloat16) * 2).sum().astype(jnp.float32), x=draw(50))
    assert messages(produced) == []
    assert "low precision" in produced.notes[0]


def test_draws_that_differ_in_float64_are_not_compared_with_these() -> None:
    produced = gradient(lambda x, key: x * jax.random.normal(key, x.shape), x=draw(9), key=jax.random.key(0))
    assert messages(produced) == []
    assert "random draws" in produced.notes[0]


def test_a_wider_rtol_lets_a_wrong_derivative_pass() -> None:
    assert messages(gradient(lambda x: sine_with_slope(1.01)(x).sum(), rtol=0.05, x=draw(20))) == []


@pytest.mark.parametrize(
    ("kernel", "arguments", "says"),
    [
        (lambda x: jnp.floor(x).astype(jnp.int32), {"x": draw(3)}, "no output is floating"),
        (lambda x: x * 2.0, {"x": np.arange(3)}, "no argument leaf is floating"),
        (lambda x: {"loss": x}, {"x": draw(3), "output": "['los']"}, r"there are: \['loss'\]"),
    ],
)
def test_what_cannot_be_differentiated(kernel: Call, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(NotDifferentiableError, match=says):
        gradient(kernel, **arguments)


def test_a_while_loop_has_jaxs_own_message() -> None:
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        gradient(lambda x: jax.lax.while_loop(lambda v: v < 100.0, lambda v: 2 * v, x), x=np.float32(3))


# --- vmap ----------------------------------------------------------------------------------------------------------


def batched(
    kernel: Call, options: Any = None, others: dict[str, dict[str, Any]] | None = None, **mine: Any
) -> Produced:
    companions = {name: from_factory(arguments, ()) for name, arguments in (others or {}).items()}
    return MODES["vmap"](Subject(kernel, (), from_factory(mine, ()), options, companions.items), {})


def batch(rows: int | None = None, **axes: int | None) -> dict[str, Any]:
    return {"axes": axes, "rows": rows}


def differing(produced: Produced) -> list[str]:
    return [pair.words for pair in produced.pairs if pair.expected != pair.actual]


def test_cases_of_one_signature_are_rows_of_one_batch() -> None:
    others = {"b": {"x": draw(3, seed=1)}, "other-shape": {"x": draw(4)}, "c": {"x": draw(3, seed=2)}}
    produced = batched(lambda x: {"y": 2 * x}, others=others, x=draw(3))
    assert [pair.words.rpartition("row ")[2] for pair in produced.pairs] == ["1 (b)", "2 (c)"]
    assert differing(produced) == []
    np.testing.assert_array_equal(produced.outputs["y"], 2 * draw(3))


def test_a_case_alone_is_repeated() -> None:
    produced = batched(lambda x: 2 * x, x=draw(3))
    assert [pair.words.rpartition("row ")[2] for pair in produced.pairs] == ["1 (this case)"]  # 2 has the same bits


def test_rows_are_filled_with_the_cases() -> None:
    """Square norms on the boundary of a floor: XLA sums rows of a large batch in another order than one of them."""
    k = np.arange(64 * 64)
    vectors = ((((k + 5) * 7919 * (k + 17)) % 9973) / 4986.5 - 1).reshape(64, 64)
    units = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    others = {f"v{row}": {"v": unit} for row, unit in enumerate(units[1:], 1)}

    def level(v: Any) -> Any:
        return jnp.floor(jnp.sum(v * v) * 4)

    assert differing(batched(level, None, others, v=units[0])) == []
    found = differing(batched(level, [batch(rows=64)], others, v=units[0]))
    assert len(found) > 5
    assert all("row" in words for words in found)


def test_every_mapping_of_axes_is_a_batch_and_what_is_not_batched_is_shared() -> None:
    def kernel(x: Any, w: Any) -> Any:
        return x @ w

    others = {"same-w": {"x": draw(3, seed=1), "w": draw(3, 2)}, "other-w": {"x": draw(3), "w": draw(3, 2, seed=5)}}
    produced = batched(kernel, [batch(x=0, w=None), batch(x=-1)], others, x=draw(3), w=draw(3, 2))
    words = [pair.words for pair in produced.pairs]
    assert [text for text in words if "{x: 0, w: null}" in text] == words[:1]
    assert words[0].endswith("row 1 (same-w)")
    assert [text.rpartition("row ")[2] for text in words[1:]] == ["0 (this case)", "1 (same-w)", "2 (other-w)"]
    for pair in produced.pairs:
        np.testing.assert_allclose(pair.expected.leaves[0].array(), pair.actual.leaves[0].array(), rtol=1e-6)


def test_a_row_that_depends_on_the_others_is_named() -> None:
    @jax.custom_batching.custom_vmap
    def kernel(x: Any) -> Any:
        return 2 * x

    kernel.def_vmap(lambda size, batched, x: (2 * x.at[2].add(1), True))
    others = {"b": {"x": draw(3, seed=1)}, "c": {"x": draw(3, seed=2)}}
    assert [words.rpartition("row ")[2] for words in differing(batched(kernel, None, others, x=draw(3)))] == ["2 (c)"]


def test_cases_that_raise_by_themselves_are_no_rows() -> None:
    def kernel(x: Any) -> Any:
        if isinstance(x, jax.core.Tracer) or x[0] < 9:
            return 2 * x
        raise ValueError("too large")

    produced = batched(kernel, None, {"raises": {"x": np.full(3, 10, np.float32)}}, x=draw(3))
    assert all("this case" in pair.words for pair in produced.pairs)


def test_typed_keys_weak_types_and_python_values_survive_a_batch() -> None:
    def kernel(key: Any, x: Any) -> Any:
        return {"key": jax.random.split(key), "count": 3, "x": x}

    produced = batched(kernel, others={"b": {"key": jax.random.key(1), "x": draw(2)}}, key=jax.random.key(0), x=draw(2))
    assert differing(produced) == []
    single = kernel(jax.random.key(0), jnp.asarray(draw(2)))
    assert tree_of(produced.outputs) == tree_of(single)


# --- calls again, keys ---------------------------------------------------------------------------------------------


def again(kernel: Call, times: int = 3) -> list[dict[str, str]]:
    made, clock = subject(kernel, x=draw(4, 6)), CompileClock()
    facts, produced = execute(made, "eager", clock)
    return repeated.differences(made, "eager", times, facts, produced, clock)


def test_equal_bits_are_no_finding() -> None:
    assert again(lambda x: {"nan": x * jnp.nan, "x": x}) == []


def test_the_first_call_that_differs_is_told_with_its_elements() -> None:
    calls: list[int] = []

    def kernel(x: Any) -> Any:
        calls.append(1)
        return {"x": x.at[0, :3].set(-0.0 if len(calls) > 1 else 0.0)}

    assert again(kernel) == [
        {"kind": "determinism", "message": "call 2 of 3 differs from call 1: ['x'] 3 of 24 elements"}
    ]


def test_an_error_in_a_later_call_is_told() -> None:
    calls: list[int] = []

    def kernel(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("no more")
        return x

    assert again(kernel)[0]["message"] == "call 3 of 3 differs from call 1: ValueError instead of a value"


def reuses(key: Any) -> Any:
    first = jax.random.normal(key, (2,))
    return first + jax.random.uniform(key, (2,))


def test_a_key_that_is_used_twice_is_told_with_its_line() -> None:
    (finding,), notes = examine(subject(reuses, key=jax.random.key(0)))
    assert finding["kind"] == "keys"
    assert f"test_modes.py:{reuses.__code__.co_firstlineno + 2}" in finding["message"]
    assert notes == []


def test_keys_used_once_and_kernels_without_keys_pass() -> None:
    assert examine(subject(lambda key: jax.random.normal(key, (2,)), key=jax.random.key(0))) == ([], [])
    assert examine(subject(lambda x: 2 * x, x=draw(2))) == ([], [])


def test_raw_keys_are_said_to_be_unchecked() -> None:
    assert examine(subject(reuses, key=np.uint32([0, 1]))) == ([], [RAW])
