"""A whole run: recipes shared out over workers, results gathered in the order of the registry."""

from __future__ import annotations

import datetime
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import jaxcheck
from jaxcheck.compare.threads import cores
from jaxcheck.errors import Unavailable
from jaxcheck.execution.cache import trim
from jaxcheck.execution.conduct import Assignment, Conducted, conduct, without_worker
from jaxcheck.execution.process import Launch, Needs
from jaxcheck.execution.saved import GOLDENS, SavedRun, Saving
from jaxcheck.execution.session import Interrupted, Session, Spare
from jaxcheck.execution.shards import Sharding, share_of
from jaxcheck.execution.state import State
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Deprecations, Recipe, Registry
from jaxcheck.registry.select import Selection, selected_recipes
from jaxcheck.results import CheckResult, CompiledPrograms, Environment, Run, Status, totals

KNOWN_BACKENDS = ("cpu", "gpu", "tpu")
CHECKS_A_WORKER = 24


@dataclass(frozen=True)
class Options:
    """What a run is asked for, apart from the selection.

    `python` is the interpreter of the workers (None: this one), `saving` takes all that the run produces, `inputs` is
    an earlier saved run whose inputs are taken for cases that no golden has. For a `gate`, recipes that ask for it run
    whatever their `when:` says, and nothing comes out of a compilation cache. `sharding` leaves recipes to others;
    `compiled` is the folder for that cache, or why there is none.
    """

    backend: str | None = None
    jobs: int | None = None
    timeout: float | None = None
    repeat: int = 1
    latency: int = 0
    deprecations: Deprecations | None = None
    all_modes: bool = False
    keep_all: bool = False
    python: str | None = None
    saving: Saving | None = None
    inputs: SavedRun | None = None
    gate: bool = False
    sharding: Sharding | None = None
    compiled: Path | str = ""
    command: str = ""
    report: Callable[[CheckResult], None] = field(default=lambda result: None)


def needs_of(recipe: Recipe) -> Needs:
    """x64, virtual devices and environment variables cannot change once JAX has started."""
    x64 = bool(recipe.config.get("enable_x64", recipe.config.get("jax_enable_x64", False)))
    return Needs(tuple(sorted(recipe.env.items())), recipe.devices, x64)


def launch_for(
    registry: Registry, backend: str | None, state: State | None = None, python: str | None = None
) -> Launch:
    """Workers import the user's modules from the registry's folder and from the current one; another interpreter gets
    this very jaxcheck from the state's folder."""
    paths = tuple(dict.fromkeys([str(Path(registry.root).resolve()), os.getcwd()]))
    if python is None or python == sys.executable or state is None:
        return Launch(backend=backend, paths=paths)
    return Launch(python=python, backend=backend, paths=paths, harness=str(state.harness()))


def execute(
    registry: Registry,
    selection: Selection,
    goldens: GoldenStore,
    state: State,
    options: Options,
    spare: Spare | None = None,
) -> Run:
    """Runs everything selected. Ctrl-C gives the part that was done (`interrupted`); it is the caller's to save.

    `spare` is the caller's to end.
    Raises Unavailable where the backend asked for is not there.
    """
    recipes, shard = share_of(selected_recipes(registry, selection), selection, options.sharding)
    if options.deprecations:
        recipes = tuple(replace(recipe, deprecations=options.deprecations) for recipe in recipes)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    clock = time.monotonic()
    with state.scratch() as scratch, ThreadPoolExecutor(1, "judge") as judges:
        work = Assignment(
            registry=registry,
            selection=selection,
            goldens=goldens,
            candidates=GoldenStore(state.candidates),
            scratch=scratch,
            judges=judges,
            timeout=options.timeout,
            repeat=options.repeat,
            latency=options.latency,
            all_modes=options.all_modes,
            keep_all=options.keep_all,
            saving=options.saving,
            inputs=GoldenStore(options.inputs.folder / GOLDENS) if options.inputs else None,
            everywhere=options.gate,
            report=options.report,
        )
        launch = launch_for(registry, options.backend, state, options.python)
        compiled = options.compiled if isinstance(options.compiled, Path) and not options.gate else None
        launch = replace(launch, cache=not options.gate, compiled=str(compiled) if compiled else None)
        crew = Crew(launch, recipes, partial(_conduct, work), spare)
        crew.run(options.jobs or default_jobs(recipes))
    if compiled:
        trim(compiled)
    done = [crew.done[recipe.name] for recipe in recipes if recipe.name in crew.done]
    results = [result for one in done for result in one.results]
    environment = crew.environment
    return Run(
        jaxcheck=jaxcheck.__version__,
        command=options.command,
        started=started,
        seconds=time.monotonic() - clock,
        registry=registry.path,
        registry_digest=registry.digest,
        goldens=str(goldens.folder),
        golden_digests={recipe.name: crew.done[recipe.name].golden for recipe in recipes if recipe.name in crew.done},
        backend=options.backend,
        shard=shard,
        sources={path: digest for one in done for path, digest in one.sources.items()},
        environment=environment,
        not_verified=not_verified(environment, crew.backends),
        programs=CompiledPrograms(off=str(options.compiled)) if compiled is None else crew.programs,
        interrupted=crew.interrupted,
        damaged_goldens=tuple(text for one in done for text in one.damaged),
        totals=totals(results),
        results=tuple(results),
    )


