"""Every kernel is called as jaxcheck calls it: eagerly and under jit, with fresh JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(params=["eager", "jit"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """call(kernel, static names, **arguments) -> outputs as NumPy, PRNG keys as they are."""
    import jax

    def call(kernel: Callable[..., Any], static: tuple[str, ...] = (), **arguments: Any) -> Any:
        given = {name: value if name in static else jax.tree.map(to_jax, value) for name, value in arguments.items()}
        function = jax.jit(kernel, static_argnames=static) if request.param == "jit" else kernel
        return jax.tree.map(to_numpy, jax.block_until_ready(function(**given)))

    call.mode = request.param  # type: ignore[attr-defined]
    return call


def to_jax(value: Any) -> Any:
    """Python floats and lists of them as float32, as the registry reads them; arrays and keys as they are."""
    import jax.numpy as jnp

    if isinstance(value, float):
        return jnp.float32(value)
    return value if hasattr(value, "dtype") and not isinstance(value, np.ndarray) else jnp.asarray(value)


def to_numpy(leaf: Any) -> Any:
    import jax

    return leaf if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


@pytest.fixture
def agree() -> Callable[..., None]:
    """agree(outputs, reference): one structure, equal shapes, integers exactly and floats within `rtol`/`atol`."""
    import jax

    def agree(outputs: Any, reference: Any, rtol: float = 2e-6, atol: float = 2e-6) -> None:
        assert jax.tree.structure(outputs) == jax.tree.structure(reference)
        for leaf, expected in zip(jax.tree.leaves(outputs), jax.tree.leaves(reference), strict=True):
            assert leaf.shape == np.shape(expected)
            if leaf.dtype.kind in "biu":
                assert leaf.dtype == np.asarray(expected).dtype
                assert np.array_equal(leaf, expected)
            else:
                np.testing.assert_allclose(leaf.astype(np.float64), expected, rtol, atol)

    return agree
