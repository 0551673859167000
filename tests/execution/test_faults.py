"""Kernels that misbehave: each costs one check, loses nothing, and the report says what happened and what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness import Project, by_id, clean_environment, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]

REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}, modes: [eager, jit]}
recipes:
  before: {kernel: "kernels:double", cases: {standard: {args: {x: [1.0, 2.0]}}}}
  FAULT
  after: {kernel: "kernels:double", cases: {standard: {args: {x: [3.0]}}}}
"""

KERNELS = """
import jax.numpy as jnp

def double(x):
    return 2 * x
"""

HEALTHY = ("before::standard[eager]", "before::standard[jit]", "after::standard[eager]", "after::standard[jit]")


def with_fault(project: Project, recipe: str, kernel: str) -> Project:
    """A project of two healthy recipes around a faulty one; the healthy ones are blessed."""
    project.write("kernels.py", KERNELS + kernel)
    project.write("recipes.yaml", REGISTRY.replace("FAULT", recipe))
    project.bless("before", "after")
    return project


def fault(kernel: str, *, cases: str = "standard: {args: {x: [1.0]}}", more: str = "") -> str:
    return f'fault: {{kernel: "kernels:{kernel}", cases: {{{cases}}}{", " + more if more else ""}}}'


def test_exception(project: Project) -> None:
    with_fault(project, fault("raises"), "def raises(x):\n    raise RuntimeError('no sensor')\n")
    done, report = project.run("-j", "1")
    assert done.code == 1, done
    result = by_id(report)["fault::standard[eager]"]
    assert result["status"] == "error"
    assert "RuntimeError: no sensor" in result["reason"]
    assert "at kernels.py:7" in result["reason"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crash", "signal 11 (SIGSEGV)"),
        ("os.abort()", "crash", "signal 6 (SIGABRT)"),
        ("os._exit(0)", "crash", "exited with status 0"),
        ("os._exit(7)", "crash", "exited with status 7"),
        ("sys.exit(3)", "error", "SystemExit: 3"),
        ("raise KeyboardInterrupt('x')", "error", "KeyboardInterrupt: x"),
        ("os.close(int(sys.argv[2]))", "crash", "exited with status 1"),
        ("os.write(int(sys.argv[2]), b'garbage\\n')", "crash", "private channel"),
    ],
)
def test_death_costs_one_check(project: Project, body: str, status: str, says: str) -> None:
    kernel = (
        "import os, signal, sys\nimport jax\ndef dies(x):\n    if not isinstance(x, jax.core.Tracer):\n"
        f"        {body}\n    return x\n"
    )
    with_fault(project, fault("dies"), kernel)
    done, report = project.run("-j", "1")
    assert done.code == 1, done
    assert by_id(report)["fault::standard[eager]"]["status"] == status, report
    assert says in by_id(report)["fault::standard[eager]"]["reason"]
    assert statuses(report)["fault::standard[jit]"] == "missing", "only the eager check was lost"
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_crash_keeps_last_words(project: Project) -> None:
    kernel = "import os, sys\ndef dies(x):\n    print('last words', file=sys.stderr, flush=True)\n    os.abort()\n"
    with_fault(project, fault("dies"), kernel)
    _, report = project.run("fault", "--mode", "eager")
    stderr = by_id(report)["fault::standard[eager]"]["stderr"]
    assert "last words" in stderr
    assert "Fatal Python error: Aborted" in stderr


