"""A process that has imported the command, and forks for each that is asked for: what is killed at every change of a
file need not import Python's half of a second's worth each time. It has no threads and no JAX.

A line of JSON in: {"folder", "args", "kills", "at", "how"}: run `args` in `folder`; before change `at` it is killed, or
stopped. A line out: how it ended, as subprocess has it; or `stopped`, and after another line in, how it ended. What it
printed is in `output` in `kills`.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

import sitecustomize

from jaxcheck.cli.main import entry

for name in ("bless", "candidates", "changes", "project", "restore", "review", "run", "truth"):
    importlib.import_module(f"jaxcheck.execution.{name}")


def act(request):
    os.chdir(request["folder"])
    sitecustomize.FOLDER = Path(request["kills"])
    output = os.open(sitecustomize.FOLDER / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    sys.argv = ["jaxcheck", *request["args"]]
    sitecustomize.watch_changes(request["at"], getattr(signal, request["how"]))
    entry()


def answer(text):
    print(text, flush=True)


for line in sys.stdin:
    child = os.fork()
    if not child:
        act(json.loads(line))  # ends the process
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        answer("stopped")
        sys.stdin.readline()
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
    answer(os.waitstatus_to_exitcode(status))
