"""The worker's part, played by a fuzzer: what the commands ask is theirs, and lines of bytes are the answers.

The first line says who asks (a name of `SCENES`), and about which recipes (all). Each other line answers one request,
behind its number; where there are no more, the worker ends. FOLDER stands for the folder that the request names, which
then has a tree in TREE and steps in STEPS, and ROOT for the registry's. A line that begins with RAW is what comes over
the channel as it is, with NUMBER for the request's and BREAK for the end of a line.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import itertools
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np

from jaxcheck.diagnose.asking import Asker
from jaxcheck.diagnose.compiled import fusion_of
from jaxcheck.diagnose.sensitivity import Sensitivity
from jaxcheck.diagnose.trace import Trace
from jaxcheck.errors import JaxcheckError
from jaxcheck.execution import session
from jaxcheck.execution.conduct import Assignment, conduct
from jaxcheck.execution.initial import sketches_of
from jaxcheck.execution.inspect import name_faults
from jaxcheck.execution.process import READ_BYTES, Death, Launch, Needs, Tail, WorkerProcess
from jaxcheck.execution.run import needs_of
from jaxcheck.execution.session import Session
from jaxcheck.execution.state import State
from jaxcheck.execution.truth import of_recipe as truths_of
from jaxcheck.gate.programs import Program
from jaxcheck.goldens.archive import archive_bytes
from jaxcheck.goldens.exchange import INLINE, is_inline, read_tree, write_tree
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.compose import registry_text
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Recipe, Registry
from jaxcheck.registry.select import Selection
from jaxcheck.results import CheckResult, Run, Status, totals
from jaxcheck.wire import Replies

FOLDER, ROOT, NUMBER = b"$FOLDER", b"$ROOT", b"$NUMBER"
RAW, BREAK = b"!", b"\x1e"
TREE, STEPS = "tree.npz", "steps.jsonl"
GIVEN = Path(__file__).parent / "corpus" / "channel" / "run"  # a whole run, of which the goldens are made as well
Scene = Callable[[Path, Registry], object]
KERNELS = "jaxcheck.kernels"
REGISTRY = f"""
version: 1
defaults: {{tolerance: {{float32: {{rtol: 1.0e-6, atol: 1.0e-6}}}}}}
recipes:
  root:
    kernel: {KERNELS}.while_loop:newton_sqrt
    modes: [eager, vmap]
    static: [max_iterations]
    reference: {KERNELS}.while_loop:newton_sqrt_reference
    properties: [{KERNELS}.while_loop:stays_within_limit]
    cases:
      standard: {{args: {{init: 1.0, target: 2.0, max_iterations: 20}}}}
      wrong: {{args: {{init: [1.0], target: 2.0, max_iterations: 20}}, raises: {{type: TypeError}}}}
  slope:
    kernel: {KERNELS}.debug_nans:safe_logarithm
    modes: [eager, grad]
    when: {{jax: ">=0.10"}}
    cases: {{standard: {{args: {{x: [1.0, 2.0]}}}}}}
  spaces:
    kernel: jax.numpy.linalg:eigh
    outputs: {{".eigenvectors": {{comparator: {{eigh: {{values: ".eigenvalues", matrix: a}}}}}}}}
    cases: {{standard: {{args: {{a: [[2.0, 1.0], [1.0, 3.0]]}}}}}}
  apart:
    kernel: {KERNELS}.debug_nans:safe_logarithm
    modes: [eager, sharded]
    devices: 1
    processes: 2
    sharded: {{axes: {{x: 0}}}}
    cases: {{standard: {{args: {{x: [1.0, 2.0]}}}}}}
"""


class Played(WorkerProcess):
    """A worker without a process: what it writes are the next line's bytes."""

    def __init__(self, lines: Iterator[bytes], place: Path) -> None:
        self.stdout, self.stderr = Tail(), Tail()
        self._lines, self._place = lines, place
        self._come, self._ended = Replies(), False
        self._writes = b""
        self._process = cast(Any, SimpleNamespace(poll=lambda: None))

    def _send(self, request: bytes, deadline: float) -> None:
        number, _, text = request.partition(b" ")
        self._writes = answered(next(self._lines, None), number, json.loads(text), self._place)

    def _read(self, wait: float) -> None:
        now, self._writes = self._writes[:READ_BYTES], self._writes[READ_BYTES:]
        self._come.feed(now)
        self._ended |= not now and wait > 0

    def _died(self) -> Death:
        return Death("crash", "the worker ended")

    def lives(self) -> bool:
        return not self._ended and not self._come.waiting

    def kill(self) -> None:
        self._ended = True

    def close(self) -> None:
        """Nothing is open."""


