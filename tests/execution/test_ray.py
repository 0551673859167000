"""Workers on the nodes of a real Ray cluster, started here: the report of a local run, and what a lost node costs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxcheck.execution.saved import MANIFEST
from tests.gate.packages import make_wheel
from tests.harness import Done, Project, by_id, clean_environment, statuses

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jaxcheck[ray]'")

pytestmark = [
    pytest.mark.needs_jax,
    pytest.mark.one_version,
    pytest.mark.slow,
]
PATIENCE = 120.0
TIMES = {"seconds", "trace_seconds", "compile_seconds", "started", "command"}

KERNELS = """
    import os
    import signal
    import time
    from pathlib import Path

    import jax.numpy as jnp

    HERE = Path(__file__).parent

    def waves(x):
        return {"sine": jnp.sin(x), "sum": jnp.cumsum(x)}

    def moved(x):
        print("computing", flush=True)
        return x + float((HERE / "constant.txt").read_text())

    def raising(x):
        raise ValueError("never " + __file__)

    def dying(x):
        os.abort()

    def parent(pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def holding(x, folder):
        # Says which raylet it runs under, and waits to be killed with it, as often as it is told.
        seen = len(list(Path(folder).glob("at-*")))
        Path(folder, f"at-{seen}-{parent(os.getppid())}").touch()
        if seen < int(Path(folder, "times").read_text()):
            time.sleep(300)
        return x * 2

    def orphaned(x, folder, times):
        # Kills what keeps its worker, so often.
        seen = len(list(Path(folder).glob(f"{times}-*")))
        if seen < times:
            Path(folder, f"{times}-{seen}").touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(300)
        return x
"""

REGISTRY = """
    version: 1
    defaults: {tolerance: {rtol: 1e-6, atol: 1e-6}}
    recipes:
      waves:
        kernel: kernels:waves
        modes: [eager, jit, vmap]
        cases: {a: {args: {x: [1.0, 2.0]}}, b: {args: {x: [0.5, 0.1]}}}
      moved: {kernel: kernels:moved, cases: {a: {args: {x: 1.0}}}}
      new: {kernel: kernels:waves, cases: {a: {args: {x: 3.0}}}}
      raising: {kernel: kernels:raising, cases: {a: {args: {x: 1.0}}}}
      dying: {kernel: kernels:dying, modes: [eager], cases: {a: {args: {x: 1.0}}}}
      together:
        kernel: kernels:waves
        modes: [eager, sharded]
        processes: 2
        devices: 1
        sharded: {axes: {x: 0}}
        cases: {a: {args: {x: [1.0, 2.0]}}}
      wide: {kernel: kernels:waves, config: {enable_x64: true}, resources: {A100: 1}, cases: {a: {args: {x: [0.25]}}}}
"""


class Cluster:
    """A cluster that a process beside this one holds: Ray's processes signal the whole group that they are in."""

    def __init__(self, folder: Path) -> None:
        self._holder = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("ray_nodes.py")), str(folder)],
            env=clean_environment(RAY_USAGE_STATS_ENABLED="0"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.address = self._told("address")

    def hold(self, nodes: int) -> None:
        """At least so many nodes, all of them there; one has an accelerator, as it says."""
        assert self._holder.stdin
        self._holder.stdin.write(f"{nodes}\n")
        self._holder.stdin.flush()
        assert self._told("held") == str(nodes)

    def _told(self, what: str) -> str:
        assert self._holder.stdout
        for line in self._holder.stdout:
            if line.startswith(f"{what} "):
                return line.split()[1]
        raise AssertionError(f"the cluster ended before it told its {what}")

    def stop(self) -> None:
        try:
            self._holder.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._holder.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # paths of sockets have to be short
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def on(cluster: Cluster) -> list[str]:
    return ["--executor", "ray", "--address", cluster.address]


def without_times(value: Any) -> Any:
    """A report as it is the same twice: without times, and without what a crash prints of threads."""
    if isinstance(value, dict):
        kept = {key: without_times(one) for key, one in value.items() if key not in TIMES}
        return {**kept, "stderr": ""} if kept.get("status") == "crash" else kept
    return [without_times(one) for one in value] if isinstance(value, list) else value


def candidates(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.folder / ".jaxcheck/candidates").iterdir()}


@pytest.fixture
def ordinary(project: Project) -> Project:
    """Recipes of every kind; some have goldens, one of which is no longer right."""
    project.write("kernels.py", KERNELS)
    project.write("constant.txt", "1.0")
    project.write("recipes.yaml", REGISTRY)
    project.bless("waves", "moved", "wide")
    project.write("constant.txt", "2.0")
    return project