def default_jobs(recipes: Sequence[Recipe]) -> int:
    """A second worker pays for its start (importing JAX) only when there is enough to do."""
    checks = sum(max(len(recipe.cases), 4) * len(recipe.modes) for recipe in recipes)
    return max(1, min(cores(), checks // CHECKS_A_WORKER))


def _conduct(work: Assignment, recipe: Recipe, session: Session) -> Conducted:
    try:
        return conduct(work, recipe, session)
    except Unavailable as error:
        if not recipe.env:
            raise
        # An `env:` that keeps JAX from starting costs the recipes that ask for it, nothing else.
        reason = f"{recipe.locate('env')}: with this env: {error}"
        return Conducted(tuple(without_worker(work, recipe, Status.ERROR, reason)), {})


def not_verified(environment: Environment | None, present: Sequence[str]) -> dict[str, str]:
    """Every backend that this run says nothing about, and why."""
    if environment is None:
        return dict.fromkeys(KNOWN_BACKENDS, "no worker ran")
    reasons = {}
    for name in dict.fromkeys([*KNOWN_BACKENDS, *present]):
        if name != environment.backend:
            reasons[name] = f"present, not selected (--backend {name})" if name in present else "not available here"
    return reasons


T = TypeVar("T")


class Crew(Generic[T]):
    """Threads that each keep one worker, and take recipes until there are none; `done` has what came of each."""

    def __init__(
        self,
        launch: Launch,
        recipes: Sequence[Recipe],
        each: Callable[[Recipe, Session], T],
        spare: Spare | None = None,
    ) -> None:
        self._launch, self._each, self._spare = launch, each, spare or Spare()
        self._waiting = list(recipes)
        self._lock = threading.Lock()
        self._sessions: list[Session] = []
        self._events: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._stopping = False
        self.done: dict[str, T] = {}
        self.environment: Environment | None = None
        self.backends: list[str] = []
        self.interrupted = False

    def run(self, jobs: int) -> None:
        threads = [threading.Thread(target=self._member, name=f"worker-{n}", daemon=True) for n in range(jobs)]
        for thread in threads:
            thread.start()
        failure: BaseException | None = None
        try:
            for _ in threads:
                failure = failure or self._events.get()
                if failure:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        if failure or self.interrupted:
            self._stop()
        for thread in threads:
            thread.join()
        if failure:
            raise failure

    @property
    def programs(self) -> CompiledPrograms:
        """What all of its workers took out of the compilation cache, and compiled."""
        counts = sum((session.programs for session in self._sessions), Counter())
        return CompiledPrograms(hits=counts["hits"], misses=counts["misses"])

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            self._waiting.clear()
            sessions = list(self._sessions)
        for session in sessions:
            session.stop()

    def _member(self) -> None:
        session: Session | None = None
        needs: Needs | None = None
        failure: BaseException | None = None
        try:
            while (recipe := self._take(needs)) is not None:
                if session is None or needs_of(recipe) != needs:
                    if session is not None:
                        self._leave(session, needs)
                    needs = needs_of(recipe)
                    session = self._session(needs)
                self._serve(recipe, session, needs)
        except Interrupted:
            pass
        except BaseException as error:  # handed to the main thread, which raises it
            failure = error
        finally:
            if session is not None:
                self._leave(session, needs)
            self._events.put(failure)

    def _leave(self, session: Session, needs: Needs | None) -> None:
        with self._lock:
            if needs == Needs() and not self._stopping:
                self._spare.leave(session)
            else:
                session.close()

    def _take(self, needs: Needs | None) -> Recipe | None:
        """The next recipe, one for the worker that runs already if there is one."""
        with self._lock:
            same = next((recipe for recipe in self._waiting if needs_of(recipe) == needs), None)
            recipe = same or next(iter(self._waiting), None)
            if recipe is not None:
                self._waiting.remove(recipe)
            return recipe

    def _session(self, needs: Needs) -> Session:
        with self._lock:
            if self._stopping:
                raise Interrupted
            session = self._spare.take(self._launch) if needs == Needs() else Session(self._launch, needs)
            self._sessions.append(session)
            return session

    def _serve(self, recipe: Recipe, session: Session, needs: Needs) -> None:
        done = self._each(recipe, session)
        with self._lock:
            self.done[recipe.name] = done
            if session.environment is not None and (self.environment is None or needs == Needs()):
                self.environment, self.backends = session.environment, session.backends
