"""What a case's runs amount to: pure functions from evidence to check results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jaxcheck.compare.finite import first_nonfinite
from jaxcheck.execution import verdicts
from jaxcheck.execution.comparison import Comparison
from jaxcheck.execution.process import Death
from jaxcheck.execution.together import in_processes
from jaxcheck.goldens.golden import GoldenCase
from jaxcheck.goldens.leaf import Tree
from jaxcheck.registry.model import (
    DERIVED_MODES,
    GRADIENT,
    Case,
    GradOptions,
    Raises,
    Recipe,
)
from jaxcheck.registry.select import check_id
from jaxcheck.registry.tolerance import output_rule
from jaxcheck.results import Against, CapturedWarning, CheckResult, Environment, Finding, Latency, LeafResult, Status

OUTPUT_CHARACTERS = 8_000
REASONS_SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """What one mode of a case did: a reply with outputs or an error, or the death of the worker."""

    mode: str
    reply: Mapping[str, Any] = field(default_factory=dict)
    death: Death | None = None
    outputs: Tree | None = None
    reference: Tree | None = None
    stdout: str = ""
    stderr: str = ""
    pairs: tuple[tuple[str, Tree, Tree], ...] = ()
    inputs: Tree | None = None
    latency: Latency | None = None

    @property
    def kind(self) -> str:
        return "death" if self.death else str(self.reply["outcome"])


@dataclass(frozen=True)
class GoldenView:
    """The golden as far as one case is concerned."""

    state: Literal["present", "missing", "stale", "damaged"]
    reason: str = ""
    hint: str = ""
    path: str | None = None
    case: GoldenCase | None = None


def judge_case(
    recipe: Recipe, name: str, outcomes: Sequence[Outcome], golden: GoldenView, environment: Environment
) -> list[CheckResult]:
    """One result for each mode, in the order of the outcomes."""
    case = recipe.case(name)
    eager = next((outcome.outputs for outcome in outcomes if outcome.mode == "eager"), None)
    return [_judge(recipe, case, outcome, golden, eager, environment) for outcome in outcomes]


def _judge(
    recipe: Recipe, case: Case, outcome: Outcome, golden: GoldenView, eager: Tree | None, environment: Environment
) -> CheckResult:
    verdict = _verdict(recipe, case, outcome, golden, eager, environment)
    reply = outcome.reply
    left = [f"the kernel left {what} running; it ended with the recipe" for what in reply.get("left", ())]
    return CheckResult.model_validate(
        {
            "id": check_id(recipe.name, case.name, outcome.mode),
            "recipe": recipe.name,
            "case": case.name,
            "mode": outcome.mode,
            "position": str(case.position),
            "seconds": reply.get("seconds", 0.0),
            "trace_seconds": reply.get("trace_seconds"),
            "compile_seconds": reply.get("compile_seconds"),
            "compiles": reply.get("compiles"),
            "latency": outcome.latency,
            "golden": golden.path,
            "device_kind": environment.device_kind,
            "conditions": conditions(recipe, outcome.mode),
            "warnings": tuple(CapturedWarning.model_validate(warning) for warning in reply.get("warnings", ())),
            "stdout": outcome.stdout[-OUTPUT_CHARACTERS:],
            "stderr": outcome.stderr[-OUTPUT_CHARACTERS:],
            "tags": recipe.tags,
            **verdict,
            "notes": (*verdict.get("notes", ()), *left),
        }
    )


def conditions(recipe: Recipe, mode: str) -> dict[str, str]:
    """What this recipe runs under that is not the run's own environment."""
    said = {f"jax.config.{name}": str(value) for name, value in recipe.config.items()}
    said |= {f"env.{name}": value for name, value in recipe.env.items()}
    said |= {"devices": str(recipe.devices)} if recipe.devices else {}
    return said | ({"processes": str(recipe.processes)} if in_processes(recipe, mode) else {})


