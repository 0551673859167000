"""Code blocks of the docs: read, written as files, and run as a reader would."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MARK = "--- jaxcheck documents ---"


@dataclass(frozen=True)
class Block:
    """A code block; `file` is what its first line says it is (`# model.py`), `section` the heading above."""

    document: str
    line: int
    section: str
    language: str
    text: str

    @property
    def file(self) -> str | None:
        found = re.match(r"# (\S+\.\w+)\n", self.text)
        return found[1] if found else None

    @property
    def name(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(path: Path) -> list[Block]:
    text, found, section = path.read_text(), [], ""
    for part in re.finditer(r"^```(\w*)\n(.*?)^```$|^#+ ([^\n]*)$", text, re.MULTILINE | re.DOTALL):
        if part[3] is not None:
            section = part[3]
        else:
            line = text.count("\n", 0, part.start()) + 1
            found.append(Block(str(path.relative_to(ROOT)), line, section, part[1], part[2]))
    return found


def commands(block: Block) -> list[str]:
    """What is typed: every line of a shell block, and of a console block those after `$ `."""
    if block.language == "console":
        return re.findall(r"^\$ (.*)$", block.text, re.MULTILINE)
    return [line for line in block.text.splitlines() if line.strip()]


def write(block: Block, folder: Path) -> None:
    assert block.file
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)


def play(block: Block, folder: Path, environment: dict[str, str]) -> None:
    """Types a console block line by line, in one shell, and asserts that what it shows comes out."""
    typed = commands(block)
    script = "".join(f"{line}\ncode=$?\necho '{MARK}' $code\n(exit $code)\n" for line in typed)
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    outs = re.split(rf"{MARK} (\d+)\n", done.stdout)
    shown = re.split(r"^\$ .*\n", block.text, flags=re.MULTILINE)[1:]
    assert len(outs) == 2 * len(typed) + 1, f"{block.name}\n{done.stdout}{done.stderr}"
    for number, line in enumerate(typed):
        out, code = outs[2 * number], outs[2 * number + 1]
        asked = number + 1 < len(typed) and typed[number + 1] == "echo $?"
        assert asked or code == "0", f"{block.name}: {line}: exit {code}\n{out}{done.stderr}"
        missing = first_missing(shown[number], out)
        assert missing is None, f"{block.name}: {line}: {missing!r} is not there\n{out}{done.stderr}"


def first_missing(shown: str, out: str) -> str | None:
    """The first line of what is shown that does not come out in its place; None where all do.

    Lines follow one another as shown, but for `...` between them; within a line `...` stands for anything. What
    depends on the machine is not compared: fractions, times, and how far a value is beyond its tolerance.
    """
    lines, place, free = [_plain(line) for line in out.splitlines() if line.strip()], 0, True
    for line in (line for line in shown.splitlines() if line.strip()):
        if line.strip() == "...":
            free = True
            continue
        pattern = re.compile(".*".join(map(re.escape, _plain(line).split("..."))))
        within = range(place, len(lines) if free else min(place + 1, len(lines)))
        found = next((number for number in within if pattern.fullmatch(lines[number])), None)
        if found is None:
            return line
        place, free = found + 1, False
    return None


def _plain(line: str) -> str:
    line = re.sub(r"\d+ (drifted|x (the )?tolerance)", r"N \1", line)
    return re.sub(r" +", " ", re.sub(r"[\d,]*\d[.,]\d+(e[+-]?\d+)?|\de[+-]\d+", "N", line)).strip()
