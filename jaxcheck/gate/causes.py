"""Finds out who moved what moved: exports, replays and equations of those checks only, in a worker of each side."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxcheck.errors import GoldenError, JaxcheckError, Unavailable
from jaxcheck.execution.conduct import recipe_message
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.run import needs_of
from jaxcheck.execution.saved import SavedRun
from jaxcheck.execution.session import Session, open_session
from jaxcheck.gate.cause import CONFIG, Cause, Facts, Measured, Replayed, decide
from jaxcheck.gate.programs import Difference, Program, compare_programs
from jaxcheck.goldens.exchange import read_tree
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import Recipe, Registry
from jaxcheck.registry.select import check_id
from jaxcheck.results import Environment

WHOLE = ""  # in the place of a leaf's path: the check as such, where the candidate gives no outputs
AS_UNDER_JIT = "(as under jit)"
SAME_AS_JIT = "(the bits are those under jit)"
PLAIN = ("eager", "disable_jit")
OWN_PROGRAMS = ("vmap", "grad")  # modes that trace something else than the kernel


@dataclass(frozen=True)
class Half:
    """One side of a gate: its saved run, and how its workers are started (None: its environment is not at hand)."""

    label: str
    saved: SavedRun
    launch: Launch | None


@dataclass(frozen=True)
class Moved:
    """A check, and the paths of the leaves that moved; none where the candidate gives no outputs at all."""

    recipe: str
    case: str
    mode: str
    leaves: tuple[str, ...] = ()
    unstable: bool = False

    @property
    def id(self) -> str:
        return check_id(self.recipe, self.case, self.mode)


@dataclass(frozen=True)
class Differing:
    """What differs between the sides: packages (with another version; "-": not there), settings, the user's files."""

    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    @classmethod
    def between(cls, before: SavedRun, after: SavedRun, packages: Mapping[str, tuple[str, str]]) -> Differing:
        """As the two runs say it; `packages` as the environments do."""
        old, new = before.run, after.run
        sources = [path for path, digest in old.sources.items() if new.sources.get(path, digest) != digest]
        settings = settings_apart(old.environment, new.environment) if old.environment and new.environment else {}
        return cls(packages, settings, tuple(Path(path).name for path in sources))


def settings_apart(before: Environment, after: Environment) -> dict[str, tuple[str, str]]:
    """{setting: (before, now)} of all that could move a number besides packages, by the names that `decide` knows."""
    names = {
        "x64": "x64",
        "matmul_precision": "matmul precision",
        "prng_impl": "PRNG",
        "threefry_partitionable": "threefry partitionable",
        "backend": "backend",
        "device_kind": "device",
        "device_count": "devices",
        "cpu": "CPU",
        "cpu_count": "cores",
        "cpu_features": "CPU features",
        "xla_flags": "XLA flags",
        "platform": "platform",
        "python": "Python",
    }
    pairs = {name: (getattr(before, said), getattr(after, said)) for said, name in names.items()}
    for option in sorted({*before.config, *after.config}):
        if "cache" not in option:  # where executables are kept moves nothing
            pairs[CONFIG + option] = (before.config.get(option, "default"), after.config.get(option, "default"))
    return {name: (str(old) or "none", str(new) or "none") for name, (old, new) in pairs.items() if old != new}


def find_causes(
    registry: Registry,
    moved: Sequence[Moved],
    before: Half,
    after: Half,
    differing: Differing,
    folder: Path,
    timeout: float | None = None,
) -> dict[tuple[str, str], Cause]:
    """{(check, leaf): cause}, with the leaf `WHOLE` for a check whose candidate gives no outputs.

    A worker that dies over a check costs that check's cause. `folder` is scratch space.
    """
    found: dict[tuple[str, str], Cause] = {}
    turns = Turns() if has_room_for_one(registry, moved, before, after) else None
    limits = timeout, turns
    sides = Side(registry, before, folder / "old", *limits), Side(registry, after, folder / "new", *limits)
    pool = ThreadPoolExecutor(1, "old side")
    try:
        inquiry = Inquiry(*sides, differing, pool)
        for check in sorted(moved, key=lambda one: (str(needs_of(registry.recipes[one.recipe])), one.mode != "jit")):
            found |= inquiry.same_as_jit(check, found) or inquiry.causes(check)
    finally:
        for side in sides:
            side.stop()
        pool.shutdown()
        for side in sides:
            side.close()
    return {**found, **_as_under_jit(moved, found)}


