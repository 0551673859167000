"""The result of a diagnosis: where a check that differs began to."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from jaxcheck.errors import Exit
from jaxcheck.results import Document, Environment, LeafResult, Measure, Model


class DiagnosedStep(Model):
    """One execution of one equation, as the walker saw it.

    `scope` is its name stack with JAX's own jvp and transpose marks, `path` the calls and loops that it is in, and
    `iteration` the numbers of these. `local` is the error that it makes by itself, in eps of its output's scale
    (`bound` is what its operation is allowed); `inherited` the relative error that came in with its inputs, and
    `amplification` by how much it grew them. `worst` are the values in and out where the error is largest; `before`
    and `after` the local errors in two versions, where `local` is how far they are apart; `rewritten` are
    equations of which the other version has others: `old | new`. `effect`, of equations that the outcome hangs on, is
    how far one ULP on its outputs moves the output `leaf`, in eps of that leaf's largest element.
    """

    n: int
    primitive: str
    scope: str = ""
    path: str = ""
    iteration: tuple[int, ...] | None = None
    file: str = ""
    line: int = 0
    function: str = ""
    inputs: tuple[str, ...] = Field(default=(), alias="in")
    outputs: tuple[str, ...] = Field(default=(), alias="out")
    local: Measure = 0.0
    bound: Measure = 0.0
    inherited: Measure = 0.0
    amplification: Measure = 0.0
    kind: Literal["origin", "amplifier", "flip"] | None = None
    worst: dict[str, Any] | None = None
    before: Measure | None = None
    after: Measure | None = None
    rewritten: str = ""
    effect: Measure | None = None
    leaf: str = ""


class DiagnosedScope(Model):
    """A scope of the kernel: how many equations ran in it, the local error that weighs most (in eps), the largest
    error that came in, and what stands out in it. `depth` is its place in the tree; `effect` the largest that one ULP
    on one of its equations has on an output (in eps; None where none was moved)."""

    scope: str
    depth: int
    equations: int
    local: Measure
    error: Measure
    kinds: tuple[Literal["origin", "amplifier", "flip"], ...] = ()
    effect: Measure | None = None


class DiagnosedFusion(Model):
    """The first equation whose value inside the compiled function is another than by itself.

    `side` is where it was read: the environment's label. `error` is how far off it is, in eps of its largest element;
    `fusion` and `hlo` the fused computation that it went into (empty where it is in none). `stable`: twice the same
    value; `confirmed`: the equation before it was read as well and is right; `repeatable`: every call of the compiled
    function gives the same outputs. `perturbed` readings were left out: to read them changed the outputs.
    """

    side: str
    primitive: str
    scope: str = ""
    file: str = ""
    line: int = 0
    fusion: str = ""
    hlo: str = ""
    error: Measure
    stable: bool
    confirmed: bool
    repeatable: bool
    perturbed: int = 0


class DiagnosedKnob(Model):
    """A way to compile or run otherwise, in a process of its own: it cures the divergence, leaves it, or does nothing
    in this version. `names` is the class of cause that it stands for."""

    knob: str
    status: Literal["cures", "keeps", "no effect", "unknown"]
    finding: str
    names: str = ""


class DiagnosisRung(Model):
    """One rung of the ladder: what was compared, and what came of it."""

    rung: str
    status: Literal["ok", "differs", "skipped"]
    finding: str


DiagnosisKind = Literal[
    "none",
    "environment",
    "data",
    "keys",
    "signature",
    "raises",
    "program",
    "origin",
    "amplifier",
    "flip",
    "fusion",
    "mode",
    "formula",
    "cause",
    "undetermined",
]


class DiagnosisVerdict(Model):
    """The first rung that fails with good inputs, and where that is in the user's code."""

    rung: str | None = None
    kind: DiagnosisKind
    primitive: str | None = None
    scope: str | None = None
    iteration: tuple[int, ...] | None = None
    file: str | None = None
    line: int | None = None
    sentence: str


class Diagnosis(Document):
    """Where a check that differs began to: the ladder, its verdict, and the equations that tell most.

    `before` and `environment` are the two places (the same where modes are compared); `leaves` the outputs compared;
    `partial` says why the walk did not reach the end. `compiled` is what was found inside the compiled function, and
    `sensitive` the equations that the outcome hangs on most, the first the most.
    """

    recipe: str
    case: str
    mode: str
    against: str
    verdict: DiagnosisVerdict
    ladder: tuple[DiagnosisRung, ...] = ()
    environment: Environment | None = None
    before: Environment | None = None
    leaves: tuple[LeafResult, ...] = ()
    steps: tuple[DiagnosedStep, ...] = ()
    scopes: tuple[DiagnosedScope, ...] = ()
    equations: int = 0
    knobs: tuple[DiagnosedKnob, ...] = ()
    compiled: DiagnosedFusion | None = None
    sensitive: tuple[DiagnosedStep, ...] = ()
    partial: str = ""
    repro: str = ""
    remarks: tuple[str, ...] = ()

    def exit_code(self) -> Exit:
        """0 where nothing diverges, 1 where something does, whether or not its origin could be told."""
        return Exit.PASSED if self.verdict.kind == "none" else Exit.FAILED
