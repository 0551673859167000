"""Measures the comparison of large arrays: jaxcheck's, with all statistics, against NumPy's assert_allclose and against
reading both arrays once.

Two float32 arrays as goldens store them (uncompressed entries of .npz files, mapped), in three ways: equal in every
bit; all moved, within the tolerance; all moved, beyond it. Every contestant is a process of its own, in turns, and
gives the median of its repetitions after one that is not counted; ratios are taken within a round. A reading is the
largest element of either array, in memory already; `np.load` reads both files into memory of its own. The memory is
the most that NumPy had allocated at once during a comparison, in a run apart.

assert_allclose itself needs 12 GB of memory for arrays of 1 GiB that are beyond the tolerance.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from circumstances import circumstances

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.goldens.archive import Archive, write_archive

RTOL, ATOL = 1e-5, 1e-6
MOVES = {"equal": 0.0, "within": 1e-6, "beyond": 1e-3}  # relative, times a normal deviate
LEAST_GAIN = 3.0  # times as fast as assert_allclose
MOST_READINGS = 2.0
MOST_MEMORY = 64.0
BLOCK = 1 << 22
FILES, ENTRY = ("golden.npz", "actual.npz"), "standard/out/."
LOAD, MEMORY = "np.load of both", "memory"
GAIN = "times as fast as assert_allclose"
REPETITIONS = 3
Array = Any


def read(golden: Array, actual: Array) -> None:
    golden.max(), actual.max()


def assert_allclose(golden: Array, actual: Array) -> None:
    with contextlib.suppress(AssertionError):
        np.testing.assert_allclose(actual, golden, rtol=RTOL, atol=ATOL)


def jaxcheck(golden: Array, actual: Array) -> None:
    compare_arrays(golden, actual, rtol=RTOL, atol=ATOL)


def load(folder: Path) -> None:
    for name in FILES:
        with np.load(folder / name) as file:
            file[ENTRY]


CONTESTANTS: dict[str, Callable[[Array, Array], None]] = {
    "reading both once": read,
    "np.testing.assert_allclose": assert_allclose,
    "jaxcheck": jaxcheck,
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench large", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1024, metavar="N", help="size of each array (default: 1024)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--one", nargs=2, metavar=("FOLDER", "CONTESTANT"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measured(Path(options.one[0]), options.one[1])))
        return
    rows = [row for move, size in MOVES.items() for row in compared(move, size, options.mib, options.rounds)]
    print(as_markdown(rows, options.mib, options.rounds))
    if options.json:
        options.json.write_text(json.dumps({"circumstances": circumstances(), "rows": rows}, indent=1) + "\n")
    wrong = objections(rows)
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


def compared(move: str, size: float, mib: int, rounds: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pair(folder, size, mib << 18)
        measured_once = in_a_process(folder, MEMORY)
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in (*CONTESTANTS, LOAD)}
        for _ in range(rounds):
            for name, found in taken.items():
                found.append(in_a_process(folder, name))
    rows = []
    for name, found in taken.items():
        seconds, cpu = ([one[kind] for one in found] for kind in ("seconds", "cpu"))
        rows.append(
            {
                "move": move,
                "name": name,
                "seconds": seconds,
                "cpu": cpu,
                "times a reading": ratio(found, taken["reading both once"]),
                "times np.load": ratio(found, taken[LOAD]),
                GAIN: ratio(taken["np.testing.assert_allclose"], found),
                "mib": measured_once["mib"] if name == "jaxcheck" else None,
            }
        )
    return rows


def write_pair(folder: Path, size: float, elements: int) -> None:
    rng = np.random.default_rng(0)
    golden = rng.standard_normal(elements, dtype=np.float32)
    write_archive(folder / FILES[0], {ENTRY: golden}, {}, durable=False)
    for start in range(0, elements if size else 0, BLOCK):
        piece = golden[start : start + BLOCK]
        piece *= 1 + np.float32(size) * rng.standard_normal(piece.size, dtype=np.float32)
    write_archive(folder / FILES[1], {ENTRY: golden}, {}, durable=False)


def in_a_process(folder: Path, name: str) -> dict[str, float]:
    bench = str(Path(__file__).with_name("bench.py"))
    command = [sys.executable, bench, "large", "--one", str(folder), name]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(folder: Path, name: str) -> dict[str, float]:
    """Medians of some calls after one that brings the pages in, or the memory of one call."""
    with Archive(folder / FILES[0]) as golden, Archive(folder / FILES[1]) as actual:
        arrays = [archive.read(ENTRY, checked=False) for archive in (golden, actual)]
    if name == MEMORY:
        tracemalloc.start()
        jaxcheck(*arrays)
        return {"mib": tracemalloc.get_traced_memory()[1] / 2**20}
    work = partial(load, folder) if name == LOAD else partial(CONTESTANTS[name], *arrays)
    seconds, cpu = [], []
    for _ in range(1 + REPETITIONS):
        begun = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - begun[0])
        cpu.append(time.process_time() - begun[1])
    return {"seconds": statistics.median(seconds[1:]), "cpu": statistics.median(cpu[1:])}


def ratio(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> float:
    return statistics.median(one["seconds"] / other["seconds"] for one, other in zip(ours, theirs, strict=True))


def objections(rows: list[dict[str, Any]]) -> list[str]:
    """What is slower or larger than it is meant to be."""
    found = []
    for row in (row for row in rows if row["name"] == "jaxcheck"):
        gain, readings = row[GAIN], row["times a reading"]
        if gain < LEAST_GAIN:
            found.append(f"{row['move']}: {gain:.1f} times as fast as assert_allclose, less than {LEAST_GAIN:g}")
        if readings > MOST_READINGS:
            found.append(f"{row['move']}: {readings:.1f} times a reading of both arrays, more than {MOST_READINGS:g}")
        if row["mib"] > MOST_MEMORY:
            found.append(f"{row['move']}: {row['mib']:.0f} MiB allocated, more than {MOST_MEMORY:g}")
    return found


def as_markdown(rows: list[dict[str, Any]], mib: int, rounds: int) -> str:
    lines = [
        f"{circumstances()} Arrays of {mib} MiB; {rounds} rounds.",
        "",
        "| arrays | | median, s | CPU, s | times a reading | times np.load | times as fast as assert_allclose | MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = (row["times a reading"], row["times np.load"], row[GAIN])
        numbers = [
            *(f"{statistics.median(row[kind]):.2f}" for kind in ("seconds", "cpu")),
            *(f"{t:.1f}" for t in times),
        ]
        memory = "" if row["mib"] is None else f"{row['mib']:.1f}"
        lines.append(f"| {' | '.join([row['move'], row['name'], *numbers, memory])} |")
    return "\n".join(lines)
