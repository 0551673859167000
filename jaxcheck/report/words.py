"""The words and numbers that every format uses: statuses, totals, ratios, values. Plain strings."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

from jaxcheck.results import (
    CheckResult,
    CompiledPrograms,
    Environment,
    LeafResult,
    Node,
    Run,
    Status,
    Value,
    totals,
)

INFINITE = 1e300  # a ratio or difference beyond this is the largest float64, which stands for infinity
NODES_SHOWN = 10
COUNTED = {
    Status.PASS: ("passed", "passed"),
    Status.FAIL: ("failed", "failed"),
    Status.ERROR: ("error", "errors"),
    Status.CRASH: ("crashed", "crashed"),
    Status.TIMEOUT: ("timed out", "timed out"),
    Status.MISSING: ("missing", "missing"),
    Status.STALE: ("stale", "stale"),
    Status.SKIP: ("skipped", "skipped"),
}


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 check`, `2 checks`, `1,024 checks`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def verified_anything(run: Run) -> bool:
    return any(result.status is not Status.SKIP for result in run.results)


def totals_line(run: Run) -> str:
    """`42 passed (3 drifted), 2 failed, 1 skipped in 3.4 s`; says so where nothing was verified or it was cut short."""
    by_status = totals(run.results)
    drifted = sum(result.drifted for result in run.results if result.status is Status.PASS)
    parts = [
        count(by_status[status], *words) + (f" ({drifted:,} drifted)" if status is Status.PASS and drifted else "")
        for status, words in COUNTED.items()
        if by_status[status]
    ]
    if not verified_anything(run):
        parts.insert(0, "nothing was verified")
    if run.damaged_goldens:
        parts.append(count(len(run.damaged_goldens), "damaged golden"))
    line = f"{', '.join(parts)} in {seconds(run.seconds)}"
    return f"interrupted: {line}" if run.interrupted else line


def status_counts(results: Iterable[CheckResult]) -> str:
    """`pass` where all passed; else what happened and how often: `2 fail, 1 crash, 5 pass`."""
    by_status = {status: number for status, number in totals(results).items() if number}
    if len(by_status) == 1:
        return next(iter(by_status))
    bad_first = sorted(by_status, key=lambda status: status == Status.PASS)
    return ", ".join(f"{by_status[status]:,} {status}" for status in bad_first)


def extent(leaves: Sequence[LeafResult]) -> str:
    """How far the leaves moved, by the one that moved furthest; nothing where there are none."""
    if not leaves:
        return ""
    if any(leaf.nonfinite for leaf in leaves):
        return "NaN or inf disagrees"
    furthest = max(leaves, key=lambda leaf: leaf.violation_ratio)
    if furthest.violation_ratio >= INFINITE:
        return f"{furthest.mismatched:,} of {furthest.out_of} differ" if furthest.seen else "another digest"
    if all(leaf.bit_equal == leaf.size for leaf in leaves):
        return "bit-equal"
    part = "" if furthest.compared is None else f" ({furthest.compared:,} of {furthest.size:,} elements compared)"
    if furthest.violation_ratio > 1:
        return f"{factor(furthest.violation_ratio)} tolerance{part}"
    return f"drift {furthest.violation_ratio:.2g} of tolerance{part}"


def factor(ratio: float) -> str:
    """`12.3 x`; what is above 1 never reads as 1."""
    digits = 3
    while digits < 17 and float(f"{ratio:.{digits}g}") <= 1 < ratio:
        digits += 1
    return f"{ratio:.{digits}g} x"


def measure(value: float) -> str:
    """A difference, in three digits."""
    return "inf" if value >= INFINITE else f"{value:.3g}"


def number(value: float) -> str:
    """`13,642`, `3.21`: how many eps, or how many times."""
    if value >= INFINITE:
        return "inf"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ulps(value: float) -> str:
    if value >= INFINITE:
        return "inf"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.3g}"


def element(value: Value, dtype: str) -> str:
    """An array's element in as few digits as tell it from its neighbours in its own dtype."""
    if not isinstance(value, float):
        return "NaN" if value == "nan" else str(value)
    if dtype == "float64":
        return repr(value)
    if dtype != "float32":
        return f"{value:.5g}"
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next((text for text in texts if ctypes.c_float(float(text)).value == value), f"{value:.9g}")


def array_type(leaf: LeafResult) -> str:
    """`float32[4, 3]`."""
    return f"{leaf.dtype}{list(leaf.shape)}"


def tolerance(leaf: LeafResult) -> str:
    """`rtol 2e-06 atol 2e-06 (recipes.yaml:12:5)`."""
    used = leaf.tolerance
    return f"rtol {used.rtol:g} atol {used.atol:g} ({used.source})"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"


def programs(compiled: CompiledPrograms) -> str:
    """`1,180 from the cache, 12 compiled`; why the cache was not used where it was not."""
    if compiled.off:
        return f"all compiled (no cache: {compiled.off})"
    return f"{compiled.hits:,} from the cache, {compiled.misses:,} compiled"


def node_facts(run: Run) -> dict[str, str]:
    """The nodes of a cluster, those that differ or were lost first."""
    notable = sorted(run.nodes, key=lambda node: not (node.differs or node.lost))
    facts = {f"node {node.name}": _node(node) for node in notable[:NODES_SHOWN]}
    more = len(notable) - NODES_SHOWN
    return facts | ({"more nodes": f"{more:,}, all of them in the report as JSON"} if more > 0 else {})


def _node(node: Node) -> str:
    """`12 checks; it differs: jax 0.12.0`."""
    told = [count(node.checks, "check")]
    if node.differs:
        told.append("it differs: " + ", ".join(f"{name} {value}" for name, value in node.differs.items()))
    return "; ".join([*told, *([f"lost: {node.lost}"] if node.lost else [])])


def environment_facts(environment: Environment) -> dict[str, str]:
    """What made the numbers, in the order in which a person asks."""
    devices = f"{environment.device_count} x {environment.device_kind}"
    cores = f", {count(environment.cpu_count, 'core')}" if environment.cpu_count else ""
    versions = {
        "jax": environment.jax,
        "jaxlib": environment.jaxlib,
        "optax": environment.optax or "none",
        "numpy": environment.numpy,
        "Python": environment.python,
    }
    precision = environment.matmul_precision or "default"
    facts = {
        "backend": f"{environment.backend}, {devices}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "cpu": environment.cpu + cores,
        "XLA flags": environment.xla_flags or "none",
        "precision": f"x64 {'on' if environment.x64 else 'off'}, matmul precision {precision}",
    }
    if environment.config:
        facts["config"] = ", ".join(f"{name}={value}" for name, value in environment.config.items())
    return facts
