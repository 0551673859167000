"""Who moved it, by real workers: a package in two versions on one JAX, and between two releases of JAX."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from jaxcheck.execution.process import Launch
from jaxcheck.execution.saved import SavedRun
from jaxcheck.gate import causes as module
from jaxcheck.gate.cause import Cause, Measured
from jaxcheck.gate.causes import WHOLE, Differing, Half, Moved, compared, find_causes, same_bits, settings_apart
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.load import load_registry
from jaxcheck.results import Environment
from tests.harness import REPOSITORY, Project

RULER = """
import jax, jax.numpy as jnp, numpy as np

def cube(x):
    return {cube}

def same(x):
    return jnp.cos(x)

def scaled(x):
    return x * {scale}

def looked_up(x):
    return x + jnp.asarray(np.arange(50, dtype=np.float32) * {scale})
"""
KERNELS = """
import os
import ruler

def measured(x):
    return {"cube": ruler.cube(x), "same": ruler.same(x)}

def dies(x):
    if os.environ.get("DIES"):
        os.abort()
    return ruler.cube(x)

def closed(x):
    if os.environ.get("RAISES"):
        raise ValueError("no more")
    return ruler.cube(x)

def constants(x):
    return {"scaled": ruler.scaled(x), "looked_up": ruler.looked_up(x)}

def decides(x):
    return ruler.cube(x) if x[0] > 0 else x
