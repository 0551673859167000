"""The frozen result of a run: every report is a pure function of it, and JSON holds all of it.

Numbers in JSON stay numbers: an infinite ratio or difference is written as the largest float64. Values of
arrays (`Worst.golden`, `Worst.actual`) are text where JSON has no number for them: `nan`, `inf`, `-inf`, `1+2j`.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticSerializationError

from jaxcheck.errors import Exit

SCHEMA = 1
Against = Literal["golden", "eager", "jit", "reference"]
# What became of a check from one run to the other: of its leaves the worst, or what kept them from being compared.
CheckVerdict = Literal["unchanged", "drifted", "improved", "regressed", "changed", "broken", "unstable"]
CauseKind = Literal["jax", "xla", "package", "environment", "both", "undetermined"]
_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs


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

    Where the golden keeps only an excerpt of the leaf, all of this is about the `compared` elements of its `size`.
    """

    size: int
    compared: int | None = None
    bit_equal: int
    mismatched: int
    nonfinite: int
    violation_ratio: Measure
    max_abs: Measure
    max_rel: Measure
    max_ulp: Measure
    worst: Worst | None = None
    histogram: dict[str, int] = Field(default_factory=dict)

    @property
    def seen(self) -> int:
        """How many elements this is about."""
        return self.size if self.compared is None else self.compared

    @property
    def out_of(self) -> str:
        """What a count of elements is out of: `24`, or `65,536 compared (of 268,435,456)`."""
        return f"{self.size:,}" if self.compared is None else f"{self.compared:,} compared (of {self.size:,})"


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
        "processes",
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


class Node(Model):
    """One machine of a cluster that a run was on: how many checks it answered, and its environment, where a worker
    started there. `differs` is what makes numbers there and is not as in the run's own environment. `lost` says how the
    machine went away, where it did: what ran there then was run again elsewhere."""

    name: str
    checks: int = 0
    environment: Environment | None = None
    differs: dict[str, str] = Field(default_factory=dict)
    lost: str = ""


class CompiledPrograms(Model):
    """How many programs came out of the compilation cache, and how many were compiled; `off`: why it was not used."""

    hits: int = 0
    misses: int = 0
    off: str = ""


class Document(Model):
    """What a command writes as its JSON, whole: the head of it, and its form as text."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    jaxcheck: str
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    registry: str = ""

    def to_json(self) -> str:
        """Half of a surrogate pair is no text: of a path's bytes that no encoding has, of a kernel's message. It is
        spelled out."""
        try:
            return self.model_dump_json(by_alias=True, indent=1)
        except PydanticSerializationError:
            text = json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False)
            return _HALVES.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return cls.model_validate_json(text)


class Run(Document):
    """One run of a registry: what was asked for, where, and what came of every check.

    `golden_digests` {recipe: digest of the golden that it was compared with}, an empty one where there was none to use.
    """

    registry_digest: str = ""
    goldens: str = ""
    golden_digests: dict[str, str] = Field(default_factory=dict)
    backend: str | None = None
    shard: Shard | None = None
    nodes: tuple[Node, ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)
    environment: Environment | None = None
    not_verified: dict[str, str] = Field(default_factory=dict)
    programs: CompiledPrograms | None = None
    interrupted: bool = False
    damaged_goldens: tuple[str, ...] = ()
    totals: dict[str, int] = Field(default_factory=dict)
    results: tuple[CheckResult, ...] = ()

    def exit_code(self) -> Exit:
        """The verdict as the shell sees it: interrupted, golden file damaged, failed, nothing verified, passed."""
        statuses = {result.status for result in self.results}
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.damaged_goldens:
            return Exit.USAGE
        if statuses & FAILURES:
            return Exit.FAILED
        return Exit.PASSED if Status.PASS in statuses else Exit.NOTHING_VERIFIED


def totals(results: Iterable[CheckResult]) -> dict[str, int]:
    """How many checks ended in each status; every status is named, also those that did not occur."""
    counts = Counter(result.status for result in results)
    return {status.value: counts[status] for status in Status}
