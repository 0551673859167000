"""Measures `jaxcheck run` on 10, 100 and 1,000 recipes of differing shapes: seconds a recipe, the harness's own share
of a check, and the memory of worker and parent.

Every recipe has a shape of its own, so that it compiles programs of its own, eagerly and under jit. Whole processes
with one worker, in turns, as a user starts them. `compiling`: without the compilation cache; `cached`: everything is
there. Seconds a recipe are those of a run divided by its recipes, its start included.

The harness's own share is what a check costs beside its kernel: recipes that return their argument (`trivial`), from
the cache; from 100 to 1,000 of them, so that starting does not count, less the seconds that the report has for the
calls themselves. It contains what JAX takes to find out whether the kernel is traced again and uses a key twice, which
the harness asks of it. The same in CPU seconds, of both processes, which other work on the machine touches less: less
those of a script that makes the same calls and nothing else (`by hand`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from circumstances import circumstances

JAXCHECK = str(Path(sys.executable).with_name("jaxcheck"))
RUN = ["run", "--quiet", "-j", "1"]
FORMS = {
    "chain": {"x": "{n}"},
    "dense": {"x": "4, {n}", "w": "{n}, 3"},
    "normalized": {"x": "3, {n}"},
    "running": {"x": "5, {n}"},
    "slope": {"x": "4, {n}", "w": "{n}"},
}
TRIVIAL = {"identity": {"x": "{n}"}}
KERNELS = """
import jax
import jax.numpy as jnp


def chain(x):
    return jnp.tanh(x) * jnp.exp(-x * x) + jnp.sin(x)


def dense(x, w):
    return jax.nn.relu(x @ w)


def normalized(x):
    return jax.nn.softmax((x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5))


def running(x):
    return jax.lax.scan(lambda carry, row: (0.9 * carry + row, carry), jnp.zeros(x.shape[1:]), x)


def slope(x, w):
    return jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)


def identity(x):
    return x
