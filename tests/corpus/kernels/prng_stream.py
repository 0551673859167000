"""Values drawn from a fixed seed belong to a stream, and the stream has versions."""

import jax
import numpy as np

MASK = 0xFFFFFFFF


def draws(seed):
    k = jax.random.key(seed)
    a, b, c = jax.random.split(k, 3)
    return {
        "u": jax.random.uniform(a, (3,)),
        "n": jax.random.normal(b, (2,)),
        "i": jax.random.randint(c, (4,), 0, 100),
        "p": jax.random.permutation(k, 5),
    }


def stream(seed):
    """fold_in equals the matching split only in the partitionable stream."""
    k = jax.random.key(seed)
    split = jax.random.key_data(jax.random.split(k, 2)[1])
    return {"split1": split, "fold1": jax.random.key_data(jax.random.fold_in(k, 1))}


def moments(seed):
    x = jax.random.normal(jax.random.key(seed), (20000,))
    return {"mean": x.mean(), "var": x.var()}


def threefry2x32(key, words):
    """Salmon et al. 2011, 20 rounds, on two 32-bit words."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = (words[0] + keys[0]) & MASK, (words[1] + keys[1]) & MASK
    for group in range(5):
        for rotation in rotations[group % 2]:
            a = (a + b) & MASK
            b = (((b << rotation) | (b >> (32 - rotation))) & MASK) ^ a
        a = (a + keys[(group + 1) % 3]) & MASK
        b = (b + keys[(group + 2) % 3] + group + 1) & MASK
    return a, b


def stream_reference(seed):
    """Partitionable: the i-th of a split hashes (0, i), as fold_in does."""
    words = np.array(threefry2x32((0, int(seed)), (0, 1)), np.uint32)
    return {"split1": words, "fold1": words}


def legacy_stream_reference(seed):
    """Original: a split in two hashes the counts 0..3 as pairs (0, 2) and (1, 3), and reads the words in order."""
    first, second = threefry2x32((0, int(seed)), (0, 2)), threefry2x32((0, int(seed)), (1, 3))
    split = np.array([first[1], second[1]], np.uint32)
    return {"split1": split, "fold1": np.array(threefry2x32((0, int(seed)), (0, 1)), np.uint32)}


def moments_reference(seed):
    return {"mean": np.float64(0), "var": np.float64(1)}
