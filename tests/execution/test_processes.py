"""`processes: 2`: the mode `sharded` in processes that `jax.distributed` joins, real ones, held to the single call."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

import pytest

from jaxcheck.execution.judge import GoldenView, Outcome, judge_case
from jaxcheck.registry.model import Case, Position, Recipe
from jaxcheck.results import Environment, Status
from tests.harness import Project, by_id

pytestmark = pytest.mark.needs_jax

KERNELS = """
    import os
    import signal
    import time

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P


    def hosts():
        devices = np.array(jax.devices()).reshape(jax.process_count(), -1)
        return Mesh(devices, ("host", "device"))


    def mean(x):
        '''pmean over all devices of all processes, and its single-process twin.'''
        os.write(1, b"pid %d\\n" % os.getpid())
        both = ("host", "device")
        every = jax.shard_map(lambda s: lax.pmean(s.mean(), both), mesh=hosts(), in_specs=P(both), out_specs=P())
        return {"centred": x - every(x), "weak": 1.0}


    def only_here(x):
        '''The sum over this process's devices only: right, where there is one process.'''
        add = lambda s: lax.psum(s.sum(), "device")
        return jax.shard_map(add, mesh=hosts(), in_specs=P(("host", "device")), out_specs=P(), check_vma=False)(x)


    def product(x, w):
        '''Contracts over the axis that is split: an all-reduce.'''
        os.write(1, b"pid %d\\n" % os.getpid())
        return x @ w


    def noise(key, x):
        return x + jax.random.normal(key, x.shape), key


    def who(x):
        return x + jax.process_index()


    def refuses(x):
        raise ValueError("no")


    def raises_alone(x):
        if jax.process_index() == 1:
            raise ValueError("boom")
        return x


    def dies(x):
        if jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x - x.mean()


    def hangs(x, w):
        if jax.process_index() == 1:
            time.sleep(600)
        return w + 1
"""

REGISTRY = """
    version: 1
    defaults:
      modes: [eager{mode}]
      tolerance: {{rtol: 1.0e-6, atol: 1.0e-6}}
      devices: 2
      {processes}
    recipes:
      mean:
        kernel: kernels:mean
        cases:
          a: {{args: {{x: {{$normal: {{shape: [8, 3], seed: 0}}}}}}}}
          b: {{args: {{x: {{$normal: {{shape: [4], seed: 1}}}}}}}}
        {x0}
      product:
        kernel: kernels:product
        cases:
          a: {{args: {{x: {{$normal: {{shape: [3, 8], seed: 0}}}}, w: {{$normal: {{shape: [8, 2], seed: 1}}}}}}}}
        {contracted}
      noise: {{kernel: "kernels:noise", cases: {{a: {{args: {{key: {{$key: {{seed: 0}}}}, x: [1, 2, 3, 4]}}}}}}, {x0}}}
      only-here: {{kernel: "kernels:only_here", cases: {{a: {{args: {{x: [1, 2, 3, 4]}}}}}}, {x0}}}
      who: {{kernel: "kernels:who", cases: {{a: {{args: {{x: [1, 2, 3, 4]}}}}}}, {x0}}}
      refuses: {{kernel: "kernels:refuses", cases: {{a: {{args: {{x: [1, 2, 3, 4]}}, raises: ValueError}}}}, {x0}}}
      raises-alone: {{kernel: "kernels:raises_alone", cases: {{a: {{args: {{x: [1, 2, 3, 4]}}}}}}, {x0}}}
      dies: {{kernel: "kernels:dies", cases: {{a: {{args: {{x: [1, 2, 3, 4]}}}}}}, {x0}}}
      hangs: {{kernel: "kernels:hangs", timeout: 3, cases: {{a: {{args: {{x: [1, 2, 3, 4], w: [0, 0]}}}}}}, {x0}}}