def test_the_report_is_that_of_a_local_run(cluster: Cluster, ordinary: Project) -> None:
    cluster.hold(2)
    local, expected = ordinary.run("--save", "local")
    left = candidates(ordinary)
    shutil.rmtree(ordinary.folder / ".jaxcheck")
    before = ordinary.files()

    done, report = ordinary.run(*on(cluster), "--save", "elsewhere")

    assert done.code == local.code == 1, done
    assert set(statuses(report).values()) == {"pass", "fail", "missing", "error", "crash"}
    nodes = report.pop("nodes")
    assert expected.pop("nodes") == []
    assert without_times(report) == without_times(expected)
    assert candidates(ordinary) == left
    saved = [json.loads((ordinary.folder / name / MANIFEST).read_text())["files"] for name in ("local", "elsewhere")]
    assert {name for name in saved[0] if saved[0][name] != saved[1].get(name)} == {"run.json"}
    changed = {name for name, content in ordinary.files().items() if before.get(name) != content}
    assert {name.partition("/")[0] for name in changed} == {"report.json", "elsewhere"}
    assert sum(node["checks"] for node in nodes) == len(report["results"])
    assert {node["environment"]["jax"] for node in nodes} == {report["environment"]["jax"]}


@pytest.fixture
def held(project: Project) -> Project:
    """A recipe that waits for its node to be killed, as often as held/times says, between two that do not; none has a
    golden."""
    folder = project.write("held/times", "0").parent
    project.write("kernels.py", KERNELS)
    project.write(
        "recipes.yaml",
        f"""
        version: 1
        defaults: {{tolerance: {{rtol: 1e-6, atol: 1e-6}}, modes: [eager]}}
        recipes:
          before: {{kernel: kernels:waves, cases: {{a: {{args: {{x: 1.0}}}}}}}}
          held: {{kernel: kernels:holding, static: [folder], cases: {{a: {{args: {{x: 1.0, folder: {folder}}}}}}}}}
          after: {{kernel: kernels:waves, cases: {{a: {{args: {{x: 2.0}}}}}}}}
        """,
    )
    return project


def hold(project: Project, times: int) -> None:
    for marker in (project.folder / "held").glob("at-*"):
        marker.unlink()
    project.write("held/times", str(times))


@contextlib.contextmanager
def running(project: Project, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        project.command("run", "-o", "report.json", *args),
        cwd=project.folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, out, err)


def until(condition: Callable[[], Any]) -> Any:
    limit = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < limit, f"waited {PATIENCE} s in vain"
        time.sleep(0.05)
    return found


def raylet_of(project: Project, number: int) -> int:
    """Under which raylet the kernel is held, the `number`-th time."""
    (marker,) = until(lambda: list((project.folder / "held").glob(f"at-{number}-*")))
    return int(marker.name.rpartition("-")[2])


def test_what_a_lost_node_ran_is_run_again_elsewhere(cluster: Cluster, held: Project) -> None:
    _, expected = held.run("--no-cache")
    assert set(statuses(expected).values()) == {"missing"}
    cluster.hold(2)
    hold(held, 1)
    with running(held, *on(cluster), "--no-cache") as process:
        os.kill(raylet_of(held, 0), signal.SIGKILL)
        done = ended(process)
    report = json.loads((held.folder / "report.json").read_text())
    assert done.code == 1, done
    assert "was lost: what ran there is run again elsewhere" in done.err
    (lost,) = [node for node in report["nodes"] if node["lost"]]
    assert lost["name"] in done.out
    assert raylet_of(held, 1)
    expected.pop("nodes"), report.pop("nodes")
    assert without_times(report) == without_times(expected)


def test_who_loses_what_keeps_its_worker_is_run_once_more_on_another_node(cluster: Cluster, project: Project) -> None:
    """The nodes themselves stay. Whoever loses it again has crashed, and nobody else has."""
    cluster.hold(2)
    folder = project.write("seen/none", "").parent
    project.write("kernels.py", KERNELS)
    args = "static: [folder, times], cases: {a: {args: {x: 1.0, folder: %s, times: %d}}}"
    project.write(
        "recipes.yaml",
        f"""
        version: 1
        defaults: {{tolerance: {{rtol: 1e-6, atol: 1e-6}}, modes: [eager]}}
        recipes:
          once: {{kernel: kernels:orphaned, {args % (folder, 1)}}}
          often: {{kernel: kernels:orphaned, {args % (folder, 9)}}}
          after: {{kernel: kernels:waves, cases: {{a: {{args: {{x: 2.0}}}}}}}}
        """,
    )
    done, report = project.run(*on(cluster), "-j", "1")
    assert done.code == 1, done
    assert statuses(report) == {"once::a[eager]": "missing", "often::a[eager]": "crash", "after::a[eager]": "missing"}
    reason = by_id(report)["often::a[eager]"]["reason"]
    names = [node["name"] for node in report["nodes"]]
    assert "its node was lost twice" in reason
    assert all(name in reason for name in names)
    assert [node["lost"] for node in report["nodes"]] == ["its worker process has died"] * 2


