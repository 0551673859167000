"""Regression harness with golden fixtures for JAX kernels. Importing it imports neither jax nor NumPy.

`jaxcheck.run`, `load` and `compare` are the command line's work for Python and notebooks: see `jaxcheck/api.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxcheck.api import Registry as Registry
    from jaxcheck.api import Run as Run
    from jaxcheck.api import load as load
    from jaxcheck.api import run as run
    from jaxcheck.compare.pytrees import compare as compare

__version__ = "0.1.0"
__all__ = ["Registry", "Run", "__version__", "compare", "load", "run"]


def __getattr__(name: str) -> Any:
    """The API, imported when it is first asked for. By name: what stands below it imports this package as well."""
    if name not in __all__:
        raise AttributeError(f"module 'jaxcheck' has no attribute {name!r}")
    from importlib import import_module

    # The package of comparators is itself the function: a package and a function cannot both have the name.
    return import_module("jaxcheck.compare") if name == "compare" else getattr(import_module("jaxcheck.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
