"""Several writes to one slot: what wins is not specified, what is added is."""

import jax
import jax.numpy as jnp
import numpy as np


def overwrite(idx, val):
    return jnp.zeros(4, val.dtype).at[idx].set(val)


def accumulate(idx, val):
    return jnp.zeros(4, val.dtype).at[idx].add(val)


def overwrite_slope(val):
    def weighed(val):
        out = jnp.zeros(3, val.dtype).at[jnp.array([0, 0, 2])].set(val)
        return jnp.sum(out * jnp.array([5.0, 1.0, 7.0]))

    return jax.grad(weighed)(val)


def by_segment(val, seg):
    return jax.ops.segment_sum(val, seg, num_segments=4)


def one_of_the_writes(inputs, outputs):
    """Every slot holds one of the values that were written to it, or 0 where none was."""
    for slot, value in enumerate(np.asarray(outputs)):
        written = inputs["val"][inputs["idx"] == slot]
        assert value in written if written.size else value == 0, f"slot {slot} holds {value}"


def accumulate_reference(idx, val):
    return np.bincount(idx, val, 4)


def by_segment_reference(val, seg):
    """Ids outside of the segments are dropped."""
    known = (seg >= 0) & (seg < 4)
    return np.bincount(seg[known], val[known], 4)


def many():
    k = np.arange(60000, dtype=np.int64)
    return {
        "many": {"idx": ((k * 7919) % 4).astype(np.int32), "val": (((k * 104729) % 9973) / 9973).astype(np.float32)}
    }
