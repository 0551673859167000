"""One check: call the kernel in one mode, under watch, and hand everything that happened to the parent."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import jax

from jaxcheck.goldens.exchange import send_tree
from jaxcheck.goldens.leaf import Tree
from jaxcheck.worker import internals
from jaxcheck.worker.inputs import Arguments
from jaxcheck.worker.kernels import bind, describe, own_frame, own_place, shortest, text_of
from jaxcheck.worker.modes import MODES
from jaxcheck.worker.processes import one_process
from jaxcheck.worker.settings import put_back, settings
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.trees import numpy_tree, tree_of, widened

TRACEBACK_LINES = 25
DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
MESSAGE_CHARACTERS = 20_000


def execute(subject: Subject, mode: str, clock: internals.CompileClock) -> tuple[dict[str, Any], Produced | None]:
    """(what to tell the parent, what the mode produced or None where the kernel raised)."""
    given = subject.arguments.fresh()
    before = _identity(given)
    clock.reset()
    start = time.perf_counter()
    facts: dict[str, Any] = {"changes": {}}
    produced = None
    try:
        with undisturbed(facts["changes"]):
            produced = MODES[mode](subject, given)
            # Work is asynchronous: an error inside a callback surfaces only when the value is waited for.
            jax.block_until_ready(produced.outputs)
        facts["outcome"] = "value"
    except BaseException as error:  # a kernel may raise anything, SystemExit and KeyboardInterrupt included
        produced = None
        facts |= {"outcome": "raised", "error": error_facts(error)}
    facts["seconds"] = time.perf_counter() - start
    for phase in ("trace", "compile"):
        facts[f"{phase}_seconds"] = min(clock.seconds[phase], facts["seconds"])
    facts["compiles"] = clock.compiles
    facts["mutated"] = _mutated(before, _identity(given))
    return facts, produced


def error_facts(error: BaseException) -> dict[str, Any]:
    """Class with its bases (bare and qualified), message, the user's own line, and the end of the traceback."""
    bases = [base for base in type(error).__mro__ if base is not object]
    lines = "".join(traceback.format_exception(error)).splitlines()
    return {
        "type": qualified(type(error)),
        "bases": [name for base in bases for name in (base.__qualname__, qualified(base))],
        "message": text_of(error)[:MESSAGE_CHARACTERS],
        "where": own_frame(error),
        "traceback": "\n".join(lines[-TRACEBACK_LINES:]),
    }


def qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _identity(given: Mapping[str, Any]) -> dict[str, tuple[Any, list[int]]]:
    """Structure and identity of every leaf: arrays are immutable, so this is all that a kernel can change."""
    return {name: (_structure(value), [id(leaf) for leaf in jax.tree.leaves(value)]) for name, value in given.items()}


def _structure(value: Any) -> Any:
    """The structure; nothing where it is not even equal to itself, and so says nothing of a change."""
    return jax.tree.structure(value) if internals.same_structure(value, value) else None


def _mutated(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name in before if before[name] != after[name]]


def properties_of(
    functions: Mapping[str, Callable[..., Any]], arguments: Arguments, outputs: Any
) -> list[dict[str, str]]:
    """What the recipe's properties say of these outputs: nothing, or one entry for each that does not hold."""
    violations = []
    for name, holds in functions.items():
        try:
            with one_process():
                holds(numpy_tree(arguments.fresh()), numpy_tree(outputs))
        except BaseException as error:  # what a kernel may raise, a property may
            violations.append({"property": name, "message": describe(error), "class": type(error).__name__})
    return violations


def reference_tree(function: Callable[..., Any], arguments: Arguments) -> Tree:
    """The reference at the same arguments, floats widened to float64."""
    given = {name: numpy_tree(value, widened) for name, value in arguments.fresh().items()}
    args, kwargs = bind(function, given)
    with one_process(), jax.enable_x64(True):  # the leaves are float64 and stay so
        return tree_of(function(*args, **kwargs))


@contextmanager
def captured_warnings() -> Iterator[list[dict[str, Any]]]:
    """Every warning that is raised meanwhile, also those that Python shows only once.

    `place` is the user's own line: most of JAX's warnings name a line of JAX.
    """
    found: list[dict[str, Any]] = []

    def keep(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        place = own_place(traceback.extract_stack()) or f"{shortest(filename)}:{lineno}"
        entry = {"category": category.__name__, "message": str(message)[:2000], "file": filename, "line": lineno}
        entry |= {"place": place, "deprecation": issubclass(category, DEPRECATIONS)}
        if entry not in found:
            found.append(entry)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield found


def deprecations(raised: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A finding for each warning that announces a removal or a change."""
    return [
        {"kind": "deprecation", "message": f"{warning['category']} at {warning['place']}: {warning['message']}"}
        for warning in raised
        if warning["deprecation"]
    ]


@contextmanager
def undisturbed(changes: dict[str, Any] | None = None, *, importing: bool = False) -> Iterator[None]:
    """Puts jax.config, the environment, the folder and the process's settings back after a kernel that changed them;
    `changes` takes what it changed. A module that is `importing` may have settings of its own: they are made once."""
    config, environ, folder = internals.config_values(), dict(os.environ), os.getcwd()
    process = {} if importing else settings()
    changes = {} if changes is None else changes
    try:
        with one_process():
            yield
    finally:
        for name, old, new in put_back(process):
            changes[name] = [internals.plain(old), internals.plain(new)]
        for name, (old, new) in internals.config_changes(config).items():
            changes[f"jax.config.{name}"] = [internals.plain(old), internals.plain(new)]
            internals.set_config({name: old})
        if dict(os.environ) != environ:
            for name in environ.keys() ^ os.environ.keys() | {n for n in environ if os.environ.get(n) != environ[n]}:
                changes[f"os.environ[{name}]"] = [environ.get(name), os.environ.get(name)]
            os.environ.clear()
            os.environ.update(environ)
        if _folder() != folder:
            changes["the current folder"] = [folder, _folder()]
            os.chdir(folder)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # the kernel removed it
        return None


def hand_over(produced: Produced, path: str) -> dict[str, Any]:
    """Sends outputs and pairs to the parent; an output that is no array is the kernel's error."""
    outputs = send_tree(path, tree_of(produced.outputs))
    pairs = []
    for number, pair in enumerate(produced.pairs):
        sides = {"expected": pair.expected, "actual": pair.actual}
        pairs.append([pair.words, *(send_tree(f"{path}.{number}.{side}.npz", tree) for side, tree in sides.items())])
    findings = [{"kind": kind, "message": message} for kind, message in produced.findings]
    return {"outputs": outputs, "pairs": pairs, "findings": findings, "notes": list(produced.notes)}
