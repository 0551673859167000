"""What a run says of kernels whose right values are known: which fail, in which mode and version, in what words."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np
import pytest

from tests.corpus.conftest import BEFORE_0_11, FROM_0_12, JAX, Batch

pytestmark = [pytest.mark.needs_jax, pytest.mark.timeout(1500)]

MODES_DIFFER = "jit disagrees with eager"
BEYOND_INT32 = "does not survive as"

# {check: (status, words of its reason)}; `*` stands for both modes. Every check that is not named here must pass.
ON_ALL = {
    "lost-infinity::ends*": ("fail", "3.4028235e+38 at [0] where golden has inf"),
    "wave-strict::grid*": ("fail", "differ"),
    "nan-forbidden::four*": ("fail", "nan at [0] of . (`nonfinite: allow`, if it is meant)"),
    "eigh-other-signs::distinct*": ("fail", "['v']: 12 of 36 beyond tolerance"),
    "eigh-rotated::repeated*": ("fail", "['v']: 6 of 9 beyond tolerance"),
    "svd-other-signs::rectangle*": ("fail", "['u']: 5 of 15 beyond tolerance"),
    "qr-other-signs::rectangle*": ("fail", "['q']: 5 of 15 beyond tolerance"),
    "times-one::ends[eager]": ("fail", "3 of 4 differ, worst at [1]: 0.0 was 1e-40"),
    "times-one::ends[jit]": ("fail", "jit disagrees with eager: .: 3 of 4 differ, worst at [1]: 1e-40 was 0.0"),
    "halve-subnormals::ends*": ("fail", "differ"),
    "zero-subnormals::ends*": ("fail", "3 of 4 differ, worst at [1]: True was False"),
    "log-subnormals::ends*": ("fail", "was -92.1034" if not FROM_0_12 else "-inf at [1] where golden has -92.1034"),
    "frexp-subnormals::ends*": ("fail", f"2 of 3 differ, worst at [1]: {0 if FROM_0_12 else -149} was -132"),
    "topk-other-ties::ties*": ("fail", "['index']: 1 of 4 differ, worst at [2]: 5 was 0"),
    "input-limits::int64*": ("error", f"argument x is int64 and its value {BEYOND_INT32} int32"),
    "input-limits::nested*": ("error", f"argument x['a'][1] is uint64 and its value {BEYOND_INT32} uint32"),
    "input-limits::python-int*": ("error", f"argument x is int64 and its value {BEYOND_INT32} int32"),
    "input-limits::overflow*": ("error", f"argument x is float64 and its value {BEYOND_INT32} float32"),
    "input-limits::underflow*": ("error", f"argument x is float64 and its value {BEYOND_INT32} float32"),
    "bfloat16-running-strict::tenths*": ("fail", "414 was 410"),
    "roots::cut*": ("fail", "['sqrt']: 1 of 3 beyond tolerance"),
    "other-half-nan::point*": ("fail", "nan+4j where golden has 3+nanj"),
    "scan-bad-shape-unjitted::three[eager]": ("missing", "no golden"),
    "scan-bad-shape-unjitted::three[disable_jit]": (
        "error",
        "expected TypeError matching 'shapes do not match', and nothing",
    ),
    "scan-bad-dtype-unjitted::three[eager]": ("missing", "no golden"),
    "scan-bad-dtype-unjitted::three[disable_jit]": ("error", "its message does not match 'must have equal types'"),
    "reverse-unexpected::three*": (
        "error",
        "ValueError: Reverse-mode differentiation does not work for lax.while_loop",
    ),
    "draws-strict::seed42[eager]": ("missing", "no golden"),
    "draws-strict::seed42[jit]": ("missing", "a PRNG key is used twice at kernels/prng_stream.py"),
    "first-key::ba[jit]": (
        "fail",
        "jit disagrees with eager: .: 1 of 1 beyond tolerance, worst 1e+06 x: 20.0 was 10.0",
    ),
    "unregistered::three[eager]": ("error", "unsupported output leaf .: kernels.trees.Unregistered"),
    "unregistered::three[jit]": ("error", "not a valid JAX type"),
    "text::three[eager]": ("error", "unsupported output leaf ['status']: builtins.str"),
    "text::three[jit]": ("error", "at output component ['status'], which is not a valid JAX type"),
    "product::n16[jit]": ("fail", "jit disagrees with eager: .: NaN where eager has 1.06381"),
    "windows::n20[jit]": ("fail", "3 of 3 disagree in NaN or infinity"),
    "order-array::array[eager]": ("missing", "no golden"),
    "order-array::array[jit]": ("error", "Non-hashable static arguments"),
    "ramp-traced::four[eager]": ("missing", "no golden"),
    "ramp-traced::four[jit]": ("error", "ConcretizationTypeError"),
    "late-error-unexpected::one*": ("error", "RuntimeError: sensor offline"),
    "textbook-variance::far[eager]": ("fail", "differs from the reference"),
    "textbook-variance::far[jit]": ("fail", MODES_DIFFER),
    "level::units[eager]": ("fail", "['loop']: 15 of 32 differ"),
    "product-tf32-strict::waves*": ("fail", "of 2,048 beyond tolerance"),
}
BY_VERSION: dict[str, tuple[str, str]] = {}
if BEFORE_0_11:
    BY_VERSION = {
        "row-energy::n32769[jit]": ("fail", "1 of 32,769 beyond tolerance, worst 7.8e+03 x at [32768]"),
        "tail-energy::n40000[jit]": ("fail", "8 of 8 beyond tolerance"),
        "nan-scalar::one[jit]": ("fail", "where eager has NaN"),
        "nan-batch::four[jit]": ("fail", "4 of 4 disagree in NaN or infinity"),
        "nan-rows::four[jit]": ("fail", "4 of 4 disagree in NaN or infinity"),
        "magnitude::ends[jit]": ("fail", "3.4028235e+38 at [1] where eager has inf"),
        "magnitudes::ends[jit]": ("fail", "3.4028235e+38 at [1] where eager has inf"),
        "magnitude-slope-tiny::tiny[jit]": ("fail", "1.0 at [0] where eager has inf"),
    }
if FROM_0_12:
    BY_VERSION = {
        "grid::n11*": ("fail", "1 of 11 differ, worst at [9]: 0.902344 was 0.898438"),
        "turn::two*": ("error", "ValueError: Dimension must be 3 for cross product"),
    }
else:
    BY_VERSION |= {"turn-removed::two*": ("skip", f"needs jax >=0.12; this is {JAX}")}


def expected() -> dict[str, tuple[str, str]]:
    """The tables, one entry a check."""
    found = {}
    for check, expectation in (ON_ALL | BY_VERSION).items():
        ids = [check.replace("*", f"[{mode}]") for mode in ("eager", "jit")] if check.endswith("*") else [check]
        found |= dict.fromkeys(ids, expectation)
    return found


@pytest.mark.parametrize("check", expected())
def test_what_is_wrong_does_not_pass(batch: Batch, check: str) -> None:
    status, words = expected()[check]
    result = batch.results[check]
    assert (result["status"], words in result["reason"]) == (status, True), result["reason"]


def test_everything_else_passes(batch: Batch) -> None:
    others = {check: result for check, result in batch.results.items() if check not in expected()}
    assert len(others) > 200
    assert {check: result["reason"] for check, result in others.items() if result["status"] != "pass"} == {}
    assert batch.run.code == 1


def test_blessing_refuses_what_is_wrong_and_nothing_else(batch: Batch) -> None:
    """At the first blessing: what fails later was refused then, with the brake that held it."""
    wrong = {check.partition("[")[0] for check, (status, _) in expected().items() if status != "skip"}
    assert batch.refusals().keys() == wrong
    assert batch.blessed.code == 1


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("product::n16", "the modes disagree with one another: jit: jit disagrees with eager: .: NaN"),
        ("windows::n20", "the modes disagree with one another"),
        ("first-key::ba", "the modes disagree with one another"),
        ("textbook-variance::far", "the modes disagree with one another"),
        ("nan-forbidden::four", "a non-finite value is new, or not allowed: eager: nan at [0]"),
        ("lost-infinity::ends", "the outputs differ from the reference"),
        ("input-limits::int64", "the inputs cannot be made"),
        ("scan-bad-shape-unjitted::three", "a mode raised an exception that the recipe does not expect"),
    ],
)
def test_refusals_name_their_brake(batch: Batch, case: str, words: str) -> None:
    assert words in batch.refusals()[case]


def test_modes_that_disagree_are_named_before_anything_else(batch: Batch) -> None:
    """`textbook`: every answer is wrong in float32, and that the modes disagree is the diagnosis."""
    for check in ("textbook-variance::far[jit]", "product::n16[jit]", "windows::n20[jit]", "times-one::ends[jit]"):
        assert batch.results[check]["reason"].startswith(MODES_DIFFER)
        assert MODES_DIFFER in batch.messages(check)[0]


# Large inputs.


def test_damage_in_the_last_row_of_many_is_found(batch: Batch) -> None:
    leaf = batch.leaf("row-energy::n32769[jit]")
    assert leaf["size"] == 32769
    assert batch.leaf("row-energy::n32769[eager]")["violation_ratio"] <= 1
    if BEFORE_0_11:
        assert leaf["mismatched"] == 1
        assert leaf["worst"]["index"] == [32768]
        assert leaf["max_rel"] == pytest.approx(0.0078, rel=0.02)
    else:
        assert leaf["max_rel"] < 1e-7


# NaN and infinities.


@pytest.mark.parametrize("check", ["nan-scalar::one", "nan-batch::four", "nan-rows::four", "nan-argument::four"])
def test_a_nan_that_is_expected_passes(batch: Batch, check: str) -> None:
    modes = ("eager",) if BEFORE_0_11 and check != "nan-argument::four" else ("eager", "jit")
    for mode in modes:
        assert all(leaf["nonfinite"] == 0 for leaf in batch.results[f"{check}[{mode}]"]["leaves"])


def test_infinity_against_a_number_fails_under_any_tolerance(batch: Batch) -> None:
    leaf = batch.leaf("lost-infinity::ends[jit]")
    assert leaf["tolerance"]["rtol"] == 1e30
    assert leaf["violation_ratio"] > 1e300
    largest = pytest.approx(3.4028235e38)
    worst = {"index": [0], "golden": "inf", "actual": largest, "allowed": 0.0, "truth": None}
    assert leaf["worst"] == worst


def test_differences_are_taken_over_finite_pairs(batch: Batch) -> None:
    """inf - inf is NaN and must not reach the report, which stays JSON."""
    leaf = batch.leaf("magnitude::ends[eager]")
    assert (leaf["nonfinite"], leaf["max_abs"], leaf["max_rel"], leaf["violation_ratio"]) == (0, 0, 0, 0)
    text = (batch.project.folder / "report.json").read_text()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_nan_of_an_optimiser_only_where_it_gives_up(batch: Batch) -> None:
    for mode in ("eager", "jit"):
        leaves = {leaf["path"]: leaf for leaf in batch.results[f"skip-nonfinite::seven[{mode}]"]["leaves"]}
        assert leaves.keys() == {"['ok']", "['streak']", "['total']", "['update']"}
        assert all(leaf["mismatched"] == 0 for leaf in leaves.values())
        assert leaves["['ok']"]["tolerance"]["source"] == "exact: bool"
        assert leaves["['streak']"]["tolerance"]["source"] == "exact: int32"
    assert batch.report["environment"]["optax"]


# A few ULP.


def test_small_drift_passes_and_is_reported(batch: Batch) -> None:
    """The compiled sinh of one scalar is 9 to 15 ULP from the plain one before 0.12, and equal to it from there on."""
    for case in ("x0", "x1", "x2", "x3"):
        result = batch.results[f"sinh::{case}[jit]"]
        assert result["status"] == "pass"
        assert 0 < batch.leaf(f"sinh::{case}[jit]")["max_rel"] < 1e-6
        if FROM_0_12:
            assert "eager" not in result["against"]
        else:
            assert 9 <= batch.against(f"sinh::{case}[jit]", "eager")["max_ulp"] <= 15
    assert batch.against("wave::grid[jit]", "eager")["max_ulp"] == 11
    assert batch.against("cubic::steps[jit]", "eager")["max_ulp"] == 4
    assert batch.results["wave::grid[jit]"]["drifted"]


def test_no_tolerance_shows_the_worst_element_in_every_measure(batch: Batch) -> None:
    leaf = batch.against("wave-strict::grid[jit]", "eager")
    worst = leaf["worst"]
    assert worst["actual"] != worst["golden"]
    assert len(worst["index"]) == 1
    assert 0 < leaf["max_abs"] < 1e-7
    assert 0 < leaf["max_rel"] < 2e-6
    assert leaf["max_ulp"] == 11
    assert leaf["mismatched"] == (23 if BEFORE_0_11 else 19)


def test_ulps_to_a_reference_are_the_outputs_own(batch: Batch) -> None:
    """The reference is in float64, what it is compared with is not."""
    assert batch.against("sinh::x0[eager]", "reference")["max_ulp"] < 20
    assert batch.against("bfloat16-running::tenths[jit]", "reference")["max_ulp"] == 2


# What is unique up to sign.


def test_only_the_vectors_that_were_turned_round_differ(batch: Batch) -> None:
    for mode in ("eager", "jit"):
        assert batch.leaf(f"eigh-other-signs::distinct[{mode}]", "['w']")["mismatched"] == 0
        assert batch.leaf(f"eigh-other-signs::distinct[{mode}]", "['v']")["mismatched"] == 12
        assert batch.leaf(f"svd-other-signs::rectangle[{mode}]", "['s']")["mismatched"] == 0
        assert batch.leaf(f"svd-other-signs::rectangle[{mode}]", "['vh']")["mismatched"] == 3
        assert batch.leaf(f"projector::distinct[{mode}]")["mismatched"] == 0


# Subnormals.


def test_subnormals_reach_goldens_and_comparisons_unflushed(batch: Batch) -> None:
    inputs, outputs = stored(batch, "keep-subnormals", "ends")
    expected = np.array([1.1754944e-38, 1e-40, 1.4e-45, -1e-42], np.float32)
    assert inputs["x"].tobytes() == expected.tobytes()
    assert outputs["."].tobytes() == expected.tobytes()
    for mode in ("eager", "jit"):
        assert batch.leaf(f"keep-subnormals::ends[{mode}]")["bit_equal"] == 4
        assert batch.leaf(f"keep-subnormals::ends[{mode}]")["tolerance"]["source"] == "comparator: exact"


def test_a_flushed_subnormal_is_a_difference_of_its_own_size(batch: Batch) -> None:
    leaf = batch.leaf("times-one::ends[eager]")
    assert leaf["max_abs"] == pytest.approx(1e-40, rel=1e-5, abs=0)
    assert leaf["worst"]["golden"] == pytest.approx(1e-40, rel=1e-5, abs=0)
    assert leaf["worst"]["actual"] == 0
    assert batch.leaf("times-one-loose::ends[eager]")["violation_ratio"] < 1


def stored(batch: Batch, recipe: str, case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs of a golden as plain NumPy reads them."""
    with np.load(batch.project.folder / "goldens" / f"{recipe}.npz", allow_pickle=False) as golden:
        parts = [(name.split("/", 2), golden[name]) for name in golden.files if name.startswith(f"{case}/")]
    return tuple({name[2]: array for name, array in parts if name[1] == side} for side in ("in", "out"))  # type: ignore[return-value]


