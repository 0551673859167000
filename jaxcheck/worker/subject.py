"""What a mode executes, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxcheck.goldens.leaf import Tree
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.kernels import bind

Call = Callable[..., Any]


def no_companions() -> Iterable[tuple[str, Arguments]]:
    return ()


@dataclass(frozen=True)
class Subject:
    """A kernel at the arguments of one case. `options` is what the recipe says of the mode, under the mode's name;
    `companions` gives names and arguments of the recipe's other cases.
    """

    kernel: Call
    static: tuple[str, ...]
    arguments: Arguments
    options: Any = None
    companions: Callable[[], Iterable[tuple[str, Arguments]]] = no_companions

    def call(self, given: Mapping[str, Any]) -> Any:
        """The plain call, at any values of its arguments."""
        args, kwargs = bind(self.kernel, given)
        return self.kernel(*args, **kwargs)

    def call_leaves(self, leaves: Sequence[Any]) -> Any:
        """The plain call, at any values of the arguments' array leaves (arrays or tracers); `$python` ones stay."""
        python = self.arguments.python
        values = [python.get(position, leaf) for position, leaf in enumerate(leaves)]
        return self.call({**jax.tree.unflatten(self.arguments.treedef, values), **self.arguments.statics})


@dataclass(frozen=True)
class Pair:
    """Outputs that have to be equal within the recipe's tolerance; `words` say which, as `vmap disagrees with …`."""

    words: str
    expected: Tree
    actual: Tree


@dataclass(frozen=True)
class Produced:
    """The outputs of a mode, and what it found out besides: (kind, message) of what is wrong, notes, and pairs."""

    outputs: Any
    findings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