def _verdict(
    recipe: Recipe, case: Case, outcome: Outcome, golden: GoldenView, eager: Tree | None, environment: Environment
) -> dict[str, Any]:
    if outcome.death:
        return {"status": outcome.death.kind, "reason": outcome.death.reason, "hint": _rerun(recipe, case, outcome)}
    if outcome.kind == "skip":
        return {"status": Status.SKIP, "reason": outcome.reply["reason"]}
    if outcome.kind == "lost":
        return _error("output", f"what it produced is lost: {outcome.reply['reason']}", _rerun(recipe, case, outcome))
    if outcome.kind == "inputs":
        error = outcome.reply["error"]
        return _error("inputs", f"the inputs cannot be made: {error['message']}", str(case.position))
    expected = case.raises if case.raises and case.raises.expected_in(outcome.mode) else None
    if outcome.mode in DERIVED_MODES:
        golden = _golden_gradients(recipe, outcome, golden)
    if outcome.kind == "raised":
        return _judge_raised(recipe, outcome, expected, golden)
    if expected:
        return _error("output", f"expected {describe_raises(expected)}, and nothing was raised", str(case.position))
    if outcome.mode in DERIVED_MODES:
        return _judge_gradients(recipe, case, outcome, golden, environment)
    return _judge_values(recipe, case, outcome, golden, eager, environment)


def _golden_gradients(recipe: Recipe, outcome: Outcome, golden: GoldenView) -> GoldenView:
    """The golden as far as gradients are concerned: stale where it holds none, or those of something else."""
    if golden.state != "present" or golden.case is None:
        return golden
    held, raised = golden.case.gradients, outcome.kind == "raised"
    before, now = golden.case.extra.get(GRADIENT), differentiated(recipe)
    if held is None and not raised:
        reason = "the golden holds no gradients"
    elif held is not None and raised:
        reason = "the golden holds gradients, the case now has an expected error"
    elif held is not None and before != now:
        reason = f"the golden holds gradients {_by(before)}, the recipe now asks for those {_by(now)}"
    else:
        return golden
    return replace(golden, state="stale", reason=reason, hint=bless_command(recipe))


def differentiated(recipe: Recipe) -> dict[str, Any]:
    """What gradients are of and by, as the recipe says it (None: all that is floating); a golden keeps it."""
    said = recipe.grad or GradOptions()
    return {"arguments": None if said.arguments is None else list(said.arguments), "output": said.output}


def _by(said: Mapping[str, Any] | None) -> str:
    """`of ['loss'] by params`."""
    said = said or {}
    return f"of {said.get('output') or 'every output'} by {', '.join(said.get('arguments') or ['every argument'])}"


def bless_command(recipe: Recipe) -> str:
    return f'jaxcheck bless {shlex.quote(recipe.name)} --reason "…"'


def _judge_gradients(
    recipe: Recipe, case: Case, outcome: Outcome, golden: GoldenView, environment: Environment
) -> dict[str, Any]:
    """Gradients: the worker has checked them against one another, and the golden holds what they were."""
    assert outcome.outputs is not None
    actual = outcome.outputs.under(GRADIENT)
    findings = [*_disturbances(outcome), *_nonfinite(recipe, case, actual)]
    held = None
    if golden.state == "present" and golden.case is not None and golden.case.gradients is not None:
        expected, words = golden.case.gradients.under(GRADIENT), "the gradient differs from the golden"
        comparison = Comparison(recipe, environment.backend, outcome.inputs)
        held = _held(recipe, comparison, golden.case, expected, actual, words, environment)
    return _ended(recipe, case, outcome, golden, [*findings, *(held.moved if held else ())], held)


def _error(kind: str, reason: str, hint: str = "") -> dict[str, Any]:
    return {
        "status": Status.ERROR,
        "reason": reason,
        "hint": hint,
        "findings": [{"kind": kind, "message": reason}],
        "error": reason,
    }


def _rerun(recipe: Recipe, case: Case, outcome: Outcome) -> str:
    return f"jaxcheck run {shlex.quote(check_id(recipe.name, case.name, outcome.mode))} -v"


def describe_raises(raises: Raises) -> str:
    return " or ".join(raises.types) + (f" matching {raises.match!r}" if raises.match else "")