def answered(line: bytes | None, number: bytes, request: Mapping[str, Any], place: Path) -> bytes:
    if line is None:
        return b""
    folder = request.get("folder", "")
    if FOLDER in line and folder:
        shutil.copyfile(place / TREE, Path(folder, TREE))
        shutil.copyfile(place / STEPS, Path(folder, STEPS))
    line = line.replace(FOLDER, folder.encode()).replace(ROOT, str(place).encode())
    if line.startswith(RAW):
        return line[len(RAW) :].replace(NUMBER, number).replace(BREAK, b"\n")
    return number + b" " + line + b"\n"


def channel(folder: Path, data: bytes) -> None:
    """All that the commands make of the answers, which ends in a value or a JaxcheckError."""
    registry = prepared(folder)
    head, *lines = data.split(b"\n")
    name, *recipes = head.decode(errors="replace").split() or [""]
    chosen = {recipe: registry.recipes[recipe] for recipe in recipes if recipe in registry.recipes}
    with contextlib.suppress(JaxcheckError):
        play(SCENES.get(name, run), folder, replace(registry, recipes=chosen or registry.recipes), lines)


def play(scene: Scene, folder: Path, registry: Registry, lines: list[bytes]) -> object:
    left = iter(lines)
    with mock.patch.object(session, "WorkerProcess", side_effect=lambda *_: Played(left, folder)):
        return scene(folder, registry)


@functools.cache
def prepared(folder: Path) -> Registry:
    """The registry, its goldens, and what a worker may have written."""
    (folder / "recipes.yaml").write_text(REGISTRY)
    registry = load_registry(folder / "recipes.yaml")
    state = State(folder / "state")
    state.prepare()
    _, *lines = GIVEN.read_bytes().split(b"\n")
    checked = next(json.loads(line) for line in lines if b'"outputs"' in line)
    write_tree(folder / TREE, read_tree(checked["outputs"])[0], {})
    (folder / STEPS).write_text('{"n": 0, "primitive": "add", "local": NaN, "kind": "origin"}\n')
    for _ in range(2):  # the second time there are goldens
        found = play(run, folder, registry, lines)
        shutil.copytree(state.candidates, folder / "goldens", dirs_exist_ok=True)
    assert isinstance(found, list)
    assert {result.status for result in found} == {Status.PASS}, found
    return registry


def run(folder: Path, registry: Registry) -> list[CheckResult]:
    """As `run --latency` and `bless` do it, one after the other on this thread: threads take most of the time here."""
    goldens, candidates = GoldenStore(folder / "goldens"), GoldenStore(folder / "state" / "candidates")
    with State(folder / "state").scratch() as scratch:
        work = Assignment(registry, Selection(), goldens, candidates, scratch, Here(), latency=2, keep_all=True)
        done = [conduct(work, recipe, its).results for recipe, its in _served(registry)]
    results = [result for one in done for result in one]
    found = Run(jaxcheck="", results=tuple(results), totals=totals(results))
    Run.from_json(found.to_json())
    return results


