"""Ways to compile and to run otherwise, each in a fresh process: which of them make a divergence vanish.

A knob is believed only where it does something in this version: the worker's probes come out otherwise under it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxcheck.diagnose.asking import Asker
from jaxcheck.execution.process import Needs
from jaxcheck.results.diagnosis import DiagnosedKnob

FLAGS = "XLA_FLAGS"
# The more particular class first: what an instruction set cures is a contraction, though "no fusion" cures it too.
CLASSES = (
    "FMA contraction",
    "excess precision",
    "matmul precision",
    "algebraic rewriting",
    "threads",
    "order",
    "fusion",
)


@dataclass(frozen=True)
class Knob:
    """`flags` go to XLA, `env` to the process; `probes` are those of the worker that have to come out otherwise, and
    `names` the class of cause that it stands for."""

    name: str
    names: str
    probes: tuple[str, ...]
    flags: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cores: int | None = None
    backends: tuple[str, ...] = ()

    def needs(self, plain: Needs) -> Needs:
        """What a worker under it is started with."""
        env = {**dict(plain.env), **self.env}
        if self.flags:
            env[FLAGS] = " ".join(filter(None, [env.get(FLAGS, os.environ.get(FLAGS, "")), self.flags]))
        return replace(plain, env=tuple(sorted(env.items())), cores=self.cores or plain.cores)


KNOBS: tuple[Knob, ...] = (
    Knob("no fusion", "fusion", ("program", "contraction"), flags="--xla_disable_hlo_passes=fusion"),
    Knob("no algebraic simplifier", "algebraic rewriting", ("rewriting",), flags="--xla_disable_hlo_passes=algsimp"),
    Knob("no excess precision", "excess precision", ("narrow", "program"), flags="--xla_allow_excess_precision=false"),
    Knob(
        "highest matmul precision",
        "matmul precision",
        ("matmul",),
        env={"JAX_DEFAULT_MATMUL_PRECISION": "highest"},
    ),
    Knob("no FMA", "FMA contraction", ("contraction",), flags="--xla_cpu_max_isa=AVX", backends=("cpu",)),
    Knob("one core", "threads", ("cores",), cores=1, backends=("cpu",)),
    Knob(
        "deterministic operations",
        "order",
        ("program",),
        flags="--xla_gpu_deterministic_ops=true",
        backends=("gpu", "cuda", "rocm"),
    ),
    Knob(
        "no TF32",
        "matmul precision",
        ("matmul",),
        env={"NVIDIA_TF32_OVERRIDE": "0"},
        backends=("gpu", "cuda"),
    ),
)


def probe(asker: Asker) -> Mapping[str, str] | str:
    """The worker's probes: a digest each; or why there are none."""
    reply: dict[str, Any] = asker.ask("probe")
    return reply["probes"] if "probes" in reply else str(reply.get("reason", "no answer"))


def try_knob(
    knob: Knob, plain: Mapping[str, str], probed: Mapping[str, str] | str, trial: Callable[[], bool | str]
) -> DiagnosedKnob:
    """What a knob does: first to the probes, then to the divergence: `trial` tells whether that is still there, or
    why it is not known."""
    if isinstance(probed, str):
        return DiagnosedKnob(knob=knob.name, status="unknown", finding=probed, names=knob.names)
    if not any(probed.get(name) != plain.get(name) for name in knob.probes):
        return DiagnosedKnob(
            knob=knob.name, status="no effect", finding="it changes nothing in this version", names=knob.names
        )
    still = trial()
    if isinstance(still, str):
        return DiagnosedKnob(knob=knob.name, status="unknown", finding=still, names=knob.names)
    if still:
        return DiagnosedKnob(knob=knob.name, status="keeps", finding="it is still there", names=knob.names)
    return DiagnosedKnob(knob=knob.name, status="cures", finding="it is gone", names=knob.names)


def for_backend(backend: str) -> list[Knob]:
    return [knob for knob in KNOBS if not knob.backends or backend in knob.backends]


def class_of(knobs: Sequence[DiagnosedKnob]) -> str:
    """The class of cause that the cures name, the most particular one; nothing where nothing cures."""
    cured = {knob.names for knob in knobs if knob.status == "cures"}
    return next((name for name in CLASSES if name in cured), "")
