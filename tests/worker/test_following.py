"""Recordings followed by another program, scripts of one equation, and what an outcome hangs on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  (after importorskip)
import numpy as np  # noqa: E402

from jaxcheck.errors import GoldenError  # noqa: E402
from jaxcheck.goldens.archive import Archive  # noqa: E402
from jaxcheck.worker import internals, recordings  # noqa: E402
from jaxcheck.worker.faults import injected  # noqa: E402
from jaxcheck.worker.following import follow  # noqa: E402
from jaxcheck.worker.recordings import Recording, record  # noqa: E402
from jaxcheck.worker.repros import NoReproError, captured, save, written  # noqa: E402
from jaxcheck.worker.sensitivity import sensitivity  # noqa: E402

pytestmark = pytest.mark.needs_jax

RANDOM = np.random.RandomState(0)
X = jnp.asarray(RANDOM.randn(4, 8).astype(np.float32))
W = jnp.asarray((RANDOM.randn(8, 8) / 3).astype(np.float32))


def model(x: Any, w: Any) -> Any:
    with jax.named_scope("forward"):
        carry, rows = jax.lax.scan(lambda c, a: (jnp.tanh(0.9 * c + a @ w), c.sum()), jnp.zeros(8), jnp.exp(x))
    with jax.named_scope("loss"):
        return jnp.sum(carry**2) + rows.sum()


def gradient(x: Any, w: Any) -> Any:
    return jax.value_and_grad(model, 1)(x, w)


def recorded(function: Callable[..., Any], folder: Path, *args: Any) -> Path:
    reply = record(function, args, folder / "recording")
    assert reply["partial"] is None
    return Path(reply["recording"])


def followed(function: Callable[..., Any], recording: Path, *args: Any) -> tuple[dict[str, Any], list[Any]]:
    steps = recording.parent / "steps.jsonl"
    found = follow(function, args, recording, steps)
    lines = [json.loads(line) for line in steps.read_text().splitlines()]
    return found, [line for line in lines if line["kind"]]


def test_a_program_follows_itself(tmp_path: Path) -> None:
    found, apart = followed(gradient, recorded(gradient, tmp_path, X, W), X, W)
    assert apart == []
    assert found["aligned"] == found["equations"]
    assert found["windows"] == []
    assert found["compared"] > 60


def test_values_are_spilled_in_files_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "CHUNK_VALUES", 8)
    folder = recorded(gradient, tmp_path, X, W)
    assert len(list(folder.glob("values-*.npz"))) > recordings.CHUNKS_OPEN
    assert followed(gradient, folder, X, W)[1] == []


def test_keys_and_low_precision_are_recorded(tmp_path: Path) -> None:
    def draws(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        return jax.random.normal(first, (3,)) + x.astype(jnp.bfloat16)[0, :3], second

    key = jax.random.key(1)
    assert followed(draws, recorded(draws, tmp_path, key, X), key, X)[1] == []


def test_an_operation_that_became_another_is_the_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a release: the same equation at the same inputs gives other values, in one scan iteration of all."""
    folder = recorded(gradient, tmp_path, X, W)
    bind = internals.bind

    def changed(equation: Any, values: list[Any], params: Any) -> list[Any]:
        outputs = bind(equation, values, params)
        wrong = equation.primitive.name == "exp" and outputs[0].dtype == jnp.float32
        return [outputs[0] * 1.00001] if wrong else outputs

    monkeypatch.setattr(internals, "bind", changed)
    found, (row,) = followed(gradient, folder, X, W)
    assert (row["primitive"], row["scope"], row["kind"]) == ("exp", "jvp(forward)", "origin")
    assert row["after"] > 50 > 4 > row["before"]
    assert row["local"] > 50
    assert row["line"] > 0
    assert found["first"] == row


def test_a_rewritten_window_is_compared_at_its_boundary(tmp_path: Path) -> None:
    def old(x: Any) -> Any:
        y = jnp.tanh(x)
        return jnp.exp((1.0 - y) * (1.0 + y)) + 1.0

    def new(x: Any) -> Any:
        y = jnp.tanh(x)
        return jnp.exp(1.0 - jnp.square(y)) + 1.0

    def wrong(x: Any) -> Any:
        y = jnp.tanh(x)
        return jnp.exp(1.001 - jnp.square(y)) + 1.0

    folder = recorded(old, tmp_path, X)
    found, apart = followed(new, folder, X)
    assert all(row["local"] < 4 and "square" in row["rewritten"] for row in apart), "rounded otherwise at most"
    assert ["square" in [row["primitive"] for row in window["new"]] for window in found["windows"]].count(True) == 1
    _, apart = followed(wrong, folder, X)
    assert any(row["local"] > 1000 and " | " in row["rewritten"] for row in apart)


def test_another_constant_is_told_at_the_equation_that_takes_it(tmp_path: Path) -> None:
    folder = recorded(lambda x: jnp.sin(x * 0.3), tmp_path, X)
    _, (row,) = followed(lambda x: jnp.sin(x * 0.31), folder, X)
    assert (row["primitive"], row["window"], row["taken by"]) == ("mul", None, "input 1 of mul")


