"""Stages carry `jax.named_scope` labels: a diagnosis names the place by them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from jaxcheck.kernels import apply_if_finite, debug_nans, keys, mlp, scan, train_step, value_and_grad, while_loop

pytestmark = pytest.mark.needs_jax


LINEAR = ({"w": np.zeros(2, np.float32), "b": np.float32(0)}, np.ones((3, 2), np.float32), np.ones(3, np.float32))
CELL = (
    {"input": np.ones((3, 4), np.float32), "hidden": np.ones((4, 4), np.float32), "bias": np.ones(4, np.float32)},
    {"hidden": np.ones((2, 4), np.float32), "steps": np.int32(0)},
    np.ones((5, 2, 3), np.float32),
)
MLP = {
    "hidden": {"w": np.ones((3, 4), np.float32), "b": np.ones(4, np.float32)},
    "output": {"w": np.ones((4, 2), np.float32), "b": np.ones(2, np.float32)},
}


@pytest.mark.parametrize(
    ("kernel", "arguments", "labels"),
    [
        (while_loop.newton_sqrt, (np.float32(1), np.float32(2)), {"criterion", "update", "stop"}),
        (scan.cumulative_sum, (np.float32(0), np.ones(3, np.float32)), {"update"}),
        (scan.recurrent_cell, CELL, {"forward"}),
        (train_step.train_step, LINEAR, {"forward", "loss", "update"}),
        (value_and_grad.sgd_step, LINEAR, {"forward", "loss", "update"}),
        (
            lambda p, g: apply_if_finite.guarded_updates(p, g, 2),
            ({"w": np.ones(2)}, {"w": np.ones((1, 2))}),
            {"update", "monitor"},
        ),
        (mlp.forward, (MLP, np.ones(3, np.float32)), {"forward"}),
        (debug_nans.safe_root_gradient, (np.ones(3, np.float32),), {"loss"}),
        (lambda x: keys.noise_and_mask(x, np.ones(3, np.float32)), None, {"noise", "dropout"}),
    ],
    ids=["while", "scan", "cell", "train", "grad", "finite", "mlp", "nans", "keys"],
)
def test_stages_are_labelled(kernel, arguments, labels):
    import jax

    if arguments is None:
        arguments = (jax.random.key(0),)
    text = jax.jit(kernel).lower(*arguments).as_text(debug_info=True)
    assert {label for label in labels if re.search(rf'["/(]{label}[/)]', text)} == labels