def test_endless_loop_times_out_and_shows_where(project: Project) -> None:
    kernel = "def hangs(x):\n    while True:\n        pass\n"
    with_fault(project, fault("hangs", more="modes: [eager], timeout: 2"), kernel)
    start = time.monotonic()
    done, report = project.run("-j", "1")
    assert time.monotonic() - start < 60
    result = by_id(report)["fault::standard[eager]"]
    assert result["status"] == "timeout"
    assert "2 s" in result["reason"]
    assert "kernels.py" in result["stderr"], "the stack of the hanging kernel"
    assert done.code == 1
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_hanging_child_dies_with_its_group(project: Project) -> None:
    kernel = (
        "import subprocess, pathlib, time\ndef hangs(x):\n"
        "    child = subprocess.Popen(['sleep', '300'])\n"
        "    pathlib.Path('child.pid').write_text(str(child.pid))\n"
        "    time.sleep(300)\n"
    )
    with_fault(project, fault("hangs", more="modes: [eager], timeout: 2"), kernel)
    project.run("fault")
    pid = int((project.folder / "child.pid").read_text())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_forked_child_that_returns_is_not_a_second_worker(project: Project) -> None:
    kernel = (
        "import os, warnings\ndef forks(x):\n    warnings.simplefilter('ignore')\n    os.fork()\n    return 2 * x\n"
    )
    with_fault(project, fault("forks", more="modes: [eager]"), kernel)
    _, report = project.run("-j", "1")
    assert statuses(report)["fault::standard[eager]"] == "missing"
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_megabytes_of_output_and_a_fake_reply(project: Project) -> None:
    kernel = (
        "import sys\ndef shouts(x):\n    for _ in range(200):\n        print('x' * 100_000)\n"
        '    print(\'{"outcome": "value"}\')\n    print("the end", file=sys.stderr)\n    return 2 * x\n'
    )
    with_fault(project, fault("shouts", more="modes: [eager]"), kernel)
    done, report = project.run("-j", "1")
    result = by_id(report)["fault::standard[eager]"]
    assert result["status"] == "missing"
    assert len(result["stdout"]) < 20_000
    assert "the end" in result["stderr"]
    assert done.out.count("x" * 1000) == 0, "a kernel's output does not flood the report"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{'status': 'ok', 'x': x}", "unsupported output leaf ['status']: builtins.str"),
        ("object()", "unsupported output leaf .: builtins.object"),
        ("[x, np.array(['a'])]", "unsupported output leaf [1]"),
        ("np.int64(2**40)", "does not fit int32"),
    ],
)
def test_output_that_is_no_array(project: Project, value: str, says: str) -> None:
    with_fault(project, fault("odd", more="modes: [eager]"), f"import numpy as np\ndef odd(x):\n    return {value}\n")
    _, report = project.run("-j", "1")
    result = by_id(report)["fault::standard[eager]"]
    assert result["status"] == "error"
    assert says in result["reason"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_mutated_inputs_are_found_and_do_not_spread(project: Project) -> None:
    kernel = "def changes(p):\n    w = p.pop('w')\n    p['new'] = w\n    return 2 * w\n"
    with_fault(project, fault("changes", cases="standard: {args: {p: {w: [1.0]}}}"), kernel)
    project.jaxcheck("bless", "fault", "--reason", "t", "--allow", "mutation")
    _, report = project.run()
    eager, jit = (by_id(report)[f"fault::standard[{mode}]"] for mode in ("eager", "jit"))
    assert eager["status"] == "fail"
    assert "changed its argument" in eager["reason"]
    assert jit["status"] == "pass", "jit hands the kernel a copy, and the inputs are fresh for every call"


def test_changed_config_is_found_and_put_back(project: Project) -> None:
    kernel = (
        "import jax, os\ndef meddles(x):\n    jax.config.update('jax_debug_nans', True)\n"
        "    os.environ['MEDDLED'] = '1'\n    os.chdir('/')\n    return x\n"
        "def looks(x):\n    assert not jax.config.jax_debug_nans and 'MEDDLED' not in os.environ\n"
        "    assert os.getcwd() != '/'\n    return x\n"
    )
    recipes = (
        fault("meddles", more="modes: [eager]")
        + "\n  "
        + fault("looks", more="modes: [eager]").replace("fault:", "looks:")
    )
    with_fault(project, recipes, kernel)
    _, report = project.run("-j", "1")
    found = {finding["message"] for finding in by_id(report)["fault::standard[eager]"]["findings"]}
    assert any("jax.config.jax_debug_nans: False -> True" in message for message in found)
    assert any("os.environ[MEDDLED]" in message for message in found)
    assert any("the current folder" in message for message in found)
    assert statuses(report)["looks::standard[eager]"] == "missing", "it ran, undisturbed"


def test_leaked_tracer_costs_the_check_that_uses_it(project: Project) -> None:
    kernel = "kept = []\ndef leaks(x):\n    kept.append(x)\n    return x + sum(kept[:-1])\n"
    cases = "one: {args: {x: [1.0]}}, two: {args: {x: [1.0, 2.0]}}"
    with_fault(project, fault("leaks", cases=cases, more="modes: [jit], golden: jit"), kernel)
    _, report = project.run("-j", "1")
    assert statuses(report)["fault::one[jit]"] == "missing"
    result = by_id(report)["fault::two[jit]"]
    assert result["status"] == "error"
    assert "UnexpectedTracerError" in result["reason"]
    assert "return it instead" in result["hint"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_broken_import_is_an_error_of_its_recipes_only(project: Project) -> None:
    with_fault(project, 'fault: {kernel: "broken:f", cases: {a: {args: {x: 1.0}}, b: {args: {x: 2.0}}}}', "")
    project.write("broken.py", "import nowhere_to_be_found\n\ndef f(x):\n    return x\n")
    done, report = project.run("-j", "1")
    assert done.code == 1
    for check in ("fault::a[eager]", "fault::a[jit]", "fault::b[eager]", "fault::b[jit]"):
        assert by_id(report)[check]["status"] == "error"
        assert "nowhere_to_be_found" in by_id(report)[check]["reason"]
        assert "recipes.yaml:6" in by_id(report)[check]["reason"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_an_import_that_kills_the_worker(project: Project) -> None:
    with_fault(project, 'fault: {kernel: "deadly:f", cases: {a: {args: {x: 1.0}}}}', "")
    project.write("deadly.py", "import os\nos._exit(9)\n\ndef f(x):\n    return x\n")
    _, report = project.run("-j", "1")
    assert statuses(report)["fault::a[eager]"] == "crash"
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_env_that_keeps_jax_from_starting_costs_its_recipe(project: Project) -> None:
    with_fault(project, fault("double", more="env: {XLA_FLAGS: --xla_no_such_flag=1}"), "")
    done, report = project.run("-j", "1")
    assert done.code == 1
    assert statuses(report)["fault::standard[eager]"] == "error"
    assert "xla_no_such_flag" in by_id(report)["fault::standard[eager]"]["reason"]
    assert all(statuses(report)[check] == "pass" for check in HEALTHY)


def test_absent_backend(project: Project) -> None:
    with_fault(project, fault("double"), "")
    before = project.files()
    done = project.jaxcheck("run", "--backend", "gpu")
    assert done.code == 4, done
    assert "'gpu'" in done.err
    assert "Backends here: cpu" in done.err
    assert "pip install" in done.err
    assert project.files() == before


def test_interrupt_saves_what_was_done(project: Project) -> None:
    kernel = "import time, pathlib\ndef waits(x):\n    pathlib.Path('started').touch()\n    time.sleep(100)\n"
    with_fault(project, fault("waits", more="modes: [eager]"), kernel)
    report = project.folder / "report.json"
    process = subprocess.Popen(
        project.command("run", "-j", "1", "--output", str(report)),
        cwd=project.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (project.folder / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    saved = json.loads(report.read_text())
    assert saved["interrupted"] is True
    assert statuses(saved)["before::standard[eager]"] == "pass"
    assert "interrupted" in out.lower()
    assert json.loads((project.folder / ".jaxcheck" / "run.json").read_text())["interrupted"] is True


def test_worker_does_not_outlive_a_killed_parent(project: Project) -> None:
    kernel = (
        "import os, time, pathlib\ndef waits(x):\n"
        "    pathlib.Path('pid').write_text(str(os.getpid()))\n    time.sleep(100)\n"
    )
    with_fault(project, fault("waits", more="modes: [eager]"), kernel)
    process = subprocess.Popen(project.command("run", "fault"), cwd=project.folder, env=clean_environment())
    deadline = time.monotonic() + 60
    while not (project.folder / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    worker = int((project.folder / "pid").read_text())
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while _runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(worker)
