"""Kernels that misbehave: each costs one check, loses nothing, and the report says what happened and what to do.

All of them go through one run with one worker. After each stands a healthy recipe with a golden, which must pass.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import runs, wait_for
from tests.harness import Done, Project

pytestmark = [pytest.mark.needs_jax, pytest.mark.one_version]
KERNELS = Path(__file__).parent / "kernels" / "misbehaving.py"


@dataclass(frozen=True)
class Fault:
    """A recipe, what its check has to end as, and words of the reason. `options` and `case` are what the recipe and its
    case say; the kernel has the recipe's name, where the options name none. `long`: one like it is there as well."""

    name: str
    status: str
    says: str = ""
    options: str = ""
    case: str = ""
    long: bool = False


HANGS = "timeout: 1"
FAULTS = [
    Fault("segfaults", "crash", "signal 11 (SIGSEGV)"),
    Fault("aborts", "crash", "signal 6 (SIGABRT)"),
    Fault("exits_with_success", "crash", "exited with status 0"),
    Fault("exits_with_seven", "crash", "exited with status 7", long=True),
    Fault("is_killed", "crash", "signal 9 (SIGKILL); the system sends it where memory runs out", long=True),
    Fault("kills_its_group", "crash", "signal 15 (SIGTERM)", long=True),
    Fault("closes_descriptors", "crash", "exited with status 1"),
    Fault("writes_into_the_channel", "crash", "private channel"),
    Fault("floods_the_channel", "crash", "private channel"),
    Fault("forges_a_reply", "crash", "private channel"),
    Fault("raises", "error", "RuntimeError: no sensor at misbehaving.py:"),
    Fault("raises_no_exception", "error", "Strange: out of the tree"),
    Fault("raises_system_exit", "error", "SystemExit: 3", long=True),
    Fault("raises_keyboard_interrupt", "error", "KeyboardInterrupt: x"),
    Fault("raises_what_cannot_be_printed", "error", "Mute: (its message cannot be made: SystemExit)"),
    Fault("raises_half_a_character", "error", "half \\udcff a \\ud83d character"),
    Fault("raises_a_megabyte", "error", "ValueError: yyyy", long=True),
    Fault("recurses", "error", "RecursionError: maximum recursion depth exceeded", long=True),
    Fault("recurses_deeper", "error", "RecursionError: maximum recursion depth exceeded"),
    Fault("wants_an_exabyte", "error", "Unable to allocate 1.00 EiB", long=True),
    Fault("wants_a_petabyte_of_xla", "error", "RESOURCE_EXHAUSTED"),
    Fault("returns_what_exits", "error", "SystemExit: 5"),
    Fault("returns_a_deep_tree", "error", long=True),
    Fault("returns_a_million_leaves", "error", "1,000,000 leaves are too many, at most 100,000"),
    Fault("returns_text", "error", "unsupported output leaf ['status']: builtins.str"),
    Fault("returns_an_object", "error", "unsupported output leaf .: builtins.object", long=True),
    Fault("returns_an_array_of_text", "error", "unsupported output leaf [1]", long=True),
    Fault("returns_a_large_integer", "error", "does not fit int32"),
    Fault(
        "has_a_property_that_exits",
        "missing",
        "property exits_in_a_property does not hold: SystemExit: 4",
        "kernel: misbehaving:double, properties: [misbehaving:exits_in_a_property]",
    ),
    Fault(
        "has_a_reference_that_stops",
        "missing",
        "the reference failed: KeyboardInterrupt: asked to stop",
        "kernel: misbehaving:double, reference: misbehaving:stops_in_a_reference",
    ),
    Fault(
        "has_no_inputs",
        "error",
        "makes_no_inputs failed: SystemExit: 6",
        "kernel: misbehaving:double, inputs: misbehaving:makes_no_inputs",
    ),
    Fault("cannot_be_imported", "error", "No module named 'nowhere_to_be_found'", "kernel: broken:f", long=True),
    Fault("is_killed_by_its_import", "crash", "exited with status 9", "kernel: deadly:f", long=True),
    Fault(
        "has_a_flag_that_stops_jax",
        "error",
        "xla_no_such_flag",
        "kernel: misbehaving:double, env: {XLA_FLAGS: --xla_no_such_flag=1}",
    ),
    Fault("prints_binary", "missing"),
    Fault("shouts", "missing"),
    Fault("closes_its_output", "missing", "changed descriptor 1: "),
    Fault("loops", "timeout", "no answer within 1 s", case=HANGS, long=True),
    Fault("loops_in_xla", "timeout", "no answer within 1 s", case=HANGS, long=True),
    Fault("hangs_in_c", "timeout", "no answer within 1 s", case=HANGS),
    Fault("deadlocks", "timeout", "no answer within 1 s", case=HANGS, long=True),
    Fault("ignores_signals", "timeout", "no answer within 1 s", case=HANGS),
    Fault("stops_itself", "timeout", "no answer within 1 s", case=HANGS, long=True),
    Fault("prints_for_ever", "timeout", "no answer within 1 s", case=HANGS, long=True),
    Fault("hoards", "crash", "of memory, its limit is 128 MiB", case="memory: 128MiB"),
    Fault("lets_a_child_hoard", "crash", "of memory, its limit is 100 MiB", options="memory: 100MiB"),
    Fault("takes_what_it_may", "missing", case="memory: 128MiB"),
    Fault("leaves_a_thread", "missing"),
    Fault("leaves_an_alarm", "missing", "changed the real timer: False -> True"),
    Fault("waits_for_what_was_left", "missing"),
    Fault("leaves_a_child", "missing"),
    Fault(
        "forks_and_returns",
        "missing",
        options="kernel: misbehaving:forks_and_returns, properties: [misbehaving:is_asked_once]",
    ),
    Fault("forks_and_raises", "missing"),
    Fault(
        "has_a_property_that_forks",
        "missing",
        options="kernel: misbehaving:double, properties: [misbehaving:forks_in_a_property], "
        "reference: misbehaving:is_computed_once",
    ),
    Fault("changes_its_process", "missing", "changed the umask: '022' -> '777'"),
    Fault("finds_its_process_as_it_was", "missing"),
    Fault("works_in_a_folder_that_goes_away", "missing", "changed the current folder"),
    Fault(
        "loses_its_outputs",
        "error",
        "what it produced is lost",
        "kernel: misbehaving:returns_more_than_fits_a_reply, properties: [misbehaving:cleans_up_too_much]",
    ),
]
HEAD = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}, modes: [eager]}
recipes:
"""


def recipe(fault: Fault) -> str:
    kernel = [] if "kernel:" in fault.options else [f"kernel: misbehaving:{fault.name}"]
    case = ", ".join(["args: {x: [1.0, 2.0]}", *filter(None, [fault.case])])
    cases = [] if "inputs:" in fault.options else [f"cases: {{standard: {{{case}}}}}"]
    return f"{fault.name}: {{{', '.join([*kernel, *filter(None, [fault.options]), *cases])}}}"


def faults(config: pytest.Config) -> list[Fault]:
    return [fault for fault in FAULTS if config.getoption("--long") or not fault.long]


@dataclass(frozen=True)
class Gauntlet:
    project: Project
    done: Done
    report: dict[str, Any]

    def result(self, name: str) -> dict[str, Any]:
        return next(result for result in self.report["results"] if result["recipe"] == name)


@pytest.fixture(scope="module")
def gauntlet(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Gauntlet:
    project = Project(tmp_path_factory.mktemp("faults"))
    shutil.copy(KERNELS, project.folder)
    project.write("broken.py", "import nowhere_to_be_found\n\ndef f(x):\n    return x\n")
    project.write("deadly.py", "import os\nos._exit(9)\n\ndef f(x):\n    return x\n")
    lines = []
    for fault in faults(pytestconfig):
        healthy = f"after_{fault.name}: {{kernel: misbehaving:double, cases: {{standard: {{args: {{x: [3.0]}}}}}}}}"
        lines += [f"  {recipe(fault)}\n", f"  {healthy}\n"]
    project.write("recipes.yaml", HEAD + "".join(lines))
    project.bless("after_*", "--no-truth")
    done, report = project.run("-j", "1")
    return Gauntlet(project, done, report)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=[pytest.mark.long] * fault.long) for fault in FAULTS],
)
def test_it_costs_one_check_and_has_a_name(gauntlet: Gauntlet, fault: Fault) -> None:
    result = gauntlet.result(fault.name)
    assert result["status"] == fault.status, result
    assert fault.says in result["reason"], result
    assert fault.says or "; also: " not in result["reason"], result
    after = gauntlet.result(f"after_{fault.name}")
    assert after["status"] == "pass", after


def test_all_are_told(gauntlet: Gauntlet, pytestconfig: pytest.Config) -> None:
    assert gauntlet.done.code == 1, gauntlet.done
    assert len(gauntlet.report["results"]) == 2 * len(faults(pytestconfig))
    assert not any(ord(c) < 32 and c != "\n" for c in gauntlet.done.out), "nothing acts on the terminal"
    assert len(gauntlet.done.out) < 200_000, "no kernel's output floods the report"


def test_a_crash_keeps_its_last_words(gauntlet: Gauntlet) -> None:
    stderr = gauntlet.result("aborts")["stderr"]
    assert "last words" in stderr
    assert "Fatal Python error: Aborted" in stderr


@pytest.mark.parametrize("name", ["hangs_in_c", "ignores_signals", "hoards"])
def test_where_it_stood_is_shown(gauntlet: Gauntlet, name: str) -> None:
    stderr = gauntlet.result(name)["stderr"]
    assert "misbehaving.py" in stderr
    assert f"in {name}" in stderr


def test_output_is_kept_in_part_and_is_no_reply(gauntlet: Gauntlet) -> None:
    shouted = gauntlet.result("shouts")
    assert len(shouted["stdout"]) < 20_000
    assert "the end" in shouted["stderr"]
    assert "\ufffd" in gauntlet.result("prints_binary")["stdout"]


def test_what_a_kernel_started_dies_with_it(gauntlet: Gauntlet) -> None:
    pid = int((gauntlet.project.folder / "child.pid").read_text())
    wait_for(lambda: not runs(pid))


def test_what_it_left_running_is_told_and_ended(gauntlet: Gauntlet) -> None:
    said = {name: " ".join(gauntlet.result(name)["notes"]) for name in ("leaves_a_thread", "leaves_a_child")}
    assert said["leaves_a_thread"] == "the kernel left the thread bomb running; it ended with the recipe"
    assert "(sleep) running; it ended with the recipe" in said["leaves_a_child"]


def test_all_that_it_changed_is_told(gauntlet: Gauntlet) -> None:
    found = " ".join(finding["message"] for finding in gauntlet.result("changes_its_process")["findings"])
    for name in (
        "jax.config.jax_debug_nans",
        "os.environ[MEDDLED]",
        "the current folder",
        "the umask",
        "the handler of SIGCHLD",
        "the handler of SIGUSR1",
        "sys.stdout",
        "the recursion limit",
        "NumPy's errors",
        "the garbage collector",
        "RLIMIT_FSIZE",
    ):
        assert f"changed {name}" in found


def test_nothing_of_it_is_left_on_the_disk(gauntlet: Gauntlet) -> None:
    state = gauntlet.project.folder / ".jaxcheck"
    assert list((state / "scratch").iterdir()) == []
    assert sorted(path.name for path in state.iterdir()) == [".gitignore", "candidates", "run.json", "scratch"]
    assert json.loads((state / "run.json").read_text())["totals"] == gauntlet.report["totals"]


def test_a_report_in_any_form_can_be_written(gauntlet: Gauntlet) -> None:
    names = ["report.md", "report.xml", "report.html"]
    done = gauntlet.project.jaxcheck(
        "report", ".jaxcheck/run.json", *[part for name in names for part in ("--output", name)]
    )
    assert done.code == 1, done
    for name in names:
        assert "segfaults" in (gauntlet.project.folder / name).read_text()
