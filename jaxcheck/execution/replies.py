"""What a worker may answer to each request: nothing else is let in, and no file outside the folders that were named.

A kernel is somebody's code in the worker's process: a reply is checked before anybody believes it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, TypeAdapter, ValidationError, ValidationInfo

from jaxcheck.goldens.exchange import is_inline
from jaxcheck.results import CapturedWarning, Environment, Finding

MOST_COUNTED, MOST_SECONDS = 2**53, 1e9
FAULT_CHARACTERS = 200


@dataclass(frozen=True)
class Allowed:
    """Where a worker writes: in these folders, which have no links in their names; and where `sources` lie."""

    folders: Collection[str]
    root: str = ""


def _in_a_folder(path: str, info: ValidationInfo) -> str:
    allowed = cast(Allowed, info.context)
    folder, name = os.path.split(os.path.normpath(path))
    place = os.path.join(os.path.realpath(folder), name)
    if os.path.islink(place) or not any(str(parent) in allowed.folders for parent in PurePath(place).parents):
        raise ValueError("it is in no folder that was named")
    return path


def _reference(sent: str, info: ValidationInfo) -> str:
    return sent if is_inline(sent) else _in_a_folder(sent, info)


def _source(path: str, info: ValidationInfo) -> str:
    root = cast(Allowed, info.context).root
    if not any(PurePath(os.path.normpath(path)).is_relative_to(top) for top in (root, os.path.realpath(root)) if top):
        raise ValueError("it is not below the registry's folder")
    return path


File = Annotated[str, AfterValidator(_in_a_folder)]
Sent = Annotated[str, AfterValidator(_reference)]
Source = Annotated[str, AfterValidator(_source)]
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
Plain = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None
Listed = Strict(False)  # JSON has lists only


class Form(BaseModel):
    """What a part of a reply may hold, and no more."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)


class Reply(Form):
    programs: dict[str, Count] = {}


class Declined(Reply):
    """Why there is no answer."""

    reason: str


class Started(Reply):
    environment: Environment
    backends: list[str]


class NotStarted(Reply):
    unavailable: str
    backend: str | None
    backends: list[str]


class Prepared(Reply):
    faults: list[Annotated[tuple[str | None, str | None, str], Listed]]
    cases: list[str]
    sources: list[Source] = []


class Error(Form):
    type: str
    bases: list[str]
    message: str
    where: str
    traceback: str


class Violation(Form):
    property: str
    message: str
    class_: str = Field(alias="class")


class Checked(Reply):
    """What a check may tell, however it came out."""

    seconds: Seconds = 0.0
    trace_seconds: Seconds = 0.0
    compile_seconds: Seconds = 0.0
    compiles: Count = 0
    mutated: list[str] = []
    changes: dict[str, Annotated[tuple[Any, Any], Listed]] = {}
    inputs_differ: list[str] = []
    findings: list[Finding] = []
    notes: list[str] = []
    warnings: list[CapturedWarning] = []
    violations: list[Violation] = []
    left: list[str] = []


class Gave(Checked):
    outcome: Literal["value"]
    outputs: Sent
    pairs: list[Annotated[tuple[str, Sent, Sent], Listed]]
    mutated: list[str]
    changes: dict[str, Annotated[tuple[Any, Any], Listed]]
    findings: list[Finding]
    notes: list[str]
    violations: list[Violation]
    given: Sent = ""
    reference: Sent = ""
    reference_error: str = ""


class Raised(Checked):
    outcome: Literal["raised"]
    error: Error
    findings: list[Finding]


class NoInputs(Checked):
    outcome: Literal["inputs"]
    error: Error


class NotTogether(Reply):
    """Processes that did not start together, or of which one died or was late; or why there are none here."""

    outcome: Literal["skip", "crash", "timeout"]
    reason: str
    codes: dict[str, int] = {}


class Exported(Reply):
    inputs: File
    statics: dict[str, Plain]
    program: File = ""
    reason: str = ""


class ProgramFile(Reply):
    program: File
    sha256: str


class Replayed(Reply):
    outputs: File
    text: str


class Row(Form):
    """An equation of a traced program."""

    primitive: str
    inputs: list[str]
    outputs: list[str]
    params: dict[str, str]
    scope: str
    path: str
    file: str
    line: Count
    function: str
    package: str
    lowered: dict[str, Count] = {}


class Equations(Reply):
    equations: list[Row]
    operations: dict[str, Count]


