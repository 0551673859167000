"""The command killed at any moment: goldens are the old ones or the new ones, the next command works, and what was left
lying about is gone after it."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.killing import changes
from tests.faults.scenes import COMMANDS, EXPECTED, Running, Scene, Zygote, content_of
from tests.harness import Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

FAST = ("bless --no-truth", "rollback", "prune")
SLOW = ("run", "run --save", "bless", "reject")
OFTEN = 8
RANDOM = {"run": 2, "bless": 3, "review": 3, "gate": 1, "prune": 3, "rollback": 3}  # a gate takes longest
NIGHT = 100  # from so many on, commands that start workers take part


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)])
def test_killed_before_every_change_of_a_file(moved: Project, tmp_path: Path, zygote: Zygote, name: str) -> None:
    scene = Scene.of(moved, name, tmp_path)
    seen = []
    for n in range(1, 1000):
        code = zygote.run(scene.project.folder, COMMANDS[name], n)
        if code != -signal.SIGKILL:
            break
        seen.append(changes(zygote.folder)[-1])
        if not scene.check():  # else the next one goes on from what this one left
            if len(seen) % OFTEN == 0:
                scene.finish()
            scene.restore()
    assert code == EXPECTED[name], zygote.output
    scene.check()
    assert {path.name: content_of(path) for path in scene.goldens()} == scene.after
    assert list(scene.litter()) == []
    assert len(seen) >= 3, seen
    of_goldens = [change for change in seen if change.startswith(("os.rename goldens/", "os.remove goldens/"))]
    assert bool(of_goldens) == (name not in ("run", "run --save", "reject")), seen


def test_killed_at_random_times(moved: Project, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """`--kills 1000` for a night."""
    kills = pytestconfig.getoption("--kills")
    chance = random.Random(0)
    names = list(RANDOM) if kills >= NIGHT else ["rollback"]
    scenes = {name: Scene.of(moved, name, tmp_path / name) for name in names}
    lasts = {name: duration(scene) for name, scene in scenes.items()}
    found = {name: Counter(dict.fromkeys(("kills", "old", "both", "new"), 0)) for name in names}
    for number in range(kills):
        name = chance.choices(names, [RANDOM[name] for name in names])[0]
        scene = scenes[name]
        running = Running(scene.project, name)
        time.sleep(chance.uniform(0, lasts[name]))
        running.kill()
        running.end()
        state = scene.state()
        found[name].update(["kills", state])
        if number % OFTEN == 0:
            scene.finish()
            scene.restore()
        elif state != "old":
            scene.restore()
    print(f"\n{json.dumps(found)}")


def duration(scene: Scene) -> float:
    start = time.monotonic()
    scene.finish()
    scene.restore()
    return time.monotonic() - start