"""
REGISTRY = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-9}}}
recipes:
  measured: {kernel: "kernels:measured", modes: [eager, jit, vmap, grad, disable_jit], cases: {one: {args: {x: X}}}}
  dies: {kernel: "kernels:dies", golden: jit, modes: [jit], cases: {one: {args: {x: X}}}}
  closed: {kernel: "kernels:closed", golden: jit, modes: [jit], cases: {one: {args: {x: X}}}}
  constants: {kernel: "kernels:constants", modes: [eager, jit], cases: {one: {args: {x: X}}}}
  decides: {kernel: "kernels:decides", modes: [eager], cases: {one: {args: {x: X}}}}
""".replace("X", "{$linspace: {start: 0.1, stop: 2, num: 50}}")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Runs `old`, `new` and `raising`: a package `ruler` moved from one to the other, nothing else."""
    project = Project(tmp_path_factory.mktemp("causes"))
    project.write("kernels.py", KERNELS)
    project.write("recipes.yaml", REGISTRY)
    for name, cube, scale in (("old", "x * x * x", 1.25), ("new", "jnp.exp(3 * jnp.log(x))", 1.5)):
        project.write(f"{name}/site-packages/ruler.py", RULER.format(cube=cube, scale=scale))
        save(project, name)
    save(project, "new", "raising", RAISES="1")
    return project


def save(project: Project, version: str, name: str = "", **environment: str) -> None:
    packages = str(project.folder / version / "site-packages")
    done = project.jaxcheck("run", "--save", name or f"{version}-run", PYTHONPATH=packages, **environment)
    assert (project.folder / (name or f"{version}-run") / "manifest.json").exists(), done


def half(project: Project, version: str, run: str = "", *, at_hand: bool = True) -> Half:
    packages = str(project.folder / version / "site-packages")
    launch = Launch(paths=(str(project.folder), packages), cache=False) if at_hand else None
    return Half(version, SavedRun.open(project.folder / (run or f"{version}-run")), launch)


def ask(
    project: Project, moved: Sequence[Moved], before: Half, after: Half, packages: Mapping[str, tuple[str, str]]
) -> dict[tuple[str, str], Cause]:
    registry = load_registry(project.folder / "recipes.yaml")
    differing = Differing.between(before.saved, after.saved, packages)
    return find_causes(registry, moved, before, after, differing, project.folder / "scratch")


MOVED_RULER = {"ruler": ("1", "2")}
CUBE = ("['cube']",)


@pytest.mark.needs_jax
def test_a_package_in_every_mode(project: Project) -> None:
    """Two packages are said to differ: whose lines made the equations that do tells which it is."""
    checks = [Moved("measured", "one", mode, CUBE) for mode in ("eager", "jit", "vmap", "disable_jit")]
    checks.append(Moved("measured", "one", "grad", ("['x']",)))
    found = ask(project, checks, half(project, "old"), half(project, "new"), {**MOVED_RULER, "level": ("1", "2")})
    assert {check.id for check in checks} == {check for check, _ in found}
    for (check, _), cause in found.items():
        assert (cause.kind, cause.package) == ("package", "ruler"), (check, cause)
        assert "the equations that differ come from ruler" in cause.because
        assert module.AS_UNDER_JIT not in cause.because, "each mode has a control of its own"
        plain = check.endswith(("[eager]", "[disable_jit]"))
        assert (module.SAME_AS_JIT in cause.because) <= plain
        assert cause.details[:3] == (
            "old program, old runtime: the ordinary bits",
            "new program, new runtime: the ordinary bits",
            "old program, new runtime: the old bits",
        )
        assert any("site-packages" not in line and "ruler.py:" in line for line in cause.details[3:])
        assert any(" | " in line and "exp" in line for line in cause.details[3:])


@pytest.mark.needs_jax
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_a_package_that_changed_only_a_constant(project: Project, mode: str) -> None:
    """The same operations in the same order: a literal and a table are all that tells JAX from the package."""
    check = Moved("constants", "one", mode, ("['looked_up']", "['scaled']"))
    found = ask(project, [check], half(project, "old"), half(project, "new"), {**MOVED_RULER, "jax": ("1", "2")})
    assert len(found) == 2
    for cause in found.values():
        assert (cause.kind, cause.package) == ("package", "ruler"), cause
    assert any("operands 1.25 | 1.5" in line for line in cause.details)


@pytest.mark.needs_jax
def test_what_jax_cannot_trace_has_no_control(project: Project) -> None:
    check = Moved("decides", "one", "eager", (".",))
    two = {**MOVED_RULER, "level": ("1", "2")}
    (cause,) = ask(project, [check], half(project, "old"), half(project, "new"), two).values()
    assert cause.kind == "undetermined"
    assert "the control, the old program on the old runtime, could not be run" in cause.because
    assert "TracerBoolConversionError" in cause.because
    (alone,) = ask(project, [check], half(project, "old"), half(project, "new"), MOVED_RULER).values()
    assert (alone.kind, alone.package) == ("package", "ruler"), "by elimination"


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_a_dying_worker_costs_one_cause(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIES", "1")
    checks = [Moved("dies", "one", "jit", (".",)), Moved("measured", "one", "jit", CUBE)]
    two = {**MOVED_RULER, "level": ("1", "2")}
    found = ask(project, checks, half(project, "old"), half(project, "new"), two)
    dead, alive = (found[check.id, check.leaves[0]] for check in checks)
    assert dead.kind == "undetermined"
    assert "killed by signal 6 (SIGABRT)" in dead.because
    assert (alive.kind, alive.package) == ("package", "ruler")


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_a_kernel_that_raises_now(project: Project) -> None:
    """Its old program still runs there: the runtime is not what broke it."""
    check = Moved("closed", "one", "jit")
    before, after = half(project, "old"), half(project, "new", "raising")
    ((key, cause),) = ask(project, [check], before, after, {"jax": ("1", "2"), "jaxlib": ("1", "2")}).items()
    assert key == (check.id, WHOLE)
    assert cause.kind == "jax"
    assert cause.because.startswith(
        "the old program gives the old bits on the new runtime, where the kernel now raises"
    )


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_an_environment_that_is_not_at_hand(project: Project) -> None:
    """The saved run's own program runs on the new runtime; without the old one there is no control."""
    check = Moved("measured", "one", "jit", CUBE)
    release = {"jax": ("1", "2"), "jaxlib": ("1", "2")}
    (cause,) = ask(project, [check], half(project, "old", at_hand=False), half(project, "new"), release).values()
    assert cause.kind == "undetermined"
    assert "could not be run: the environment of old is not at hand" in cause.because
    assert "old program, new runtime: the old bits" in cause.details


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_an_interpreter_without_jax(project: Project, tmp_path: Path) -> None:
    check = Moved("measured", "one", "jit", CUBE)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    before = half(project, "old")
    after = Half("new", half(project, "new").saved, Launch(python=str(broken)))
    release = {"jax": ("1", "2"), "jaxlib": ("1", "2")}
    (cause,) = ask(project, [check], before, after, release).values()
    assert cause.kind == "undetermined"
    assert "did not start" in cause.because


@pytest.mark.needs_jax
@pytest.mark.one_version
def test_other_inputs_are_nobodys_cause(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path)
    other.write("kernels.py", KERNELS)
    other.write("recipes.yaml", REGISTRY.replace("stop: 2", "stop: 3"))
    other.write("new/site-packages/ruler.py", RULER.format(cube="x * x * x", scale=1.25))
    save(other, "new")
    check = Moved("measured", "one", "jit", CUBE)
    (cause,) = ask(project, [check], half(project, "old"), half(other, "new"), MOVED_RULER).values()
    assert (cause.kind, cause.because) == ("undetermined", "the two runs were given different inputs: x")


