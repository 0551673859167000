"""The float64 shadow: against JAX's own float64, against the ordinary run, and where it must give up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402
import optax  # noqa: E402

from jaxcheck.execution.conduct import recipe_message  # noqa: E402
from jaxcheck.registry.load import load_registry  # noqa: E402
from jaxcheck.worker.inputs import from_factory  # noqa: E402
from jaxcheck.worker.program import flat_function  # noqa: E402
from jaxcheck.worker.service import Prepared  # noqa: E402
from jaxcheck.worker.shadow import NoShadow, Policy, Shadow  # noqa: E402
from jaxcheck.worker.truth import float_truth, noise, noise_and_knobs  # noqa: E402
from tests.harness import REPOSITORY  # noqa: E402

pytestmark = [pytest.mark.needs_jax, pytest.mark.slow]

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(8, 16).astype(np.float32)
W = (RANDOM.randn(16, 16) / 4).astype(np.float32)
SPD = (X @ X.T + 8 * np.eye(8)).astype(np.float32)


def run(function: Callable[..., Any], *args: Any, policy: Policy = "ideal") -> tuple[list[Any], list[Any], Shadow]:
    jaxpr = jax.make_jaxpr(function)(*args)
    flat = [jnp.asarray(leaf) for leaf in jax.tree.leaves(args)]
    shadow = Shadow(policy)
    low, high = shadow.run(jaxpr, flat, [shadow.lift(leaf) for leaf in flat])
    return low, high, shadow


def scan_gradient(w: Any, x: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.sum(jax.lax.scan(lambda c, a: (jnp.tanh(0.9 * c + a @ w), c.sum()), jnp.zeros(16), x)[1])

    return jax.grad(loss)(w)


def loop_under_vmap(x: Any) -> Any:
    step = lambda v: jax.lax.while_loop(lambda s: s < 100.0, lambda s: s * 2.0, jnp.abs(v) + 0.5)  # noqa: E731
    return jax.vmap(step)(x[:, 0])


def reduced(x: Any) -> Any:
    return jax.lax.reduce(x, jnp.ones((), x.dtype), lambda a, b: a * b * 1.0, (1,))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scan and its gradient": scan_gradient,
    "a loop under vmap": loop_under_vmap,
    "layer norm and gelu, gradient": lambda x, w: jax.grad(
        lambda w: jnp.sum(jax.nn.gelu(jax.nn.standardize(x @ w)) ** 2)
    )(w),
    "attention": lambda x: jax.nn.dot_product_attention(*[x.reshape(1, 8, 2, 8)] * 3),
    "convolution": lambda x, w: jax.lax.conv(x[None, None], w[None, None, :3, :3], (1, 1), "SAME"),
    "fft": lambda x: jnp.fft.fft(x),
    "cholesky": lambda spd: jnp.linalg.cholesky(spd),
    "solve": lambda spd: jnp.linalg.solve(spd, spd[:, 0]),
    "eigenvalues": lambda spd: jnp.linalg.eigh(spd)[0],
    "scatter with duplicates": lambda x: jnp.zeros(4).at[jnp.array([0, 0, 1, 2])].add(x[0, :4]),
    "scatter multiply": lambda x: jnp.ones(4).at[jnp.array([0, 0, 1, 2])].multiply(x[0, :4]),
    "custom reduction": reduced,
    "cumulative product": lambda x: jnp.cumprod(x, 0),
    "cond under vmap": lambda x: jax.vmap(lambda v: jax.lax.cond(v[0] > 0, jnp.sin, jnp.cos, v))(x),
    "complex gradient": lambda x: jax.grad(lambda z: jnp.sum(jnp.abs(jnp.exp(1j * z)) ** 2))(x),
    "checkpoint": lambda x: jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.exp(x)))))(x),
    "adamw": lambda w: optax.adamw(1e-3).update(w, optax.adamw(1e-3).init(w), w)[0],
    "random normal": lambda x: jax.random.normal(jax.random.key(0), (50,)) + x[0, 0],
    "sort and top k": lambda x: (jnp.sort(x, 1), jax.lax.top_k(x, 3)),
    "special functions": lambda x: (jax.lax.lgamma(jnp.abs(x) + 0.1), jax.lax.digamma(jnp.abs(x) + 0.1)),
    "empty scan": lambda x: jax.lax.scan(lambda c, a: (c + a.sum(), a), 0.0, x[:0]),
    "reverse scan": lambda x: jax.lax.scan(lambda c, a: (c + a.sum(), c), 0.0, x, reverse=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shadow_is_what_jax_computes_in_float64(name: str) -> None:
    """An independent path to the same numbers: the function itself under x64, on the same values."""
    function = FUNCTIONS[name]
    given = {"x": X, "w": W, "spd": SPD}
    args = [given[parameter] for parameter in inspect.signature(function).parameters]
    _, high, shadow = run(function, *args)
    assert shadow.flips == []
    if "random" in name:
        return assert_close(high, jax.tree.leaves(function(*args)), 1e-5)
    with jax.enable_x64(True):
        wide = jax.tree.leaves(function(*[jnp.asarray(arg, jnp.float64) for arg in args]))
        # adamw takes 1 - 0.999 of a float32 0.999, which magnifies the rounding of that constant a thousandfold.
        return assert_close(high, wide, 1e-4 if name == "adamw" else 1e-6)


def assert_close(found: list[Any], expected: list[Any], rtol: float) -> None:
    """Python constants of a kernel were rounded to float32 when it was traced, hence a tolerance at all."""
    for mine, theirs in zip(found, expected, strict=True):
        array = np.asarray(mine)
        assert array.dtype.kind not in "fc" or array.dtype.itemsize >= 8
        scale = float(np.abs(np.asarray(theirs)).max(initial=0.0)) or 1.0
        assert np.allclose(array, np.asarray(theirs), rtol=rtol, atol=rtol * scale)


def test_the_truth_is_nearer_than_the_ordinary_run() -> None:
    points = np.float32([1.0000542, 1.00002, 2.00001])
    _, (high,), _ = run(jax.lax.lgamma, points)
    exact = np.array([-3.130588891e-05, -1.1544054e-05])
    assert np.allclose(np.asarray(high)[:1], exact[:1], rtol=1e-3)
    assert np.asarray(high).dtype == np.float64


def test_flips_are_recorded_and_control_follows_the_device() -> None:
    roots = [np.float32(np.sqrt(k)) for k in range(2, 50)]
    rounds_up = [x for x in roots if (x * x >= np.round(x * x)) != (np.float64(x) ** 2 >= np.round(x * x))]
    x, square = rounds_up[0], float(np.round(rounds_up[0] ** 2))
    low, high, shadow = run(lambda x: jax.lax.cond(x * x >= square, jnp.sin, jnp.cos, x), x)
    assert {flip.primitive for flip in shadow.flips} >= {"ge", "cond"}
    assert float(high[0]) == pytest.approx(float(low[0]), rel=1e-6), "both took the device's branch"
    assert run(lambda x: jax.lax.cond(x * x >= 2.25, jnp.sin, jnp.cos, x), np.float32(1.5))[2].flips == []


def test_quantised_keeps_the_declared_casts() -> None:
    def model(x: Any) -> Any:
        return (x.astype(jnp.bfloat16) * 3).astype(jnp.float32)

    value = np.float32([1.001])
    _, (ideal,), _ = run(model, value)
    _, (quantised,), _ = run(model, value, policy="quantised")
    assert float(ideal[0]) == pytest.approx(3.003)
    assert float(quantised[0]) == 3.0


@pytest.mark.parametrize("kind", ["pure_callback", "shard_map"])
def test_what_has_no_float64_counterpart_says_so(kind: str) -> None:
    if kind == "pure_callback":
        function = lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)  # noqa: E731
    else:
        mesh = jax.make_mesh((1,), ("d",))
        spec = jax.sharding.PartitionSpec()
        function = jax.shard_map(jnp.sin, mesh=mesh, in_specs=spec, out_specs=spec)
    with pytest.raises(NoShadow, match=f"{kind} at .*has no float64 counterpart"):
        run(function, np.float32(1.0))


def shipped_cases() -> list[tuple[str, str]]:
    registry = load_registry(REPOSITORY / "recipes.yaml")
    return [
        (name, case.name)
        for name, recipe in registry.recipes.items()
        for case in recipe.cases.values()
        if case.args is not None and case.raises is None
    ]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("cases", ["the first", pytest.param("all", marks=pytest.mark.long)])
def test_self_test_on_every_shipped_recipe(cases: str) -> None:
    """Told to compute at the declared dtypes, the interpreter agrees with the ordinary run of each shipped recipe."""
    registry = load_registry(REPOSITORY / "recipes.yaml")
    prepared: dict[str, Prepared] = {}
    for name, case in shipped_cases():
        if name in prepared and cases != "all":
            continue
        recipe = registry.recipes[name]
        if recipe.devices or recipe.env or recipe.config.get("enable_x64"):
            continue
        if name not in prepared:
            prepared[name] = Prepared(recipe_message(recipe, str(Path(registry.root))))
        function, flat = flat_function(prepared[name].kernel, prepared[name].arguments(case))
        try:
            ordinary = jax.tree.leaves(function(*flat))
        except TypeError:  # raises only under tracing, where a Python branch depends on a value
            continue
        try:
            jaxpr = jax.make_jaxpr(function)(*flat)
        except TypeError:
            continue
        low, high = Shadow("declared").run(jaxpr, flat, flat)
        for mine, declared, theirs in zip(low, high, ordinary, strict=True):
            if jax.dtypes.issubdtype(mine.dtype, jax.dtypes.prng_key):
                mine, declared, theirs = (jax.random.key_data(key) for key in (mine, declared, theirs))
            assert np.array_equal(np.asarray(mine), np.asarray(declared), equal_nan=True), (name, case)
            wide = [np.asarray(value, np.complex128) for value in (mine, theirs)]
            finite = np.abs(wide[1][np.isfinite(wide[1])])
            scale = float(finite.max(initial=0.0))
            assert np.allclose(*wide, rtol=1e-5, atol=1e-6 * scale, equal_nan=True), (name, case)


def test_truth_of_a_case_names_its_leaves() -> None:
    tree, facts = float_truth(lambda x: {"y": x / 3, "n": jnp.int32(x.size)}, from_factory({"x": X}, ()))
    assert [leaf.path for leaf in tree.leaves] == ["['y']"]
    assert tree.leaves[0].dtype == "float64"
    assert np.allclose(tree.leaves[0].array(), X.astype(np.float64) / 3, rtol=1e-15)
    assert facts == {"policy": "ideal", "flips": []}


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x.astype(jnp.bfloat16),
        lambda x: x.astype(jnp.float16).astype(jnp.float32),
        lambda x: jax.lax.scan(lambda c, a: (c + a.astype(jnp.bfloat16).astype(jnp.float32), None), x[0], x)[0],
        jax.jit(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32)),
        lambda x: jax.lax.reduce_precision(x, 5, 10),
    ],
)
def test_low_precision_anywhere_is_held_to_its_casts(kernel: Callable[..., Any]) -> None:
    tree, facts = float_truth(kernel, from_factory({"x": X}, ()))
    assert facts["policy"] == "quantised"
    ordinary = np.asarray(kernel(jnp.asarray(X)), np.float64)
    assert np.allclose(tree.leaves[0].array(), ordinary, rtol=1e-6, atol=1e-6)


def test_noise_tells_conditioned_kernels_from_chaotic_ones() -> None:
    def logistic_map(x: Any) -> Any:
        return jax.lax.fori_loop(0, 200, lambda _, v: 3.99 * v * (1 - v), x)

    calm = noise(lambda x: {"y": jnp.tanh(x)}, from_factory({"x": X}, ()))["['y']"]
    wild = noise(logistic_map, from_factory({"x": np.float32([0.3, 0.7])}, ()))["."]
    assert 0 < calm["inputs"] < 1e-6
    assert wild["inputs"] > 1e-3
    again = noise(lambda x: {"y": jnp.tanh(x)}, from_factory({"x": X}, ()))["['y']"]
    assert again == calm, "the draws are fixed"


def test_a_knob_counts_only_where_it_does_something() -> None:
    fused, some = noise_and_knobs(lambda x: x * x + x * 3 - x * x * x, from_factory({"x": X}, ()))
    alone, none = noise_and_knobs(lambda x: -x, from_factory({"x": X}, ()))
    assert alone["."]["knobs"] == 0
    assert fused["."]["knobs"] >= 0
    assert "no fusion" in some
    assert "no fusion" not in none
