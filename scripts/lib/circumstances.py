"""Under which circumstances something was measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform

VERSIONS = ("jaxcheck", "jax", "jaxlib", "optax", "numpy")


def circumstances() -> str:
    """Date, cores, and versions, in a line."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"{today}; {cores()} cores, {platform.machine()}; Python {platform.python_version()}, {versions}."


def cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
