"""Python runs this at its start where this folder is on PYTHONPATH: it kills the process at a moment that a test chose.

KILL_FOLDER is a folder of the test's; `plan.json` in it has one of

    {"worker": [{"moment": MOMENT, ...}, ...]}    a worker, at the first message that has all that stands there
    {"command": N}                                the command, before its Nth change of a file

Moments of a message are `received`, `answered` (the reply is not sent yet), `half` (half of it is) and `sent`. What
happens is written down in `messages` and `changes`, a line each.
"""

import json
import os
import signal
import sys
from pathlib import Path

FOLDER = Path(os.environ["KILL_FOLDER"]) if "KILL_FOLDER" in os.environ else None
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def write_down(name, line):
    """The number of the line, from 1; several processes write, one after the other."""
    handle = os.open(FOLDER / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)
    return (FOLDER / name).read_text().count("\n")


def watch_messages(plan):
    from jaxcheck.worker.channel import Channel

    receive, send = Channel.receive, Channel.send
    present = {}

    def due(moment):
        for number, wanted in enumerate(plan):
            mark = FOLDER / f"done-{number}"
            said = {**present, "moment": moment}
            if all(said.get(key) == value for key, value in wanted.items()) and not mark.exists():
                mark.touch()
                return True
        return False

    def watched_receive(self):
        message = receive(self)
        if message is not None:
            present.clear()
            recipe = message.get("recipe")
            present.update(op=message["op"], recipe=recipe["name"] if isinstance(recipe, dict) else recipe)
            present.update(mode=message.get("mode"))
            words = [present["op"], present["recipe"], present["mode"]]
            present.update(n=write_down("messages", " ".join(filter(None, words))))
            if due("received"):
                die()
        return message

    def watched_send(self, message):
        if due("answered"):
            die()
        if due("half"):
            line = self.line(message)
            os.write(self._replies, line[: len(line) // 2])
            die()
        send(self, message)
        if due("sent"):
            die()

    Channel.receive, Channel.send = watched_receive, watched_send


def watch_changes(last, how=signal.SIGKILL):
    """The hook is called before the change is made."""

    def hook(event, args):
        path = args[0] if args else None
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING
        if not (writes or event in CHANGES) or not isinstance(path, str | Path):
            return
        place = os.path.abspath(path)
        if place.startswith(watched) and "__pycache__" not in place and not place.startswith(str(FOLDER)):
            number = write_down("changes", f"{event} {place.removeprefix(watched)}")
            if number == last:
                os.kill(os.getpid(), how)

    watched = os.path.join(os.getcwd(), "")
    sys.addaudithook(hook)


if FOLDER is not None:
    plan = json.loads((FOLDER / "plan.json").read_text())
    is_worker = "jaxcheck.worker" in sys.orig_argv
    if is_worker and "worker" in plan:
        watch_messages(plan["worker"])
    elif not is_worker and "jaxcheck" in sys.orig_argv and "command" in plan:
        watch_changes(plan["command"])
