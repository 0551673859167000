"""The frozen result of a run: every report is a pure function of it, and JSON holds all of it.

Numbers in JSON stay numbers: an infinite ratio or difference is written as the largest float64. Values of
arrays (`Worst.golden`, `Worst.actual`) are text where JSON has no number for them: `nan`, `inf`, `-inf`, `1+2j`.
"""

from __future__ import annotations

import enum
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jaxcheck.errors import Exit

SCHEMA = 1
Against = Literal["golden", "eager", "jit", "reference"]
# What became of a check from one run to the other: of its leaves the worst, or what kept them from being compared.
CheckVerdict = Literal["unchanged", "drifted", "improved", "regressed", "changed", "broken", "unstable"]
CauseKind = Literal["jax", "xla", "package", "environment", "both", "undetermined"]
GateVerdict = Literal["pass", "review", "block"]


class Status(enum.StrEnum):
    """How a check ended. Only `pass` is green."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    MISSING = "missing"
    STALE = "stale"
    SKIP = "skip"


FAILURES = frozenset(Status) - {Status.PASS, Status.SKIP}
COMPARED = frozenset({"unchanged", "drifted", "improved", "regressed", "changed"})


def _finite(value: Any) -> Any:
    """JSON has no infinity: the largest float64 stands for it, so that a ratio can always be compared."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return value


Measure = Annotated[float, BeforeValidator(_finite)]
Value = bool | int | float | str


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False)


class ToleranceUsed(Model):
    """The tolerance that a leaf was held to, and where it came from (`recipes.yaml:12:5`, `exact: int32`)."""

    rtol: float
    atol: float
    source: str


class Worst(Model):
    """The element that broke its allowance most; `index` is its position in the leaf."""

    index: tuple[int, ...]
    golden: Value
    actual: Value
    allowed: Measure
    truth: Value | None = None


class Statistics(Model):
    """How far an array moved from the one it is compared with, over all its elements.

    `violation_ratio` is the largest |actual - golden| / (atol + rtol * |golden|): up to 1 passes. Differences are
    taken in a wider type, over pairs of finite elements; `nonfinite` counts elements whose NaN or infinity does not
    agree. `max_rel` is relative to |golden|. `max_ulp` counts representable values of the leaf's own dtype between
    the two. `mismatched` counts elements beyond the tolerance, `bit_equal` those with the same bits.
    """

    size: int
    bit_equal: int
    mismatched: int
    nonfinite: int
    violation_ratio: Measure
    max_abs: Measure
    max_rel: Measure
    max_ulp: Measure
    worst: Worst | None = None
    histogram: dict[str, int] = Field(default_factory=dict)


class Sample(Model):
    """Where and how a leaf moved, in little enough for a picture: made for leaves that moved, and never for PRNG keys.

    `by_position` are the largest violation ratios in bins along the axes: one row of at most 64 for one axis, at most
    20 rows of 20 where there are more (all but the last one flattened into the rows). Where the tolerance is zero they
    are |actual - golden| instead: `measure`. `golden` and `actual` are the values of at most 64 elements in six digits,
    evenly spread and with the worst among them; only finite real ones.
    """

    measure: Literal["violation ratio", "difference"]
    by_position: tuple[tuple[Measure, ...], ...] = ()
    golden: tuple[float, ...] = ()
    actual: tuple[float, ...] = ()


class ErrorToTruth(Model):
    """max |value - truth| relative to max |truth|, of the golden and of the actual value."""

    golden: Measure
    actual: Measure


