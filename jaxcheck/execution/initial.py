"""The first registry of a project: functions looked at by a worker, and files that are never overwritten unasked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxcheck.errors import UsageError
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.session import Session
from jaxcheck.goldens.replacing import replacing
from jaxcheck.registry.compose import Sketch, registry_text
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Registry
from jaxcheck.registry.words import dotted_problem

GIT_LINES = {".gitignore": ".jaxcheck/", ".gitattributes": "goldens/*.npz binary diff=jaxcheck"}


def check_request(kernels: Sequence[str], path: Path, force: bool) -> None:
    """UsageError for names that are none, all at once, and for a file that is there already."""
    problems = [(name, problem) for name in kernels if (problem := dotted_problem(name))]
    if problems:
        raise UsageError("\n".join(f"{name} {problem[0]}" for name, problem in problems), hint=problems[0][1][1])
    if path.exists() and not force:
        hint = f"another file with --registry, which {path.name} can name under include:, or --force to replace it"
        raise UsageError(f"{path} is there already, and stays as it is", hint=hint)


def sketches_of(kernels: Sequence[str], root: Path, backend: str | None, timeout: float) -> list[Sketch]:
    """What a worker finds out about each function. UsageError with every one that cannot be imported or kills it."""
    paths = tuple(dict.fromkeys([str(root.absolute()), os.getcwd()]))
    session = Session(Launch(backend=backend, paths=paths), Needs())
    found, faults = [], []
    try:
        for kernel in dict.fromkeys(kernels):
            session.start()
            reply = session.request({"op": "guess", "kernel": kernel, "root": str(root)}, timeout)
            fault = _fault(reply)
            if isinstance(reply, Death) or fault:
                faults.append(f"{kernel}: {fault}")
            else:
                found.append(_sketch(kernel, reply))
    finally:
        session.close()
    if faults:
        hint = "modules are imported from the registry's folder and the current one: name PACKAGE.MODULE:FUNCTION"
        raise UsageError("\n".join(faults), hint)
    return found


def _fault(reply: dict[str, Any] | Death) -> str:
    if isinstance(reply, Death):
        return f"looking at it killed the worker: {reply.reason}"
    if reply.get("unknown") == []:
        return str(reply["reason"])
    return str(reply.get("fault", ""))


def _sketch(kernel: str, reply: dict[str, Any]) -> Sketch:
    names = ("description", "cases", "static", "modes", "dtypes", "unknown", "reason")
    return Sketch(kernel, **{name: reply[name] for name in names if name in reply})


def write_registry(sketches: Sequence[Sketch], path: Path) -> tuple[Registry, dict[str, int]]:
    """(the registry as it was written, the lines to edit); UsageError where it cannot be written."""
    text, to_edit = registry_text(sketches)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:  # with --force there is a registry that may be lost
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="--registry FILE") from error
    return load_registry(path), to_edit


def tell_git(folder: Path) -> list[str]:
    """Adds what git has to know, where it is not said yet; the files that were changed. UsageError as above."""
    try:
        return _add_lines(folder)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}", hint="the registry is written") from error


def _add_lines(folder: Path) -> list[str]:
    """Behind what is there, whose encoding and line ends are the user's."""
    changed = []
    for name, line in GIT_LINES.items():
        with open(folder / name, "a+b") as file:
            file.seek(0)
            content = file.read()
            if line.encode() not in content.splitlines():
                end = b"\r\n" if b"\r\n" in content else b"\n"
                file.write((b"" if not content or content.endswith(b"\n") else end) + line.encode() + end)
                changed.append(name)
    return changed
