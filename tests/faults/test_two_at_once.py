"""Two commands at once: one is stopped before a change that it makes, the other runs to its end, or to where it waits
for the first; then the first goes on. Before every change with --long, before some of them without."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from tests.faults.scenes import COMMANDS, Scene, Zygote, content_of
from tests.harness import Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

PATIENCE = 0.5  # after which the other one is taken to wait
PAIRS = [
    ("bless --no-truth", "reject"),
    pytest.param(("rollback", "bless --no-truth"), marks=pytest.mark.long),
    pytest.param(("prune", "rollback"), marks=pytest.mark.long),
    pytest.param(("bless --no-truth", "bless --no-truth"), marks=pytest.mark.long),
    pytest.param(("reject", "bless --no-truth"), marks=pytest.mark.long),
    pytest.param(("bless", "rollback"), marks=pytest.mark.long),
    pytest.param(("run", "bless --no-truth"), marks=pytest.mark.long),
    pytest.param(("bless --no-truth", "run"), marks=pytest.mark.long),
]


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_at_once(
    moved: Project, tmp_path: Path, zygote: Zygote, pair: tuple[str, str], pytestconfig: pytest.Config
) -> None:
    first, second = (Scene.of(moved, name, tmp_path / str(number)) for number, name in enumerate(pair))
    other = Zygote(tmp_path)
    project = first.project
    stops = 0
    for n in range(1, 1000, 1 if pytestconfig.getoption("--long") else 5):
        first.restore()
        zygote.ask(project.folder, COMMANDS[pair[0]], n, "SIGSTOP")
        answer = zygote.answer()
        if answer != "stopped":
            break
        stops += 1
        other.ask(project.folder, COMMANDS[pair[1]])
        select.select([other.process.stdout], [], [], PATIENCE)
        zygote.go_on()
        codes = int(zygote.answer()), int(other.answer())
        assert set(codes) <= {0, 1, 5}, f"{n}: {codes}\n{zygote.output}\n{other.output}"
        for path in first.goldens():
            old = moved.folder / "goldens" / path.name
            known = {scene.after.get(path.name) for scene in (first, second)}
            assert content_of(path) in known | {content_of(old)}, (n, path.name)
        kept = {*first.after, *second.after} & {path.name for path in first.old()}
        assert kept & first.after.keys() & second.after.keys() <= {path.name for path in first.goldens()}
        assert list(first.litter()) == []
    other.end()
    assert stops >= 3
