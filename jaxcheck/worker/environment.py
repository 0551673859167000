"""The environment block of a report: where the numbers are made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from typing import Any

import jax
import numpy as np

from jaxcheck.compare.threads import cores
from jaxcheck.worker import internals

RELATED = ("optax", "flax", "equinox", "chex", "ml-dtypes", "scipy", "opt-einsum")


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_info() -> tuple[str, str]:
    """(model name, the vector instruction sets it has), as Linux tells them; elsewhere what Python knows."""
    try:
        with open("/proc/cpuinfo") as lines:
            facts = dict(line.split(":", 1) for line in lines if ":" in line)
    except OSError:
        return platform.processor() or platform.machine(), ""
    fields = {name.strip(): value.strip() for name, value in facts.items()}
    flags = fields.get("flags", fields.get("Features", "")).split()
    vector = [flag for flag in flags if flag.startswith(("avx", "fma", "sse4", "amx", "neon", "sve", "asimd"))]
    return fields.get("model name", platform.machine()), " ".join(sorted(vector))


def describe() -> dict[str, Any]:
    """The environment as `jaxcheck.results.Environment` has it. Starts the backend."""
    device = jax.devices()[0]
    model, features = cpu_info()
    return {
        "backend": jax.default_backend(),
        "device_kind": device.device_kind,
        "device_count": jax.device_count(),
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "optax": version_of("optax"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cpu": model,
        "cpu_count": cores(),
        "cpu_features": features,
        "platform": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "x64": bool(jax.config.jax_enable_x64),
        "matmul_precision": internals.plain(jax.config.jax_default_matmul_precision),
        "prng_impl": str(jax.config.jax_default_prng_impl),
        "threefry_partitionable": bool(jax.config.jax_threefry_partitionable),
        "config": internals.non_default_config(),
        "packages": {name: version for name in RELATED if (version := version_of(name))},
    }


def digest(described: dict[str, Any]) -> str:
    """Of all that is told of an environment: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
