"""How often a kernel is traced, in this process; and the weights that golden gradients are made with."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcheck.registry.values import PythonValue
from jaxcheck.worker import checks
from jaxcheck.worker.derivatives import Weighted, cotangents, programs_of
from jaxcheck.worker.inputs import from_factory
from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.subject import Subject
from jaxcheck.worker.traces import examine

pytestmark = pytest.mark.needs_jax


def subject(kernel: Any, static: tuple[str, ...] = (), **arguments: Any) -> Subject:
    return Subject(kernel, static, from_factory(arguments, static))


def called(one: Subject) -> None:
    """One call as the mode `jit` makes it."""
    args, kwargs = bind(one.kernel, one.arguments.fresh())
    JITTED(one.kernel, one.static)(*args, **kwargs)


def traced(kernel: Any, allowed: int | None = None, static: tuple[str, ...] = (), **arguments: Any) -> list[str]:
    """What is found after one call under jit."""
    one = subject(kernel, static, **arguments)
    called(one)
    findings, notes = examine(one, allowed)
    assert {finding["kind"] for finding in findings} <= {"traces"}
    return [*(finding["message"] for finding in findings), *notes]


def test_the_same_call_costs_one_trace_and_examining_it_none() -> None:
    runs = []

    def kernel(x: Any, *, rate: Any, power: int) -> Any:
        runs.append(1)
        return rate * x**power

    given = {"x": np.ones(3, np.float32), "rate": PythonValue(0.5), "power": 2}
    assert traced(kernel, static=("power",), **given) == []
    assert traced(kernel, static=("power",), **given) == []
    assert (len(runs), JITTED.traces(kernel, ("power",))) == (1, 1)


def test_other_cases_hide_nothing_from_the_count() -> None:
    """The shared function has traced this call before: the count is of a function of its own."""

    def kernel(x: Any, rate: Any) -> Any:
        return x * rate

    given = {"x": np.ones(3, np.float32), "rate": PythonValue(2)}
    JITTED(kernel, ())(jnp.ones(3), jnp.int32(2))
    assert traced(kernel, allowed=2, **given) == []
    (message,) = traced(kernel, allowed=1, **given)
    assert message.endswith("(rate weak int32[] -> int32[])")


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        (None, "is traced and compiled again: its arguments are the same"),
        (1, "the same call again (tracing it changes jax_default_matmul_precision None -> 'highest')"),
    ],
)
def test_a_kernel_that_changes_what_it_is_traced_for(allowed: int | None, why: str) -> None:
    def kernel(x: Any) -> Any:
        jax.config.update("jax_default_matmul_precision", "highest")
        return x @ x

    one = subject(kernel, x=np.ones((2, 2), np.float32))
    with checks.undisturbed():
        if allowed is None:
            called(one)
        ((finding,), _) = examine(one, allowed)
    assert why in finding["message"]


def test_a_kernel_that_cannot_be_traced_again_is_found() -> None:
    calls = []

    def kernel(x: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("only once")
        return x

    assert traced(kernel, allowed=1, x=np.ones(3, np.float32))[0].startswith("the kernel cannot be traced again")


# --- the weights of golden gradients -------------------------------------------------------------------------------


def test_the_weights_are_these_for_ever() -> None:
    """Goldens hold gradients that were weighted so."""
    first, second, empty, scalar = cotangents([np.zeros((2, 4)), np.zeros(8), np.zeros((0, 3)), np.zeros(())])
    assert first.ravel().tolist() == [-1.25, -0.5, -1.25, -0.5, 1.25, 1.0, 0.75, -0.5]
    assert second.tolist() == [1.0, 0.5, 1.0, -0.75, 1.25, 0.75, -1.25, -0.5]
    assert (empty.shape, scalar.shape, float(scalar)) == ((0, 3), (), -1.25)


def test_the_weights_are_balanced_exact_and_other_for_every_leaf() -> None:
    first, second = cotangents([np.zeros(4096), np.zeros(4096)])
    assert len(np.unique(first)) == 8
    assert abs(first.mean()) < 0.05
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
    assert np.array_equal(first, np.asarray(jnp.asarray(first, jnp.float8_e4m3fn), np.float64))


def test_programs_are_shared_by_cases_that_differ_in_values_only() -> None:
    def kernel(x: Any, power: Any) -> Any:
        return x**power

    def programs(power: Any, value: float) -> Any:
        return programs_of(
            Weighted(subject(kernel, ("power",), x=np.full(2, value, np.float32), power=power), None, None)
        )

    assert programs(2, 1.0) is programs(2, 3.0)
    assert programs(2, 1.0) is not programs(3, 1.0)
    assert programs(1, 1.0) is not programs(True, 1.0)