"""
KINDS = {"compiling": ["--no-cache"], "cached": [], "trivial": [], "by-hand": []}
BY_HAND = "by-hand"
LEAST_SIZE, MANY = 8, 1000
SAMPLE_SECONDS = 0.2
MOST_SPREAD = 0.10  # of the seconds a recipe, from 100 to 1,000
MOST_SHARE = 3.0  # milliseconds a check
MOST_PARENT = 150.0  # MB
SETTLED = 0.5  # of a run: what a worker holds then is the most that it is to hold
MOST_GROWTH = 1.1


@dataclass(frozen=True)
class Run:
    """What a run took, its workers included, and the megabytes that it and its largest worker held meanwhile."""

    seconds: float
    cpu: float
    checks: int
    calls: float
    parent: list[float]
    worker: list[float]

    @property
    def growth(self) -> float:
        """The most that the worker held in the second part, to the most that it held before."""
        settled = int(len(self.worker) * SETTLED)
        return max(self.worker[settled:], default=1.0) / (max(self.worker[:settled], default=0.0) or 1.0)


@dataclass(frozen=True)
class Row:
    """The runs of one kind on so many recipes, one a round."""

    kind: str
    recipes: int
    runs: list[Run] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.runs)

    @property
    def a_recipe(self) -> float:
        """Milliseconds."""
        return 1e3 * self.seconds / self.recipes

    @property
    def cpu_a_recipe(self) -> float:
        return 1e3 * median(run.cpu for run in self.runs) / self.recipes


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000], metavar="N", help="numbers of recipes")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="default: all of them")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--by-hand", nargs=2, metavar=("RECIPES", "CACHE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.by_hand:
        by_hand(int(options.by_hand[0]), options.by_hand[1])
        return
    if len(options.sizes) < 2:
        parser.error("--sizes: at least two, which are compared")
    with tempfile.TemporaryDirectory() as temporary:
        rows = measured(Path(temporary), options.kinds, sorted(options.sizes), options.rounds)
    print(as_markdown(rows, options.rounds))
    if options.json:
        found = {"circumstances": circumstances(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    wrong = list(objections(rows))
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


def measured(folder: Path, kinds: Sequence[str], sizes: Sequence[int], rounds: int) -> list[Row]:
    rows = [Row(kind, size) for kind in kinds for size in sizes]
    cache = folder / "cache"
    for place in dict.fromkeys(project(folder, row) for row in rows if row.kind != BY_HAND):
        run([JAXCHECK, "bless", "--all", "--no-truth", "--reason", "bench", "-j", "1"], place, cache)
    for row in rows:
        if row.kind == BY_HAND:  # for what it compiles
            run(command(row, folder), project(folder, row), cache)
    for _ in range(rounds):
        for row in rows:
            row.runs.append(run(command(row, folder), project(folder, row), cache))
    return rows


def command(row: Row, folder: Path) -> list[str]:
    if row.kind == BY_HAND:
        bench = str(Path(__file__).with_name("bench.py"))
        return [sys.executable, bench, "scale", "--by-hand", str(row.recipes), str(folder / "cache-by-hand")]
    return [JAXCHECK, *RUN, *KINDS[row.kind]]


def by_hand(recipes: int, cache: str) -> None:
    """What the trivial recipes have their worker do, and nothing else: two calls of each, the results fetched."""
    import jax
    import numpy as np

    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    for number in range(recipes):
        given = np.ones(width(number, recipes), np.float32)

        def identity(x: Any) -> Any:
            return x

        for call in (identity, jax.jit(identity)):
            np.asarray(call(jax.device_put(given)))


def project(folder: Path, row: Row) -> Path:
    """A registry of that many recipes, every one with a shape of its own."""
    forms, size = (TRIVIAL if row.kind in ("trivial", BY_HAND) else FORMS), row.recipes
    place = folder / f"{next(iter(forms))}-{size}"
    if place.exists():
        return place
    place.mkdir()
    (place / "kernels.py").write_text(KERNELS)
    lines = ["version: 1", "defaults: {tolerance: {float32: {rtol: 1e-5, atol: 1e-5}}}", "recipes:"]
    for number in range(size):
        name, shapes = list(forms.items())[number % len(forms)]
        n = width(number, size, len(forms))
        given = ", ".join(
            f"{argument}: {{$normal: {{shape: [{shape.format(n=n)}], seed: {number}}}}}"
            for argument, shape in shapes.items()
        )
        cases = f"{{standard: {{args: {{{given}}}}}}}"
        lines.append(f"  {name}-{number:04d}: {{kernel: 'kernels:{name}', cases: {cases}}}")
    (place / "recipes.yaml").write_text("\n".join(lines) + "\n")
    return place


def width(number: int, recipes: int, forms: int = 1) -> int:
    """The size of an array of that recipe. Each form has each width once, and few recipes are spread over the widths
    that many have: XLA takes a quarter longer for the largest than for the smallest."""
    widths = max(recipes, MANY) // forms
    return LEAST_SIZE + number // forms * widths // max(1, recipes // forms)


def run(words: list[str], place: Path, cache: Path) -> Run:
    ours = ("JAXCHECK_", "JAX_")
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith(ours)}
    log = place / "log.txt"
    with log.open("w") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=place, env={**kept, "JAXCHECK_CACHE": str(cache)}, stdout=output, stderr=subprocess.STDOUT
        )
        memory = Memory(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        memory.stop()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)}\nended with {process.returncode}:\n{log.read_text()[-4000:]}")
    report = place / ".jaxcheck/run.json"
    results = json.loads(report.read_text())["results"] if report.exists() else []
    calls = sum(result["seconds"] for result in results)
    return Run(seconds, used.ru_utime + used.ru_stime, len(results), calls, memory.parent, memory.worker)


class Memory(threading.Thread):
    """Megabytes that a process and its children hold, again and again; of the children the largest."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._end = pid, threading.Event()
        self.parent: list[float] = []
        self.worker: list[float] = []
        self.start()

    def run(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            if own := resident(self._pid):
                self.parent.append(own)
                self.worker.append(max(map(resident, children(self._pid)), default=0.0))

    def stop(self) -> None:
        self._end.set()
        self.join()


def resident(pid: int) -> float:
    """0 for a process that is gone (Linux)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def children(pid: int) -> Iterator[int]:
    try:
        threads = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return
    for text in threads:
        yield from map(int, text.split())


def own_share(rows: Sequence[Row]) -> dict[str, float]:
    """Milliseconds that one more check of nothing costs, from the last number of recipes but one to the last: its
    `seconds`, and those of `cpu`, as far as what they are compared with was run."""
    found = {}
    if len(trivial := _last_two(rows, "trivial")) == 2:
        found["seconds"] = median(
            (more.seconds - more.calls - fewer.seconds + fewer.calls) / (more.checks - fewer.checks)
            for fewer, more in zip(trivial[0].runs, trivial[1].runs, strict=True)
        )
        if len(by_hand := _last_two(rows, BY_HAND)) == 2:
            found["cpu"] = _cpu_a_check(trivial) - _cpu_a_check(by_hand)
    return {kind: 1e3 * seconds for kind, seconds in found.items()}


def _last_two(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row.kind == kind][-2:]


def _cpu_a_check(rows: Sequence[Row]) -> float:
    pairs = zip(rows[0].runs, rows[1].runs, strict=True)
    return median(more.cpu - fewer.cpu for fewer, more in pairs) / (2 * (rows[1].recipes - rows[0].recipes))


def objections(rows: Sequence[Row]) -> Iterator[str]:
    """What is slower or larger than it is meant to be."""
    for kind in dict.fromkeys(row.kind for row in rows if row.kind != BY_HAND):
        fewer, more = [row for row in rows if row.kind == kind][-2:]
        change = more.a_recipe / fewer.a_recipe - 1
        if change > MOST_SPREAD:
            yield f"{kind}: a recipe takes {change:+.0%} from {fewer.recipes:,} to {more.recipes:,} recipes"
        if (growth := median(run.growth for run in more.runs)) > MOST_GROWTH:
            yield f"{kind}: the worker grew to {growth:.2f} times what it held in the first {SETTLED:.0%} of its run"
        if (parent := max(max(run.parent) for run in more.runs)) > MOST_PARENT:
            yield f"{kind}: the parent held {parent:.0f} MB, more than {MOST_PARENT:g}"
    if (own := own_share(rows).get("seconds", 0.0)) > MOST_SHARE:
        yield f"the harness's own share is {own:.1f} ms a check, more than {MOST_SHARE:g}"


def as_markdown(rows: Sequence[Row], rounds: int) -> str:
    lines = [
        f"{circumstances()} One worker; {rounds} rounds.",
        "",
        "| runs | recipes | median, s | ms a recipe | CPU, ms | worker, MB | second half to first | parent, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        worker, parent = (max(max(getattr(run, who)) for run in row.runs) for who in ("worker", "parent"))
        times = f"{row.seconds:.1f} | {row.a_recipe:.1f} | {row.cpu_a_recipe:.1f}"
        growth = f"{median(run.growth for run in row.runs):.2f}"
        lines.append(f"| {row.kind} | {row.recipes:,} | {times} | {worker:.0f} | {growth} | {parent:.0f} |")
    if found := own_share(rows):
        said = ", ".join(f"{value:.2f} ms{' of CPU' if kind == 'cpu' else ''}" for kind, value in found.items())
        lines += ["", f"The harness's own share of a check: {said}."]
    return "\n".join(lines)