# --- between releases ----------------------------------------------------------------------------------------------

RELEASES = """
import jax
import jax.numpy as jnp

def lgamma(x):
    return jax.lax.lgamma(x)

def poisoned(x):
    return jnp.exp(x * jnp.nan)

def tanh_gradient(w, x):
    return jax.grad(lambda w: jnp.tanh(jnp.tanh(x @ w) @ w).sum())(w)

def loss(w, x):
    h = jax.nn.gelu(x @ w)
    h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return -jax.nn.log_softmax(h)[jnp.arange(8), jnp.arange(8)].mean()

def normalised_gradient(w, x):
    return jax.grad(loss)(w, x)
"""
OF_RELEASES = """
version: 1
defaults: {tolerance: {float32: {rtol: 1e-6, atol: 1e-9}}}
recipes:
  lgamma: {kernel: "kernels:lgamma", cases: {near-one: {args: {x: [1.0000542, 1.00002, 0.9999]}}}}
  poisoned:
    kernel: "kernels:poisoned"
    golden: jit
    modes: [jit]
    cases: {nan: {args: {x: {$linspace: {start: 0, stop: 1, num: 64}}}, nonfinite: allow}}
  tanh-gradient:
    kernel: "kernels:tanh_gradient"
    config: {default_matmul_precision: highest}
    cases: {one: {args: ARGS}}
  normalised-gradient:
    kernel: "kernels:normalised_gradient"
    golden: jit
    modes: [jit]
    config: {default_matmul_precision: highest}
    cases: {one: {args: ARGS}}
""".replace("ARGS", "{w: {$normal: {shape: [32, 32], seed: 1}}, x: {$normal: {shape: [8, 32], seed: 2}}}")


def interpreter(release: str) -> str:
    """An interpreter with this release of JAX: in JAXCHECK_PYTHONS (`0.10.2=/path/python:…`), or made by
    `scripts/test --versions`; the test is skipped where there is none."""
    named = dict(pair.split("=", 1) for pair in os.environ.get("JAXCHECK_PYTHONS", "").split(os.pathsep) if pair)
    path = Path(named.get(release, REPOSITORY / f".venvs/jax-{release}/bin/python"))
    if not path.exists():
        pytest.skip(
            f"no interpreter with jax {release} (scripts/test --versions makes one; JAXCHECK_PYTHONS names one)"
        )
    return str(path)


@dataclass(frozen=True)
class Released(Project):
    """The project as another interpreter's jaxcheck runs it."""

    python: str = sys.executable

    def command(self, *args: str) -> list[str]:
        return [self.python, "-m", "jaxcheck", *args]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("released"))
    project.write("kernels.py", RELEASES)
    project.write("recipes.yaml", OF_RELEASES)
    return project


def of_release(project: Project, release: str) -> Half:
    """The release's saved run, made when first asked for."""
    python = interpreter(release)
    if not (project.folder / release).exists():
        done = Released(project.folder, python).jaxcheck("run", "--save", release)
        assert (project.folder / release / "manifest.json").exists(), done
    launch = Launch(python=python, backend="cpu", paths=(str(project.folder),), cache=False)
    return Half(f"jax {release}", SavedRun.open(project.folder / release), launch)


def between(project: Project, old: str, new: str, *checks: Moved) -> list[Cause]:
    halves = of_release(project, old), of_release(project, new)
    release = {"jax": (old, new), "jaxlib": (old, new)}
    found = ask(project, checks, *halves, release)
    return [found[check.id, "."] for check in checks]


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.long
def test_lgamma_moved_by_jax(released: Project) -> None:
    """Its lowering is another; the plain call gives the same bits."""
    checks = [Moved("lgamma", "near-one", mode, (".",)) for mode in ("jit", "eager")]
    because = "the old program gives the old bits on the new runtime (jax 0.11.2 -> 0.12.0.1)"
    causes = between(released, "0.11.2", "0.12.0.1", *checks)
    assert [cause.because for cause in causes] == [because, f"{because} {module.SAME_AS_JIT}"]
    for cause in causes:
        assert cause.kind == "jax"
        assert cause.details[-1].startswith("lgamma float32[3]: lowered to other operations: chlo.lgamma 1 -> 0")


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.long
def test_the_gradient_of_a_normalised_layer_moved_by_xla(released: Project) -> None:
    (cause,) = between(released, "0.11.2", "0.12.0.1", Moved("normalised-gradient", "one", "jit", (".",)))
    assert cause.kind == "xla"
    assert cause.because == "the old program gives the new bits on the new runtime (jaxlib 0.11.2 -> 0.12.0.1)"
    assert cause.details[-1] == "the traced programs and their lowering are the same"


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.long
def test_exp_of_nan_moved_by_xla_though_the_baseline_is_unstable(released: Project) -> None:
    (cause,) = between(released, "0.10.2", "0.11.2", Moved("poisoned", "nan", "jit", (".",), unstable=True))
    assert cause.kind == "xla"
    assert "the old program is right on the new runtime" in cause.because


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.long
def test_the_gradient_of_tanh_moved_by_jax(released: Project) -> None:
    checks = [Moved("tanh-gradient", "one", mode, (".",)) for mode in ("eager", "jit")]
    for cause in between(released, "0.10.2", "0.11.2", *checks):
        assert cause.kind == "jax"
        assert any("sub float32[8,32] | one_minus_square float32[8,32]" in line for line in cause.details)


