from __future__ import annotations

import copy

import numpy as np
import pytest

from jaxcheck.kernels import apply_if_finite as kernels

pytestmark = pytest.mark.needs_jax

STATIC = ("max_consecutive_errors", "momentum")
NAN, INF = np.nan, np.inf


def pair(gradients, limit=2, **options):
    return {
        "params": {"w": np.ones(2, np.float32)},
        "gradients": {"w": np.float32(gradients).reshape(-1, 2)},
        "max_consecutive_errors": limit,
    } | options


def reference(arguments):
    import jax

    arrays = {name: jax.tree.map(np.float64, arguments[name]) for name in ("params", "gradients")}
    return kernels.guarded_updates_reference(**{**arguments, **arrays})


PAST_THE_LIMIT = [[3, 4], [NAN, 1], [NAN, 1], [NAN, 1], [1, 1]]
ASYMMETRIC = {
    "params": {"b": np.float32(0.5), "w": np.ones((3, 2), np.float32)},
    "gradients": {"b": np.float32([1, NAN, 3, 4]), "w": np.arange(24, dtype=np.float32).reshape(4, 3, 2)},
    "max_consecutive_errors": 1,
}


def test_the_guide_updates_then_skips(call):
    found = call(kernels.guarded_updates, STATIC, **pair([[1, 2], [NAN, 1]]))
    np.testing.assert_allclose(found["updates"]["w"], [[-0.1, -0.2], [0, 0]], 1e-7)
    assert found["last_finite"].tolist() == [True, False]
    assert found["total_notfinite"].tolist() == [0, 1]
    np.testing.assert_allclose(found["params"]["w"], [0.9, 0.8], 1e-7)


def test_monitoring_tells_the_norm_before_the_failure_and_the_share_skipped(call):
    found = call(kernels.guarded_updates, STATIC, **pair([[3, 4], [NAN, 1], [6, 8], [1, INF]]))
    assert found["norm_before"].tolist() == [5, 5, 10, 10]
    assert found["skipped_share"] == 0.5


def test_good_step_resets_the_counter(call):
    found = call(kernels.guarded_updates, STATIC, **pair([[NAN, 1], [1, INF], [3, 4], [NAN, 1], [NAN, 1]]))
    assert found["notfinite_count"].tolist() == [1, 2, 0, 1, 2]
    assert found["total_notfinite"].tolist() == [1, 2, 2, 3, 4]
    assert np.isfinite(found["params"]["w"]).all()


def test_third_bad_step_in_a_row_comes_through(call):
    found = call(kernels.guarded_updates, STATIC, **pair(PAST_THE_LIMIT))
    assert np.isnan(found["updates"]["w"][:, 0]).tolist() == [False, False, False, True, False]
    assert np.isnan(found["params"]["w"]).tolist() == [True, False]
    assert found["skipped_share"] == np.float32(0.4)


@pytest.mark.parametrize(
    "arguments",
    [
        pair([[1, 2], [NAN, 1]]),
        pair([[1, 2]]),
        pair([]),
        pair(np.zeros((3, 2))),
        pair([[1, 2], [INF, 1], [1, -INF]]),
        pair(PAST_THE_LIMIT),
        pair([[NAN, 1]], limit=0),
        pair([[1, 2], [NAN, 1], [1, 2], [-3, 0.5]], momentum=0.9),
        pair([[NAN, 1], [1, 1]], limit=0, momentum=0.9),
        ASYMMETRIC,
    ],
    ids=[
        "standard",
        "single",
        "empty",
        "zeros",
        "infinite",
        "past",
        "none-allowed",
        "momentum",
        "broken-momentum",
        "asymmetric",
    ],
)
def test_steps_are_those_of_the_simulation(call, agree, arguments):
    found = call(kernels.guarded_updates, STATIC, **arguments)
    agree(found, reference(arguments), 5e-7, 5e-7)
    kernels.counters_follow_the_flags(arguments, found)
    kernels.skipped_steps_move_nothing(arguments, found)


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        ({"w": np.ones((2, 1), np.float32)}, r"shape \(2,\) have shape \(steps, 2\), not \(2, 1\)"),
        ({"w": np.float32(1)}, r"have shape \(steps, 2\), not \(\)"),
        ({"v": np.ones((1, 2), np.float32)}, "pytree structure error"),
    ],
)
def test_gradients_that_do_not_match_raise(call, gradients, message):
    with pytest.raises(ValueError, match=message):
        call(kernels.guarded_updates, STATIC, **{**pair([]), "gradients": gradients})


def test_stacks_of_unequal_length_raise(call):
    gradients = {"b": np.ones(1, np.float32), "w": np.ones((2, 3, 2), np.float32)}
    with pytest.raises(ValueError, match="leading axis sizes"):
        call(kernels.guarded_updates, STATIC, **{**ASYMMETRIC, "gradients": gradients})


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("last_finite", 1, True, "last_finite is"),
        ("total_notfinite", 4, 4, "total_notfinite is"),
        ("notfinite_count", 4, 3, "notfinite_count is"),
    ],
)
def test_counter_property_fails(name, index, value, message):
    arguments = pair(PAST_THE_LIMIT)
    wrong = copy.deepcopy(reference(arguments))
    wrong[name][index] = value
    with pytest.raises(AssertionError, match=message):
        kernels.counters_follow_the_flags(arguments, wrong)


@pytest.mark.parametrize(
    ("step", "update", "message"),
    [(1, [0.0, -0.1], r"steps \[1\] were skipped, but moved"), (3, [0.0, 0.0], r"steps \[3\] are past the limit")],
)
def test_skip_property_fails(step, update, message):
    arguments = pair(PAST_THE_LIMIT)
    wrong = reference(arguments)
    wrong["updates"]["w"][step] = update
    with pytest.raises(AssertionError, match=message):
        kernels.skipped_steps_move_nothing(arguments, wrong)


@pytest.mark.parametrize(("gradients", "share"), [(PAST_THE_LIMIT, 0.5), ([], 0.5), ([], NAN)])
def test_share_property_fails(gradients, share):
    arguments = pair(gradients)
    wrong = reference(arguments) | {"skipped_share": np.float32(share)}
    with pytest.raises(AssertionError, match="skipped_share is"):
        kernels.skipped_steps_move_nothing(arguments, wrong)