# Dtypes.


def test_bfloat16_is_stored_as_words_and_measured_in_its_own_ulps(batch: Batch) -> None:
    inputs, outputs = stored(batch, "residual", "pairs")
    assert {array.dtype for array in (*inputs.values(), *outputs.values())} == {np.dtype(np.uint16)}
    leaf = batch.leaf("residual::pairs[jit]")
    assert (leaf["dtype"], leaf["bit_equal"]) == ("bfloat16", 4)
    strict = batch.leaf("bfloat16-running-strict::tenths[eager]")
    assert (strict["max_abs"], strict["max_ulp"]) == (4, 2)
    grid = batch.leaf("grid::n11[eager]")
    assert grid["max_ulp"] == (1 if FROM_0_12 else 0)


def test_no_golden_holds_an_object_or_a_nameless_dtype(batch: Batch) -> None:
    for path in sorted((batch.project.folder / "goldens").glob("*.npz")):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        with np.load(path, allow_pickle=False) as golden:
            assert all(golden[name].dtype.kind in "biufcUS" for name in golden.files), path
        assert names


def test_complex_numbers_are_compared_as_such(batch: Batch) -> None:
    leaf = batch.leaf("roots::cut[jit]", "['sqrt']")
    assert (leaf["dtype"], leaf["mismatched"]) == ("complex64", 1)
    assert complex(leaf["worst"]["golden"]) == -2j
    assert complex(leaf["worst"]["actual"]) == 2j
    assert leaf["max_abs"] == pytest.approx(4)
    assert batch.leaf("half-nan::point[jit]")["nonfinite"] == 0
    assert batch.leaf("other-half-nan::point[jit]")["nonfinite"] == 1