def _judge_raised(recipe: Recipe, outcome: Outcome, expected: Raises | None, golden: GoldenView) -> dict[str, Any]:
    """An exception: the expected one passes, by class (bases count) and by pattern (re.search)."""
    error = outcome.reply["error"]
    said = f"{error['type']}: {telling_line(error['message'])}"
    where = f" at {error['where']}" if error["where"] else ""
    if expected is None:
        hint = _error_hint(error["bases"], error["message"])
        return _error("output", f"{said}{where}", hint) | {"error": error["traceback"]}
    if not set(expected.types) & set(error["bases"]):
        reason = f"expected {describe_raises(expected)}, got {said}{where}"
        return _error("output", reason) | {"error": error["traceback"]}
    if expected.match and not re.search(expected.match, error["message"], re.DOTALL):
        reason = f"{error['type']} as expected, but its message does not match {expected.match!r}: {said}"
        return _error("output", reason) | {"error": error["traceback"]}
    if golden.state != "present":
        return _without_golden(golden, [])
    notes = []
    record = golden.case.error if golden.case else None
    if record and outcome.mode == recipe.golden and (record.type, record.message) != (error["type"], error["message"]):
        notes.append(f"the error was {record.type}: {(record.message.splitlines() or [''])[0]}")
    findings = [Finding.model_validate(finding) for finding in outcome.reply["findings"]]
    status = Status.FAIL if findings else Status.PASS
    return {"status": status, "reason": _summary(findings), "error": said, "notes": notes, "findings": findings}


def telling_line(message: str) -> str:
    """The first line of a message; with the last one, where the first announces what stands there."""
    lines = message.strip().splitlines() or [""]
    announced = lines[0].rstrip().endswith(":") and len(lines) > 1
    return f"{lines[0].rstrip()} {lines[-1].strip()}" if announced else lines[0]


def _error_hint(bases: Sequence[str], message: str) -> str:
    if "UnexpectedTracerError" in bases:
        return "the kernel kept a traced value from an earlier call (in a global, a list, self): return it instead"
    if "ConcretizationTypeError" in bases or "NonConcreteBooleanIndexError" in bases:
        return "a Python decision depends on a traced value: name that argument under `static:`, or use jnp.where"
    if "Non-hashable static arguments" in message:
        return "jit hashes static arguments: give a number, text or a list (which becomes a tuple), not an array"
    return ""


def _without_golden(golden: GoldenView, findings: Sequence[Finding]) -> dict[str, Any]:
    status = {"missing": Status.MISSING, "stale": Status.STALE, "damaged": Status.ERROR}[golden.state]
    also = "; also: " + _summary(findings) if findings else ""
    found = [*findings, *([Finding(kind="golden", message=golden.reason)] if golden.state == "damaged" else [])]
    return {"status": status, "reason": golden.reason + also, "hint": golden.hint, "findings": found}


def _summary(findings: Sequence[Finding]) -> str:
    shown = "; ".join(finding.message for finding in findings[:REASONS_SHOWN])
    more = len(findings) - REASONS_SHOWN
    return shown + (f"; and {more} more" if more > 0 else "")


def _judge_values(
    recipe: Recipe, case: Case, outcome: Outcome, golden: GoldenView, eager: Tree | None, environment: Environment
) -> dict[str, Any]:
    assert outcome.outputs is not None
    comparison = Comparison(recipe, environment.backend, outcome.inputs)
    findings = [*_disturbances(outcome), *_nonfinite(recipe, case, outcome.outputs)]
    held = None
    if golden.state == "present" and golden.case is not None and golden.case.outputs is not None:
        expected, words = golden.case.outputs, "differs from the golden"
        held = _held(recipe, comparison, golden.case, expected, outcome.outputs, words, environment)
        findings += held.moved
    against: dict[Against, tuple[LeafResult, ...]] = {}
    if eager is not None and outcome.mode != "eager":
        words = f"{outcome.mode} disagrees with eager"
        apart, pairs = comparison.trees("modes", eager, outcome.outputs, words, "eager")
        findings += apart
        if any(leaf.bit_equal < leaf.size for leaf in pairs):
            against["eager"] = pairs
    for words, expected, actual in outcome.pairs:
        others = Comparison(recipe, environment.backend)  # computed from other inputs than this check's
        findings += others.trees("modes", expected, actual, words, "the single call")[0]
    if outcome.reference is not None:
        wrong, pairs = comparison.with_reference(outcome.reference, outcome.outputs)
        findings += wrong
        against["reference"] = pairs
    findings.sort(key=lambda finding: finding.kind != "modes")  # the diagnosis; what else differs follows from it
    return {"against": against, **_ended(recipe, case, outcome, golden, findings, held)}


@dataclass(frozen=True)
class _Held:
    """A tree held against the golden's: findings for what moved, all leaves, and what to say besides."""

    moved: Sequence[Finding]
    leaves: tuple[LeafResult, ...] = ()
    settings: Sequence[str] = ()
    notes: Sequence[str] = ()


