"""Measures how often `jaxcheck diagnose` names the right equation: faults at known equations, and programs without any.

Every shipped recipe is walked as it is, in the modes that are programs of their own (a plain and a compiled call are
walked alike), and no origin may be found, unless an independent formula says that the operation is really wrong. Then
executions are drawn, with a seed: in each recipe, and in each part of a training step of a transformer
(scripts/seeded/transformer.py). One is made wrong at a time, and the diagnosis must name it.

A fault that changes no value (a sign of 0, a bfloat16 rounding of 1) is none: another is drawn.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from circumstances import circumstances

from jaxcheck.diagnose.scopes import is_gradient, labels, stage
from jaxcheck.diagnose.trace import Trace, excess, read_steps
from jaxcheck.execution.conduct import recipe_message
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Recipe
from jaxcheck.results.diagnosis import DiagnosedStep

ROOT = Path(__file__).resolve().parents[2]
SEEDED = ROOT / "scripts" / "seeded"
SHIPPED, BLOCK = ROOT / "recipes.yaml", SEEDED / "recipes.yaml"
DEVICES = 4  # as many as a shipped recipe asks for
TOO_LONG = {"random-gamma": "its five loops, one equation each, take longer to compile than all else"}
IN_A_RECIPE, IN_A_PART = 2, 2  # faults for each recipe; for each part of the block and each kind of fault
DRAWS = 50
RIGHT = 0.95
# Scopes of the block's functions with rules of their own: JAX leaves no other trace of these in a gradient.
OWN_RULES = frozenset({"activation", "activation_rule", "norm", "norm_rule"})
BRIEF = {
    "train-step": "asymmetric",
    "recurrent-cell": "single",
    "newton-sqrt-fixed-steps": "small",
    "apply-if-finite": "standard",
    "float8-casts": "largest",
    "lgamma-near-roots": "one",
}
BRIEF_FAULTS = 6  # in the block


@dataclass(frozen=True)
class Clean:
    """A walk of a program as it is: the first origin that it reports, and whether that is really wrong."""

    program: str
    equations: int
    seconds: float
    origin: str = ""
    really_wrong: bool = False
    left_out: str = ""


@dataclass(frozen=True)
class Injected:
    """A fault, and what the diagnosis made of it. `redrawn`: how many were drawn before that changed nothing."""

    program: str
    kind: str
    n: int
    primitive: str
    scope: str
    stage: str
    inside: str
    redrawn: int
    found: int | None
    found_scope: str | None
    reason: str = ""

    @property
    def at(self) -> str:
        return f"{self.kind} at {self.primitive} ({self.n}) in {self.scope or 'no scope'}"

    @property
    def right(self) -> bool:
        return self.found == self.n

    @property
    def right_scope(self) -> bool:
        return self.found_scope == self.scope


@dataclass
class Rates:
    """Everything that was measured."""

    clean: list[Clean] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    undrawn: int = 0  # faults for which no draw changed anything
    seconds: float = 0.0

    def add(self, other: Rates) -> None:
        self.clean += other.clean
        self.faults += other.faults
        self.undrawn += other.undrawn

    def wrong(self, brief: bool) -> list[str]:
        """What does not hold of what should."""
        walked = [each for each in self.clean if not each.left_out]
        right = sum(each.right for each in self.faults)
        found = [f"{each.program}: {each.origin}, without a fault" for each in walked if false_origin(each)]
        if right < RIGHT * len(self.faults):
            found.append(f"{right} of {len(self.faults)} origins are right, fewer than {RIGHT:.0%}")
        found += [f"{each.program}: {each.n} is in another scope" for each in self.faults if not each.right_scope]
        if not brief and (len(self.faults) < 100 or len({each.program for each in walked}) < 100):
            found.append(f"{len(self.faults)} faults and {len(walked)} programs are too few")
        return found


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    begun = time.monotonic()
    rates = Rates()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), initializer=start) as pool:
        for part in pool.map(measured, tasks(options.brief, options.seed), chunksize=1):
            rates.add(part)
    rates.seconds = time.monotonic() - begun
    print(as_markdown(rates))
    if options.json:
        options.json.write_text(json.dumps(as_data(rates), indent=1) + "\n")
    wrong = rates.wrong(options.brief)
    for line in wrong:
        print(f"faults: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/faults origins", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brief", action="store_true", help="a sample: six programs and a dozen faults")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (default: 0)")
    parser.add_argument("-j", "--jobs", type=int, default=2, metavar="N", help="worker processes (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every fault and every program there")
    return parser.parse_args(arguments)


# ---- What is done ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A recipe, for one process. `case` None: all of them; `part` None: no part of the block, but anywhere."""

    registry: Path
    recipe: str
    case: str | None
    seed: int
    kinds: tuple[str | None, ...]  # of the faults; None: one that is drawn
    parts: bool = False


