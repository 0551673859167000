"""Small programs that come out otherwise where a compiler's option does something: what a knob is believed by."""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.compare.threads import cores


def probes() -> dict[str, str]:
    """{probe: digest of its bits, or of its compiled program}."""
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=1024).astype(np.float32) for _ in range(2))
    square = generator.normal(size=(64, 64)).astype(np.float32)
    return {
        # x * y rounded is subtracted from x * y: zero, but for what a fused multiply-add keeps.
        "contraction": _bits(lambda x, y: x * y - y * x * (1 + 1e-7), a, b),
        "narrow": _bits(_narrow, a, b),
        "matmul": _bits(lambda x: x @ x, square),
        "rewriting": _text(lambda x, y: (x * 1.0 + 0.0) * y / 4.0 + jnp.transpose(jnp.transpose(x)), a, b),
        "program": _text(lambda x, y: jnp.exp(x) * y + (x + y) - jnp.sum(_narrow(x, y)), a, b),
        "cores": str(cores()),
    }


def _narrow(x: Any, y: Any) -> Any:
    """Rounded to bfloat16 between two operations: what excess precision leaves out."""
    return ((x * y).astype(jnp.bfloat16) + y.astype(jnp.bfloat16)).astype(jnp.float32) * x


def _bits(function: Any, *given: Any) -> str:
    return hashlib.sha256(np.asarray(jax.jit(function)(*given)).tobytes()).hexdigest()


def _text(function: Any, *given: Any) -> str:
    return hashlib.sha256(str(jax.jit(function).lower(*given).compile().as_text()).encode()).hexdigest()
