from __future__ import annotations

import numpy as np
import pytest

from jaxcheck.kernels import keys as kernels

pytestmark = pytest.mark.needs_jax


@pytest.fixture
def tracked():
    import jax

    with jax.debug_key_reuse(True):
        yield


def key(seed=0):
    import jax

    return jax.random.key(seed)


@pytest.mark.parametrize("shape", [(4, 3), (1, 3), (25, 20)])
@pytest.mark.usefixtures("tracked")
def test_every_subkey_is_used_once(call, shape):
    batch = np.ones(shape, np.float32)
    found = call(kernels.noise_and_mask, key=key(), batch=batch)
    kernels.noise_and_mask_look_random({"batch": batch}, found)
    kernels.next_key_is_new({"key": key()}, found)


@pytest.mark.parametrize("steps", [1, 100])
@pytest.mark.usefixtures("tracked")
def test_stream_draws_anew_in_every_step(call, steps):
    found = call(kernels.key_stream, ("steps",), key=key(), steps=steps)
    kernels.draws_are_distinct({"steps": steps}, found)
    kernels.next_key_is_new({"key": key()}, found)


@pytest.mark.parametrize("kernel", [kernels.key_used_twice, kernels.key_used_after_split])
@pytest.mark.usefixtures("tracked")
def test_reuse_is_caught(call, kernel):
    import jax

    with pytest.raises(jax.errors.KeyReuseError, match="consumed"):
        call(kernel, key=key())


def test_reuse_repeats_the_draw_where_nobody_looks(call):
    kernels.draws_repeat({}, call(kernels.key_used_twice, key=key()))


def test_what_is_not_a_key_raises(call):
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        call(kernels.noise_and_mask, key=1.5, batch=np.ones(3, np.float32))


def test_next_key_property_fails():
    with pytest.raises(AssertionError, match="the key handed on is the one that came in"):
        kernels.next_key_is_new({"key": key()}, {"next_key": key()})


@pytest.mark.parametrize(
    ("noise", "kept", "message"),
    [(0.5, 0.5, "the noise has the mean 0.5"), (0.0, 1.0, "the mask keeps 1.0"), (0.0, 0.2, "the mask keeps 0.2")],
)
def test_randomness_property_fails(noise, kept, message):
    outputs = {"noisy": np.full(1000, noise), "kept": np.arange(1000) < 1000 * kept}
    with pytest.raises(AssertionError, match=message):
        kernels.noise_and_mask_look_random({"batch": np.zeros(1000)}, outputs)


@pytest.mark.parametrize(
    ("draws", "message"),
    [([0.1, 0.2], "2 draws in 3 steps"), ([0.1, 0.2, 0.1], "draws repeat"), ([0.1, 0.2, 1.0], "draws leave")],
)
def test_draws_property_fails(draws, message):
    with pytest.raises(AssertionError, match=message):
        kernels.draws_are_distinct({"steps": 3}, {"draws": np.float32(draws)})


def test_repetition_property_fails():
    with pytest.raises(AssertionError, match="one key gave two draws"):
        kernels.draws_repeat({}, {"first": np.zeros(3), "second": np.ones(3)})
