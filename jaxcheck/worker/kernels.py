"""Finding what a registry names, and binding arguments to it."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

PACKAGES = ("/site-packages/", "/dist-packages/", "<frozen", os.path.join(os.path.dirname(os.__file__), ""))
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class BadName(Exception):
    """A dotted name that leads nowhere, or arguments that a kernel does not take."""


def resolve(name: str) -> Callable[..., Any]:
    """`package.module:function` as a callable; BadName says which part is missing and what there is instead."""
    module_name, _, attribute = name.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise BadName(f"no module {error.name!r} (looked for {name})") from error
        raise BadName(f"importing {module_name} failed: {describe(error)}") from error
    except BaseException as error:  # a user's module may do anything while it is imported, SystemExit included
        raise BadName(f"importing {module_name} failed: {describe(error)}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, dir(value), 1)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise BadName(f"module {module_name} has no {attribute!r}{guess}")
        value = getattr(value, part)
    if not callable(value):
        raise BadName(f"{name} is a {type(value).__name__}, not a function")
    return value  # type: ignore[no-any-return]


def describe(error: BaseException) -> str:
    """Class, message and the user's own line, in one line."""
    place = own_frame(error)
    text = f"{type(error).__name__}: {text_of(error)}".strip().splitlines() or [type(error).__name__]
    return text[0] + (f" ({place})" if place else "")


def text_of(error: BaseException) -> str:
    """Its message: what makes it is the user's code as well."""
    try:
        return str(error)
    except BaseException as another:
        return f"(its message cannot be made: {type(another).__name__})"


def own_frame(error: BaseException) -> str:
    """`file:line` of the deepest frame that is neither JAX's, nor another package's, Python's or the harness's."""
    return own_place(traceback.extract_tb(error.__traceback__))


def own_place(frames: Sequence[traceback.FrameSummary]) -> str:
    """As `own_frame`, of any stack; the deepest frame is the last one."""
    for frame in reversed(frames):
        shipped = "/jaxcheck/kernels/" in frame.filename
        harness = frame.filename.startswith(HERE) and not shipped
        installed = any(part in frame.filename for part in PACKAGES) and not shipped
        if not harness and not installed:
            return f"{shortest(frame.filename)}:{frame.lineno}"
    return ""


def shortest(path: str) -> str:
    """Relative to the current folder where the file is below it."""
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here)


def bind(kernel: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """(positional, keyword) arguments by the kernel's signature; BadName for one that it does not take or lacks.

    What can go by position does: donation and static arguments are declared by position as often as by name.
    """
    parameters = parameters_of(kernel)
    if parameters is None:
        return [], dict(arguments)
    positional: list[Any] = []
    keywords = dict(arguments)
    for parameter in parameters.values():
        by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if not by_position or parameter.name not in keywords:
            break
        positional.append(keywords.pop(parameter.name))
    return positional, keywords


def parameters_of(kernel: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(kernel).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return None


def argument_faults(kernel: Callable[..., Any], names: Mapping[str, Any] | list[str]) -> list[tuple[str | None, str]]:
    """(argument or None, what is wrong with it) for names that the kernel does not take, or needs and lacks."""
    parameters = parameters_of(kernel)
    if parameters is None:
        return []
    kinds = {parameter.kind for parameter in parameters.values()}
    taken = [p.name for p in parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    faults: list[tuple[str | None, str]] = []
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for name in names:
            if name not in taken:
                near = get_close_matches(name, taken, 1)
                guess = f"; did you mean {near[0]!r}?" if near else ""
                has = ", ".join(taken) or "none"
                faults.append((name, f"the kernel has no argument {name!r}{guess} It has: {has}"))
    faults += [
        (None, f"the kernel needs an argument {p.name!r} that the case does not give")
        for p in parameters.values()
        if p.name in taken and p.default is p.empty and p.name not in names
    ]
    return faults


def project_sources(root: str) -> list[str]:
    """Files of imported modules below the registry's folder: what a candidate depends on besides its registry."""
    return _sources(root, len(sys.modules))


@functools.lru_cache(maxsize=1)
def _sources(root: str, modules: int) -> list[str]:
    """Looked for again when a module was imported since: there are thousands, and recipes import few."""
    tops = tuple({os.path.join(folder, "") for folder in (os.path.abspath(root), os.path.realpath(root))})
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    return sorted(file for file in files if file.startswith(tops) and not any(part in file for part in PACKAGES))