def tasks(brief: bool, seed: int) -> list[Task]:
    """The longest first, so that no process waits for the other."""
    if brief:
        shipped = [Task(SHIPPED, recipe, case, seed, (None,)) for recipe, case in BRIEF.items()]
        return [Task(BLOCK, "transformer", "standard", seed, (None,) * BRIEF_FAULTS), *shipped]
    shipped = [Task(SHIPPED, recipe, None, seed, (None,) * IN_A_RECIPE) for recipe in load_registry(SHIPPED).recipes]
    kinds = ("bf16", "sign", "constant", "dropped", "nan")
    block = [Task(BLOCK, "transformer", case, seed, kinds, parts=True) for case in ("standard", "short")]
    return [*block, *shipped]


def start() -> None:
    """A process of its own: the worker's backend, with the block's folder to import from."""
    global SERVICE, REGISTRIES
    from jaxcheck.worker.service import Service

    SERVICE = Service()
    SERVICE.start("cpu", DEVICES, False, [str(ROOT), str(SEEDED)])
    REGISTRIES = {path: load_registry(path) for path in (SHIPPED, BLOCK)}


SERVICE: Any = None
REGISTRIES: dict[Path, Any] = {}


def measured(task: Task) -> Rates:
    registry = REGISTRIES[task.registry]
    recipe: Recipe = registry.recipes[task.recipe]
    reply = SERVICE.prepare(recipe_message(recipe, str(Path(registry.root))))
    assert not reply["faults"], reply["faults"]
    cases = [name for name in reply["cases"] if task.case in (None, name) and not raises(recipe, name)]
    modes = ["jit", *(["grad"] if "grad" in recipe.modes else [])]
    rates = Rates()
    draw = random.Random(f"{task.seed} {task.recipe} {task.case}")
    sound: list[tuple[str, str, list[DiagnosedStep]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for case, mode in ((case, mode) for case in cases for mode in modes):
            clean, steps = walked(recipe.name, case, mode, folder)
            rates.clean.append(clean)
            if not clean.origin and not clean.left_out:
                sound.append((case, mode, steps))
        if sound:
            for places, kind in wanted(task, sound, draw):
                fault = inject(recipe.name, places, kind, draw, folder)
                rates.undrawn += fault is None
                rates.faults += [fault] if fault else []
    return rates


def raises(recipe: Recipe, case: str) -> bool:
    return case in recipe.cases and recipe.cases[case].raises is not None


def asked(recipe: str, case: str, mode: str, folder: str, **more: Any) -> dict[str, Any]:
    """A walk, as the parent of a worker asks for it."""
    where = {"recipe": recipe, "case": case, "mode": mode, "stored": None, "folder": folder}
    reply: dict[str, Any] = SERVICE.answer({"op": "walk", **where, **more})
    return reply


def walked(recipe: str, case: str, mode: str, folder: str) -> tuple[Clean, list[DiagnosedStep]]:
    """A walk without faults, and its steps."""
    program, begun = f"{recipe}::{case}[{mode}]", time.monotonic()
    if recipe in TOO_LONG:
        return Clean(program, 0, 0.0, left_out=TOO_LONG[recipe]), []
    reply = asked(recipe, case, mode, folder)
    seconds = time.monotonic() - begun
    if "reason" in reply:
        return Clean(program, 0, seconds, left_out=reply["reason"]), []
    steps = list(read_steps(Path(reply["steps"])))
    origins = [step for step in steps if step.kind == "origin"]
    told = "; ".join(f"{step.primitive}, {excess(step):.3g} times its bound" for step in origins[:3])
    wrong = bool(origins) and all(map(really_wrong, origins))
    return Clean(program, len(steps), seconds, told, wrong), steps


def false_origin(clean: Clean) -> bool:
    return bool(clean.origin) and not clean.really_wrong


# ---- Faults ----------------------------------------------------------------------------------------------------------

Place = tuple[str, str, DiagnosedStep]  # (case, mode, an execution)


def wanted(
    task: Task, sound: list[tuple[str, str, list[DiagnosedStep]]], draw: random.Random
) -> Iterator[tuple[list[Place], str | None]]:
    """(the executions to draw from, the kind of the fault or None): one for each fault."""
    if not task.parts:
        for kind in task.kinds:
            case, mode, steps = draw.choice(sound)
            yield [(case, mode, step) for step in steps], kind
        return
    places = [(case, mode, step) for case, mode, steps in sound for step in steps]
    parts: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        parts.setdefault((stage_of(place[2]), inside(place[2])), []).append(place)
    for part in parts.values():
        for kind in task.kinds:
            yield from [(part, kind)] * IN_A_PART


def stage_of(step: DiagnosedStep) -> str:
    """Where in a training step."""
    return "backward" if is_gradient(step.scope) else "update" if stage(step.scope) == "update" else "forward"


def inside(step: DiagnosedStep) -> str:
    """What it is in: a rule of one's own before a loop or a branch around that."""
    if "custom_" in step.path or OWN_RULES & {*labels(step.scope)}:
        return "custom rule"
    return next((name for name in ("cond", "while", "scan") if name in step.path), "")


def inject(recipe: str, places: list[Place], kind: str | None, draw: random.Random, folder: str) -> Injected | None:
    """The first fault drawn that changes a value, and what is found then; None where none does."""
    from jaxcheck.worker.faults import FAULTS

    for redrawn in range(DRAWS):
        case, mode, step = draw.choice(places)
        chosen = kind or draw.choice(sorted(FAULTS))
        program = f"{recipe}::{case}[{mode}]"
        reply = asked(recipe, case, mode, folder, faults={str(step.n): chosen})
        if "reason" not in reply:
            return outcome(program, chosen, step, redrawn, Path(reply["steps"]))
        if not reply["reason"].startswith("NoFault"):
            sys.exit(f"{program} with {chosen} at {step.n}: {reply['reason']}")
    return None


def outcome(program: str, kind: str, step: DiagnosedStep, redrawn: int, path: Path) -> Injected:
    """What the diagnosis made of the steps; `step` is the one that was made wrong, as it was without."""
    steps = list(read_steps(path))
    found = Trace.of(steps).origin
    wrong = next(each for each in steps if each.n == step.n)
    return Injected(
        program=program,
        kind=kind,
        n=step.n,
        primitive=step.primitive,
        scope=step.scope,
        stage=stage_of(step),
        inside=inside(step),
        redrawn=redrawn,
        found=found.n if found else None,
        found_scope=found.scope if found else None,
        reason="" if found and found.n == step.n else why_missed(wrong, found),
    )


def why_missed(step: DiagnosedStep, found: DiagnosedStep | None) -> str:
    """In words: what the diagnosis saw of the fault, and what it named instead."""
    instead = f"; named {found.primitive} ({found.n}), {excess(found):.3g} times its bound" if found else ""
    if step.kind == "origin":
        return f"an origin, {excess(step):.3g} times its bound" + instead
    if step.bound:
        return f"{step.local:.3g} eps, where {step.bound:.3g} are allowed" + instead
    return "nothing to hold it against" + instead


# ---- Origins that are no mistake -------------------------------------------------------------------------------------


def digamma(x: float) -> float:
    """By its recurrence and its asymptotic series (Abramowitz and Stegun, 6.3.5 and 6.3.18), for x > 0."""
    below = 0.0
    while x < 20:
        below += 1 / x
        x += 1
    squared = 1 / (x * x)
    series = squared * (1 / 12 - squared * (1 / 120 - squared * (1 / 252 - squared / 240)))
    return math.log(x) - 0.5 / x - series - below


INDEPENDENT = {"lgamma": math.lgamma, "digamma": digamma}


def really_wrong(step: DiagnosedStep) -> bool:
    """Whether a formula that is not JAX's says so, too: it agrees with the exact value and not with the device's."""
    worst = step.worst or {}
    numbers = [*worst.get("inputs", ()), worst.get("value"), worst.get("exact")]
    if step.primitive not in INDEPENDENT or len(numbers) != 3 or not all(isinstance(each, float) for each in numbers):
        return False
    given, device, exact = numbers
    truth = INDEPENDENT[step.primitive](given)
    return bool(abs(exact - truth) < 0.01 * abs(device - truth))


# ---- Reporting -------------------------------------------------------------------------------------------------------


def as_markdown(rates: Rates) -> str:
    walked = [each for each in rates.clean if not each.left_out]
    really = [each for each in walked if each.really_wrong]
    false = [each for each in walked if false_origin(each)]
    redrawn = sum(each.redrawn for each in rates.faults) + DRAWS * rates.undrawn
    equations, recipes = sum(each.equations for each in walked), {each.program.split("::")[0] for each in walked}
    lines = [
        circumstances(),
        "",
        f"{len(walked)} programs of {len(recipes)} recipes without a fault, {equations} equations: {len(false)} with "
        f"an origin, and {len(really)} where an operation is really wrong; {len(rates.clean) - len(walked)} left out.",
        f"{len(rates.faults)} faults in {len({each.program for each in rates.faults})} programs: "
        f"{share(each.right for each in rates.faults)} named, {share(each.right_scope for each in rates.faults)} in "
        f"the right scope; {redrawn} that changed nothing drawn again, {rates.undrawn} given up. "
        f"{rates.seconds:.0f} s.",
        "",
        *breakdown("kind", [(each.kind, each) for each in rates.faults]),
        *breakdown("place", [(each.stage, each) for each in rates.faults]),
        *breakdown("inside", [(each.inside or "none of these", each) for each in rates.faults]),
    ]
    lines += [f"missed: {each.program} {each.at}: {each.reason}" for each in rates.faults if not each.right]
    lines += [f"really wrong: {each.program}: {each.origin}" for each in really]
    lines += [f"left out: {each.program}: {each.left_out}" for each in rates.clean if each.left_out]
    return "\n".join(lines).rstrip()


def breakdown(heading: str, rows: list[tuple[str, Injected]]) -> list[str]:
    counts = Counter(name for name, _ in rows)
    body = [
        f"| {name} | {count} | {share(each.right for other, each in rows if other == name)} "
        f"| {share(each.right_scope for other, each in rows if other == name)} |"
        for name, count in sorted(counts.items())
    ]
    return [f"| {heading} | faults | origin right | scope right |", "|---|---|---|---|", *body, ""]


def share(right: Iterable[bool]) -> str:
    each = list(right)
    return f"{sum(each)} ({sum(each) / max(1, len(each)):.1%})"


def as_data(rates: Rates) -> dict[str, Any]:
    return {
        "circumstances": circumstances(),
        "seconds": rates.seconds,
        "undrawn": rates.undrawn,
        "clean": [asdict(each) for each in rates.clean],
        "faults": [{**asdict(each), "right": each.right, "right_scope": each.right_scope} for each in rates.faults],
    }