class Here(Executor):
    """Does at once what it is given."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*given, **named))
        return future


def _served(registry: Registry) -> Iterator[tuple[Recipe, Session]]:
    """Each recipe with its worker: the same one as long as they need the same."""
    for needs, recipes in itertools.groupby(registry.recipes.values(), needs_of):
        with contextlib.closing(Session(Launch(), needs)) as its:
            yield from ((recipe, its) for recipe in recipes)


def truth(folder: Path, registry: Registry) -> None:
    goldens = GoldenStore(folder / "goldens")
    with State(folder / "state").scratch() as scratch:
        for recipe, its in _served(registry):
            chosen = {recipe.name: list(recipe.cases)}
            known = truths_of(str(folder), chosen, goldens, scratch, recipe, its)
            json.dumps([dict(one.extra) for one in known.values()]).encode()


def check(folder: Path, registry: Registry) -> None:
    name_faults(registry)


def init(folder: Path, registry: Registry) -> None:
    registry_text(sketches_of(["a:b", "c:d"], folder, None, 1.0))


def diagnose(folder: Path, registry: Registry) -> None:
    """Every request of a diagnosis, and what becomes of the answer."""
    with Asker(Launch(), Needs(), str(folder), registry.recipes["root"], folder / "asked", 1.0) as asker:
        place = {"mode": "jit", "stored": None}
        written = {**place, "folder": str(folder / "asked")}
        asker.outputs("standard", "jit", None)
        asker.replay(folder / "goldens" / "root.npz", "standard")
        for op in ("walk", "record", "replay_steps"):
            Trace.from_reply(asker.of_case(op, "standard", **written)).tree()
        Sensitivity.from_reply(asker.of_case("sensitivity", "standard", **written))
        fusion_of(asker.of_case("inside", "standard", **place), "here")
        reply = asker.of_case("equations", "standard", **place)
        if "reason" not in reply:
            Program.of(reply)
        for op in ("texts", "program", "repro", "streams", "probe"):
            asker.of_case(op, "standard", **written)


SCENES: Mapping[str, Scene] = {scene.__name__: scene for scene in (run, truth, check, init, diagnose)}


# What a fuzzer makes of it


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(500), 0)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2.5,
    1e308,
    10**400,
    math.nan,
    math.inf,
    "",
    "x",
    "\ud800",
    "a\nb",
    [],
    {},
)
VALUES += (
    "/etc/passwd",
    "$FOLDER/../x",
    f"$FOLDER/{TREE}",
    "$FOLDER",
    "$ROOT/recipes.yaml",
    "npz;base64,",
    [[]],
    ["x"],
)
VALUES += ("value", "raised", "inputs", "skip", "timeout", "x" * 1000, {"a": 1}, [1, 2], DEEP)
ARRAYS = [np.zeros(shape, dtype) for shape in ((), (2,), (0,), (1, 2)) for dtype in ("f4", "f8", "i4", "u4", "c8", "?")]
RAW_LINES = (
    RAW,
    RAW + b"{}\x1e",
    RAW + b"$NUMBER {}\x1e",
    RAW + b"$NUMBER {}\x1e{}\x1e",
    RAW + b"$NUMBER",
    RAW + b"$NUMBER " + b"[" * 100_000,
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """One line otherwise: a value in it, or the line as such."""
    head, *lines = data.split(b"\n")
    if not lines:
        return head + b"\n{}"
    at = draw.randrange(len(lines))
    kind = draw.random()
    if kind < 0.05:
        del lines[at]
    elif kind < 0.1:
        lines[at] = draw.choice(RAW_LINES)
    elif kind < 0.15:
        lines.insert(at, draw.choice(lines))
    else:
        with contextlib.suppress(ValueError, RecursionError):
            lines[at] = json.dumps(_otherwise(json.loads(lines[at]), draw)).encode()
    return b"\n".join([head, *lines])


def _otherwise(value: Any, draw: random.Random) -> Any:
    """The value with a part of it replaced, left out or twice there."""
    if isinstance(value, str) and is_inline(value) and draw.random() < 0.8:
        return _another_tree(value, draw)
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return copy.deepcopy(draw.choice(VALUES))
    key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
    kind = draw.random()
    if kind < 0.1:
        del value[key]
    elif kind < 0.2:
        another = draw.choice(("x", "", "reason", "outputs", "reference", "\ud800"))
        if isinstance(value, dict):
            value[another] = value[key]
        else:
            value.append(value[key])
    else:
        value[key] = _otherwise(value[key], draw)
    return value


def _another_tree(sent: str, draw: random.Random) -> str:
    """What it says of its leaves otherwise, or one of its arrays; it may be no tree any more."""
    try:
        tree, _ = read_tree(sent)
    except JaxcheckError:
        return INLINE
    arrays, meta = {str(n): leaf.words for n, leaf in enumerate(tree.leaves)}, tree.meta()
    if arrays and draw.random() < 0.3:
        arrays[draw.choice(list(arrays))] = draw.choice(ARRAYS)
    if draw.random() < 0.8:
        meta = _otherwise(meta, draw)
    with contextlib.suppress(JaxcheckError, ValueError, TypeError):
        return INLINE + base64.b64encode(archive_bytes("a tree", arrays, {"tree": meta, "meta": {}})).decode()
    return INLINE