def test_the_sign_of_zero_is_drift_and_no_failure(batch: Batch) -> None:
    apart = batch.against("modulus-slope-origin::origin[jit]", "eager")
    assert (apart["mismatched"], apart["bit_equal"], apart["max_abs"]) == (0, 0, 0)


# Static arguments, donation, errors.


def test_hints(batch: Batch) -> None:
    assert "static:" in batch.results["ramp-traced::four[jit]"]["hint"]
    assert "a list (which becomes a tuple), not an array" in batch.results["order-array::array[jit]"]["hint"]


def test_an_error_from_a_callback_is_its_own_kernels(batch: Batch) -> None:
    for mode in ("eager", "jit"):
        assert "sensor offline" in batch.results[f"late-error-unexpected::one[{mode}]"]["error"]
        assert batch.results[f"after-late-error::one[{mode}]"]["status"] == "pass"


def test_time_is_taken_until_the_value_is_there(batch: Batch) -> None:
    """The call returns at once and sleeps 0.15 s behind it; compiling is told apart."""
    for mode in ("eager", "jit"):
        result = batch.results[f"slow::one[{mode}]"]
        assert 0.15 <= result["seconds"] < 60
        assert 0 <= result["compile_seconds"] <= result["seconds"]


def test_donation_that_had_no_use_is_a_warning_in_the_report(batch: Batch) -> None:
    (warning,) = batch.results["donated-in-vain::four[eager]"]["warnings"]
    assert warning["category"] == "UserWarning"
    assert "donated buffers were not usable" in warning["message"]
    assert batch.run.err == ""


