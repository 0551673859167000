"""What the rungs ask of the workers; each thing once, and only when a rung wants it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.asking import Asker
from jaxcheck.diagnose.compiled import fusion_of
from jaxcheck.diagnose.ends import End, Ends
from jaxcheck.diagnose.trace import Trace
from jaxcheck.execution.comparison import Comparison
from jaxcheck.execution.process import Needs
from jaxcheck.execution.run import needs_of
from jaxcheck.gate.programs import Difference, Program, compare_programs
from jaxcheck.goldens.leaf import Tree
from jaxcheck.registry.model import GRADIENT
from jaxcheck.results import Environment, LeafResult
from jaxcheck.results.diagnosis import DiagnosedFusion, DiagnosedKnob

GRACE = 60.0  # seconds beyond a walk's own limit: starting JAX, tracing
TRIALS = (
    3  # calls that must all agree before a divergence is gone: memory that was never written may be right by chance
)
TIME_UP = "the time that was given (--time) is up"


@dataclass(frozen=True)
class Limits:
    """How far a walk may go: equations (None: all) and seconds for the whole diagnosis (None: no limit); and whether
    what the outcome hangs on is measured."""

    equations: int | None = None
    seconds: float | None = None
    sensitivity: bool = True


class Window(NamedTuple):
    """Operations of the golden's program, and those in their place now; each with primitive, scope, file and line."""

    old: list[dict[str, Any]]
    new: list[dict[str, Any]]


