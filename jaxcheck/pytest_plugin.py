"""Checks as pytest's tests: `pytest --jaxcheck`, or `jaxcheck = true` in pytest's configuration.

One run serves all checks that pytest selected: before the first test, in the process that pytest was started in (under
xdist the controller; its workers only read the results). JAX is imported by jaxcheck's own workers, never by pytest.
Without the option this module does nothing, and imports nothing that pytest has not imported already.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jaxcheck.registry.model import Recipe, Registry
    from jaxcheck.results import CheckResult, Run

NAME = "jaxcheck"
REGISTRY_NAME = "recipes.yaml"
REST = "*"  # the cases that only a recipe's factory knows


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(NAME, "jaxcheck: checks of JAX kernels against their goldens")
    group.addoption("--jaxcheck", action="store_true", help="also run the checks of recipes.yaml")
    group.addoption("--jaxcheck-registry", metavar="FILE", help="else recipes.yaml, searched upwards from the root")
    group.addoption("--jaxcheck-goldens", metavar="FOLDER", help="else goldens/ beside the registry")
    group.addoption("--jaxcheck-backend", metavar="NAME", help="cpu, gpu, tpu or a plugin's name; else what JAX picks")
    group.addoption("--jaxcheck-jobs", metavar="N", type=int, help="jaxcheck's own worker processes")
    parser.addini(NAME, "run the checks of recipes.yaml without being asked", type="bool", default=False)
    parser.addini("jaxcheck_registry", "the registry, relative to pytest's root", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "jaxcheck: a check of a JAX kernel against its golden")
    if not (config.getoption("--jaxcheck") or config.getini(NAME)):
        return
    plugin = Plugin(config, _registry_file(config))
    config.pluginmanager.register(plugin, "jaxcheck-checks")
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.getoption("--jaxcheck") or not given:
        if not plugin.is_collected_by(config.args):
            config.args.append(str(plugin.file))
        plugin.stop_where_passed_by(config.args)


def _registry_file(config: pytest.Config) -> Path:
    """The registry that is meant; pytest.UsageError where there is none."""
    given = config.getoption("--jaxcheck-registry")
    said = config.getini("jaxcheck_registry")
    if given or said:
        file = Path(config.invocation_params.dir, given) if given else Path(config.rootpath, said)
    else:
        folders = (config.rootpath, *config.rootpath.parents)
        file = next((folder / REGISTRY_NAME for folder in folders if (folder / REGISTRY_NAME).is_file()), Path())
    if not file.is_file():
        looked = f"no file {file}" if given or said else f"no {REGISTRY_NAME} in {config.rootpath} or above it"
        raise pytest.UsageError(f"jaxcheck: {looked}; name one with --jaxcheck-registry, or make one: jaxcheck init")
    return Path(os.path.abspath(file))


class Plugin:
    """What is done in a session that has checks."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        self.run: Run | None = None
        self.trouble = ""
        self._results: dict[str, CheckResult] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ran = False
        self._registry: Registry | None = None

    def is_collected_by(self, args: Sequence[str]) -> bool:
        """Whether one of pytest's arguments is the registry, something in it, or a folder around it."""
        return any(self.file == place or place in self.file.parents for place in self._places(args))

    def stop_where_passed_by(self, args: Sequence[str]) -> None:
        """pytest.UsageError where pytest does not descend to the registry: all would be green, and nothing checked.

        An argument around it has the others in it forgotten.
        """
        patterns = self.config.getini("norecursedirs")
        for place in self._places(args):
            between = [folder for folder in self.file.parents if place in folder.parents]
            closed = next((folder for folder in between if any(folder.match(name) for name in patterns)), None)
            if closed:
                raise pytest.UsageError(
                    f"jaxcheck: pytest does not descend into {closed}, so that {self.file} would not be collected; "
                    "name the file instead of a folder around it, or set norecursedirs in pytest's configuration"
                )

    def _places(self, args: Sequence[str]) -> list[Path]:
        return [_absolute(Path(self.config.invocation_params.dir, arg.split("::")[0])) for arg in args]

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if _absolute(file_path) != self.file:
            return None
        collector: RegistryFile = RegistryFile.from_parent(parent, path=file_path)
        collector.plugin = self
        return collector

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Before the first test: time limits of single tests do not see it."""
        option = session.config.option
        stopped = session.testsfailed and not option.continue_on_collection_errors
        if not (option.collectonly or stopped or self._under_xdist()):
            self.execute([id_ for item in session.items if isinstance(item, CheckItem) for id_ in item.wanted])

    def execute(self, ids: Sequence[str]) -> None:
        """One run of these checks; what keeps it from being done fails each of them."""
        from jaxcheck.api import Options, Selection, run_selection
        from jaxcheck.errors import JaxcheckError
        from jaxcheck.execution.project import project_of

        if not ids or self._ran:
            return
        self._ran = True
        goldens = self.config.getoption("--jaxcheck-goldens")
        options = Options(
            backend=self.config.getoption("--jaxcheck-backend"),
            jobs=self.config.getoption("--jaxcheck-jobs"),
            command="run (pytest)",
        )
        try:
            place = Path(self.config.invocation_params.dir, goldens) if goldens else None
            project = project_of(self.registry(), place, None)
            self.take(run_selection(project, Selection(last_failed_ids=ids), options))
        except JaxcheckError as error:
            self.trouble = f"{error}\n  try: {error.hint}" if error.hint else str(error)

    def registry(self) -> Registry:
        """RegistryError where it has faults."""
        from jaxcheck.api import load

        self._registry = self._registry or load(self.file)
        return self._registry

    def take(self, run: Run) -> None:
        self.run = run
        self._results = {result.id: result for result in run.results}

    def outcome(self, ids: Iterable[str]) -> list[CheckResult]:
        """The results of these checks; CheckFailed where nothing could be run."""
        if self.run is None and not self.trouble and self._under_xdist():
            self._read()
        if self.trouble:
            raise CheckFailed(self.trouble)
        return [self._results[id_] for id_ in ids if id_ in self._results]

    def others(self, recipe: str, ids: Iterable[str]) -> list[CheckResult]:
        """The results of a recipe beyond those that have items of their own."""
        self.outcome(())
        known = set(ids)
        return [result for result in self._results.values() if result.recipe == recipe and result.id not in known]

    # xdist: the controller runs when the first worker has collected, before any test is given out.

    def _under_xdist(self) -> bool:
        return hasattr(self.config, "workerinput") or getattr(self.config.option, "dist", "no") != "no"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="jaxcheck-")
        node.workerinput["jaxcheck_results"] = self._folder.name

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        if self._ran or self._folder is None:
            return
        self.execute([check for id_ in ids for check in self._checks(id_)])
        if self.run is not None:
            Path(self._folder.name, "run.json").write_text(self.run.to_json())
        Path(self._folder.name, "trouble").write_text(self.trouble)

    def _checks(self, node_id: str) -> list[str]:
        """The checks behind an id of pytest's, `tests/recipes.yaml::newton::zeros[jit]`; xdist may add `@group`."""
        path, _, check = node_id.partition("::")
        if path.rpartition("/")[2] != self.file.name or check.count("::") != 1:
            return []
        recipe, case = check.split("::")
        modes = self.registry().recipes[recipe].modes if "]" not in case else ()
        return [f"{recipe}::{REST}[{mode}]" for mode in modes] or [f"{recipe}::{case[: case.rindex(']') + 1]}"]

    def _read(self) -> None:
        from jaxcheck.results import Run

        folder = Path(self.config.workerinput["jaxcheck_results"])  # type: ignore[attr-defined]  # set by xdist
        try:
            self.trouble = (folder / "trouble").read_text()
            if not self.trouble:
                self.take(Run.from_json((folder / "run.json").read_bytes()))
        except OSError as error:
            self.trouble = f"the results of the checks did not arrive: {error}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Where the numbers were made, and what says nothing about."""
        from jaxcheck.report.words import environment_facts, totals_line

        if self.run is None:
            return
        terminalreporter.section(NAME, sep="-")
        facts = environment_facts(self.run.environment) if self.run.environment else {}
        for name, value in facts.items():
            terminalreporter.line(f"{name}: {value}")
        for name, why in self.run.not_verified.items():
            terminalreporter.line(f"not verified: {name} ({why})")
        terminalreporter.line(totals_line(self.run))

    def pytest_unconfigure(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


class CheckFailed(Exception):
    """A check that did not pass; the message is the block of the console's report."""


class RegistryFile(pytest.File):
    """The registry; under it its recipes."""

    plugin: Plugin

    def collect(self) -> Iterator[pytest.Collector]:
        from jaxcheck.errors import JaxcheckError

        try:
            registry = self.plugin.registry()
        except JaxcheckError as error:
            raise self.CollectError(str(error)) from None
        for recipe in registry.recipes.values():
            collector: RecipeCollector = RecipeCollector.from_parent(self, name=recipe.name)
            collector.recipe, collector.plugin = recipe, self.plugin
            for mark in self._marks(recipe):
                collector.add_marker(mark)
            yield collector

    def _marks(self, recipe: Recipe) -> Iterator[str]:
        """Its tags; a tag that cannot be a mark is none."""
        yield NAME
        for tag in recipe.tags:
            if not tag.startswith("_") and not set(tag) & set(":( ,"):
                self.config.addinivalue_line("markers", f"{tag}: a tag of recipes in {REGISTRY_NAME}")
                yield tag


class RecipeCollector(pytest.Collector):
    """A recipe; under it its checks, and one item more for the cases that only its factory knows."""

    recipe: Recipe
    plugin: Plugin

    def collect(self) -> Iterator[pytest.Item]:
        from jaxcheck.registry.select import check_id

        recipe = self.recipe
        named = [f"{case}[{mode}]" for case in recipe.cases for mode in recipe.modes]
        for name in named:
            yield self._item(name, [f"{recipe.name}::{name}"])
        if recipe.inputs is not None:
            rest = self._item(REST, [check_id(recipe.name, REST, mode) for mode in recipe.modes])
            rest.known = frozenset(f"{recipe.name}::{name}" for name in named)
            yield rest

    def _item(self, name: str, wanted: list[str]) -> CheckItem:
        item: CheckItem = CheckItem.from_parent(self, name=name)
        item.plugin, item.wanted = self.plugin, wanted
        return item


class CheckItem(pytest.Item):
    """A check as a test. `known` is set for the rest of a factory's cases: the checks that have items of their own."""

    plugin: Plugin
    wanted: Sequence[str]
    known: frozenset[str] | None = None

    def runtest(self) -> None:
        from jaxcheck.report.formats import failure
        from jaxcheck.results import FAILURES, Status

        results = self._results()
        failed = [result for result in results if result.status in FAILURES]
        if failed:
            raise CheckFailed("\n\n".join(map(failure, failed)))
        if all(result.status is Status.SKIP for result in results):
            pytest.skip(results[0].reason if results else "the recipe's inputs: makes no other cases")

    def _results(self) -> list[CheckResult]:
        if self.known is not None:
            assert self.parent is not None
            return self.plugin.others(self.parent.name, self.known)
        results = self.plugin.outcome(self.wanted)
        if not results:
            raise CheckFailed(f"{self.wanted[0]} was not run")
        return results

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CheckFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        assert self.parent is not None
        return self.path, None, f"{self.parent.name}::{self.name}"
