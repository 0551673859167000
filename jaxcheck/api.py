"""The Python API: what `jaxcheck run` does, for scripts and notebooks. Kernels still run in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from jaxcheck import results
from jaxcheck.errors import Exit
from jaxcheck.execution.project import Project, compiled_programs, open_registry, project_of
from jaxcheck.execution.run import Options, execute
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult

__all__ = ["Options", "Project", "Registry", "Run", "Selection", "load", "run", "run_selection"]

Words = str | Sequence[str]
File = str | PathLike[str]


class Run(results.Run):
    """A run as `jaxcheck run` reports it; a notebook shows it as a table. True where the command would exit with 0."""

    def __bool__(self) -> bool:
        return self.exit_code() == Exit.PASSED

    def _repr_html_(self) -> str:
        from jaxcheck.report.html.notebook import fragment

        return fragment(self)

    @classmethod
    def of(cls, run: results.Run) -> Run:
        return cls.model_construct(**{name: getattr(run, name) for name in results.Run.model_fields})


def load(path: File) -> Registry:
    """The registry in a file, wholly checked; RegistryError with every fault, each with its place."""
    return load_registry(Path(path))


def run(
    registry: File | Registry | None = None,
    *,
    names: Words = (),
    tags: Words = (),
    keyword: str | None = None,
    modes: Words = (),
    backend: str | None = None,
    jobs: int | None = None,
    timeout: float | None = None,
    repeat: int = 1,
    goldens: File | None = None,
    state: File | None = None,
    shipped: bool = False,
    cache: bool = True,
    report: Callable[[CheckResult], None] = lambda result: None,
) -> Run:
    """Runs what is selected and compares it with the goldens, as `jaxcheck run` does with the options of these names.

    `registry` is a file, what `load` gave, or None for the nearest `recipes.yaml`; `goldens` and `state` are folders,
    else `goldens/` and `.jaxcheck/` beside it. `timeout` is in seconds for each check; without `cache` every program
    is compiled anew; `report` is called with each result, from several threads. Goldens are never written, and
    candidates and the run are kept for `jaxcheck bless`. A check that does not pass is a result, no exception. Raises
    UsageError, RegistryError or Unavailable, as the command does, and KeyboardInterrupt after keeping what was done.
    """
    if isinstance(registry, Registry):
        read, home = registry, None
    else:
        read = open_registry(Path(registry) if registry else None, shipped)
        home = Path.cwd() if shipped else None
    project = project_of(read, Path(goldens) if goldens else None, Path(state) if state else None, home)
    options = Options(backend=backend, jobs=jobs, timeout=timeout, repeat=repeat, command="run (Python)", report=report)
    selection = Selection(names=_words(names), tags=_words(tags), keyword=keyword, modes=_words(modes))
    return run_selection(project, selection, options, cache=cache)


def run_selection(project: Project, selection: Selection, options: Options, *, cache: bool = True) -> Run:
    """The same of a project that is open; the run is kept in its state. KeyboardInterrupt where it was interrupted."""
    from dataclasses import replace

    project.state.prepare()
    options = replace(options, compiled=compiled_programs("" if cache else "cache=False"))
    result = execute(project.registry, selection, project.goldens, project.state, options)
    project.state.save(result)
    if result.interrupted:
        raise KeyboardInterrupt
    return Run.of(result)


def _words(given: Words) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
