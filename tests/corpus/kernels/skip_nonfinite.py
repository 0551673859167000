"""An optimiser that skips a limited number of bad gradients in a row, then lets them through."""

import jax
import jax.numpy as jnp
import numpy as np
import optax


def run(grads):
    """grads (steps, 2) -> updates and counters of every step; at most two bad steps in a row are skipped."""
    opt = optax.apply_if_finite(optax.sgd(1.0), max_consecutive_errors=2)
    params = {"w": jnp.zeros(2, grads.dtype)}

    def step(state, g):
        update, state = opt.update({"w": g}, state, params)
        return state, (update["w"], state.notfinite_count, state.last_finite, state.total_notfinite)

    _, (update, streak, ok, total) = jax.lax.scan(step, opt.init(params), grads)
    return {"update": update, "streak": streak, "ok": ok, "total": total}


def final_state(grads):
    opt = optax.apply_if_finite(optax.adam(0.1), max_consecutive_errors=2)
    params = {"w": jnp.zeros(2, grads.dtype), "none": None}
    state = opt.init(params)
    for i in range(grads.shape[0]):
        _, state = opt.update({"w": grads[i], "none": None}, state, params)
    return state


def run_reference(grads):
    """NaN reaches the parameters on the third bad step in a row: that NaN is the right answer."""
    streak = total = 0
    steps = []
    for g in grads:
        ok = bool(np.isfinite(g).all())
        streak = 0 if ok else streak + 1
        total += not ok
        steps.append((-g if ok or streak > 2 else np.zeros(2), streak, ok, total))
    update, streaks, oks, totals = (np.array(column) for column in zip(*steps, strict=True))
    return {"update": update, "streak": streaks, "ok": oks, "total": totals}