@pytest.mark.long
def test_a_check_whose_node_is_lost_twice_has_crashed(cluster: Cluster, held: Project) -> None:
    """And what was done stays, though no node is left."""
    cluster.hold(2)
    hold(held, 2)
    with running(held, *on(cluster), "-j", "1") as process:
        for number in range(2):
            os.kill(raylet_of(held, number), signal.SIGKILL)
        done = ended(process)
    report = json.loads((held.folder / "report.json").read_text())
    assert done.code == 1, done
    assert statuses(report) == {"before::a[eager]": "missing", "held::a[eager]": "crash", "after::a[eager]": "error"}
    assert "its node was lost twice" in by_id(report)["held::a[eager]"]["reason"]
    assert "no node of the cluster has CPU 1" in by_id(report)["after::a[eager]"]["reason"]
    assert len([node for node in report["nodes"] if node["lost"]]) == 2


def test_an_interrupted_run_keeps_what_was_done(cluster: Cluster, held: Project) -> None:
    cluster.hold(1)
    hold(held, 1)
    with running(held, *on(cluster), "-j", "1") as process:
        raylet_of(held, 0)
        process.send_signal(signal.SIGINT)
        done = ended(process)
    report = json.loads((held.folder / "report.json").read_text())
    assert done.code == 130, done
    assert report["interrupted"]
    assert statuses(report) == {"before::a[eager]": "missing"}


def test_what_no_node_has_is_named(cluster: Cluster, held: Project) -> None:
    cluster.hold(1)
    path = held.folder / "recipes.yaml"
    path.write_text(path.read_text().replace("after: {", "after: {resources: {H100: 2}, "))
    done, report = held.run(*on(cluster))
    assert done.code == 1, done
    assert statuses(report) == {"before::a[eager]": "missing", "held::a[eager]": "missing", "after::a[eager]": "error"}
    told = by_id(report)["after::a[eager]"]
    assert told["reason"].startswith("recipes.yaml:7:11: no node of the cluster has H100 2; ")
    assert told["hint"].startswith("ray status")


def test_a_device_that_is_not_there(cluster: Cluster, held: Project) -> None:
    """No node has it; or the one that says so has none that JAX finds."""
    cluster.hold(1)
    done, report = held.run(*on(cluster), "--resource", "H100=1")
    assert (done.code, report) == (4, {}), done
    assert re.search(
        r"^error: no node of the cluster has H100 1; \d nodes have A100, CPU, GPU, memory$", done.err, re.M
    )
    done, report = held.run(*on(cluster), "--backend", "gpu", "--resource", "A100=1")
    assert (done.code, report) == (4, {}), done
    assert "backend 'gpu' is not available here" in done.err
    assert "error: node " in done.err


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_a_gate_has_an_environment_for_each_version(cluster: Cluster, project: Project) -> None:
    """Ray makes it of what was resolved here; the causes are found on the nodes as well."""
    pytest.importorskip("virtualenv", reason="Ray makes its environments with it")
    cluster.hold(1)
    wheels = [
        make_wheel(project.folder / "dist", "alpha", version, body=f"scale = {scale}\n")
        for version, scale in (("1.0", 2.0), ("2.0", 2.5))
    ]
    project.write(
        "kernels.py", "import alpha\nimport jax.numpy as jnp\ndef f(x):\n    return jnp.sin(x) * alpha.scale\n"
    )
    project.write(
        "recipes.yaml",
        """
        version: 1
        defaults: {tolerance: {rtol: 1e-6, atol: 1e-6}}
        recipes: {f: {kernel: kernels:f, cases: {a: {args: {x: [1.0, 2.0]}}}}}
        """,
    )
    old, new = (f"./dist/{wheel.name}" for wheel in wheels)
    done = project.jaxcheck("gate", "--from", old, "--to", new, "-o", "gate.json", *on(cluster), timeout=900)
    assert done.code == 1, done
    report = json.loads((project.folder / "gate.json").read_text())
    assert [(one["name"], one["before"], one["after"]) for one in report["packages"]] == [("alpha", "1.0", "2.0")]
    assert {leaf["package"] for result in report["results"] for leaf in result["leaves"]} == {"alpha"}
    assert report["verdict"] == "block"
    for result in report["results"]:
        assert "old program, old runtime: the ordinary bits" in result["details"]
        assert "new program, new runtime: the ordinary bits" in result["details"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--executor", "ray", "--address", "127.0.0.1:1"], 4, "no Ray cluster at 127.0.0.1:1"),
        (["--executor", "ray", "--address", "ray://somewhere:10001"], 4, "has to run on a machine of the cluster"),
        (["--executor", "ray", "--resource", "A100"], 2, "--resource A100: that is no resource and its amount"),
        (["--address", "127.0.0.1:1"], 2, "--address is about a cluster"),
    ],
)
def test_what_cannot_be_asked_for(project: Project, options: list[str], code: int, told: str) -> None:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    done = project.jaxcheck("run", *options)
    assert (done.code, done.out) == (code, ""), done
    assert told in done.err
    assert "try: " in done.err
