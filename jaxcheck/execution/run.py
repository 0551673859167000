"""A whole run: recipes shared out over workers, results gathered in the order of the registry."""

from __future__ import annotations

import datetime
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import jaxcheck
from jaxcheck.compare.threads import cores
from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.execution.cache import trim
from jaxcheck.execution.conduct import Assignment, Conducted, conduct, without_worker
from jaxcheck.execution.nodes import Stay, nodes_of, told_apart
from jaxcheck.execution.process import Elsewhere, Launch, Needs
from jaxcheck.execution.saved import GOLDENS, SavedRun, Saving
from jaxcheck.execution.session import Interrupted, NoPlace, Session, Spare, open_session
from jaxcheck.execution.shards import Sharding, seconds_by_recipe, share_of
from jaxcheck.execution.sharing import Waiting
from jaxcheck.execution.state import State
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Deprecations, Recipe, Registry
from jaxcheck.registry.select import Selection, selected_recipes
from jaxcheck.results import CheckResult, CompiledPrograms, Environment, Run, Status, totals

KNOWN_BACKENDS = ("cpu", "gpu", "tpu")
CHECKS_A_WORKER = 20


@dataclass(frozen=True)
class Options:
    """What a run is asked for, apart from the selection.

    `python` is the interpreter of the workers (None: this one), `elsewhere` the machines that they are on (None: this
    one), `saving` takes all that the run produces, `inputs` is
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
    elsewhere: Elsewhere | None = None
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
    return Needs(
        tuple(sorted(recipe.env.items())), recipe.devices, x64, resources=tuple(sorted(recipe.resources.items()))
    )


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
    compiled = options.compiled if isinstance(options.compiled, Path) and not options.gate else None
    jobs = options.jobs or (default_jobs(recipes) if options.elsewhere is None else None)
    with state.scratch() as scratch, ThreadPoolExecutor(1, "judge") as judges:
        work = _assignment(registry, selection, goldens, GoldenStore(state.candidates), options, scratch, judges)
        launch = _launch(registry, state, options, compiled)
        seconds = _earlier_seconds(state) if jobs != 1 else {}
        crew = Crew(launch, recipes, partial(_conduct, work), spare, seconds)
        crew.run(jobs)
    if compiled and crew.programs.misses:
        trim(compiled)
    nodes = nodes_of(crew.stays, crew.environment)
    done = {recipe.name: crew.done[recipe.name] for recipe in recipes if recipe.name in crew.done}
    results = told_apart((result for one in done.values() for result in one.results), crew.stays, nodes)
    return Run(
        jaxcheck=jaxcheck.__version__,
        command=options.command,
        started=started,
        seconds=time.monotonic() - clock,
        registry=registry.path,
        registry_digest=registry.digest,
        goldens=str(goldens.folder),
        golden_digests={name: one.golden for name, one in done.items()},
        backend=options.backend,
        shard=shard,
        nodes=nodes,
        sources={path: digest for one in done.values() for path, digest in one.sources.items()},
        environment=crew.environment,
        not_verified=not_verified(crew.environment, crew.backends),
        programs=CompiledPrograms(off=str(options.compiled)) if compiled is None else crew.programs,
        interrupted=crew.interrupted,
        damaged_goldens=tuple(text for one in done.values() for text in one.damaged),
        totals=totals(results),
        results=tuple(results),
    )


def _assignment(
    registry: Registry,
    selection: Selection,
    goldens: GoldenStore,
    candidates: GoldenStore,
    options: Options,
    scratch: Path,
    judges: Executor,
) -> Assignment:
    return Assignment(
        registry=registry,
        selection=selection,
        goldens=goldens,
        candidates=candidates,
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


def _launch(registry: Registry, state: State, options: Options, compiled: Path | None) -> Launch:
    return replace(
        launch_for(registry, options.backend, state, options.python),
        cache=not options.gate,
        compiled=str(compiled) if compiled else None,
        elsewhere=options.elsewhere,
    )


def default_jobs(recipes: Sequence[Recipe]) -> int:
    """A second worker pays for its start (importing JAX) only when there is enough to do."""
    checks = sum(max(len(recipe.cases), 4) * len(recipe.modes) for recipe in recipes)
    return max(1, min(cores(), checks // CHECKS_A_WORKER))


def _earlier_seconds(state: State) -> dict[str, float]:
    """What recipes took in the last run, by name, as far as that is known."""
    try:
        last = state.last_run()
    except UsageError:  # of another version, or damaged: this run replaces it
        return {}
    return seconds_by_recipe(last.results) if last else {}


def _conduct(work: Assignment, recipe: Recipe, session: Session) -> Conducted:
    try:
        return conduct(work, recipe, session)
    except Unavailable as error:
        # What a recipe asks for and nobody has, and an `env:` that keeps JAX from starting, cost the recipes that ask.
        if isinstance(error, NoPlace) and recipe.resources:
            reason = f"{recipe.locate('resources')}: {error}"
        elif recipe.env:
            reason = f"{recipe.locate('env')}: with this env: {error}"
        elif session.lost:  # what was done before that is not to be lost as well
            reason = str(error)
        else:
            raise
        return Conducted(tuple(without_worker(work, recipe, Status.ERROR, reason, error.hint or "")), {})


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
Resources = tuple[tuple[str, float], ...]


class Crew(Generic[T]):
    """Threads that each keep one worker, and take recipes until there are none; `done` has what came of each."""

    def __init__(
        self,
        launch: Launch,
        recipes: Sequence[Recipe],
        each: Callable[[Recipe, Session], T],
        spare: Spare | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        self._launch, self._each, self._spare = launch, each, spare or Spare()
        self._recipes, self._waiting = tuple(recipes), Waiting(recipes, self._needs, seconds)
        self._lock = threading.Lock()
        self._sessions: list[Session] = []
        self._events: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._stopping = False
        self._room: dict[Resources, int] = {}
        self._members: Counter[Resources] = Counter()
        self._environments: dict[str, tuple[bool, Environment]] = {}
        self.done: dict[str, T] = {}
        self.interrupted = False

    def run(self, jobs: int | None) -> None:
        """With so many workers; None: as many as there is room for, on the machines that the launch names."""
        starts = self._starts(jobs)
        self._members.update(starts)
        threads = [
            threading.Thread(target=self._member, args=(n, start), name=f"worker-{n}", daemon=True)
            for n, start in enumerate(starts)
        ]
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
    def environment(self) -> Environment | None:
        """That of the first recipe whose worker ran in nothing of its own; else of the first one."""
        known = [self._environments[recipe.name] for recipe in self._recipes if recipe.name in self._environments]
        plain = [environment for is_plain, environment in known if is_plain]
        return next(iter(plain or [environment for _, environment in known]), None)

    @property
    def backends(self) -> list[str]:
        """All that its workers found."""
        return list(dict.fromkeys(name for session in self._sessions for name in session.backends))

    @property
    def stays(self) -> list[Stay]:
        """When its workers were on which machines of a cluster."""
        return [stay for session in self._sessions for stay in session.stays]

    @property
    def programs(self) -> CompiledPrograms:
        """What all of its workers took out of the compilation cache, and compiled."""
        counts = sum((session.programs for session in self._sessions), Counter())
        return CompiledPrograms(hits=counts["hits"], misses=counts["misses"])

    def _starts(self, jobs: int | None) -> list[Resources]:
        """What each member looks after first: every kind of machine in turn, as far as there is room on it."""
        elsewhere = self._launch.elsewhere
        if elsewhere is None:
            self._room = {(): jobs or 1}
            return [()] * (jobs or 1)
        kinds = Counter(needs_of(recipe).resources for recipe in self._recipes)
        self._room = {kind: elsewhere.room(Needs(resources=kind)) for kind in kinds}
        most = {kind: min(self._room[kind], recipes) for kind, recipes in kinds.items()}
        turns = [kind for turn in range(max(most.values(), default=0)) for kind in most if turn < most[kind]]
        return turns[:jobs]

    def _needs(self, recipe: Recipe) -> Needs:
        needs = needs_of(recipe)
        return needs if self._launch.elsewhere is not None else replace(needs, resources=())

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            self._waiting.clear()
            sessions = list(self._sessions)
        for session in sessions:
            session.stop()

    def _member(self, number: int, kind: Resources) -> None:
        session: Session | None = None
        needs = Needs(resources=kind)
        failure: BaseException | None = None
        try:
            while (recipe := self._take(number, needs)) is not None:
                if session is None or self._needs(recipe) != needs:
                    if session is not None:
                        self._leave(session, needs)
                    needs = self._needs(recipe)
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

    def _leave(self, session: Session, needs: Needs) -> None:
        with self._lock:
            spared = self._launch.elsewhere is None and needs.plain and not self._stopping
            if spared:
                self._spare.leave(session)
        if not spared:
            session.close()

    def _take(self, number: int, needs: Needs) -> Recipe | None:
        with self._lock:
            recipe = self._waiting.take(number, needs, self._has_room)
            self._members[needs.resources] -= 1
            if recipe is not None:
                self._members[self._needs(recipe).resources] += 1
            return recipe

    def _has_room(self, needs: Needs) -> bool:
        return self._members[needs.resources] < self._room[needs.resources]

    def _session(self, needs: Needs) -> Session:
        with self._lock:
            if self._stopping:
                raise Interrupted
            here = self._launch.elsewhere is None and needs.plain
            session = self._spare.take(self._launch) if here else open_session(self._launch, needs)
            self._sessions.append(session)
            return session

    def _serve(self, recipe: Recipe, session: Session, needs: Needs) -> None:
        done = self._each(recipe, session)
        with self._lock:
            self.done[recipe.name] = done
            if session.environment is not None:
                self._environments[recipe.name] = needs.plain, session.environment