def _held(
    recipe: Recipe,
    comparison: Comparison,
    golden: GoldenCase,
    expected: Tree,
    actual: Tree,
    words: str,
    environment: Environment,
) -> _Held:
    moved, leaves = comparison.trees("golden", expected, actual, words)
    leaves = verdicts.judged(leaves, golden, expected, actual, recipe)
    settings = environment_notes(golden.blessing.environment, environment) if moved else []
    return _Held(moved, leaves, settings, verdicts.remarks(leaves, golden))


def _ended(
    recipe: Recipe, case: Case, outcome: Outcome, golden: GoldenView, findings: list[Finding], held: _Held | None
) -> dict[str, Any]:
    """Status, reason and hint, from all that was found."""
    held = held or _Held(())
    leaves, settings = held.leaves, held.settings
    facts: dict[str, Any] = {
        "leaves": leaves,
        "notes": [*settings, *held.notes, *outcome.reply["notes"]],
        "drifted": any(leaf.bit_equal < leaf.size for leaf in leaves),
    }
    if golden.state != "present":
        return facts | _without_golden(golden, findings)
    reason = "; ".join([*settings, _summary(findings), *verdicts.in_words(leaves)]) if findings else ""
    status = Status.FAIL if findings else Status.PASS
    if any(finding.kind in ("tolerance", "inputs") for finding in findings):
        status = Status.ERROR
    hint = _fail_hint(recipe, case, findings, leaves)
    return facts | {"status": status, "reason": reason, "findings": findings, "hint": hint}


def _fail_hint(recipe: Recipe, case: Case, findings: Sequence[Finding], leaves: Sequence[LeafResult]) -> str:
    if not any(finding.kind == "golden" for finding in findings):
        return ""
    name = shlex.quote(f"{recipe.name}::{case.name}")
    if {leaf.verdict for leaf in leaves if leaf.reason} == {"improved"}:
        return f'every leaf that moved is nearer to the truth: jaxcheck bless {name} --reason "…"'
    return f"jaxcheck diff {name}"


def _disturbances(outcome: Outcome) -> list[Finding]:
    """What a kernel must not do, and what its recipe says of it."""
    reply = outcome.reply
    found = [Finding(kind="mutation", message=f"the kernel changed its argument {name}") for name in reply["mutated"]]
    found += [Finding.model_validate(finding) for finding in reply["findings"]]
    for name, (old, new) in reply["changes"].items():
        found.append(Finding(kind="config", message=f"the kernel changed {name}: {old!r} -> {new!r} (put back)"))
    for violation in reply["violations"]:
        text = f"property {violation['property'].partition(':')[2]} does not hold: {violation['message']}"
        found.append(Finding(kind="property", message=text))
    if reply.get("reference_error"):
        found.append(Finding(kind="reference", message=f"the reference failed: {reply['reference_error']}"))
    return found


def _nonfinite(recipe: Recipe, case: Case, outputs: Tree) -> list[Finding]:
    found = []
    for leaf in outputs.leaves:
        rule = output_rule(recipe, leaf.path)
        allowed = case.nonfinite if rule is None or rule.nonfinite is None else rule.nonfinite
        if allowed or leaf.impl is not None:
            continue
        if (first := first_nonfinite(leaf.array())) is not None:
            index, value = first
            text = f"{value} at {list(index)} of {leaf.path} (`nonfinite: allow`, if it is meant)"
            found.append(Finding(kind="nonfinite", message=text))
    return found


def environment_notes(blessed: Mapping[str, Any], now: Environment) -> list[str]:
    """Settings that move every random draw or every float: said before a thousand elements are listed."""
    notes = []
    prng = {"prng_impl": now.prng_impl, "threefry_partitionable": now.threefry_partitionable}
    for name, value in prng.items():
        if name in blessed and blessed[name] != value:
            notes.append(f"PRNG configuration differs from the golden's: {name} {blessed[name]} -> {value}")
    if blessed.get("x64", now.x64) != now.x64:
        notes.append(f"x64 differs from the golden's: {blessed['x64']} -> {now.x64}")
    if blessed.get("backend", now.backend) != now.backend:
        notes.append(f"the golden was made on {blessed['backend']}, this is {now.backend}")
    if blessed.get("matmul_precision", now.matmul_precision) != now.matmul_precision:
        before = blessed["matmul_precision"]
        notes.append(f"matmul precision differs from the golden's: {before} -> {now.matmul_precision}")
    return notes
