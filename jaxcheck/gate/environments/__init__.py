"""Environments to run in: the current one, one that exists, the current one with only what was asked changed, or what
a lock says.

An environment that had to be built is cached by what it was built from. It is built beside its place and moved there
when it is whole, so that a process killed at any moment leaves none that looks complete.
"""

from __future__ import annotations

from jaxcheck.gate.environments.cache import Cached, cached, prune, select
from jaxcheck.gate.environments.lockfile import lock_of
from jaxcheck.gate.environments.model import Installation, Wanted, changes
from jaxcheck.gate.environments.on_nodes import provide_on, wheels_of
from jaxcheck.gate.environments.providing import provide

__all__ = [
    "Cached",
    "Installation",
    "Wanted",
    "cached",
    "changes",
    "lock_of",
    "provide",
    "provide_on",
    "prune",
    "select",
    "wheels_of",
]