def _as_under_jit(moved: Sequence[Moved], found: Mapping[tuple[str, str], Cause]) -> dict[tuple[str, str], Cause]:
    """For what could not be told in another mode: the cause under jit, where the case moved there too."""
    borrowed = {}
    for check in moved:
        jit = check_id(check.recipe, check.case, "jit")
        known = {leaf: cause for (id_, leaf), cause in found.items() if id_ == jit and cause.kind != "undetermined"}
        for leaf in check.leaves:
            own = found[check.id, leaf]
            if own.kind != "undetermined" or check.unstable or check.mode == "jit" or not known:
                continue
            theirs = known.get(leaf)
            if theirs is None and len({(cause.kind, cause.package) for cause in known.values()}) == 1:
                theirs = next(iter(known.values()))
            if theirs is not None:
                details = (f"in this mode: {own.because}", *theirs.details)
                borrowed[check.id, leaf] = replace(theirs, because=f"{theirs.because} {AS_UNDER_JIT}", details=details)
    return borrowed


@dataclass(frozen=True)
class Ran:
    """What a program gave, or why nothing; and a digest of its text, as the runtime reads it that it was run on."""

    gave: Tree | str
    text: str = ""


def has_room_for_one(registry: Registry, moved: Sequence[Moved], *halves: Half) -> bool:
    """Whether a cluster cannot hold a worker of each side at once."""
    needs = {needs_of(registry.recipes[check.recipe]) for check in moved}
    clusters = [half.launch.elsewhere for half in halves if half.launch and half.launch.elsewhere]
    return any(cluster.room(one) < len(halves) for cluster in clusters for one in needs)