"""
WHOLE = {"mode": "", "processes": "", "x0": "tags: []", "contracted": ""}
SPLIT = {
    "mode": ", sharded",
    "processes": "processes: 2",
    "x0": "sharded: {axes: {x: 0}}",
    "contracted": "sharded: {axes: {x: 1, w: 0}}",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The goldens come from one process, and hold for several: these change nothing of what is computed."""
    project = Project(tmp_path_factory.mktemp("processes"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY.format(**WHOLE))
    project.bless("--all", "--no-truth")
    project.write("recipes.yaml", REGISTRY.format(**SPLIT))
    done, report = project.run("-j1")
    assert done.code == 1, done
    return by_id(report)


def check(ran: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    return ran[f"{name}[sharded]"]


def pids(*results: dict[str, Any]) -> set[int]:
    return {int(pid) for result in results for pid in re.findall(r"pid (\d+)\n", result["stdout"])}


@pytest.mark.parametrize("name", ["mean::a", "mean::b", "product::a", "noise::a", "refuses::a"])
def test_what_is_right_across_processes_passes(ran: Any, name: str) -> None:
    result = check(ran, name)
    assert (result["status"], result["reason"]) == ("pass", "")
    assert result["conditions"] == {"devices": "2", "processes": "2"}
    assert ran[f"{name}[eager]"]["conditions"] == {"devices": "2"}


def test_two_processes_run_all_of_it_and_none_is_left(ran: Any) -> None:
    both = pids(check(ran, "mean::a"))
    assert len(both) == 2
    assert both == pids(check(ran, "mean::b"), check(ran, "product::a"))
    assert not both & pids(ran["mean::a[eager]"])
    for pid in both:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_sum_over_one_process_only_fails(ran: Any) -> None:
    result = check(ran, "only-here::a")
    assert result["status"] == "fail"
    assert {finding["kind"] for finding in result["findings"]} == {"modes", "golden", "processes"}
    assert "process_index 1 differs from process_index 0: . 1 of 1 elements" in result["reason"]
    assert ran["only-here::a[eager]"]["status"] == "pass"


def test_a_shard_that_depends_on_its_process_fails(ran: Any) -> None:
    result = check(ran, "who::a")
    assert result["status"] == "fail"
    assert [leaf["mismatched"] for leaf in result["leaves"]] == [2]


def test_an_exception_in_one_process_is_told_with_its_number(ran: Any) -> None:
    result = check(ran, "raises-alone::a")
    assert result["status"] == "error"
    assert result["reason"].startswith("ValueError: boom at kernels.py:")
    assert result["reason"].endswith(" in process_index 1")


def test_a_process_that_is_killed_costs_this_check_only(ran: Any) -> None:
    result = check(ran, "dies::a")
    assert result["status"] == "crash"
    assert result["reason"].startswith("process_index 1: the worker was killed by signal 9 (SIGKILL)")
    assert ran["dies::a[eager]"]["status"] == "pass"


def test_a_process_that_hangs_is_named_and_shows_where_it_stands(ran: Any) -> None:
    result = check(ran, "hangs::a")
    assert result["status"] == "timeout"
    # The other one waits for nobody; where the machine is busy, 3 s may be too short for it as well.
    words = r"no answer within 3 s from process_index (0, )?1; all 2 processes were killed"
    assert re.fullmatch(words, result["reason"])
    assert "process_index 1:" in result["stderr"]
    assert "in hangs" in result["stderr"]


@pytest.mark.one_version
def test_a_port_that_somebody_took_meanwhile_costs_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxcheck.worker import group

    with socket.create_server((group.HOST, 0)) as taken:
        ports = iter([taken.dup(), group.reserved_port()])
        monkeypatch.setattr(group, "reserved_port", lambda: next(ports))
        joined = group.started(1, {"devices": 3, "x64": False, "paths": []})
        (reply,) = joined.ask([{"op": "streams"}], 60)
        joined.end()
    assert reply["streams"]
    assert next(ports, None) is None
    assert not joined.lives()


@pytest.mark.one_version
@pytest.mark.parametrize(
    ("backend", "gloo", "reason"),
    [("gpu", True, "on the CPU only; this is gpu"), ("cpu", False, "has no collective operations")],
)
def test_where_processes_cannot_be_joined_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, backend: str, gloo: bool, reason: str
) -> None:
    import jax

    from jaxcheck.worker import internals
    from jaxcheck.worker.together import Together

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(internals, "has_cpu_collectives", lambda: gloo)
    reply = Together().assemble({"name": "a"})
    assert reply["outcome"] == "skip"
    assert reason in reply["reason"]
    recipe = Recipe("a", "k:f", Position("recipes.yaml", 1, 1), modes=("sharded",), processes=2)
    case = Case("c", {}, False, None, 1.0, recipe.position)
    environment = Environment.model_construct(backend=backend, device_kind=backend)
    (result,) = judge_case(recipe, case.name, [Outcome("sharded", reply)], GoldenView("missing"), environment)
    assert (result.status, result.reason) == (Status.SKIP, reply["reason"])


@pytest.mark.one_version
def test_what_one_raises_is_told_where_the_others_wait_for_it_in_vain() -> None:
    from jaxcheck.worker import together
    from jaxcheck.worker.group import EndedError

    raised = {"outcome": "raised", "error": {"type": "ValueError", "where": "kernels.py:3"}, "findings": []}
    words = "no answer within 3 s from process_index 0; all 2 processes were killed"
    reply = together._ended(EndedError("timeout", words, {1: raised}, {}))
    assert reply["error"]["where"] == "kernels.py:3 in process_index 1"
    assert reply["findings"] == [{"kind": "processes", "message": f"process_index 1 raises alone; {words}"}]
    late = together._ended(EndedError("timeout", words, {1: {"outcome": "value"}}, {}))
    assert (late["outcome"], late["reason"]) == ("timeout", words)