class LeafResult(Statistics):
    """One array of an output, compared. `reason` is set where it differs and says how.

    Against the golden also: `verdict` (unchanged, drifted, improved, regressed, changed), `error_to_truth` where the
    golden holds the truth, `eps` of the dtype to measure both by, and `floors`: the move in noise floors, where known;
    and a `sample` of where it moved, for the leaves of a check that moved furthest.
    Between two runs of a gate also: `cause`, who moved it (`package`: which), in words `because`; and `since`, the
    first release that did.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    tolerance: ToleranceUsed
    reason: str | None = None
    verdict: Literal["unchanged", "drifted", "improved", "regressed", "changed"] | None = None
    error_to_truth: ErrorToTruth | None = None
    eps: float | None = None
    floors: Measure | None = None
    sample: Sample | None = None
    cause: CauseKind | None = None
    because: str = ""
    package: str | None = None
    since: str | None = None

    @property
    def moved(self) -> bool:
        """Whether any bit is another, or the leaf as such: its dtype, shape or weak type."""
        return self.bit_equal < self.size or self.reason is not None


class CapturedWarning(Model):
    """A Python warning that the kernel raised."""

    category: str
    message: str
    file: str
    line: int


class Finding(Model):
    """One thing that is wrong with a check, by kind: the brakes of `bless` ask for these."""

    kind: Literal[
        "golden",
        "orphan",
        "modes",
        "reference",
        "property",
        "nonfinite",
        "mutation",
        "config",
        "inputs",
        "tolerance",
        "output",
        "truth",
        "determinism",
        "keys",
        "gradient",
        "traces",
        "sharding",
        "deprecation",
    ]
    message: str


class Latency(Model):
    """Seconds a call takes after warm-up, as a distribution, with what the machine did meanwhile.

    `first` is the first call, which traces and compiles; `spread` is (p90 - p10) / p50. Where it was measured in
    several processes, `rounds` are their medians and `compiling` the seconds that each compiled.
    """

    samples: int
    first: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float
    spread: float
    conditions: dict[str, str] = Field(default_factory=dict)
    rounds: tuple[float, ...] = ()
    compiling: tuple[float, ...] = ()


class Baseline(Model):
    """What a check of a gate was before: its status and reason, and the seconds that it took to compile and to call."""

    status: Status
    reason: str = ""
    compile_seconds: float | None = None
    compiles: int | None = None
    latency: Latency | None = None


class CheckResult(Model):
    """One recipe x case x mode. `leaves` are compared with the golden, `against` with other modes or a reference.
    `position` is where the registry has it: `recipes.yaml:12:3`.

    In a gate, `leaves` are compared with the baseline's and `status` follows from the `verdict`; `golden_status` is the
    candidate's own, and `baseline` says how the check was before.
    """

    id: str
    recipe: str
    case: str
    mode: str
    status: Status
    reason: str = ""
    hint: str = ""
    position: str = ""
    seconds: float = 0.0
    trace_seconds: float | None = None
    compile_seconds: float | None = None
    compiles: int | None = None
    latency: Latency | None = None
    leaves: tuple[LeafResult, ...] = ()
    against: dict[Against, tuple[LeafResult, ...]] = Field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    golden: str | None = None
    drifted: bool = False
    error: str | None = None
    device_kind: str | None = None
    conditions: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[CapturedWarning, ...] = ()
    notes: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""
    tags: tuple[str, ...] = ()
    verdict: CheckVerdict | None = None
    golden_status: Status | None = None
    baseline: Baseline | None = None
    details: tuple[str, ...] = ()


class Environment(Model):
    """Where the numbers were made. `config` holds every jax.config value that is not the default."""

    backend: str
    device_kind: str
    device_count: int
    jax: str
    jaxlib: str
    optax: str | None
    numpy: str
    python: str
    cpu: str
    cpu_count: int = 0
    cpu_features: str = ""
    platform: str = ""
    xla_flags: str = ""
    x64: bool = False
    matmul_precision: str | None = None
    prng_impl: str = ""
    threefry_partitionable: bool = True
    config: dict[str, Any] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)


class Shard(Model):
    """One part of a run that several machines share: part `index` of `count`, from 1.

    `plan` says which recipe is in which part, in the order of the registry, and `selection` is a digest of what was
    selected: the parts of one run agree in both.
    """

    index: int = Field(ge=1)
    count: int = Field(ge=1)
    selection: str = ""
    plan: dict[str, int] = Field(default_factory=dict)


class CompiledPrograms(Model):
    """How many programs came out of the compilation cache, and how many were compiled; `off`: why it was not used."""

    hits: int = 0
    misses: int = 0
    off: str = ""


class Run(Model):
    """One run of a registry: what was asked for, where, and what came of every check."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    jaxcheck: str
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    registry: str = ""
    registry_digest: str = ""
    goldens: str = ""
    backend: str | None = None
    shard: Shard | None = None
    sources: dict[str, str] = Field(default_factory=dict)
    environment: Environment | None = None
    not_verified: dict[str, str] = Field(default_factory=dict)
    programs: CompiledPrograms | None = None
    interrupted: bool = False
    damaged_goldens: tuple[str, ...] = ()
    totals: dict[str, int] = Field(default_factory=dict)
    results: tuple[CheckResult, ...] = ()

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return cls.model_validate_json(text)


class PackageChange(Model):
    """A package that differs between the two sides; `asked` for, or moved by the resolver. None: not there."""

    name: str
    before: str | None
    after: str | None
    asked: bool = False


class Side(Model):
    """One side of a gate: what it is called, where it ran, and what came of its own run against the goldens."""

    label: str
    python: str = ""
    folder: str = ""
    environment: Environment | None = None
    totals: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0.0