class Turns:
    """One place for the workers of both sides: who asks has it, and the other's worker is let go before."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder: Side | None = None

    @contextmanager
    def of(self, side: Side) -> Iterator[None]:
        with self._lock:
            if self._holder not in (None, side):
                self._holder.close()
            self._holder = side
            yield


class Side:
    """Asks the workers of one side; one that does not start, or dies, gives the reason as its answer."""

    def __init__(
        self, registry: Registry, half: Half, folder: Path, timeout: float | None, turns: Turns | None = None
    ) -> None:
        self.half, self._turns = half, turns
        self._registry, self._folder, self._timeout = registry, folder, timeout
        self._session: Session | None = None
        self._needs: Needs | None = None
        self._prepared: dict[str, tuple[int, str]] = {}

    def outputs(self, check: Moved) -> Tree | None:
        case = self.half.saved.cases(check.recipe).get(check.case)
        return case.outputs.get(check.mode) if case else None

    def program(self, check: Moved, stored: str | None) -> dict[str, Any]:
        """The program of a check, exported by this side."""
        request = {"op": "program", "case": check.case, "mode": check.mode, "stored": stored}
        return self._prepared_request(check, {**request, "folder": str(self._scratch(check))})

    def replay(self, check: Moved, program: Mapping[str, Any]) -> Ran:
        """What a program gives here, or why nothing. `program`: what `program` answered, of either side."""
        if "reason" in program:
            return Ran(str(program["reason"]))
        config = {n: v for n, v in self._recipe(check).config.items() if n.removeprefix("jax_") != "enable_x64"}
        request = {"op": "replay", **program, "config": config, "folder": str(self._scratch(check))}
        with self._turn():
            reply = self._request(check, {"case": None, **request})
        if "reason" in reply:
            return Ran(str(reply["reason"]))
        try:
            return Ran(read_tree(reply["outputs"])[0], reply["text"])
        except GoldenError as error:
            return Ran(str(error))

    def equations(self, check: Moved, stored: str | None) -> Program | str:
        request = {"op": "equations", "case": check.case, "mode": check.mode, "stored": stored}
        reply = self._prepared_request(check, request)
        return str(reply["reason"]) if "reason" in reply else Program.of(reply)

    def _recipe(self, check: Moved) -> Recipe:
        return self._registry.recipes[check.recipe]

    def _scratch(self, check: Moved) -> Path:
        folder = self._folder / hashlib.sha256(check.id.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _prepared_request(self, check: Moved, message: Mapping[str, Any]) -> dict[str, Any]:
        with self._turn():
            reason = self._prepare(check)
            return {"reason": reason} if reason else self._request(check, {**message, "recipe": check.recipe})

    def _turn(self) -> AbstractContextManager[None]:
        return self._turns.of(self) if self._turns else nullcontext()

    def _prepare(self, check: Moved) -> str:
        """Makes the worker know the recipe; why it cannot, or nothing."""
        generation, reason = self._prepared.get(check.recipe, (-1, ""))
        if self._session is None or generation != self._session.generation or self._needs != self._wanted(check):
            message = {"op": "prepare", "recipe": recipe_message(self._recipe(check), self._registry.root)}
            reply = self._request(check, message)
            broken = [text for case, _, text in reply.get("faults", ()) if case is None]
            reason = reply.get("reason") or "; ".join(broken)
            if self._session is not None:
                self._prepared[check.recipe] = self._session.generation, reason
        return reason

    def _wanted(self, check: Moved) -> Needs:
        return needs_of(self._recipe(check))

    def _request(self, check: Moved, message: Mapping[str, Any]) -> dict[str, Any]:
        if self.half.launch is None:
            return {"reason": f"the environment of {self.half.label} is not at hand"}
        needs = self._wanted(check)
        if self._session is None or self._needs != needs:
            self.close()
            self._session, self._needs, self._prepared = open_session(self.half.launch, needs), needs, {}
        try:
            self._session.start()
        except Unavailable as error:
            return {"reason": str(error).splitlines()[0]}
        reply = self._session.request(message, self._timeout or self._recipe(check).case(check.case).timeout)
        self._session.output()
        return {"reason": reply.reason} if isinstance(reply, Death) else reply

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def stop(self) -> None:
        """Also from another thread, in the middle of a request; `close` has to follow."""
        if self._session is not None:
            self._session.stop()


class Inquiry:
    """Asks both sides about one check after the other."""

    def __init__(self, old: Side, new: Side, differing: Differing, pool: ThreadPoolExecutor) -> None:
        self._old, self._new, self._differing, self._pool = old, new, differing, pool
        self._differences: dict[tuple[str, str, str], Difference | str] = {}

    def causes(self, check: Moved) -> dict[tuple[str, str], Cause]:
        """The cause of each leaf that moved."""
        try:
            stored = self._stored(check)
        except JaxcheckError as error:
            because = str(error)
            return {(check.id, leaf): Cause("undetermined", because) for leaf in check.leaves or (WHOLE,)}
        measured, same = self._measure(check, stored)
        difference = Difference() if same else self._difference(check, stored)
        return {
            (check.id, leaf): decide(self._facts(check, leaf, measured, difference)) for leaf in self._leaves(check)
        }

    def same_as_jit(self, check: Moved, found: Mapping[tuple[str, str], Cause]) -> dict[tuple[str, str], Cause] | None:
        """The causes under jit, where the plain call gave the bits that jit gave, before and now; None elsewhere.

        To run a program one operation after the other is most of the work that a cause takes.
        """
        jit = replace(check, mode="jit")
        known = {leaf: cause for leaf in check.leaves if (cause := found.get((jit.id, leaf))) is not None}
        told = len(known) == len(check.leaves) and all(cause.kind != "undetermined" for cause in known.values())
        if check.mode not in PLAIN or check.unstable or not known or not told:
            return None
        for side in (self._old, self._new):
            mine, theirs = (tree.by_path if (tree := side.outputs(one)) else {} for one in (check, jit))
            if not all(leaf in mine and leaf in theirs and same_bits(mine[leaf], theirs[leaf]) for leaf in known):
                return None
        return {
            (check.id, leaf): replace(cause, because=f"{cause.because} {SAME_AS_JIT}") for leaf, cause in known.items()
        }

    @staticmethod
    def _leaves(check: Moved) -> tuple[str, ...]:
        return check.leaves or (WHOLE,)

    def _stored(self, check: Moved) -> tuple[str | None, str | None]:
        """The goldens that hold each side's inputs; GoldenError where these are not the same."""
        inputs: list[dict[str, Any] | None] = []
        paths: list[str | None] = []
        for side in (self._old, self._new):
            golden = side.half.saved.golden(check.recipe)
            held = None
            if golden is not None:
                with golden:
                    held = golden.summary(check.case).inputs if check.case in golden.cases else None
            inputs.append(held)
            paths.append(str(golden.path) if golden is not None and held is not None else None)
        if inputs[0] is not None and inputs[1] is not None and inputs[0] != inputs[1]:
            pairs = zip(inputs[0]["leaves"], inputs[1]["leaves"], strict=False)
            apart = [old["path"] for old, new in pairs if old != new] or ["their structure"]
            raise GoldenError(f"the two runs were given different inputs: {', '.join(apart)}")
        return paths[0] or paths[1], paths[1] or paths[0]

    def _measure(self, check: Moved, stored: tuple[str | None, str | None]) -> tuple[Mapping[str, Tree | str], bool]:
        """What each program gave on each runtime, or why nothing: `old`, `new`, and `crossed`, the old on the new; and
        whether both are one program, as the new runtime reads them."""
        own = self._pool.submit(self._own, self._old, check, stored[0])
        _, new = self._own(self._new, check, stored[1])
        program, old = own.result()
        if self._old.half.launch is None and check.mode == "jit":  # what its run left is all that there is
            path = self._old.half.saved.golden_path(check.recipe)
            if path is not None:
                program = {"program": str(path), "sha256": None, "case": check.case}
        if not check.unstable and isinstance(old.gave, Tree) and not self._controls(check, old.gave):
            crossed = Ran("the control failed, so that it would tell nothing")
        else:
            crossed = self._new.replay(check, program)
        same = bool(new.text) and new.text == crossed.text
        return {"old": old.gave, "new": new.gave, "crossed": crossed.gave}, same

    def _controls(self, check: Moved, old: Tree) -> bool:
        """Whether the old program gives the ordinary bits of any leaf that moved, where it was made."""
        outputs = self._old.outputs(check)
        return any(compared(old, outputs, outputs, leaf).equal for leaf in self._leaves(check))

    @staticmethod
    def _own(side: Side, check: Moved, stored: str | None) -> tuple[dict[str, Any], Ran]:
        program = side.program(check, stored)
        return program, side.replay(check, program)

    def _difference(self, check: Moved, stored: tuple[str | None, str | None]) -> Difference | str:
        """Between the two traced programs, once for all modes that trace the same; or why it is not known."""
        form = check.mode if check.mode in OWN_PROGRAMS else "jit"
        key = (check.recipe, check.case, form)
        if key not in self._differences:
            traced = replace(check, mode=form)
            waiting = self._pool.submit(self._old.equations, traced, stored[0])
            new, old = self._new.equations(traced, stored[1]), waiting.result()
            failed = next((program for program in (old, new) if isinstance(program, str)), None)
            if failed is not None:
                self._differences[key] = failed
            else:
                assert isinstance(old, Program)
                assert isinstance(new, Program)
                self._differences[key] = compare_programs(old, new)
        return self._differences[key]

    def _facts(
        self, check: Moved, leaf: str, measured: Mapping[str, Tree | str], difference: Difference | str
    ) -> Facts:
        outputs = {"old": self._old.outputs(check), "new": self._new.outputs(check)}
        old, new = (compared(measured[side], outputs[side], outputs[side], leaf) for side in ("old", "new"))
        as_old = compared(measured["crossed"], outputs["old"], outputs["old"], leaf)
        as_new = compared(measured["crossed"], outputs["new"], outputs["old"], leaf)
        if isinstance(measured["crossed"], str):
            replayed = Replayed(None, measured["crossed"])
        else:
            ends = {(True, True): "both", (True, False): "old", (False, True): "new"}
            replayed = Replayed(ends.get((bool(as_old.equal), bool(as_new.equal)), "neither"))  # type: ignore[arg-type]
        facts = Facts(
            control_old=old,
            control_new=new,
            replayed=replayed,
            differs=None if isinstance(difference, str) else bool(difference),
            packages=frozenset() if isinstance(difference, str) else difference.packages,
            changes=self._differing.packages,
            settings=self._differing.settings,
            sources=self._differing.sources,
            unstable=check.unstable,
            raises=outputs["new"] is None,
        )
        return replace(facts, details=tuple(_details(facts, difference)))


