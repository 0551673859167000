"""The self-test of the one module that knows JAX's internals: every helper, in every supported version."""

from __future__ import annotations

import os
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)

from jaxcheck.worker import internals  # noqa: E402

pytestmark = pytest.mark.needs_jax


def equations(function: Any, *args: Any) -> list[Any]:
    body, _ = internals.opened(jax.make_jaxpr(function)(*args))
    return list(body.eqns)


def test_clock_counts_compilations_of_new_shapes_only() -> None:
    clock = internals.CompileClock()
    double = jax.jit(lambda x: x * 2 + 1)
    x, y = jnp.ones(3), jnp.ones(4)
    clock.reset()
    double(x)
    assert clock.compiles == 1
    assert clock.seconds["trace"] > 0
    assert clock.seconds["compile"] > 0
    double(x)
    assert clock.compiles == 1
    double(y)
    assert clock.compiles == 2


@pytest.mark.parametrize("name", ["debug_nans", "jax_debug_nans"])
def test_config_names_with_and_without_prefix(name: str) -> None:
    assert internals.config_name(name) == "jax_debug_nans"


def test_unknown_config_name() -> None:
    with pytest.raises(ValueError, match=f"no option 'debug_nanas' in jax {jax.__version__}"):
        internals.config_name("debug_nanas")


def test_configured_sets_and_puts_back() -> None:
    before = internals.config_values()
    with internals.configured({"default_matmul_precision": "highest", "jax_threefry_gpu_kernel_lowering": True}):
        assert jax.config.jax_default_matmul_precision == "highest"
        assert jax.config.jax_threefry_gpu_kernel_lowering is True
    assert jax.config.jax_default_matmul_precision is None
    assert internals.config_changes(before) == {}


def test_debug_nans_works_after_jax_has_switched_it_off_locally() -> None:
    """JAX's own `with config.debug_nans(False)` leaves the thread deaf to `jax.config.update`."""
    steps = lambda x: jax.lax.while_loop(lambda v: v < 5, lambda v: v * 2, x)  # noqa: E731
    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.grad(steps)(1.0)
    with internals.configured({"debug_nans": True}), pytest.raises(FloatingPointError):
        jax.jit(lambda x: x / x)(jnp.zeros(3))


def test_changes_are_found() -> None:
    before = internals.config_values()
    jax.config.update("jax_debug_infs", True)
    try:
        assert internals.config_changes(before) == {"jax_debug_infs": (False, True)}
        assert internals.non_default_config()["jax_debug_infs"] is True
    finally:
        jax.config.update("jax_debug_infs", False)
    assert internals.config_changes(before) == {}


def test_typed_keys_are_told_from_raw_ones() -> None:
    assert internals.is_key(jax.random.key(0))
    assert not internals.is_key(jax.random.PRNGKey(0))
    assert not internals.is_key(1.0)


def test_cpu_is_among_the_backends() -> None:
    assert "cpu" in internals.backends()


def test_export_has_no_folder_of_this_machine() -> None:
    def program(x: Any) -> Any:
        return jnp.sin(x) * 2

    with internals.portable_locations():
        code = bytes(jax.export.export(jax.jit(program))(jnp.ones(3)).serialize())
    assert b"test_internals.py" in code
    assert os.path.dirname(__file__).encode() not in code


def test_every_call_primitive_is_opened() -> None:
    @jax.custom_jvp
    def soft(x: Any) -> Any:
        return jnp.tanh(x)

    soft.defjvp(lambda primals, tangents: (soft(*primals), tangents[0]))

    @jax.custom_vjp
    def hard(x: Any) -> Any:
        return jnp.exp(x)

    hard.defvjp(lambda x: (hard(x), x), lambda residual, g: (g * residual,))
    for function in (soft, hard, jax.jit(jnp.sin), jax.checkpoint(jnp.sin)):
        equation = equations(function, 1.0)[0]
        assert equation.primitive.name in internals.CALLS, equation.primitive.name
        body, constants = internals.opened(equation.params[internals.CALLS[equation.primitive.name]])
        assert len(body.eqns) >= 1
        assert constants == []


def test_counts_of_a_scan() -> None:
    def total(start: Any, scale: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda carry, x: ((carry[0] + scale * x, carry[1] + 1.0), x), (start, 0.0), xs)

    scan = next(e for e in equations(total, 1.0, 2.0, jnp.ones(4)) if e.primitive.name == "scan")
    constants, carries = internals.scan_counts(scan.params)
    assert carries == 2
    assert constants + carries + 1 == len(scan.invars)


def test_an_equation_is_bound_again_at_other_values() -> None:
    sine = equations(jnp.sin, 1.0)[-1]
    (value,) = internals.bind(sine, [jnp.float32(0.5)], sine.params)
    assert float(value) == float(jnp.sin(jnp.float32(0.5)))
    top = equations(lambda x: jax.lax.top_k(x, 2), jnp.ones(3))[0]
    assert len(internals.bind(top, [jnp.array([1.0, 3.0, 2.0])], top.params)) == 2


def test_literals_scopes_and_lines() -> None:
    def scoped(x: Any) -> Any:
        with jax.named_scope("forward"):
            return x * 3.0

    multiply = equations(scoped, 1.0)[0]
    kinds = [internals.literal_value(atom) for atom in multiply.invars]
    assert NotImplemented in kinds
    assert 3.0 in [kind for kind in kinds if kind is not NotImplemented]
    assert internals.scope(multiply) == "forward"
    assert "test_internals.py:" in internals.source_line(multiply)


def test_gradients_carry_jax_marks_in_their_scope() -> None:
    def loss(x: Any) -> Any:
        with jax.named_scope("loss"):
            return jnp.sum(jnp.tanh(x) ** 2)

    scopes = {internals.scope(equation) for equation in equations(jax.grad(loss), jnp.ones(2))}
    assert any("jvp(loss)" in scope for scope in scopes)
    assert any("transpose(jvp(loss))" in scope for scope in scopes)


def test_processes_can_be_joined_on_the_cpu() -> None:
    """All supported releases are built with Gloo; test_processes.py runs them."""
    assert internals.has_cpu_collectives()
