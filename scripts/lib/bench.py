"""Measures jaxcheck against a hand-written script and pytest-regressions that do the same work, a blessing with truth
and noise floor against one without, and a run against goldens of either kind.

Whole processes, as a user starts them, in turns (A B C A B C ...), after one round that is not counted. A ratio is
taken within each round, so that a slow minute of the machine touches both of its sides.

Three others measure something else: `scripts/bench diagnose` the walk of `jaxcheck diagnose` against a plain call,
`scripts/bench scale` runs of up to 1,000 recipes, `scripts/bench large` the comparison of large arrays.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import large
import scale
import walks
from circumstances import cores

PYTHON = sys.executable
JAXCHECK = str(Path(sys.executable).with_name("jaxcheck"))
WARM = [JAXCHECK, "run", "--quiet"]  # programs that an earlier run compiled are there
RUN = [*WARM, "--no-cache"]
PEER = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_peer.py"]
FLOOR = [PYTHON, "floor.py", "floor-goldens"]

Contestants = dict[str, list[str]]
START: Contestants = {"jaxcheck --help": [JAXCHECK, "--help"], "jaxcheck list": [JAXCHECK, "list"]}
WORK: Contestants = {
    "script by hand (floor)": FLOOR,
    "pytest-regressions": PEER,
    "jaxcheck run -j 1": [*RUN, "-j", "1"],
    "jaxcheck run -j 2": [*RUN, "-j", "2"],
    "jaxcheck run -j 1, again": [*WARM, "-j", "1"],
    "jaxcheck run -j 2, again": [*WARM, "-j", "2"],
}
# What the float64 shadow and the noise floor cost: a blessing pays for them, a run reads what was stored.
BLESS = [JAXCHECK, "bless", "--all", "--reason", "bench", "-j", "1", "--no-cache"]
PLAIN, TRUE = ["--goldens", "goldens-plain"], ["--goldens", "goldens-true"]
BLESSING: Contestants = {
    "jaxcheck bless --no-truth": [*BLESS, *PLAIN, "--no-truth"],
    "jaxcheck bless": [*BLESS, *TRUE],
}
STORED: Contestants = {
    "jaxcheck run, goldens without truth": [*RUN, "-j", "1", *PLAIN],
    "jaxcheck run, goldens with truth": [*RUN, "-j", "1", *TRUE],
}
OTHERS: dict[str, Callable[[Sequence[str]], None]] = {
    "diagnose": walks.main,
    "scale": scale.main,
    "large": large.main,
}
VERSIONS = ("jaxcheck", "jax", "jaxlib", "optax", "numpy", "pytest", "pytest-regressions")


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in OTHERS:
        OTHERS[sys.argv[1]](sys.argv[2:])
        return
    arguments = parse()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "work"
        shutil.copytree(arguments.work, folder)
        record_goldens(folder)
        start = in_turns(START, folder, arguments.rounds)
        groups = [in_turns(group, folder, arguments.rounds) for group in (WORK, BLESSING, STORED)]
        gates = gate_in_parts(arguments.gate, folder, arguments.rounds) if arguments.gate else []
    rows = [row(name, seconds) for name, seconds in start.items()]
    rows += [each for group in groups for each in compared(group)] + gates
    result = {**circumstances(), "rounds": arguments.rounds, "rows": rows}
    print(as_markdown(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    default = Path(__file__).parents[1] / "benchmark"
    parser.add_argument("--work", type=Path, default=default, metavar="FOLDER", help="default: scripts/benchmark")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds that count (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--gate", metavar="REQUIREMENT", help="also time a gate to it, whose environment is there")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not (arguments.work / "recipes.yaml").is_file():
        parser.error(f"--work: no recipes.yaml in {arguments.work}")
    return arguments


def record_goldens(folder: Path) -> None:
    seconds([*FLOOR, "--record"], folder)
    # pytest-regressions fails the test whose golden it writes, and writes one golden at a time.
    for _ in range(2):
        subprocess.run([*PEER, "--force-regen"], cwd=folder, env=environment(), capture_output=True, check=False)
    seconds([JAXCHECK, "bless", "--all", "--reason", "bench"], folder)


def in_turns(contestants: Contestants, folder: Path, rounds: int) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, command in contestants.items():
            taken = seconds(command, folder)
            if turn:
                measured[name].append(taken)
    return measured


def seconds(command: list[str], folder: Path) -> float:
    """The wall time of the command, which must succeed: a failing contestant did not do the work."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment(), text=True, capture_output=True, check=False)
    taken = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return taken


def gate_in_parts(requirement: str, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """A gate against the two runs that it consists of, as its report times them. The first builds the environment."""
    command = [JAXCHECK, "gate", "--to", requirement, "-o", "gate.json", "--allow", "improved,warnings,unstable"]
    gates, parts = [], []
    for turn in range(rounds + 1):
        taken = seconds(command, folder)
        report = json.loads((folder / "gate.json").read_text())
        if turn:
            gates.append(taken)
            parts.append(report["from"]["seconds"] + report["to"]["seconds"])
    return [row("two runs of a gate", parts), row(f"jaxcheck gate --to {requirement}", gates, parts)]


def environment() -> dict[str, str]:
    ours = ("JAXCHECK_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith(ours)}


def compared(group: dict[str, list[float]]) -> list[dict[str, Any]]:
    """A row for each contestant; what the others are held against is the first one."""
    floor = next(iter(group.values()))
    return [row(name, seconds, floor) for name, seconds in group.items()]


def row(name: str, taken: list[float], floor: list[float] | None = None) -> dict[str, Any]:
    ratios = [ours / theirs for ours, theirs in zip(taken, floor, strict=True)] if floor else []
    return {
        "name": name,
        "seconds": taken,
        "median": statistics.median(taken),
        "median_ratio_to_first": statistics.median(ratios) if ratios else None,
    }


def circumstances() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {cores()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
    }


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines: Iterable[str] = cpuinfo.read_text().splitlines() if cpuinfo.exists() else ()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown CPU"


def as_markdown(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        f"{result['date']}; {result['machine']}; Python {result['python']}, {versions}; {result['rounds']} rounds.",
        "",
        "| | median, s | min to max, s | median ratio to the first of its group |",
        "|---|---|---|---|",
    ]
    for each in result["rows"]:
        ratio = each["median_ratio_to_first"]
        lines.append(
            f"| {each['name']} | {each['median']:.3f} | {min(each['seconds']):.3f} to {max(each['seconds']):.3f} "
            f"| {'' if ratio is None else f'{ratio:.2f}'} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