@pytest.mark.needs_jax
@pytest.mark.one_version
@pytest.mark.long
def test_downwards(released: Project) -> None:
    """An export that the older release cannot load costs the cause; one that it can tells it. Neither crashes."""
    (cause,) = between(released, "0.12.0.1", "0.10.2", Moved("lgamma", "near-one", "jit", (".",)))
    assert cause.kind in ("jax", "undetermined")
    expected = "old bits" if cause.kind == "jax" else "the old program does not run on the new runtime"
    assert expected in cause.because


# --- comparing bits ------------------------------------------------------------------------------------------------


def leaf(values: object, path: str = ".", dtype: str = "float32") -> Leaf:
    return Leaf.of(path, np.asarray(values, dtype))


def tree(*leaves: Leaf) -> Tree:
    return Tree({"list": ["*"] * len(leaves)}, leaves)


def test_same_bits() -> None:
    assert same_bits(leaf([1, 2]), leaf([1, 2]))
    assert not same_bits(leaf([0.0]), leaf([-0.0])), "the sign of zero is a bit"
    assert not same_bits(leaf([1, 2]), leaf([[1, 2]]))
    assert not same_bits(leaf([1], dtype="int32"), leaf([1]))
    one, other = (np.array([bits, 0x3F800000], np.uint32).view(np.float32) for bits in (0x7FC00000, 0xFFC00001))
    assert same_bits(leaf(one), leaf(other)), "which NaN it is means nothing"
    assert not same_bits(leaf([np.nan, 1]), leaf([1, np.nan]))
    key = Leaf.of_key(".", np.array([[1, 2]], np.uint32), "fry", "key<fry>", (1,))
    assert same_bits(Leaf.of("[0]", np.array([[1, 2]], np.uint32)), key)


def test_outputs_are_compared_in_their_order() -> None:
    ordinary = tree(leaf([1], "['a']"), leaf([2], "['b']"))
    program = tree(leaf([1], "[0]"), leaf([3], "[1]"))
    assert compared(program, ordinary, ordinary, "['a']") == Measured(True)
    assert compared(program, ordinary, ordinary, "['b']") == Measured(False)
    assert compared(program, ordinary, ordinary, WHOLE) == Measured(False)
    assert compared("it died", ordinary, ordinary, WHOLE) == Measured(None, "it died")
    assert compared(program, None, ordinary, WHOLE).reason == "the check gave no outputs"
    assert compared(tree(leaf([1])), ordinary, ordinary, WHOLE).reason == "the program has 1 outputs, the check 2"


def test_a_leaf_that_the_other_side_does_not_have_is_not_equal() -> None:
    old, new = tree(leaf([1], "['a']")), tree(leaf([1], "['b']"))
    assert compared(tree(leaf([1])), new, old, "['a']").equal is False
    assert compared(tree(leaf([1])), old, old, "['b']").equal is False


def test_settings_by_name() -> None:
    base = Environment(
        backend="cpu",
        device_kind="cpu",
        device_count=1,
        jax="1",
        jaxlib="1",
        optax=None,
        numpy="2",
        python="3.12",
        cpu="c",
    )
    other = base.model_copy(
        update={
            "cpu_count": 4,
            "xla_flags": "--xla_x",
            "matmul_precision": "highest",
            "config": {"jax_compilation_cache_dir": "/tmp", "jax_softmax_custom_jvp": False},
        }
    )
    assert settings_apart(base, base) == {}
    assert settings_apart(base, other) == {
        "cores": ("0", "4"),
        "XLA flags": ("none", "--xla_x"),
        "matmul precision": ("None", "highest"),
        "jax.config.jax_softmax_custom_jvp": ("default", "False"),
    }
