"""`run` on a user's own project: selection, statuses, exit codes, what is recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.harness import Project, by_id, statuses

pytestmark = [pytest.mark.needs_jax, pytest.mark.slow]

KERNELS = """
import warnings
import jax
import jax.numpy as jnp
import numpy as np

def double(x):
    return 2 * x

def power(x, n):
    return x ** n if n > 1 else x

def product(x):
    return jnp.prod(x / 500)

def warns(x):
    warnings.warn("use the other one", DeprecationWarning)
    return x

def chatty(x):
    print("to stdout")
    return x

def dynamic(x, n):
    return jax.lax.fori_loop(0, n, lambda i, v: v * x, jnp.float32(1))

def slope(x, n):
    return jax.grad(dynamic)(x, n)

def sharded(x):
    return x * jax.device_count()

def wide(x):
    return x / 3

def draw(key):
    key, used = jax.random.split(key)
    return {"key": key, "u": jax.random.uniform(used, (2,))}

def scalars(x):
    return {"i": 3, "f": 2.5, "np64": np.float64(1.5), "x": x}

def nothing(x):
    return None

def in_half(x):
    return x.astype(jnp.float16)

def first_key(d):
    return d[next(iter(d))] * 1.0

def cases():
    return {"small": {"x": np.float32([1, 2])}, "large": {"x": np.arange(1000, dtype=np.float32)}}

def third(x):
    return {"out": x / 3}
