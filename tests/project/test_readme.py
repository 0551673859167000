"""The README's second example, run line by line as a reader would copy it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import clean_environment

ROOT = Path(__file__).resolve().parents[2]


def example() -> tuple[list[str], list[str]]:
    """The commands of each block, and the outputs that are shown."""
    text = (ROOT / "README.md").read_text().partition("## A registry of your own\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for kind, block in blocks if kind == "sh"], [block for kind, block in blocks if kind == "text"]


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_second_example_does_what_the_readme_says(tmp_path: Path) -> None:
    """The folder of the clone is a stand-in that has nothing but `.venv/bin/jaxcheck`."""
    clone = tmp_path / "jaxcheck"
    (clone / ".venv").mkdir(parents=True)
    (clone / ".venv/bin").symlink_to(Path(sys.executable).parent)
    blocks, shown = example()
    assert len(blocks) == 2
    *before, last = "".join(blocks).rstrip().splitlines()
    assert last == "jaxcheck run"
    script = "\n".join(["set -e", *before, "set +e", "echo ---", last, 'echo "exit code $?"'])
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=clone,
        env=clean_environment(PATH=os.defpath, HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout.partition("---\n")[2]
    assert out.endswith("exit code 1\n"), done.stdout + done.stderr
    assert len(shown) == 1
    for line in shown[0].splitlines():
        assert _without_numbers(line) in _without_numbers(out), out


def _without_numbers(text: str) -> str:
    """Times, last digits and version numbers differ from run to run and from machine to machine."""
    return re.sub(r"[\d.]+", "0", re.sub(r" +", " ", text)).strip()
