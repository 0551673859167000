"""Kills commands at random times, and says what became of the goldens.

`run`, `bless`, `review`, `gate`, `prune` and `rollback` are drawn with a fixed seed and killed (SIGKILL) at a random
time of what they take. After every kill each golden must be the old one or the new one, whole; after every eighth the
command is run again, must do what was left, and leave nothing lying about. tests/faults/test_kills.py does it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from circumstances import circumstances

ROOT = Path(__file__).resolve().parents[2]
TEST = "tests/faults/test_kills.py::test_killed_at_random_times"
LEAST = 100  # of fewer, the test kills the quickest command alone


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/faults kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kills", nargs="?", type=int, default=1000, metavar="N", help="how often (default: 1000)")
    kills = parser.parse_args(arguments).kills
    if kills < LEAST:
        parser.error(f"N must be {LEAST} or more")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", "0", "--kills", str(kills), TEST]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    told = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    print("\n".join(table(told)))
    sys.exit(0)


def table(told: dict[str, Any]) -> list[str]:
    rows = [f"| `{name}` | {' | '.join(map(str, counts.values()))} |" for name, counts in told.items()]
    heads = list(next(iter(told.values())))
    return [circumstances(), "", f"| killed | {' | '.join(heads)} |", "|" + "---|" * (len(heads) + 1), *rows]