class Concern(Model):
    """One reason for the verdict of a gate: its kind, the checks that it is about, and whether `--allow` covered it."""

    kind: Literal[
        "regressed", "changed", "broken", "loosened", "improved", "warnings", "slower", "unstable", "unverified"
    ]
    verdict: GateVerdict
    message: str
    checks: tuple[str, ...] = ()
    allowed: bool = False


class Gate(Run):
    """Two runs compared: `results` are those of the candidate, each with what became of it."""

    verdict: GateVerdict
    concerns: tuple[Concern, ...] = ()
    from_: Side = Field(alias="from")
    to: Side
    packages: tuple[PackageChange, ...] = ()
    settings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class BisectTarget(Model):
    """What is looked for in the releases: a leaf of a check, or the check itself where `path` is empty.

    `kind` is what is asked of it, `before` and `after` how it stood at the good and at the bad end (`same`, `moved`).
    """

    check: str
    path: str = ""
    kind: Literal["moved", "tolerance", "truth", "error", "slower", "golden", "structure"]
    before: str
    after: str


class BisectAnswer(BisectTarget):
    """The last release that is as the good end and the first that is as the bad one.

    `found` where they are neighbours and came out the same when each was run afresh; `range` where only releases that
    can tell nothing (`skipped`) are between them; `unstable` where one came out otherwise, or the good end differs from
    itself: `reason` says how. `also` are the other packages that differ between the two.
    """

    state: Literal["found", "range", "unstable"]
    last_good: str
    first_bad: str
    skipped: tuple[str, ...] = ()
    reason: str = ""
    also: tuple[PackageChange, ...] = ()


class BisectProbe(Model):
    """One run of one release, or why there was none. `outcomes` are in the order of the answers, `reused` where it was
    made by an earlier command.

    `baseline` is the good end's run that all are compared with, `first` the one that the search goes by, `again` the
    one that confirms.
    """

    version: str
    attempt: Literal["baseline", "first", "again"]
    outcomes: tuple[Literal["good", "bad", "skip"], ...] = ()
    reason: str = ""
    seconds: float = 0.0
    folder: str = ""
    reused: bool = False


class Bisection(Model):
    """A search through the releases of one package: what was asked for, every run, and what was found."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    jaxcheck: str
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    registry: str = ""
    package: str
    predicate: Literal["moved", "tolerance", "truth", "error", "slower", "golden"]
    good: str
    bad: str
    python: str = ""
    requirements: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    not_offered: tuple[str, ...] = ()
    compared: int = 0
    answers: tuple[BisectAnswer, ...] = ()
    probes: tuple[BisectProbe, ...] = ()
    remarks: tuple[str, ...] = ()

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Bisection:
        return cls.model_validate_json(text)


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


class Diagnosis(Model):
    """Where a check that differs began to: the ladder, its verdict, and the equations that tell most.

    `before` and `environment` are the two places (the same where modes are compared); `leaves` the outputs compared;
    `partial` says why the walk did not reach the end. `compiled` is what was found inside the compiled function, and
    `sensitive` the equations that the outcome hangs on most, the first the most.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    jaxcheck: str
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    registry: str = ""
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

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Diagnosis:
        return cls.model_validate_json(text)


def totals(results: Iterable[CheckResult]) -> dict[str, int]:
    """How many checks ended in each status; every status is named, also those that did not occur."""
    counts = Counter(result.status for result in results)
    return {status.value: counts[status] for status in Status}


def exit_code(run: Run) -> Exit:
    """The verdict as the shell sees it: interrupted, golden file damaged, failed, nothing verified, passed."""
    statuses = {result.status for result in run.results}
    if run.interrupted:
        return Exit.INTERRUPTED
    if run.damaged_goldens:
        return Exit.USAGE
    if statuses & FAILURES:
        return Exit.FAILED
    return Exit.PASSED if Status.PASS in statuses else Exit.NOTHING_VERIFIED


def gate_exit_code(gate: Gate) -> Exit:
    """0 on pass, and on a review that was allowed in full; 5 where nothing could be compared; else 1."""
    if gate.interrupted:
        return Exit.INTERRUPTED
    if any(not concern.allowed for concern in gate.concerns):
        return Exit.FAILED
    compared = any(result.verdict in COMPARED for result in gate.results)
    return Exit.PASSED if compared else Exit.NOTHING_VERIFIED


def bisect_exit_code(bisection: Bisection) -> Exit:
    """0 where the release was found for everything that moved; 1 where nothing moved, or it could not be told."""
    answers = bisection.answers
    return Exit.PASSED if answers and all(answer.state == "found" for answer in answers) else Exit.FAILED


def diagnosis_exit_code(diagnosis: Diagnosis) -> Exit:
    """0 where nothing diverges, 1 where something does, whether or not its origin could be told."""
    return Exit.PASSED if diagnosis.verdict.kind == "none" else Exit.FAILED
