"""A bisection as a person reads it: every run in the order it was made, then which release it was."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxcheck.report import words
from jaxcheck.report.indent import Indented
from jaxcheck.report.safe import line
from jaxcheck.results.bisection import BisectAnswer, Bisection, BisectProbe

NAMES_SHOWN = 3
ITEMS_SHOWN = 10
STYLES = {"good": "green", "bad": "red", "skip": "yellow", "mixed": "", "baseline": "dim"}
# What became of it, and how the last good release is told apart; by what was asked, and how it stands at the bad end.
SAID: dict[tuple[str, str], tuple[str, str]] = {
    ("moved", "moved"): ("moved first in", "the last that gives the old bits"),
    ("tolerance", "beyond"): ("moved beyond tolerance first in", "the last that is within it"),
    ("truth", "farther"): ("moved away from the truth, beyond tolerance, first in", "the last that did not"),
    ("structure", "other"): ("had outputs of another structure first in", "the last with the old one"),
    ("error", "broken"): ("broke first in", "the last that runs"),
    ("error", "runs"): ("ran first in", "the last that is broken"),
    ("slower", "slower"): ("took longer first in", "the last that does not"),
}
ASKED = {
    "moved": "any bit of an output, or an exception",
    "tolerance": "beyond tolerance",
    "truth": "beyond tolerance, away from the truth",
    "error": "broken or not",
    "slower": "slower than the noise of the good end",
    "golden": "right or wrong by the golden",
}


def render(bisection: Bisection, verbosity: int = 0) -> RenderableType:
    """What to print. `verbosity` -1: the answer only; 1: how every output came out in every run."""
    sections: list[Iterator[RenderableType]] = []
    if verbosity >= 0:
        sections += [_headline(bisection), _runs(bisection, verbosity), _remarks(bisection), _next(bisection)]
    parts = [part for part in (list(section) for section in sections) if part]
    return Group(*(Group(*part, Text()) for part in parts), *_answers(bisection))


def _headline(bisection: Bisection) -> Iterator[RenderableType]:
    ends = f"{bisection.good} (good) -> {bisection.bad} (bad)"
    yield Text.assemble("bisect ", (line(f"{bisection.package} {ends}"), "bold"))
    others = f", with {', '.join(bisection.requirements)}" if bisection.requirements else ""
    releases = words.count(len(bisection.releases), "release")
    yield Indented(Text(line(f"{ASKED[bisection.predicate]}; {releases}, Python {bisection.python}{others}")))
    if bisection.not_offered:
        text = f"not offered for this Python, and so not tried: {', '.join(bisection.not_offered)}"
        yield Indented(Text(line(text), style="yellow"))


def _runs(bisection: Bisection, verbosity: int) -> Iterator[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(line(bisection.package), no_wrap=True)
    table.add_column("run", no_wrap=True)
    table.add_column("came out", overflow="fold", ratio=1)
    table.add_column("time", justify="right", no_wrap=True)
    for probe in bisection.probes:
        kind = came_out(probe)
        told = Text(kind if kind != "mixed" else "", style=STYLES[kind])
        told.append(_detail(bisection, probe, kind, verbosity))
        again = " (earlier)" if probe.reused else ""
        table.add_row(line(probe.version), _run_name(bisection, probe) + again, told, words.seconds(probe.seconds))
    yield table


def came_out(probe: BisectProbe) -> str:
    """`good`, `bad` or `skip` where all outputs came out so; else `mixed`."""
    if probe.attempt == "baseline":
        return "baseline"
    kinds = set(probe.outcomes)
    if not kinds:
        return "skip" if probe.reason else "good"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _run_name(bisection: Bisection, probe: BisectProbe) -> str:
    if probe.attempt == "again":
        return "again"
    return {bisection.good: "good end", bisection.bad: "bad end"}.get(probe.version, "between")


def _detail(bisection: Bisection, probe: BisectProbe, kind: str, verbosity: int) -> str:
    if kind == "baseline":
        return ": the others are compared with it"
    if verbosity > 0 and probe.outcomes:
        pairs = zip(bisection.answers, probe.outcomes, strict=True)
        return "".join(f"\n{line(name(answer))}: {outcome}" for answer, outcome in pairs)
    if kind == "skip":
        return f": {line(probe.reason)}"
    if kind != "mixed":
        return f" (all {len(probe.outcomes):,})" if len(probe.outcomes) > 1 else ""
    told = []
    for outcome in ("bad", "good", "skip"):
        alike = [answer for answer, one in zip(bisection.answers, probe.outcomes, strict=True) if one == outcome]
        if alike:
            told.append(f"{outcome}: {_names(alike)}")
    return "; ".join(told)


def name(answer: BisectAnswer) -> str:
    """`lgamma::one[jit] ['y']`; the path of an output that is one array is left out."""
    return f"{answer.check} {answer.path.removeprefix('.')}".rstrip()


def _names(answers: Sequence[BisectAnswer]) -> str:
    """`lgamma::one[eager,jit], lgamma::two[jit] and 3 more`: of one output, the modes are told together."""
    modes: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        case, _, mode = answer.check.removesuffix("]").rpartition("[")
        modes.setdefault((case, name(answer).removeprefix(answer.check)), []).append(mode)
    names = [f"{case}[{','.join(several)}]{path}" for (case, path), several in modes.items()]
    more = len(names) - NAMES_SHOWN
    return line(", ".join(names[:NAMES_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _remarks(bisection: Bisection) -> Iterator[RenderableType]:
    for text in bisection.remarks[:ITEMS_SHOWN]:
        yield Text(line(text), style="yellow")
    if len(bisection.remarks) > ITEMS_SHOWN:
        yield Text(
            f"and {words.count(len(bisection.remarks) - ITEMS_SHOWN, 'remark')} more (-o FILE.json has them all)"
        )


def _next(bisection: Bisection) -> Iterator[RenderableType]:
    commands = next_commands(bisection)
    if commands:
        yield Text("next", style="bold")
        # Not indented as the rest is: that would cut it off, and it is to be copied.
        yield from (Text(f"  {command}", style="cyan", no_wrap=True, overflow="ignore") for command in commands)


def next_commands(bisection: Bisection) -> list[str]:
    """What there is to do: see the two neighbours compared in full; or another predicate for what was unstable."""
    commands = []
    found = next((answer for answer in bisection.answers if answer.state in ("found", "range")), None)
    if found:
        first = (probe for probe in bisection.probes if probe.attempt != "again" and probe.folder)
        folders = {probe.version: probe.folder for probe in first}
        if found.last_good in folders and found.first_bad in folders:
            pair = folders[found.last_good], folders[found.first_bad]
            commands.append(f"jaxcheck compare {' '.join(map(shlex.quote, pair))}")
    unstable = next((answer for answer in bisection.answers if answer.state == "unstable"), None)
    if unstable and bisection.predicate != "golden":
        ends = f"--good {bisection.good} --bad {bisection.bad}"
        package = "" if bisection.package == "jax" else f" --package {shlex.quote(bisection.package)}"
        commands.append(f"jaxcheck bisect {shlex.quote(unstable.check)} {ends}{package} --predicate golden")
    return commands


def _answers(bisection: Bisection) -> Iterator[RenderableType]:
    """One sentence for all outputs that moved alike; the last one is the verdict."""
    groups: dict[tuple[object, ...], list[BisectAnswer]] = {}
    for answer in bisection.answers:
        key = (answer.state, answer.last_good, answer.first_bad, answer.kind, answer.after, answer.reason)
        groups.setdefault(key, []).append(answer)
    for answers in sorted(groups.values(), key=lambda group: group[0].state == "found"):
        yield Text(sentence(bisection, answers), style="bold green" if answers[0].state == "found" else "bold yellow")
        if answers[0].also and answers[0].state != "unstable":
            told = ", ".join(f"{one.name} {one.before or 'none'} -> {one.after or 'none'}" for one in answers[0].also)
            yield Indented(Text(line(f"between the two these differ as well: {told}"), style="dim"))
    yield Text(last_line(bisection), style="" if bisection.answers else "bold yellow")


def sentence(bisection: Bisection, answers: Sequence[BisectAnswer]) -> str:
    """`f::a[jit] moved first in jax 0.12.0 (0.11.2 is the last that gives the old bits), confirmed on ...`."""
    one = answers[0]
    names = _names(answers)
    before, after = line(one.before), line(one.after)
    if one.kind == "golden":
        became, last = f"{_is(answers)} {after} by the golden first in", f"the last that is {before}"
    else:
        became, last = SAID.get((one.kind, one.after), (f"became {after} first in", f"the last that is {before}"))
    package = line(bisection.package)
    if one.state == "found":
        return f"{names} {became} {package} {one.first_bad} ({one.last_good} is {last}), confirmed on both neighbours"
    if one.state == "range":
        several = ", ".join([*one.skipped, one.first_bad])
        return (
            f"{names} {became} one of {package} {several} ({one.last_good} is {last} for certain; of those that were "
            f"skipped nothing can be told), confirmed on {one.last_good} and {one.first_bad}"
        )
    return f"unstable: {names} cannot be told: {line(one.reason)} ({package} {one.last_good} to {one.first_bad})"


def _is(answers: Sequence[BisectAnswer]) -> str:
    return "is" if len(answers) == 1 else "are"


def last_line(bisection: Bisection) -> str:
    """`found: 2 outputs in 6 runs (1 skipped, 3 from earlier) of 5 releases in 61.2 s`."""
    probes = bisection.probes
    runs = words.count(sum(bool(probe.folder) for probe in probes), "run")
    more = [f"{number:,} {what}" for number, what in _counts(probes) if number]
    spent = f"{runs}{' (' + ', '.join(more) + ')' if more else ''} in {words.seconds(bisection.seconds)}"
    if not bisection.answers:
        span = f"{bisection.package} {bisection.good} and {bisection.bad}"
        asked = ASKED[bisection.predicate]
        compared = words.count(bisection.compared, "check")
        return line(f"not found: between {span} nothing differs ({asked}); {compared} compared, {spent}")
    states = [answer.state for answer in bisection.answers]
    told = [f"{states.count(state):,} {text}" for state, text in _STATES if state in states]
    return f"{', '.join(told)}; {spent}"


_STATES = (("found", "found"), ("range", "to a range only"), ("unstable", "unstable"))


def _counts(probes: Sequence[BisectProbe]) -> list[tuple[int, str]]:
    return [
        (sum(not probe.folder for probe in probes), "skipped"),
        (sum(probe.reused for probe in probes), "from an earlier command"),
    ]
