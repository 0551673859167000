"""The noise floor's programs: compiled once for cases that share them, and never shared by those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from jaxcheck.worker import truth  # noqa: E402
from jaxcheck.worker.inputs import from_factory  # noqa: E402
from jaxcheck.worker.truth import noise_and_knobs  # noqa: E402

pytestmark = pytest.mark.needs_jax

X = np.array([0.5, 1.5, -2.0], np.float32)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """One entry for each set of programs that was compiled."""
    calls: list[Any] = []
    plain = truth._compile_all

    def counted(lowered: Any) -> Any:
        calls.append(lowered)
        return plain(lowered)

    monkeypatch.setattr(truth, "_compile_all", counted)
    truth.forget_programs()
    yield calls
    truth.forget_programs()


def wave(x: Any, scale: float = 2.0) -> Any:
    return {"y": jnp.sin(x * scale) + x * x}


def floor(kernel: Any, static: tuple[str, ...] = (), **given: Any) -> Any:
    return noise_and_knobs(kernel, from_factory(given, static))


def test_cases_of_one_shape_share_their_programs(compiled: list[Any]) -> None:
    first, other = floor(wave, x=X), floor(wave, x=X + 1)
    assert len(compiled) == 1
    truth.forget_programs()
    assert (floor(wave, x=X), floor(wave, x=X + 1)) == (first, other), "shared or not, the floor is the same"
    assert len(compiled) == 2
    assert first != other


@pytest.mark.parametrize(
    "other",
    [
        {"x": X[:2]},
        {"x": X.astype(np.float16)},
        {"x": X, "scale": 3.0, "static": ("scale",)},
        {"x": X, "kernel": lambda x: [jnp.sin(x * 2.0) + x * x]},
    ],
    ids=["shape", "dtype", "static", "tree"],
)
def test_other_programs_are_their_own(compiled: list[Any], other: dict[str, Any]) -> None:
    floor(wave, x=X)
    found, _ = floor(**{"kernel": wave, **other})
    assert len(compiled) == 2
    assert set(found) == ({"[0]"} if "kernel" in other else {"['y']"})


def test_a_callback_is_never_taken_for_another_ones(compiled: list[Any]) -> None:
    """The text of a program only numbers its Python functions."""

    def kernel(factor: float) -> Any:
        def outside(x: Any) -> Any:
            return np.asarray(x) * np.float32(factor) + np.float32(1)

        return lambda x: jax.pure_callback(outside, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    texts = [jax.jit(kernel(factor)).lower(X).as_text() for factor in (2.0, 1000.0)]
    assert texts[0] == texts[1], "else there is nothing to take care of"
    for factor in (2.0, 1000.0):
        shared, _ = floor(kernel(factor), x=X)
        truth.forget_programs()
        assert shared == floor(kernel(factor), x=X)[0]
        assert shared["."]["modes"] == 0
    assert len(compiled) == 4


def test_only_so_many_programs_are_kept(compiled: list[Any]) -> None:
    for size in range(1, truth.PROGRAMS_KEPT + 3):
        floor(lambda x: -x, x=np.ones(size, np.float32))
    assert len(truth._PROGRAMS) == truth.PROGRAMS_KEPT
    floor(lambda x: -x, x=np.ones(1, np.float32))
    assert len(compiled) == truth.PROGRAMS_KEPT + 3, "the oldest had to go"