class Operation(Form):
    """One of a lowered program."""

    operation: str
    primitive: str
    scope: str
    file: str
    line: Count


class Texts(Reply):
    windows: list[Annotated[tuple[list[Operation], list[Operation]], Listed]]


class Timed(Reply):
    first: Seconds
    samples: Annotated[list[Seconds], Field(min_length=1)]
    conditions: dict[str, str]


class Facts(Form):
    """Of a float64 truth."""

    policy: str
    flips: list[str]


class Measured(Form):
    draws: Count
    knobs: list[str]


class Truth(Reply):
    truth: File = ""
    facts: Facts = Facts(policy="", flips=[])
    reason: str = ""
    reference: Sent = ""
    floor: dict[str, dict[str, float]] = {}
    measured: Measured = Measured(draws=0, knobs=[])
    floor_reason: str = ""
    gradients: File = ""
    gradient_reason: str = ""
    gradient_floor: dict[str, dict[str, float]] = {}
    gradient_floor_reason: str = ""


class Step(Form):
    """An equation of a walk, whatever its values are."""

    primitive: str
    scope: str
    position: str
    file: str
    line: Count
    function: str
    in_: list[str] = Field(alias="in")
    out: list[str]


class MovedStep(Step):
    n: Count
    path: str
    iteration: list[Count] | None
    effect: float
    leaf: str


class ReadStep(Step):
    """One inside the compiled function."""

    error: float
    stable: bool
    confirmed: bool
    fusion: str
    hlo: str


class Walked(Reply):
    steps: File
    program: dict[str, Any]
    kinds: dict[str, Count]
    first: dict[str, Any]
    partial: str | None
    outputs: dict[str, float]


class Followed(Reply):
    steps: File
    from_: str = Field(alias="from")
    aligned: Count
    equations: Count
    windows: list[Any]
    compared: Count
    differ: Count
    first: dict[str, Any] | None
    partial: str | None


class Recorded(Reply):
    recording: File
    executed: Count
    partial: str | None


class Script(Reply):
    script: File
    data: File
    how: str


class Sensitive(Reply):
    steps: File
    equations: Count
    moved: Count
    scopes: dict[str, float]
    largest: list[MovedStep]
    partial: str | None


class Inside(Reply):
    apart: bool
    repeatable: bool
    first: ReadStep | None
    perturbed: Count
    partial: str | None


class Ambiguous(Reply):
    outputs: dict[str, Annotated[tuple[str, str], Listed]]
    reason: str = ""


class Streams(Reply):
    streams: dict[str, str]


class Probes(Reply):
    probes: dict[str, str]


class Unnamed(Reply):
    """The fault of a function's name."""

    fault: str


class Guessed(Reply):
    description: str
    cases: dict[str, dict[str, Any]]
    static: list[str]
    modes: list[str]
    dtypes: list[str]


class NotGuessed(Reply):
    description: str
    unknown: list[str]
    reason: str


_CHECK = Annotated[Gave | Raised | NoInputs, Field(discriminator="outcome")]
_CHECK_TOGETHER = Annotated[Gave | Raised | NoInputs | NotTogether, Field(discriminator="outcome")]
FORMS: Mapping[str, Any] = {
    "start": Started | NotStarted,
    "prepare": Prepared,
    "check": _CHECK,
    "assemble": Reply | NotTogether,
    "check_together": _CHECK_TOGETHER,
    "latency": Timed | Declined,
    "export": Exported | Declined,
    "truth": Truth,
    "program": ProgramFile | Declined,
    "replay": Replayed | Declined,
    "equations": Equations | Declined,
    "texts": Texts | Declined,
    "walk": Walked | Declined,
    "record": Recorded | Declined,
    "replay_steps": Followed | Declined,
    "repro": Script | Declined,
    "sensitivity": Sensitive | Declined,
    "inside": Inside | Declined,
    "ambiguous": Ambiguous,
    "guess": Guessed | NotGuessed | Unnamed,
    "streams": Streams,
    "probe": Probes | Declined,
}


@functools.cache
def _form(op: str) -> TypeAdapter[Any]:
    """Made when it is first needed: a run needs few of them."""
    return TypeAdapter(FORMS[op])


def fault(op: str, reply: Mapping[str, Any], allowed: Allowed) -> str:
    """What keeps this from being a reply to the request, or nothing."""
    try:
        _form(op).validate_python(reply, context=allowed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return ascii(f"{where}: {first['msg']}"[:FAULT_CHARACTERS])[1:-1]
    except RecursionError:
        return "too deep"
    return ""
