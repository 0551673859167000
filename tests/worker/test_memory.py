"""A worker that serves many recipes holds no more memory at the end than after a while."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jaxcheck.worker.jitted import Jitted
from jaxcheck.worker.memory import Memory, resident
from jaxcheck.worker.service import Service

pytestmark = pytest.mark.needs_jax


def test_nothing_is_released_before_the_process_has_grown() -> None:
    memory = Memory(most_growth=1 << 40)
    assert not memory.release()
    assert not memory.release()


def test_what_jax_compiled_is_released_when_the_process_has_grown() -> None:
    memory = Memory(most_growth=0)
    jax.jit(lambda x: x + 1)(jnp.ones(3))
    assert memory.release()
    assert float(jax.jit(lambda x: x + 1)(jnp.ones(3))[0]) == 2.0


def test_resident_memory_is_that_of_this_process() -> None:
    before = resident()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert resident() - before > 32 << 20


def test_jitted_functions_are_forgotten() -> None:
    kept = Jitted()
    function = kept(abs, ())
    assert kept(abs, ()) is function
    kept.forget()
    assert kept(abs, ()) is not function


def recipe(name: str) -> dict[str, object]:
    said = {"name": name, "kernel": "builtins:abs", "static": [], "config": {}, "reference": None, "properties": []}
    said |= {"inputs": None, "compares_inputs": False, "options": {}, "allow_key_reuse": False, "deprecations": "note"}
    return said | {"traces": None, "cases": {"a": {"x": 1.0}}, "root": "."}


def test_a_recipe_prepared_alone_is_the_only_one_that_a_worker_knows() -> None:
    service = Service()
    service.prepare(recipe("first"))
    service.prepare(recipe("second"))
    assert set(service.prepared) == {"first", "second"}
    service.prepare(recipe("third"), alone=True)
    assert set(service.prepared) == {"third"}