"""

HEAD = "version: 1\ndefaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-6}}}\nrecipes:\n"


def with_recipes(project: Project, *recipes: str) -> Project:
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", HEAD + "".join(f"  {recipe}\n" for recipe in recipes))
    return project


DOUBLE = 'double: {kernel: "kernels:double", tags: [a], cases: {one: {args: {x: 1.0}}, two: {args: {x: [1.0, 2.0]}}}}'
THIRD = 'third: {kernel: "kernels:third", tags: [b], cases: {one: {args: {x: 1.0}}}}'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), 6),
        (("double",), 4),
        (("d*",), 4),
        (("double::one",), 2),
        (("*::one[jit]",), 2),
        (("--tag", "b"), 2),
        (("-k", "two and jit"), 1),
        (("--mode", "eager"), 3),
        (("double", "third", "--mode", "jit"), 3),
    ],
)
def test_selection_is_what_runs(project: Project, options: tuple[str, ...], expected: int) -> None:
    with_recipes(project, DOUBLE, THIRD)
    done, report = project.run(*options)
    assert len(report["results"]) == expected, done
    listed = project.jaxcheck("list", "--ids", *options).out.split()
    assert listed == [result["id"] for result in report["results"]]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("nosuch",), 2, "double"),
        (("--tag", "nosuch"), 2, "nosuch"),
        (("-k", "nothing_like_it"), 5, "nothing"),
        (("double::three",), 2, "one, two"),
        (("--output", "report.pdf"), 2, ".json"),
        (("--jobs", "0"), 2, "jobs"),
        (("--registry", "absent.yaml"), 2, "absent.yaml"),
        (("--last-failed",), 5, "there is no last run"),
    ],
)
def test_what_cannot_be_run(project: Project, options: tuple[str, ...], code: int, says: str) -> None:
    with_recipes(project, DOUBLE)
    done = project.jaxcheck("run", *options)
    assert done.code == code, done
    assert says in done.err + done.out


def test_no_registry_anywhere(project: Project) -> None:
    done = project.jaxcheck("run")
    assert done.code == 2
    assert "recipes.yaml" in done.err
    assert "--registry" in done.err


def test_registry_faults_come_all_at_once_and_nothing_runs(project: Project) -> None:
    project.write("recipes.yaml", HEAD + '  a: {kernl: "k:f", cases: {one: {args: {x: {$zeroes: 2}}}}}\n  a: {}\n')
    done = project.jaxcheck("run")
    assert done.code == 2
    assert "recipes.yaml:4:7" in done.err
    assert "kernel" in done.err
    assert "$zeros" in done.err
    assert not (project.folder / ".jaxcheck").exists()


def test_last_failed(project: Project) -> None:
    with_recipes(project, DOUBLE, THIRD)
    project.bless()
    project.write("kernels.py", KERNELS.replace("2 * x", "2.5 * x"))
    assert project.run()[0].code == 1
    _, report = project.run("--last-failed")
    assert {result["recipe"] for result in report["results"]} == {"double"}
    project.write("kernels.py", KERNELS)
    assert project.run("--last-failed")[0].code == 0
    done, _ = project.run("--last-failed")
    assert done.code == 5
    assert "nothing failed in the last run" in done.err


def test_when_skips_with_a_reason_and_a_skip_is_not_green(project: Project) -> None:
    recipe = 'old: {kernel: "kernels:double", when: {jax: "<0.1"}, cases: {one: {args: {x: 1.0}}}}'
    with_recipes(project, recipe, DOUBLE)
    project.jaxcheck("bless", "--reason", "x")
    done, report = project.run("old")
    assert done.code == 5, done
    assert {result["status"] for result in report["results"]} == {"skip"}
    assert "needs jax <0.1; this is" in report["results"][0]["reason"]
    assert "nothing was verified" in done.out
    assert project.run()[0].code == 0


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("{backend: gpu}", "needs backend gpu"),
        ("{packages: {nosuchpackage: '>=1'}}", "not installed"),
        ("{python: '<3'}", "Python"),
    ],
)
def test_other_conditions(project: Project, when: str, says: str) -> None:
    with_recipes(project, f'r: {{kernel: "kernels:double", when: {when}, cases: {{one: {{args: {{x: 1.0}}}}}}}}')
    done, report = project.run()
    assert done.code == 5
    assert says in report["results"][0]["reason"]


def test_report_has_what_the_contract_promises(project: Project) -> None:
    with_recipes(project, THIRD)
    project.bless()
    project.write("kernels.py", KERNELS.replace("x / 3}", "x / 3.1}"))
    done, report = project.run()
    assert done.code == 1
    environment = report["environment"]
    for key in (
        "backend",
        "device_kind",
        "device_count",
        "jax",
        "jaxlib",
        "optax",
        "numpy",
        "python",
        "cpu",
        "xla_flags",
        "config",
    ):
        assert key in environment, key
    assert report["schema"] == 1
    assert report["totals"]["fail"] == 2
    assert report["not_verified"].keys() == {"gpu", "tpu"}
    result = by_id(report)["third::one[eager]"]
    leaf = result["leaves"][0]
    assert leaf["path"] == "['out']"
    assert leaf["dtype"] == "float32"
    assert leaf["shape"] == []
    assert leaf["violation_ratio"] > 1
    assert leaf["mismatched"] == leaf["size"] == 1
    assert leaf["worst"]["index"] == []
    assert leaf["worst"]["golden"] == pytest.approx(1 / 3)
    assert leaf["worst"]["actual"] == pytest.approx(1 / 3.1)
    assert leaf["tolerance"] == {"rtol": 1e-6, "atol": 1e-6, "source": "recipes.yaml:2:24"}
    assert {"max_abs", "max_rel", "max_ulp"} <= leaf.keys()
    assert result["seconds"] > 0
    assert json.loads((project.folder / ".jaxcheck" / "run.json").read_text())["results"] == report["results"]
    assert "third::one[eager]" in done.out
    assert "recipes.yaml:2:24" in done.out


def timeless(report: Any) -> Any:
    """A report without what is measured by a clock."""
    if isinstance(report, dict):
        kept = {key: value for key, value in report.items() if "seconds" not in key and key != "started"}
        return {key: timeless(value) for key, value in kept.items()}
    return [timeless(each) for each in report] if isinstance(report, list) else report


def test_the_same_run_gives_the_same_report_but_for_times(project: Project) -> None:
    chatty = 'chatty: {kernel: "kernels:chatty", cases: {a: {args: {x: 1.0}}}}'
    draw = 'draw: {kernel: "kernels:draw", cases: {a: {args: {key: {$key: {seed: 1}}}}}}'
    with_recipes(project, DOUBLE, chatty, THIRD, draw).bless()
    project.write("kernels.py", KERNELS.replace("x / 3", "x / 3.1"))
    first, second = (project.run("--no-cache", "-j", jobs)[1] for jobs in ("1", "2"))
    assert statuses(first)["third::one[jit]"] == "fail"
    assert first.pop("command") != second.pop("command")
    assert timeless(first) == timeless(second)


def test_streams(project: Project) -> None:
    """Data on stdout, nothing but complaints on stderr, no bar where there is no terminal, and what kernels print in
    neither."""
    with_recipes(project, 'talks: {kernel: "kernels:chatty", cases: {one: {args: {x: 1.0}}}}')
    project.bless()
    done, report = project.run()
    assert done.err == ""
    assert "to stdout" not in done.out
    assert "to stdout" in by_id(report)["talks::one[eager]"]["stdout"]
    assert "\x1b" not in done.out
    assert "\x1b" in project.run(FORCE_COLOR="1")[0].out


def test_modes_that_disagree_are_named_first(project: Project) -> None:
    """prod(x / 500) with 15 <= n <= 32 is NaN under jit, and right eagerly, on all supported versions."""
    values = [501 + n % 3 for n in range(16)]
    x = f"{{$array: {{value: {values}, dtype: float32}}}}"
    recipe = f'product: {{kernel: "kernels:product", cases: {{n16: {{args: {{x: {x}}}}}}}}}'
    with_recipes(project, recipe)
    done, report = project.run()
    assert done.code == 1
    finding = by_id(report)["product::n16[jit]"]["findings"]
    assert any(f["kind"] == "modes" and "jit disagrees with eager" in f["message"] for f in finding)
    assert "jit disagrees with eager" in done.out


def test_expected_errors_by_mode(project: Project) -> None:
    cases = '{a: {args: {x: 2.0, n: 5}, raises: {type: [ValueError], match: "Reverse-mode", modes: [jit]}}}'
    with_recipes(project, f'slope: {{kernel: "kernels:slope", cases: {cases}}}')
    project.bless()
    done, report = project.run()
    assert done.code == 0, done
    assert by_id(report)["slope::a[eager]"]["leaves"][0]["size"] == 1
    assert "ValueError" in by_id(report)["slope::a[jit]"]["error"]


@pytest.mark.parametrize(
    ("raises", "says"),
    [
        ("{type: ValueError}", "expected ValueError, got jax.errors.TracerBoolConversionError"),
        ("{type: TypeError, match: 'no such words'}", "does not match 'no such words'"),
        ("{type: KeyError}", "expected KeyError"),
    ],
)
def test_another_error_than_the_expected_one(project: Project, raises: str, says: str) -> None:
    case = f"{{args: {{x: 2.0, n: 3}}, raises: {raises}}}"
    recipe = f'power: {{kernel: "kernels:power", modes: [jit], golden: jit, cases: {{a: {case}}}}}'
    with_recipes(project, recipe)
    _, report = project.run()
    result = report["results"][0]
    assert result["status"] == "error"
    assert says in result["reason"]


def test_an_expected_error_that_does_not_come(project: Project) -> None:
    with_recipes(project, 'd: {kernel: "kernels:double", cases: {a: {args: {x: 2.0}, raises: {type: TypeError}}}}')
    _, report = project.run()
    assert {result["status"] for result in report["results"]} == {"error"}
    assert "nothing was raised" in report["results"][0]["reason"]


def test_a_forgotten_static_argument_is_hinted_at(project: Project) -> None:
    with_recipes(project, 'power: {kernel: "kernels:power", cases: {a: {args: {x: 2.0, n: 3}}}}')
    _, report = project.run()
    assert "static:" in by_id(report)["power::a[jit]"]["hint"]
    with_recipes(project, 'power: {kernel: "kernels:power", static: [n], cases: {a: {args: {x: 2.0, n: 3}}}}')
    project.bless()
    assert project.run()[0].code == 0


def test_factory_with_options_and_stale_inputs(project: Project) -> None:
    with_recipes(project, 'f: {kernel: "kernels:double", inputs: "kernels:cases", cases: {large: {timeout: 50}}}')
    assert project.jaxcheck("list", "--ids").out.split()[0] == "f::large[eager]"
    project.bless()
    done, report = project.run()
    assert done.code == 0, done
    assert {result["case"] for result in report["results"]} == {"small", "large"}
    project.write("kernels.py", KERNELS.replace("np.float32([1, 2])", "np.float32([1, 3])"))
    _, report = project.run()
    assert statuses(report)["f::small[eager]"] == "stale"
    assert "inputs changed" in by_id(report)["f::small[eager]"]["reason"]
    assert statuses(report)["f::large[eager]"] == "pass"


def test_factory_without_a_case_that_has_options(project: Project) -> None:
    with_recipes(project, 'f: {kernel: "kernels:double", inputs: "kernels:cases", cases: {huge: {timeout: 50}}}')
    done = project.jaxcheck("check")
    assert done.code == 2
    assert "the factory has no case 'huge'" in done.err


def test_arguments_that_the_kernel_does_not_have(project: Project) -> None:
    with_recipes(project, 'double: {kernel: "kernels:double", cases: {one: {args: {y: 1.0}}}}', THIRD)
    done = project.jaxcheck("check")
    assert done.code == 2
    assert "recipes.yaml:4:59: " in done.err
    assert "no argument 'y'" in done.err
    done, report = project.run()
    assert done.code == 1
    assert statuses(report)["double::one[eager]"] == "error"
    assert "recipes.yaml:4:59: " in by_id(report)["double::one[eager]"]["reason"]
    assert statuses(report)["third::one[eager]"] == "missing", "the other recipe ran"


def test_process_level_needs(project: Project) -> None:
    with_recipes(
        project,
        'wide: {kernel: "kernels:wide", config: {enable_x64: true}, tolerance: {float64: {rtol: 1e-15, atol: 0}}, '
        "cases: {one: {args: {x: {$array: {value: 1.0, dtype: float64}}}}}}",
        'devices: {kernel: "kernels:sharded", devices: 4, cases: {one: {args: {x: 1.0}}}}',
        DOUBLE,
    )
    project.bless()
    done, report = project.run()
    assert done.code == 0, done
    assert by_id(report)["wide::one[jit]"]["leaves"][0]["dtype"] == "float64"
    golden = project.jaxcheck("show", "devices::one").out
    assert "\n      4.0" in golden
    assert by_id(report)["devices::one[eager]"]["conditions"] == {"devices": "4"}


def test_typed_keys_in_and_out(project: Project) -> None:
    with_recipes(project, 'draw: {kernel: "kernels:draw", cases: {one: {args: {key: {$key: {seed: 3}}}}}}')
    project.bless()
    done, report = project.run()
    assert done.code == 0, done
    leaf = by_id(report)["draw::one[eager]"]["leaves"][0]
    assert leaf["dtype"] == "key<fry>"
    assert leaf["tolerance"]["source"] == "exact: key<fry>"


def test_other_prng_configuration_is_said_first(project: Project) -> None:
    with_recipes(project, 'draw: {kernel: "kernels:draw", cases: {one: {args: {key: {$key: {seed: 3}}}}}}')
    project.bless()
    # The test's own environment is scrubbed of JAX's variables; this one is handed over on purpose.
    done, report = project.run(JAX_THREEFRY_PARTITIONABLE="0")
    assert done.code == 1
    reason = by_id(report)["draw::one[eager]"]["reason"]
    assert reason.startswith("PRNG configuration differs from the golden's: threefry_partitionable True -> False")


def test_python_scalars_and_empty_outputs(project: Project) -> None:
    with_recipes(
        project,
        'scalars: {kernel: "kernels:scalars", cases: {one: {args: {x: 1.0}}}}',
        'nothing: {kernel: "kernels:nothing", cases: {one: {args: {x: 1.0}}}}',
    )
    project.bless()
    assert project.run()[0].code == 0


def test_dict_order_is_a_real_difference_between_modes(project: Project) -> None:
    recipe = 'first: {kernel: "kernels:first_key", cases: {one: {args: {d: {b: 10.0, a: 20.0}}}}}'
    with_recipes(project, recipe)
    _, report = project.run()
    eager, jit = (by_id(report)[f"first::one[{mode}]"] for mode in ("eager", "jit"))
    assert eager["status"] == jit["status"] == "missing"
    assert "jit disagrees with eager" in jit["reason"], "the plain call sees the dict as it was written"


def test_a_dtype_without_tolerance_is_an_error_with_the_line_to_add(project: Project) -> None:
    with_recipes(project, 'half: {kernel: "kernels:in_half", cases: {one: {args: {x: 1.0}}}}')
    project.jaxcheck("bless", "--reason", "x")
    _, report = project.run()
    result = by_id(report)["half::one[jit]"]
    assert result["status"] == "error" or result["status"] == "missing"
    assert "float16" in result["reason"]


def test_deprecation_warnings_are_captured(project: Project) -> None:
    with_recipes(project, 'warns: {kernel: "kernels:warns", cases: {one: {args: {x: 1.0}}}}')
    project.bless()
    done, report = project.run()
    for mode in ("eager", "jit"):
        (warning,) = by_id(report)[f"warns::one[{mode}]"]["warnings"]
        assert warning["category"] == "DeprecationWarning"
        assert warning["message"] == "use the other one"
        assert warning["file"].endswith("kernels.py")
    assert "use the other one" in done.out


def test_environment_variables_mirror_options(project: Project) -> None:
    with_recipes(project, DOUBLE)
    assert project.jaxcheck("run", JAXCHECK_BACKEND="gpu").code == 4
    moved = project.folder / "elsewhere.yaml"
    (project.folder / "recipes.yaml").rename(moved)
    assert project.jaxcheck("list", JAXCHECK_REGISTRY=str(moved)).code == 0


def test_the_registry_is_found_upwards(project: Project) -> None:
    with_recipes(project, DOUBLE)
    project.bless()
    (project.folder / "deep" / "down").mkdir(parents=True)
    below = Project(project.folder / "deep" / "down")
    done = below.jaxcheck("run")
    assert done.code == 0, done


def test_show_and_its_faults(project: Project) -> None:
    with_recipes(project, DOUBLE)
    assert project.jaxcheck("show", "double").code == 2
    project.bless()
    text = project.jaxcheck("show", "double::two").out
    assert "in  x: float32[2]" in text
    assert "[2. 4.]" in text
    assert "by " in text
    assert "test" in text
    assert project.jaxcheck("show", "goldens/double.npz").code == 0
    done = project.jaxcheck("show", "double::three")
    assert done.code == 2
    assert "one, two" in done.err
    assert project.jaxcheck("show", "nosuch").code == 2


def test_check_says_what_is_in_order_and_what_is_not(project: Project) -> None:
    with_recipes(project, DOUBLE, THIRD)
    done = project.jaxcheck("check")
    assert done.code == 0
    assert "2 recipes" in done.out
    assert "no golden" in done.err
    project.bless()
    assert project.jaxcheck("check").err == ""
    golden = project.folder / "goldens" / "double.npz"
    golden.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    done = project.jaxcheck("check")
    assert done.code == 2
    assert "git lfs pull" in done.err
    with_recipes(project, 'double: {kernel: "kernels:dubble", cases: {one: {args: {x: 1.0}}}}')
    for options in ((), ("--static",)):
        done = project.jaxcheck("check", *options)
        assert done.code == 2
        assert "recipes.yaml:4:20" in done.err
        assert "double" in done.err


def test_doctor(project: Project) -> None:
    with_recipes(project, DOUBLE)
    done = project.jaxcheck("doctor")
    assert done.code == 1, done
    assert re.search(r"ok +backend cpu", done.out)
    assert "gpu: not available here" in done.out
    assert re.search(r'PROBLEM +goldens missing: double\n +try: jaxcheck bless double --reason "why"', done.out), done
    project.bless()
    done = project.jaxcheck("doctor")
    assert done.code == 0, done
    assert "PROBLEM" not in done.out
    project.write("recipes.yaml", (project.folder / "recipes.yaml").read_text().replace("x: 1.0", "x: 3.0"))
    assert re.search(r"PROBLEM +goldens stale: double::", project.jaxcheck("doctor").out)
    project.write("recipes.yaml", "version: 2\n")
    done = project.jaxcheck("doctor", "--backend", "gpu")
    assert done.code == 4, "what is not there at all outweighs what is wrong"
    assert re.search(r"PROBLEM +recipes.yaml:1:10: .*\n(.*\n)? +try: jaxcheck check", done.out), done


def test_python_m_and_version(project: Project) -> None:
    done = project.jaxcheck("--version")
    assert done.code == 0
    assert done.out.startswith("jaxcheck ")


def test_golden_contracts(project: Project) -> None:
    with_recipes(
        project,
        'by-jit: {kernel: "kernels:third", golden: jit, cases: {one: {args: {x: 1.0}}}}',
        'by-truth: {kernel: "kernels:third", golden: truth, reference: "kernels:third", '
        "cases: {one: {args: {x: 1.0}}}}",
    )
    project.bless()
    done, _ = project.run()
    assert done.code == 0, done
    assert "(golden: jit)" in project.jaxcheck("show", "by-jit").out
    assert "(golden: truth)" in project.jaxcheck("show", "by-truth").out
