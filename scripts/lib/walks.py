"""Measures what the walk of `jaxcheck diagnose` costs: 100, 1,000 and 10,000 equations against a plain call.

Each in a process of its own: the first call and the first walk, which compile, then the fastest of some more, and the
most memory that the process ever held. As straight code, where the program itself grows, and as a loop of 100
equations, where it does not.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from circumstances import circumstances

SIZES = (100, 1_000, 10_000)
IN_A_STEP = 10
STEPS_IN_A_LOOP = 10  # of the straight code, so that the loop's body has 100 equations
WIDTH = 64
TIMES = 60.0  # a walk may take so many times a plain call, both warm
GROWTH = 1.5  # and may hold so many times the memory from 1,000 to 10,000 equations


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench diagnose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="warm calls and walks (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "EQUATIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measured(options.one[0], int(options.one[1]), options.rounds)))
        return
    rows = [in_a_process(kind, size, options.rounds) for kind in ("straight", "loop") for size in SIZES]
    print(as_markdown(rows))
    if options.json:
        options.json.write_text(json.dumps({"circumstances": circumstances(), "rows": rows}, indent=1) + "\n")
    wrong = objections(rows)
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


def in_a_process(kind: str, size: int, rounds: int) -> dict[str, Any]:
    bench = str(Path(__file__).with_name("bench.py"))
    command = [sys.executable, bench, "diagnose", "--one", kind, str(size), "--rounds", str(rounds)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(kind: str, size: int, rounds: int) -> dict[str, Any]:
    """Seconds and megabytes; memory after the plain calls and after the walks."""
    import jax

    from jaxcheck.worker.walker import walk

    function, arguments = program(kind, size)
    calls = [seconds(lambda: jax.block_until_ready(function(*arguments))) for _ in range(2)]
    before = megabytes()
    with tempfile.TemporaryDirectory() as folder:
        steps = Path(folder, "steps.jsonl")
        begun = time.perf_counter()
        found = walk(function, arguments, steps)
        walks = [time.perf_counter() - begun]
        for _ in range(rounds):  # in turns, so that a slow minute of the machine touches both
            walks.append(seconds(lambda: walk(function, arguments, steps)))
            calls.append(seconds(lambda: jax.block_until_ready(function(*arguments))))
    assert found["partial"] is None
    assert "origin" not in found["kinds"], found["first"]
    return {
        "kind": kind,
        "equations": found["program"]["executed"],
        "first call": calls[0],
        "first walk": walks[0],
        "call": min(calls[1:]),
        "walk": min(walks[1:]),
        "times": min(walks[1:]) / min(calls[1:]),
        "megabytes before": before,
        "megabytes": megabytes(),
    }


def program(kind: str, size: int) -> tuple[Callable[..., Any], list[Any]]:
    """A network without an end: products, sums, and what goes with them; nothing in it grows or fades."""
    import jax
    import jax.numpy as jnp

    def step(x: Any, w: Any) -> Any:
        y = jnp.tanh(jnp.dot(x, w) + 0.1)
        z = x * 0.5 + y
        row = jnp.max(z, axis=1, keepdims=True)  # two equations: it becomes a column again
        return z / (jnp.abs(row) + 1.0)

    def straight(x: Any, w: Any) -> Any:
        for _ in range(size // IN_A_STEP):
            x = step(x, w)
        return x

    def loop(x: Any, w: Any) -> Any:
        def body(x: Any, nothing: None) -> tuple[Any, None]:
            for _ in range(STEPS_IN_A_LOOP):
                x = step(x, w)
            return x, nothing

        return jax.lax.scan(body, x, None, length=size // IN_A_STEP // STEPS_IN_A_LOOP)[0]

    random = jax.random.key(0)
    given = [jax.random.normal(random, (WIDTH, WIDTH)), jax.random.normal(random, (WIDTH, WIDTH)) / WIDTH**0.5]
    return {"straight": straight, "loop": loop}[kind], given


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def megabytes() -> float:
    """The most that this process ever held in memory (Linux counts kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def objections(rows: list[dict[str, Any]]) -> list[str]:
    """What is slower or larger than it may be. A loop that is called plainly is one compiled program: only straight
    code is run equation by equation by either."""
    found = [
        f"{row['equations']} equations take {row['times']:.0f} times a plain call, more than {TIMES:g}"
        for row in rows
        if row["kind"] == "straight" and row["equations"] >= 1_000 and row["times"] > TIMES
    ]
    for kind in ("straight", "loop"):
        _, middle, most = (row["megabytes"] for row in rows if row["kind"] == kind)
        if most > GROWTH * middle:
            found.append(f"{kind}: {most:.0f} MB at 10,000 equations, {middle:.0f} MB at 1,000")
    return found


def as_markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        circumstances(),
        "",
        "| program | equations | first call, s | first walk, s | call, s | walk, s | times | MB before | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = [f"{row[name]:.3f}" for name in ("first call", "first walk", "call", "walk")]
        sizes = [f"{row[name]:.0f}" for name in ("times", "megabytes before", "megabytes")]
        lines.append(f"| {' | '.join([row['kind'], str(row['equations']), *numbers, *sizes])} |")
    return "\n".join(lines)
