"""What comes over a worker's channel and is no reply: the bytes as such, and what they say. The worker is a script."""

from __future__ import annotations

import copy
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxcheck import wire
from jaxcheck.execution.process import Death, Launch, Needs, WorkerProcess
from jaxcheck.execution.replies import FORMS, Allowed, fault
from jaxcheck.execution.session import Session
from tests.faults.processes import wait_for
from tests.fuzz.played import GIVEN

SCRIPT = """#!{python}
import os, sys, time
replies = int(sys.argv[5])
for line in os.fdopen(int(sys.argv[4]), "rb"):
    number = line.partition(b" ")[0]
    {writes}
"""
Launches = Callable[[str], Launch]


@pytest.fixture
def writing(tmp_path: Path) -> Launches:
    """How a worker is started that does this at each request."""

    def launch(writes: str) -> Launch:
        script = tmp_path / "worker"
        script.write_text(SCRIPT.format(python=sys.executable, writes=writes))
        script.chmod(0o755)
        return Launch(python=str(script))

    return launch


def asked(launch: Launch, again: bool = False) -> tuple[dict[str, Any] | Death, bool]:
    """(the last reply, whether the worker can be asked once more)."""
    worker = WorkerProcess(launch, Needs())
    try:
        reply = worker.request({"op": "x"}, timeout=20)
        return (worker.request({"op": "x"}, timeout=20) if again else reply), worker.lives()
    finally:
        worker.kill()
        worker.close()


@pytest.mark.parametrize(
    "writes",
    [
        r'os.write(replies, b"garbage\n")',
        r'os.write(replies, b"{}\n")',
        r'os.write(replies, b"0123456789abcdef {}\n"); time.sleep(60)',
        r'os.write(replies, number + b" {}\n" + number + b" {}\n")',
        r'os.write(replies, number + b" []\n")',
        r'os.write(replies, number + b" {\n")',
        r'os.write(replies, number + b" {\"a\": " + b"9" * 5000 + b"}\n")',
        r'os.write(replies, number + b" " + b"[" * 50_000 + b"\n")',
        r'[os.write(replies, b"x" * 4096) for _ in iter(int, 1)]',
        r'[os.write(replies, number + b" ")] + [os.write(replies, b"x" * 4096) for _ in iter(int, 1)]',
    ],
)
def test_what_is_no_reply_is_told_and_takes_no_memory(
    writing: Launches, writes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 1 << 20)
    tracemalloc.start()
    reply, lives = asked(writing(writes))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reply == Death("crash", "something other than the worker wrote into its private channel")
    assert not lives
    assert peak < 8 << 20


def test_a_reply_may_be_long_and_hold_every_character(writing: Launches) -> None:
    writes = r'os.write(replies, number + b" {\"a\": \"\\ud800\"}\n")'
    assert asked(writing(writes)) == ({"a": "\ud800"}, True)
    rows = 'b", ".join(b"\\"%d\\": [%d, 1e-07, null]" % (n, n) for n in range(300_000))'
    writes = f'os.fdopen(os.dup(replies), "wb").write(number + b" {{" + {rows} + b"}}\\n")'
    reply, lives = asked(writing(writes))
    assert isinstance(reply, dict)
    assert reply["299999"] == [299999, 1e-07, None]
    assert lives


def test_a_worker_that_somebody_wrote_for_after_its_reply_is_asked_no_more(writing: Launches) -> None:
    late = r'os.write(replies, number + b" {}\n"); time.sleep(0.2); os.write(replies, number + b" {}\n")'
    worker = WorkerProcess(writing(late), Needs())
    try:
        assert worker.request({"op": "x"}, timeout=20) == {}
        wait_for(lambda: not worker.lives())
        reply = worker.request({"op": "x"}, timeout=20)
    finally:
        worker.kill()
        worker.close()
    assert isinstance(reply, Death)
    assert asked(writing(r'os.write(replies, number + b" {}\n")'), again=True) == ({}, True)


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_it_is_told_of_one_of_several_processes(writing: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxcheck.worker.group import Member, _read

    monkeypatch.setattr(sys, "executable", writing(r'os.write(replies, b"{}\n")').python)
    member = Member(1)
    try:
        member.send({"op": "x"})
        with pytest.raises(wire.ForeignBytes, match="process_index 1: something other than the worker"):
            _read([member], 20)
    finally:
        member.kill()
        member.close()


# What it says


GAVE = next(json.loads(line) for line in GIVEN.read_bytes().split(b"\n")[1:] if b'"outputs"' in line)
RAISED = next(json.loads(line) for line in GIVEN.read_bytes().split(b"\n")[1:] if b'"raised"' in line)


@pytest.mark.parametrize(
    ("reply", "change", "says"),
    [
        (GAVE, {"outputs": 5}, "outputs: "),
        (GAVE, {"outputs": "/etc/passwd"}, "in no folder that was named"),
        (GAVE, {"outputs": "{folder}/../secret.npz"}, "in no folder that was named"),
        (GAVE, {"outputs": "{folder}/link/secret.npz"}, "in no folder that was named"),
        (GAVE, {"outputs": "{folder}/link"}, "in no folder that was named"),
        (GAVE, {"outputs": None}, "outputs: "),
        (GAVE, {"pairs": [["words", "{folder}/a.npz", "/etc/passwd"]]}, "in no folder that was named"),
        (GAVE, {"seconds": "x"}, "seconds: "),
        (GAVE, {"seconds": float("nan")}, "seconds: "),
        (GAVE, {"compile_seconds": 1e300}, "compile_seconds: "),
        (GAVE, {"compiles": 10**400}, "compiles: "),
        (GAVE, {"notes": "text"}, "notes: "),
        (GAVE, {"changes": {"x": [1]}}, "changes.x.1: "),
        (GAVE, {"outcome": "pass"}, "outcome"),
        (GAVE, {"outcome": "skip", "reason": "no"}, "outcome"),
        (GAVE, {"op": "prepare"}, "op: "),
        (RAISED, {"error": {"type": "E", "message": "m", "where": "", "traceback": ""}}, "error.bases: "),
        (RAISED, {"error": None}, "error: "),
        (RAISED, {"outputs": "{folder}/a.npz"}, "outputs: "),
    ],
)
def test_a_reply_of_another_form_is_none(
    tmp_path: Path, reply: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    allowed = Allowed({os.path.realpath(folder)})
    assert fault("check", reply, allowed) == ""
    changed = json.loads(json.dumps(copy.deepcopy(reply) | change).replace("{folder}", str(folder)))
    assert says in fault("check", changed, allowed)


def test_a_file_elsewhere_is_neither_read_nor_removed(writing: Launches, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    mine = tmp_path / "mine.npz"
    mine.write_bytes(b"mine")
    told = json.dumps({"outputs": str(mine), "text": ""})
    session = Session(
        Launch(),
        Needs(),
        WorkerProcess(writing(f"os.write(replies, number + b' ' + {told.encode()!r} + b'\\n')"), Needs()),
    )
    try:
        reply = session.request({"op": "replay", "folder": str(tmp_path / "scratch")}, 20)
    finally:
        session.close()
    assert isinstance(reply, Death)
    assert "wrote into its private channel (replay: " in reply.reason
    assert mine.read_bytes() == b"mine"


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_every_request_has_a_form() -> None:
    from jaxcheck.worker.service import Service
    from jaxcheck.worker.walks import WALKS

    answers = {name for name in vars(Service) if not name.startswith("_")} - {"answer"}
    assert set(FORMS) == answers | set(WALKS)
