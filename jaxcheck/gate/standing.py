"""How a check, or a leaf of it, stands in a release, and what of that is worth a search. Pure functions of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxcheck.gate.comparison import MOVED
from jaxcheck.gate.search import Told
from jaxcheck.gate.turns import slower
from jaxcheck.results import CheckResult, LeafResult, Status
from jaxcheck.results.bisection import BisectTarget

Predicate = Literal["moved", "tolerance", "truth", "error", "slower", "golden"]
Kind = Literal["moved", "tolerance", "truth", "error", "slower", "golden", "structure"]
# What is searched for under each predicate. Any move at all is also one of the tree of outputs, or an exception.
KINDS: Mapping[Predicate, tuple[Kind, ...]] = {
    "moved": ("moved", "structure", "error"),
    "tolerance": ("tolerance", "structure"),
    "truth": ("truth",),
    "error": ("error",),
    "slower": ("slower",),
    "golden": ("golden",),
}
CALL, COMPILING = "call", "compiling"
Rounds = tuple[tuple[float, ...], tuple[float, ...]]
Times = Mapping[str, Mapping[str, Rounds]]
OF_LEAVES = frozenset({"moved", "tolerance", "truth"})
BY_GOLDEN = {Status.PASS: "right", Status.FAIL: "wrong", Status.ERROR: "broken", Status.CRASH: "broken"}
BY_GOLDEN[Status.TIMEOUT] = "broken"


@dataclass(frozen=True)
class Evidence:
    """One run: every check as it ended against its golden, and as compared with the good end's run; both by id.

    `times` are {check: {CALL or COMPILING: seconds by round of the good end, and of this release}}; None for the good
    end's run itself.
    """

    own: Mapping[str, CheckResult]
    compared: Mapping[str, CheckResult]
    times: Times | None = None


@dataclass(frozen=True)
class Standing:
    """A word for how it stands, the same word in every release where it stands so; None where nothing can be told."""

    word: str | None
    reason: str = ""


def standing(kind: Kind, check: str, path: str, run: Evidence) -> Standing:
    """How a check, or its leaf at `path`, stands in a run."""
    compared, own = run.compared.get(check), run.own.get(check)
    if compared is None or own is None:
        return Standing(None, "it is not part of the run")
    if kind == "golden":
        return _by_golden(own)
    if compared.verdict is None:
        return Standing(None, compared.reason)
    if kind == "error":
        return Standing("broken", compared.reason) if compared.verdict == "broken" else Standing("runs")
    if kind == "slower":
        return _by_time(check, path, run.times)
    if kind == "structure":
        return _by_structure(compared)
    leaf = next((leaf for leaf in compared.leaves if leaf.path == path), None)
    return Standing(None, compared.reason or "it has no such output") if leaf is None else Standing(_word(kind, leaf))


def _word(kind: Kind, leaf: LeafResult) -> str:
    if kind == "tolerance":
        return "beyond" if leaf.reason else "within"
    if kind == "truth":
        return "farther" if leaf.verdict == "regressed" else "not farther"
    return "moved" if leaf.bit_equal < leaf.size or leaf.reason else "same"


def _by_golden(own: CheckResult) -> Standing:
    word = BY_GOLDEN.get(own.status)
    return Standing(word, own.reason if word != "right" else "")


def _by_structure(compared: CheckResult) -> Standing:
    if compared.leaves or compared.verdict == "unchanged":
        return Standing("same")
    return Standing("other", compared.reason) if compared.verdict in MOVED else Standing(None, compared.reason)


def _by_time(check: str, what: str, times: Times | None) -> Standing:
    if times is None:
        return Standing("not slower")
    if check not in times:
        return Standing(None, "it was not timed: only the modes eager and jit are, where they give values")
    ratio = slower(*times[check][what])
    return Standing("slower", f"{ratio:.2f} x") if ratio else Standing("not slower")


def times_of(results: Sequence[CheckResult]) -> dict[str, dict[str, Rounds]]:
    """What timing in turns found, as Evidence has it."""
    return {
        result.id: {CALL: (old.rounds, new.rounds), COMPILING: (old.compiling, new.compiling)}
        for result in results
        if (old := result.baseline and result.baseline.latency) and (new := result.latency)
    }


def tell(target: BisectTarget, run: Evidence) -> Told:
    """Good where it stands as at the good end, bad where as at the bad one."""
    found = standing(target.kind, target.check, target.path, run)
    if found.word == target.before:
        return Told("good", found.reason)
    if found.word == target.after:
        return Told("bad", found.reason)
    reason = f"it is {found.word}: {found.reason}" if found.word else found.reason
    return Told("skip", f"{name_of(target)}: {reason}")


@dataclass(frozen=True)
class Aims:
    """What to search for; `unstable` is what the good end does not repeat, with how, and is not searched for."""

    targets: tuple[BisectTarget, ...]
    unstable: tuple[tuple[BisectTarget, str], ...] = ()
    remarks: tuple[str, ...] = ()


def aims(predicate: Predicate, itself: Evidence, good: Evidence, bad: Evidence) -> Aims:
    """What stands otherwise at the bad end than at the good one.

    `itself` is the good end's run compared with itself, `good` a second run of it. Where a check differs from itself
    there, its numbers say nothing; but its golden may still tell which side is right.
    """
    targets: list[BisectTarget] = []
    unstable: list[tuple[BisectTarget, str]] = []
    remarks: list[str] = []
    by_golden: dict[tuple[str, str], list[str]] = {}
    for check in bad.compared:
        wanted = [aim for kind in KINDS[predicate] for aim in _differing(kind, check, itself, bad)]
        flips = [(aim, why) for aim in wanted if (why := _flip(aim, good))]
        if not flips:
            targets += wanted
            if not wanted and (why := _untold(predicate, check, itself, bad)):
                remarks.append(f"{check}: {why}")
            continue
        instead = [aim for aim in _differing("golden", check, itself, bad) if not _flip(aim, good)]
        if instead and predicate != "golden":
            targets += instead
            by_golden.setdefault((instead[0].before, instead[0].after), []).append(check)
        else:
            unstable += flips
            targets += [aim for aim in wanted if aim not in [flip for flip, _ in flips]]
    for (before, after), checks in by_golden.items():
        remarks.append(
            f"not the same twice in the good end, so that no bits can be searched for: {', '.join(checks)}; "
            f"by the golden {before} there and {after} at the bad end, which was searched for instead"
        )
    return Aims(tuple(targets), tuple(unstable), tuple(remarks))


def _differing(kind: Kind, check: str, itself: Evidence, bad: Evidence) -> Iterator[BisectTarget]:
    compared = bad.compared[check]
    paths = [leaf.path for leaf in compared.leaves] if kind in OF_LEAVES else [""]
    if kind == "slower":
        paths = [CALL, COMPILING]
    if kind == "error" and compared.leaves and _has_moved_leaf(compared):
        paths = []  # its leaves say it more precisely
    for path in paths:
        before, after = standing(kind, check, path, itself).word, standing(kind, check, path, bad).word
        if before and after and before != after:
            yield BisectTarget(check=check, path=path, kind=kind, before=before, after=after)


def _has_moved_leaf(compared: CheckResult) -> bool:
    return any(_word("moved", leaf) == "moved" for leaf in compared.leaves)


def _flip(aim: BisectTarget, good: Evidence) -> str:
    found = standing(aim.kind, aim.check, aim.path, good)
    return "" if found.word == aim.before else f"in a second run of the good end it is {found.word or found.reason}"


def _untold(predicate: Predicate, check: str, itself: Evidence, bad: Evidence) -> str:
    """Why nothing can be said of a check, where it is not simply that nothing moved."""
    if predicate == "golden":
        for end, run in (("good", itself), ("bad", bad)):
            found = standing("golden", check, "", run)
            if found.word is None:
                return f"at the {end} end: {found.reason}"
        return ""
    compared = bad.compared[check]
    if compared.verdict is None:
        return compared.reason
    if compared.verdict == "broken" and predicate not in ("moved", "error"):
        return f"{compared.reason} (--predicate error looks for that)"
    if compared.verdict == "broken" and compared.status is Status.SKIP:
        return compared.reason
    if predicate == "truth" and any(leaf.verdict == "changed" for leaf in compared.leaves):
        return "it moved, and nothing tells which side is nearer to the truth (--predicate tolerance looks for that)"
    if predicate == "slower":
        return standing("slower", check, CALL, bad).reason
    return ""


def name_of(target: BisectTarget) -> str:
    """`lgamma::one[jit] ['y']`."""
    return f"{target.check} {target.path}".rstrip()