def test_a_deprecation_shows_one_release_before_the_error(batch: Batch) -> None:
    warned = [warning["category"] for warning in batch.results["turn::two[eager]"]["warnings"]]
    assert warned == ([] if BEFORE_0_11 or FROM_0_12 else ["DeprecationWarning"])
    if warned:
        assert "2-dimensional vectors" in batch.run.out


# Keys, trees, backends.


@pytest.mark.parametrize(
    ("check", "path", "dtype", "shape"),
    [
        ("key::seed7", "['key']", "key<fry>", []),
        ("key-raw::seed7", "['key']", "uint32", [2]),
        ("keys::seed7", ".", "key<fry>", [3]),
        ("key-rbg::seed7", ".", "key<rbg>", []),
    ],
)
def test_keys_have_the_shape_of_keys_and_not_of_their_words(
    batch: Batch, check: str, path: str, dtype: str, shape: list[int]
) -> None:
    leaf = batch.leaf(f"{check}[jit]", path)
    assert (leaf["dtype"], leaf["shape"]) == (dtype, shape)


def test_trees_without_leaves_are_legal(batch: Batch) -> None:
    assert batch.results["nothing::three[jit]"]["status"] == "pass"
    assert batch.results["nothing::three[jit]"]["leaves"] == []
    paths = [leaf["path"] for leaf in batch.results["tree::three[jit]"]["leaves"]]
    assert sorted(paths) == ["['a'][0]", "['box'].w", "['od']['a']", "['od']['z']", "['stat'].mean"]


def test_the_environment_that_numbers_depend_on_is_in_the_golden(batch: Batch) -> None:
    with np.load(batch.project.folder / "goldens" / "product-default.npz", allow_pickle=False) as golden:
        meta = golden["__meta__"].item()
    for word in ('"backend"', '"matmul_precision"', '"threefry_partitionable"', '"prng_impl"', '"x64"', '"optax"'):
        assert word in meta


def test_all_at_once_and_one_by_one_are_told_apart(batch: Batch) -> None:
    """A floor on its boundary makes of a last bit a whole level; what is continuous agrees."""
    assert batch.leaf("level::units[eager]", "['vmap']")["mismatched"] == 13
    assert batch.leaf("level::units[eager]", "['loop']")["mismatched"] == 15
    for recipe in ("energy", "project", "phase"):
        assert [leaf["mismatched"] for leaf in batch.results[f"{recipe}::units[eager]"]["leaves"]] == [0, 0]
