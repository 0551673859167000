"""Statistics, comparators and verdicts, in NumPy alone. Called, it compares two pytrees: `pytrees.compare`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxcheck.compare.pytrees import Comparison


class _Callable(ModuleType):
    """`jaxcheck.compare(...)` and `jaxcheck.compare.arrays` have one name; a module can be both."""

    def __call__(self, expected: Any, actual: Any, *, rtol: float, atol: float) -> Comparison:
        """See `jaxcheck.compare.pytrees.compare`."""
        from jaxcheck.compare.pytrees import compare

        return compare(expected, actual, rtol=rtol, atol=atol)


sys.modules[__name__].__class__ = _Callable
