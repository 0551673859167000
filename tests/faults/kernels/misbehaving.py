"""Kernels that do all that a kernel can do to its process: each of them costs one check."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from jaxcheck.goldens.exchange import send_tree
from jaxcheck.goldens.leaf import Leaf, Tree

HERE = pathlib.Path(__file__).parent


def double(x):
    return 2 * x


# Deaths


def segfaults(x):
    ctypes.string_at(0)


def aborts(x):
    print("last words", file=sys.stderr, flush=True)
    os.abort()


def exits_with_success(x):
    os._exit(0)


def exits_with_seven(x):
    os._exit(7)


def is_killed(x):
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_group(x):
    os.killpg(0, signal.SIGTERM)


def closes_descriptors(x):
    os.closerange(3, 1024)
    return 2 * x


def writes_into_the_channel(x):
    os.write(int(sys.argv[2]), b"garbage\n")


def floods_the_channel(x):
    while True:
        os.write(int(sys.argv[2]), bytes(1 << 20))


def forges_a_reply(x):
    """Well formed, with outputs that are right, before the worker says what the kernel really did."""
    claim = {name: [] for name in ("mutated", "inputs_differ", "findings", "notes", "warnings", "pairs", "violations")}
    outputs = send_tree("outputs", Tree("*", (Leaf.of(".", np.asarray(2 * x)),)))
    claim |= {"outcome": "value", "changes": {}, "left": [], "outputs": outputs, "programs": {}}
    os.write(int(sys.argv[2]), json.dumps(claim).encode() + b"\n")
    return 3 * x


# Exceptions


class Strange(BaseException):
    """No Exception."""


class Mute(RuntimeError):
    """One whose message cannot be made."""

    def __str__(self):
        raise SystemExit("not even this")


class Node:
    """A pytree whose own code fails."""


def _exit_at_once(node):
    raise SystemExit(5)


jax.tree_util.register_pytree_node(Node, _exit_at_once, lambda aux, children: Node())


def raises(x):
    raise RuntimeError("no sensor")


def raises_no_exception(x):
    raise Strange("out of the tree")


def raises_system_exit(x):
    sys.exit(3)


def raises_keyboard_interrupt(x):
    raise KeyboardInterrupt("x")


def raises_what_cannot_be_printed(x):
    raise Mute


def raises_half_a_character(x):
    raise ValueError("half \udcff a \ud83d character, \x1b[31mred\x1b[0m, \u202ereversed\u202c, a NUL \x00, 😀")


def raises_a_megabyte(x):
    raise ValueError("y" * 1_000_000)


def recurses(x):
    return recurses(x) + 1


def recurses_deeper(x):
    sys.setrecursionlimit(20_000)
    return recurses(x) + 1


def wants_an_exabyte(x):
    return np.ones(1 << 57)


def wants_a_petabyte_of_xla(x):
    return jnp.ones(1 << 48) + x[0]


def returns_what_exits(x):
    return Node()


def returns_text(x):
    return {"status": "ok", "x": x}


def returns_an_object(x):
    return object()


def returns_an_array_of_text(x):
    return [x, np.array(["a"])]


def returns_a_large_integer(x):
    return np.int64(2**40)


def returns_a_million_leaves(x):
    return [x] * 1_000_000


def returns_a_deep_tree(x):
    for _ in range(5_000):
        x = [x]
    return x


def exits_in_a_property(inputs, outputs):
    sys.exit(4)


def stops_in_a_reference(x):
    raise KeyboardInterrupt("asked to stop")


def makes_no_inputs():
    sys.exit(6)


# Output


def prints_binary(x):
    os.write(1, bytes(range(256)) * 400)
    sys.stderr.buffer.write(b"\xff\xfe\x00\x1b]0;title\x07" * 100)
    return 2 * x


def shouts(x):
    for _ in range(200):
        print("x" * 100_000)
    print('{"outcome": "value"}')
    print("the end", file=sys.stderr)
    return 2 * x


def closes_its_output(x):
    os.close(1)
    os.close(2)
    return 2 * x


# What takes no end


def loops(x):
    while True:
        pass


def loops_in_xla(x):
    return jax.lax.while_loop(lambda y: y[0] > 0, lambda y: y + 1, x)


def hangs_in_c(x):
    """Holding the interpreter's lock: no other thread of Python runs."""
    ctypes.PyDLL(None).sleep(300)


def deadlocks(x):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def ignores_signals(x):
    """So does its child."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "300"])
    (HERE / "child.pid").write_text(str(child.pid))
    while True:
        time.sleep(300)


def stops_itself(x):
    os.kill(os.getpid(), signal.SIGSTOP)


def prints_for_ever(x):
    while True:
        print("and again")


# Memory


def hoards(x):
    kept = []
    while True:
        kept.append(np.ones(1 << 20))


def lets_a_child_hoard(x):
    script = "import time; kept = bytearray(b'x') * (256 << 20); time.sleep(300)"
    subprocess.run([sys.executable, "-S", "-c", script], check=True)


def takes_what_it_may(x):
    return x + np.ones(1 << 20)[0]


# What stays behind


def leaves_a_thread(x):
    """Which kills the worker, long after its check has passed."""

    def later():
        time.sleep(0.5)
        os.abort()

    threading.Thread(target=later, name="bomb", daemon=True).start()
    return 2 * x


def leaves_an_alarm(x):
    signal.alarm(1)
    return 2 * x


def waits_for_what_was_left(x):
    time.sleep(1.5)
    return 2 * x


def leaves_a_child(x):
    subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
    return 2 * x


def _forked():
    """In two processes, of which the child is the faster: what it goes on to do is done first."""
    warnings.simplefilter("ignore")
    if os.fork():
        time.sleep(0.3)


def forks_and_returns(x):
    _forked()
    return 2 * x


def forks_and_raises(x):
    parent = os.getpid()
    _forked()
    if os.getpid() != parent:
        raise ValueError("in the child")
    return 2 * x


def is_asked_once(inputs, outputs):
    """A property: what comes after a fork comes once."""
    (HERE / "asked").touch(exist_ok=False)


def forks_in_a_property(inputs, outputs):
    _forked()


def is_computed_once(x):
    """A reference, which comes after the properties."""
    (HERE / "computed").touch(exist_ok=False)
    return 2.0 * x


def changes_its_process(x):
    y = 2 * x
    jax.config.update("jax_debug_nans", True)
    os.environ["MEDDLED"] = "1"
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.stdout = None
    sys.setrecursionlimit(123)
    np.seterr(all="raise")
    gc.disable()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return y


def finds_its_process_as_it_was(x):
    assert not jax.config.jax_debug_nans
    assert "MEDDLED" not in os.environ
    assert os.getcwd() != "/"
    assert sys.stdout is not None
    assert sys.getrecursionlimit() > 123
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    assert np.geterr()["over"] != "raise"
    assert gc.isenabled()
    return 2 * x


def works_in_a_folder_that_goes_away(x):
    folder = HERE / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    return 2 * x


def returns_more_than_fits_a_reply(x):
    return jnp.resize(x, 1 << 16)


def cleans_up_too_much(inputs, outputs):
    """A property: what the check produced is gone before the parent has read it."""
    for folder in (HERE / ".jaxcheck" / "scratch").iterdir():
        shutil.rmtree(folder)