def compared(replayed: Tree | str, ordinary: Tree | None, order: Tree | None, path: str) -> Measured:
    """Whether a program gave the bits that the check did, at one leaf or (`WHOLE`) everywhere.

    A program's outputs have no paths: `order` is the tree whose leaves stand in their order.
    """
    if isinstance(replayed, str):
        return Measured(None, replayed)
    if ordinary is None or order is None:
        return Measured(None, "the check gave no outputs")
    if len(replayed.leaves) != len(order.leaves):
        return Measured(None, f"the program has {len(replayed.leaves)} outputs, the check {len(order.leaves)}")
    wanted = [leaf.path for leaf in order.leaves if path in (WHOLE, leaf.path)]
    found = {leaf.path: program for leaf, program in zip(order.leaves, replayed.leaves, strict=True)}
    if not wanted or any(one not in ordinary.by_path for one in wanted):
        return Measured(False, "the check has no such output")
    return Measured(all(same_bits(found[one], ordinary.by_path[one]) for one in wanted))


def same_bits(one: Leaf, other: Leaf) -> bool:
    """All bits, but for those of a NaN; typed keys by their data. A weak type is no bit.

    Of a leaf that is not kept whole the digest tells, and knows no NaN from another.
    """
    if one.excerpt or other.excerpt:
        return one.digest == other.digest
    if one.words.shape != other.words.shape or one.words.dtype != other.words.dtype:
        return False
    if one.impl is None and other.impl is None and one.dtype != other.dtype:
        return False
    same = np.ascontiguousarray(one.words).tobytes() == np.ascontiguousarray(other.words).tobytes()
    if same or one.words.dtype.kind not in "fc":
        return same
    nan = np.isnan(one.words) & np.isnan(other.words)
    left, right = (np.where(nan, 0, leaf.words).astype(leaf.words.dtype) for leaf in (one, other))
    return left.tobytes() == right.tobytes()


def _details(facts: Facts, difference: Difference | str) -> Iterator[str]:
    """The measurements, one a line, and what differs between the programs."""
    yield f"old program, old runtime: {_bits(facts.control_old)}"
    yield f"new program, new runtime: {_bits(facts.control_new)}"
    gives = {"old": "the old bits", "new": "the new bits", "both": "the same bits as both", "neither": "other bits"}
    replayed = facts.replayed
    yield f"old program, new runtime: {gives[replayed.gives] if replayed.gives else f'not run ({replayed.reason})'}"
    if isinstance(difference, str):
        yield f"the traced programs were not compared ({difference})"
    elif difference:
        yield from difference.lines()
    else:
        yield "the traced programs and their lowering are the same"


def _bits(measured: Measured) -> str:
    if measured.equal is None:
        return f"not run ({measured.reason})"
    return "the ordinary bits" if measured.equal else "other bits than the ordinary run"
