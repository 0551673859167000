"""How long a call takes once it is compiled: samples, and what else the machine did meanwhile."""

from __future__ import annotations

import os
import time
from typing import Any

import jax

from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import bind
from jaxcheck.worker.subject import Subject

LEAST_SAMPLES = 5
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def latency(subject: Subject, mode: str, samples: int, warmup: int, budget: float) -> dict[str, Any]:
    """Seconds of each call, ended with `block_until_ready`, after `warmup` calls; inputs are made outside the clock.

    The first call, which traces and compiles, is told apart. Stops after `budget` seconds, but not before
    LEAST_SAMPLES. Raises what the kernel raises.
    """
    call = JITTED(subject.kernel, subject.static) if mode == "jit" else subject.kernel

    def timed() -> float:
        args, kwargs = bind(subject.kernel, jax.block_until_ready(subject.arguments.fresh()))
        start = time.perf_counter()
        jax.block_until_ready(call(*args, **kwargs))
        return time.perf_counter() - start

    first = timed()
    for _ in range(warmup):
        timed()
    before, end = Busy(), time.perf_counter() + budget
    taken: list[float] = []
    while len(taken) < samples and (len(taken) < LEAST_SAMPLES or time.perf_counter() < end):
        taken.append(timed())
    return {"first": first, "samples": taken, "conditions": conditions(before)}


class Busy:
    """CPU seconds that the whole machine and this process have spent so far; None where the system does not tell."""

    def __init__(self) -> None:
        self.own = sum(os.times()[:2])
        self.wall = time.perf_counter()
        try:
            with open("/proc/stat") as file:
                fields = [int(field) for field in file.readline().split()[1:9]]
            self.machine: float | None = (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            self.machine = None


def conditions(before: Busy) -> dict[str, str]:
    """Load average, frequency governor, and the other processes' share of the machine while it was measured."""
    now = Busy()
    found = {"load": f"{os.getloadavg()[0]:.2f}", "cores": str(os.cpu_count())}
    try:
        with open(GOVERNOR) as file:
            found["governor"] = file.read().strip()
    except OSError:
        found["governor"] = "not told"
    elapsed = (now.wall - before.wall) * (os.cpu_count() or 1)
    if now.machine is not None and before.machine is not None and elapsed > 0:
        others = max(0.0, now.machine - before.machine - (now.own - before.own))
        found["other processes"] = f"{min(1.0, others / elapsed):.0%} of the machine"
    return found