def test_a_partial_recording_is_followed_as_far_as_it_goes(tmp_path: Path) -> None:
    reply = record(gradient, (X, W), tmp_path / "recording", most_equations=10)
    assert "as many as allowed" in reply["partial"]
    found, apart = followed(gradient, tmp_path / "recording", X, W)
    assert (found["partial"], apart, found["compared"]) == (reply["partial"], [], reply["executed"])


def test_what_is_no_recording_says_so(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="holds no recording"):
        Recording(tmp_path)


@pytest.mark.parametrize(
    ("function", "primitive", "how"),
    [
        (lambda x: jnp.exp(x), "exp", "lax"),
        (lambda x: x @ W, "dot_general", "bind"),
        (lambda x: x.astype(jnp.bfloat16), "convert_element_type", "bind"),
        (lambda x: x[jnp.array([0, 2])], "gather", "bind"),
        (lambda x: jnp.zeros(4).at[jnp.array([0, 0, 1])].add(x[0, :3]), "scatter-add", "lax"),
        (lambda x: jax.lax.reduce(x, jnp.float32(1), lambda a, b: a * b * 1.0, (1,)), "reduce", "program"),
        (lambda x: jax.lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"), "conv_general_dilated", "bind"),
    ],
)
def test_a_script_of_one_equation_runs_by_itself(
    function: Callable[..., Any], primitive: str, how: str, tmp_path: Path
) -> None:
    number = 0
    while captured(function, [X], number).equation.primitive.name != primitive:
        number += 1
    reply = save(captured(function, [X], number), tmp_path)
    assert reply["how"] == how
    text = ran(reply["script"])
    assert "the same bits" in text
    assert "truth" in text


def test_a_script_prints_old_new_and_truth(tmp_path: Path) -> None:
    function = lambda x: jnp.sin(x) * 2.0  # noqa: E731
    reply = save(captured(function, [X], 0, intervene=injected({"0": "bf16"})), tmp_path)
    text = ran(reply["script"])
    assert "sin of float32[4,8]" in Path(reply["script"]).read_text()
    assert "differs from the recorded one" in text
    old, new = (float(part) for part in text.split("error relative to the largest element: old ")[1].split(", new "))
    assert old > 1e-4 > 1e-6 > new
    with Archive(reply["data"]) as archive:
        assert set(archive.names) == {"input_0", "recorded_0", "exact_0"}


def ran(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", script], capture_output=True, text=True, cwd=Path(script).parent, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("number", "words"), [(99, "is none of the 4"), (2, "chooses a branch or ends a loop")])
def test_what_cannot_be_written_says_why(number: int, words: str) -> None:
    """The four are a comparison, a cast, the choice of the branch, and what the branch does."""
    with pytest.raises(NoReproError, match=words):
        captured(lambda x: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x), [jnp.float32(1.0)], number)


def test_parameters_as_text() -> None:
    values = [None, (1,), [2.5, float("inf")], np.dtype("float32"), jax.lax.Precision.HIGHEST]
    texts = [written(value) for value in values]
    assert texts[0:2] == ["None", "(1,)"]
    assert eval(texts[2]) == [2.5, float("inf")]  # noqa: S307 - our own text
    assert texts[3:] == ["jnp.dtype('float32')", "jax.lax.Precision.HIGHEST"]


def test_an_outcome_hangs_on_what_comes_before_a_cancellation(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        with jax.named_scope("before"):
            a, b = jnp.exp(x), jnp.exp(x) * 1.0001
        with jax.named_scope("after"):
            return jnp.sin(b - a)

    found = sensitivity(function, [jnp.ones(8)], tmp_path / "steps.jsonl")
    assert found["moved"] == found["equations"] == 5
    assert found["scopes"]["before"] > 100 * found["scopes"]["after"] > 0
    assert found["largest"][0]["scope"] == "before"
    few = sensitivity(function, [jnp.ones(8)], tmp_path / "steps.jsonl", most_equations=2)
    assert few["moved"] == 2
    assert "5 to be moved" in few["partial"]
    assert len((tmp_path / "steps.jsonl").read_text().splitlines()) == 2
    late = sensitivity(function, [jnp.ones(8)], tmp_path / "steps.jsonl", seconds=0.0)
    assert (late["moved"], late["largest"]) == (0, [])
    assert "0 s are allowed" in late["partial"], "not even a first run fits"


def test_a_changed_integer_counts_as_everything(tmp_path: Path) -> None:
    function = lambda x: (x * 3.0 >= jnp.float32(3.0)).astype(jnp.int32)  # noqa: E731
    found = sensitivity(function, [jnp.ones(64)], tmp_path / "steps.jsonl")
    assert found["largest"][0]["effect"] == float("inf")


def test_an_infinity_that_becomes_nan_or_changes_its_sign_is_the_largest_effect(tmp_path: Path) -> None:
    """Neither is finite before or after, so that no distance tells."""

    def becomes_nan(x: Any) -> Any:
        return jnp.inf - jnp.where(x * 1.0 > 1, jnp.inf, 0.0)

    def changes_sign(x: Any) -> Any:
        return jnp.where(x * 1.0 > 1, -jnp.inf, jnp.inf)

    for function in (becomes_nan, changes_sign):
        found = sensitivity(function, [jnp.ones(64)], tmp_path / "steps.jsonl")
        assert found["largest"][0]["primitive"] == "mul"
        assert found["largest"][0]["effect"] == float("inf")
