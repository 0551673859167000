"""Python modules as files: found on a path and read as syntax trees, never imported."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import decode_source
from pathlib import Path

from jaxcheck.registry.words import closest

# What can make or hide a module's names without an assignment to them.
_DYNAMIC = frozenset(("globals", "locals", "vars", "exec", "eval", "setattr", "modules"))
_DYNAMIC |= {"__dict__", "__getattr__", "__path__"}


@dataclass(frozen=True)
class Missing:
    """A module that certainly does not exist."""

    message: str
    hint: str


@dataclass(frozen=True)
class Signature:
    """The parameters of a plain function."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    takes_any: bool

    def takes(self, name: str) -> bool:
        return self.takes_any or name in self.names


@dataclass(frozen=True)
class Module:
    """A module as its source file (None for a folder without one) and where its submodules are."""

    file: Path | None
    submodules: Sequence[str]

    @property
    def place(self) -> str:
        return str(self.file) if self.file else ", ".join(self.submodules)

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether it may have more names, or other submodules, than its text says."""
        return self._tree is None or any(_mentions_dynamic(node) for node in ast.walk(self._tree))

    @property
    def functions(self) -> list[str]:
        return [node.name for node in self._body if isinstance(node, ast.FunctionDef)]

    def surely_lacks(self, name: str) -> bool:
        return not self.is_dynamic and name not in self._bound

    def signature(self, name: str) -> Signature | None:
        """The function's parameters, where the text alone decides them: one `def`, undecorated or jitted."""
        nodes = [node for node in self._body if isinstance(node, ast.FunctionDef) and node.name == name]
        if self.is_dynamic or len(nodes) != 1 or self._bound[name] != 1:
            return None
        plain = all(_is_jit(decorator, self._imports) for decorator in nodes[0].decorator_list)
        return _signature(nodes[0].args) if plain else None

    @cached_property
    def _tree(self) -> ast.Module | None:
        if self.file is None:
            return ast.Module([], [])
        try:
            with warnings.catch_warnings(action="ignore"):
                return ast.parse(decode_source(self.file.read_bytes()))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None

    @property
    def _body(self) -> list[ast.stmt]:
        return self._tree.body if self._tree else []

    @cached_property
    def _bound(self) -> Counter[str]:
        """How often each name is bound at the top level, or declared global in a function."""
        declared = (node for node in ast.walk(ast.Module(self._body, [])) if isinstance(node, ast.Global))
        return Counter([*_bindings(self._body), *(name for node in declared for name in node.names)])

    @cached_property
    def _imports(self) -> dict[str, str]:
        """What imported names stand for: `jnp` for `jax.numpy`."""
        return dict(pair for node in self._body for pair in _imported(node))


class Modules:
    """Modules found on a search path, step by step from the top-level one, each read once."""

    def __init__(self, search: Sequence[str]) -> None:
        importlib.invalidate_caches()
        self._search = Module(None, search)
        self._found: dict[str, Module | Missing | None] = {}

    def find(self, name: str) -> Module | Missing | None:
        """The module as text; None where it exists, or may exist, without a text that says all about it."""
        if name not in self._found:
            self._found[name] = self._looked_up(name)
        return self._found[name]

    def _looked_up(self, name: str) -> Module | Missing | None:
        parent, _, part = name.rpartition(".")
        package = self.find(parent) if parent else self._search
        if not isinstance(package, Module):
            return package
        found = _on_path(name, package.submodules)
        if isinstance(found, Module):
            return found
        if found or package.is_dynamic or (not parent and _is_found_otherwise(name)):
            return None
        return _missing(parent, part, package)


def _on_path(name: str, places: Sequence[str]) -> Module | ModuleSpec | None:
    """The module in the first of these places that has it; a folder without `__init__.py` counts only after all."""
    portions: list[str] = []
    for place in places:
        finder = pkgutil.get_importer(place or ".")
        spec = finder.find_spec(name) if finder else None
        if spec and spec.loader:
            return _as_module(spec) or spec
        portions += (spec and spec.submodule_search_locations) or ()
    return Module(None, portions) if portions else None


def _as_module(spec: ModuleSpec) -> Module | None:
    """None for a module that is not a text: compiled, or in an archive."""
    if not isinstance(spec.loader, SourceFileLoader) or spec.origin is None:
        return None
    return Module(Path(spec.origin), spec.submodule_search_locations or ())


def _is_found_otherwise(name: str) -> bool:
    """Built-in and frozen modules, editable installs: whatever knows modules besides the path."""
    finders = (finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_spec"))
    return any(finder.find_spec(name, None) for finder in finders)


def _missing(parent: str, part: str, package: Module) -> Missing:
    near = closest(part, (module.name for module in pkgutil.iter_modules(package.submodules)))
    prefix = f"{parent}." if parent else ""
    looked = package.place if parent else f"{package.submodules[0]} and in sys.path"
    hint = f"did you mean {prefix}{near}?" if near else f"looked in {looked}"
    return Missing(f"there is no module {prefix}{part}", hint)


def _mentions_dynamic(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name in _DYNAMIC
        case ast.ImportFrom(names=[ast.alias(name="*"), *_]):
            return True
    return False


def _bindings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name that running these statements may bind; not those inside functions and classes."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from (name for name, _ in _imported(node))
        yield from _bindings(ast.iter_child_nodes(node))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        case ast.ImportFrom(names=aliases, module=module):
            for alias in aliases:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _is_jit(decorator: ast.expr, imports: Mapping[str, str]) -> bool:
    """`jax.jit`, `jax.jit(...)` or `functools.partial(jax.jit, ...)`, by whatever names they were imported."""
    if not isinstance(decorator, ast.Call):
        return _full_name(decorator, imports) == "jax.jit"
    called = _full_name(decorator.func, imports)
    partial = called == "functools.partial" and len(decorator.args) == 1
    return called == "jax.jit" or (partial and _full_name(decorator.args[0], imports) == "jax.jit")


def _full_name(node: ast.expr, imports: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return imports.get(node.id)
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, imports)}.{node.attr}"
    return None


def _signature(arguments: ast.arguments) -> Signature:
    by_position = [*arguments.posonlyargs, *arguments.args]
    without_default = by_position[: len(by_position) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required = [*without_default, *(argument for argument, default in pairs if default is None)]
    names = [argument.arg for argument in (*by_position, *arguments.kwonlyargs)]
    return Signature(tuple(names), tuple(argument.arg for argument in required), arguments.kwarg is not None)