class Inquiry:
    """The evidence. It keeps a worker for each side until it is closed."""

    def __init__(self, ends: Ends, folder: Path, limits: Limits) -> None:
        self.ends, self.folder, self.limits = ends, folder, limits
        self.question, self.recipe, self.case, self.mode = ends.question, ends.recipe, ends.question.case, ends.mode
        self.knobs: list[DiagnosedKnob] = []
        self._started = time.monotonic()
        self._stack = ExitStack()
        self._askers: dict[str, Asker] = {}

    def __enter__(self) -> Inquiry:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def say(self, text: str) -> None:
        self.question.conduct.say(text)

    @property
    def needs(self) -> Needs:
        return needs_of(self.recipe)

    @property
    def timeout(self) -> float:
        return self.question.conduct.timeout or self.recipe.case(self.case).timeout

    def left(self) -> float | None:
        """Seconds that are left of the time given; None where there is no limit."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (time.monotonic() - self._started))

    @property
    def late(self) -> bool:
        return self.left() == 0.0

    def asker(self, end: End, name: str, needs: Needs | None = None, config: Mapping[str, Any] | None = None) -> Asker:
        """A new worker of a side; the caller closes it."""
        assert end.launch is not None, "this side has no environment at hand"
        root = self.question.project.registry.root
        place = self.folder / name
        return Asker(end.launch, needs or self.needs, root, self.recipe, place, self.timeout, config)

    @cached_property
    def now(self) -> Asker:
        return self._stack.enter_context(self.asker(self.ends.now, "now"))

    @cached_property
    def before(self) -> Asker:
        """The other side's worker: the same one where only one environment is meant."""
        if self.question.of_versions:
            return self._stack.enter_context(self.asker(self.ends.before, "before"))
        return self.now

    @property
    def stored(self) -> str | None:
        """The file with the inputs that were run."""
        return str(self.ends.now.stored) if self.ends.now.stored else None

    @cached_property
    def walked(self) -> Trace:
        """The walk over this side's program, each equation with its own inputs; for two versions, the new one's with
        the old one's inputs."""
        self.say("first equation: one after the other")
        limits: dict[str, Any] = {"most_equations": self.limits.equations, "seconds": self.left()}
        patience = (self.left() or self.timeout) + GRACE
        request = {"mode": self.mode, "stored": self.stored, **limits}
        if not self.question.of_versions:
            folder = self.made("walk")
            return Trace.from_reply(self.now.of_case("walk", self.case, timeout=patience, folder=folder, **request))
        folder = self.made("recorded")
        stored = str(self.ends.before.stored) if self.ends.before.stored else self.stored
        given = {**request, "stored": stored}
        recorded = self.before.of_case("record", self.case, timeout=patience, folder=folder, **given)
        if recorded.get("reason"):
            return Trace(reason=f"the old program cannot be recorded: {recorded['reason']}")
        place = self.made("replayed")
        asked = {**request, "recording": recorded.get("recording", folder), "folder": place}
        return Trace.from_reply(self.now.of_case("replay_steps", self.case, timeout=patience, **asked))

    def made(self, name: str) -> str:
        """A folder for what a worker writes."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        return str(place)

    @cached_property
    def apart(self) -> tuple[End, str] | None:
        """The side on which the compiled and the plain call differ, this one first, and by how much; None where they
        have the same bits, or one of them gave nothing."""
        for end in (self.ends.now, self.ends.before) if self.question.of_versions else (self.ends.now,):
            eager, jit = (end.outputs.get(mode) for mode in ("eager", "jit"))
            if eager is not None and jit is not None:
                leaves = self.compare(eager, jit, "eager")
                if not leaves or any(leaf.moved for leaf in leaves):
                    return end, sentences.moved(leaves) or "another tree of outputs"
        return None

    @cached_property
    def compiled(self) -> DiagnosedFusion | str:
        """The first equation that is another inside the compiled function; or why it is not known."""
        if self.apart is None:
            return "the compiled and the plain call do not differ"
        if self.late:
            return TIME_UP
        self.say("inside the compiled function: reading intermediate values")
        end, seconds = self.apart[0], self.left() or self.timeout
        asker = self.now if end is self.ends.now else self.before
        request = {"mode": "jit", "stored": str(end.stored) if end.stored else None, "seconds": seconds}
        return fusion_of(asker.of_case("inside", self.case, timeout=seconds + GRACE, **request), end.label)

    @property
    def read_inside(self) -> DiagnosedFusion | None:
        """The same as far as somebody asked, and it is known."""
        found = vars(self).get("compiled")
        return found if isinstance(found, DiagnosedFusion) else None

    @cached_property
    def programs(self) -> Difference | str:
        """What differs between the two traced programs of a version comparison; or why it is not known."""
        asked = []
        for asker, end in ((self.before, self.ends.before), (self.now, self.ends.now)):
            stored = str(end.stored) if end.stored else None
            reply = asker.of_case("equations", self.case, mode=self.mode, stored=stored)
            if "reason" in reply:
                return f"the program of {end.label} cannot be read: {reply['reason']}"
            asked.append(Program.of(reply))
        return compare_programs(*asked)

    @cached_property
    def program(self) -> Program | str:
        """This side's traced program, or why there is none."""
        reply = self.now.of_case("equations", self.case, mode=self.mode, stored=self.stored)
        return str(reply["reason"]) if "reason" in reply else Program.of(reply)

    @cached_property
    def draws(self) -> bool | None:
        """Whether the program draws random numbers; None where it cannot be read."""
        if isinstance(self.program, str):
            return None
        return any(one.primitive.startswith(("random_", "threefry", "rng_")) for one in self.program.equations)

    @cached_property
    def replayed(self) -> Tree | str:
        """What the golden's own program gives here at the golden's inputs; or why nothing."""
        if self.ends.golden_path is None:
            return "there is no golden"
        return self.now.replay(self.ends.golden_path, self.case)

    @cached_property
    def windows(self) -> list[Window] | str:
        """Where the golden's lowered program and this one's differ; or why that is not known."""
        reply = self.now.of_case("texts", self.case, stored=self.stored, golden=str(self.ends.golden_path))
        if "windows" not in reply:
            return str(reply.get("reason", "no answer"))
        return [Window(list(old), list(new)) for old, new in reply["windows"]]

    def compare(self, expected: Tree, actual: Tree, against: str) -> tuple[LeafResult, ...]:
        """Two trees of outputs under the recipe's tolerances; none where the trees as such differ."""
        environment = self.ends.now.environment
        comparison = Comparison(self.recipe, environment.backend if environment else "cpu", self.ends.now.inputs)
        return comparison.trees("golden", expected, actual, "differs", against)[1]

    def still(self, expected: Tree | str, actual: Tree | str) -> tuple[bool, tuple[LeafResult, ...]] | str:
        """Whether two outputs diverge as the ones that are diagnosed do; or why that is not known.

        Where these were beyond tolerance, so must be what still diverges; where only bits differed, any bit counts.
        """
        for tree in (expected, actual):
            if isinstance(tree, str):
                return tree
        assert isinstance(expected, Tree)
        assert isinstance(actual, Tree)
        leaves = self.compare(expected, actual, "golden")
        if not leaves:
            return "the outputs have another structure"
        if any(leaf.reason for leaf in self.ends.leaves):
            return any(leaf.reason for leaf in leaves), leaves
        return any(leaf.moved for leaf in leaves), leaves

    def diverges_under(
        self, needs: Needs, config: Mapping[str, Any] | None, name: str, asker: Asker | None = None
    ) -> bool | str:
        """Whether it still diverges in fresh workers that are started otherwise, or why that is not known.

        `asker` is such a worker of this side, where there is one already.
        """
        with ExitStack() as stack:
            worker = asker or stack.enter_context(self.asker(self.ends.now, f"{name}-now", needs, config))
            other: Asker | None = None
            if self.question.of_versions:
                other = stack.enter_context(self.asker(self.ends.before, f"{name}-before", needs, config))
            for _ in range(TRIALS):
                still = self.still(self._expected(worker, other), self._outputs(worker, self.mode, self.ends.now))
                if isinstance(still, str) or still[0] or self.late:
                    break
            return still if isinstance(still, str) else still[0]

    def _expected(self, worker: Asker, other: Asker | None) -> Tree | str:
        """What this side's outputs are held against in a trial; `other` is the other environment's worker."""
        if self.question.of_modes:
            return self._outputs(worker, self.question.against, self.ends.now)
        if other is not None:
            return self._outputs(other, self.mode, self.ends.before)
        return self.ends.expected or "there is nothing to compare with"

    def _outputs(self, asker: Asker, mode: str, end: End) -> Tree | str:
        found = asker.outputs(self.case, mode, str(end.stored) if end.stored else None)
        return found.under(GRADIENT) if mode == GRADIENT and isinstance(found, Tree) else found

    @property
    def environments(self) -> tuple[Environment | None, Environment | None]:
        return self.ends.before.environment, self.ends.now.environment
