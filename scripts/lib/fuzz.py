"""Reads whatever a fuzzer makes up, guided by coverage: registries, goldens, reports, saved runs, workers' replies.

Every input ends in a value or in a JaxcheckError, within the memory of `--memory` MiB, and no file outside the input's
own folder is opened for writing, or, but for what Python imports, for reading. Inputs that reach new code are kept in
memory; `tests/fuzz/corpus/TARGET` holds those to begin with, and one for each fault that was found. A crash is written
to the folder that is named at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
INSIDE = "--inside"  # the process that fuzzes; what follows is its target and libFuzzer's options
IN_ITS_TERMS = 0.8  # of the changes, for targets that have their own
STATS = {"executed": "number_of_executed_units", "new": "new_units_added", "memory": "peak_rss_mb"}
sys.path.insert(0, str(ROOT))


def main() -> None:
    if sys.argv[1:2] == [INSIDE]:
        fuzz(sys.argv[2], sys.argv[3:])
        return
    arguments = parse()
    failed = []
    for target in arguments.targets or names():
        begun = time.monotonic()
        crashes = Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-"))
        code, counted = campaign(target, arguments.seconds, arguments.memory, crashes)
        found = sorted(crashes.iterdir())
        print(f"{target}: {counted}, {time.monotonic() - begun:.0f} s, {'crashed' if code else 'no crash'}", flush=True)
        for path in found:
            print(f"  {path}")
        failed += [target] if code else []
        if not found:
            crashes.rmdir()
    sys.exit(1 if failed else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names())} (default: all)")
    parser.add_argument("--seconds", type=int, default=600, metavar="N", help="for each target (default: 600)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="what it may use (default: 1024)")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.targets if name not in names()]:
        parser.error(f"not known: {', '.join(unknown)}")
    return arguments


def names() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in CORPUS.iterdir()))


def campaign(target: str, seconds: int, memory: int, crashes: Path) -> tuple[int, str]:
    """(exit code, what was done) of a process that fuzzes one target."""
    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={memory}", "-timeout=60", "-print_final_stats=1"]
    command = [sys.executable, __file__, INSIDE, target, *options, f"-artifact_prefix={crashes}/"]
    with tempfile.TemporaryDirectory() as grown:
        done = subprocess.run(
            [*command, grown, str(CORPUS / target)], text=True, capture_output=True, errors="replace", check=False
        )
    lines = done.stderr.splitlines()
    stats = dict(line.removeprefix("stat::").split(":") for line in lines if line.startswith("stat::"))
    if done.returncode:
        print("\n".join(lines[-60:]), file=sys.stderr)
    said = {name: stats.get(key, "?").strip() for name, key in STATS.items()}
    return done.returncode, f"{said['executed']} inputs, {said['new']} reached new code, {said['memory']} MiB at most"


def fuzz(target: str, options: list[str]) -> None:
    """In a process of its own: libFuzzer takes the arguments over, and ends the process."""
    import atheris

    with atheris.instrument_imports(include=["jaxcheck", "yaml"]):
        from tests.fuzz.targets import MUTATORS, TARGETS, Guard
    folder = Path(tempfile.mkdtemp(prefix="jaxcheck-fuzz-"))
    guard = Guard(folder)
    read = TARGETS[target]

    def one(data: bytes) -> None:
        with guard:
            read(folder, data)

    def another(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        return MUTATORS[target](data, draw)[:most] if draw.random() < IN_ITS_TERMS else atheris.Mutate(data, most)

    os.chdir(folder)
    atheris.Setup([sys.argv[0], *options], one, **({"custom_mutator": another} if target in MUTATORS else {}))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
