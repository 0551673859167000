"""compare_arrays against a slow, obvious oracle in Python floats and fractions, and at the ends of every dtype."""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaxcheck.compare.arrays import compare_arrays
from jaxcheck.compare.tally import LABELS
from jaxcheck.results import Statistics

LARGEST = sys.float_info.max
BYTE_FLOATS = [
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
FLOATS = ["float16", "bfloat16", "float32", "float64", *BYTE_FLOATS]
COMPLEX = ["complex64", "complex128"]
BUILTIN_INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SMALL_INTEGERS = ["int2", "uint2", "int4", "uint4"]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def compare(
    golden: Any, actual: Any, dtype: str = "float32", rtol: float = 0.0, atol: float = 0.0, **options: int
) -> Statistics:
    of = dtype_of(dtype)
    return compare_arrays(np.array(golden, of), np.array(actual, of), rtol=rtol, atol=atol, **options)


# --- the oracle: one element at a time -------------------------------------------------------------------------


@dataclass
class Element:
    ratio: float
    delta: float
    relative: float
    ulp: int
    nonfinite: bool


def parts_of(value: Any) -> list[Any]:
    return [value.real, value.imag] if value.dtype.kind == "c" else [value]


def as_number(part: Any) -> int | float:
    if part.dtype.name.startswith(("int", "uint", "bool")):
        return int(part)
    return float(part)


def agree(golden: float, actual: float) -> bool:
    return golden == actual or (math.isnan(golden) and math.isnan(actual))


def measure(golden: Any, actual: Any, rtol: float, atol: float) -> Element:
    pairs = list(zip(parts_of(golden), parts_of(actual), strict=True))
    finite = []
    for golden_part, actual_part in pairs:
        g, a = as_number(golden_part), as_number(actual_part)
        if math.isfinite(g) and math.isfinite(a):
            finite.append((g, a, ulps(golden_part, actual_part)))
        elif agree(g, a):
            finite.append((1, 1, 0))
        else:
            return Element(math.inf, 0.0, 0.0, 0, nonfinite=True)
    delta = modulus([Fraction(a) - Fraction(g) for g, a, _ in finite])
    magnitude = modulus([Fraction(g) for g, _, _ in finite])
    ratio = quotient(delta, sum_of(atol, rtol, magnitude))
    return Element(ratio, to_float(delta), quotient(delta, magnitude), max(u for *_, u in finite), nonfinite=False)


def modulus(parts: list[Fraction]) -> Fraction:
    """Exact for one part; for two the float64 hypot, or its exact multiple where that overflows."""
    if len(parts) == 1:
        return abs(parts[0])
    largest = max(map(abs, parts))
    if largest < 2**1000:
        return Fraction(math.hypot(*map(float, parts)))
    return Fraction(math.hypot(*(float(part / 2**100) for part in parts))) * 2**100


def sum_of(atol: float, rtol: float, magnitude: Fraction) -> Fraction:
    """atol + rtol * magnitude as float64 has it, but without its overflow."""
    rounded = to_float(magnitude)
    plain = atol + rtol * rounded
    if math.isfinite(rounded) and math.isfinite(plain):
        return Fraction(plain)
    return Fraction(atol) + Fraction(rtol) * magnitude


def quotient(numerator: Fraction, denominator: Fraction) -> float:
    if denominator == 0:
        return 0.0 if numerator == 0 else math.inf
    return to_float(numerator / denominator)


def to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def ulps(golden: Any, actual: Any) -> int:
    name = golden.dtype.name
    if name.startswith(("int", "uint", "bool")):
        return abs(int(actual) - int(golden))
    if golden.dtype.itemsize <= 2:
        values = finite_values(name)
        return abs(values[float(actual)] - values[float(golden)])
    bits = 8 * golden.dtype.itemsize
    return abs(ordinal(actual, bits) - ordinal(golden, bits))


def ordinal(value: Any, bits: int) -> int:
    word = int(value.view(f"u{bits // 8}"))
    magnitude = word & ((1 << (bits - 1)) - 1)
    return -magnitude if word >> (bits - 1) else magnitude


_FINITE_VALUES: dict[str, dict[float, int]] = {}


def finite_values(name: str) -> dict[float, int]:
    """Every finite value of a small dtype, with its place in their order."""
    if name not in _FINITE_VALUES:
        dtype = dtype_of(name)
        words = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
        with np.errstate(invalid="ignore"):
            wide = words.view(dtype).astype(np.float64)
        values = np.unique(wide[np.isfinite(wide)]).tolist()
        _FINITE_VALUES[name] = {value: place for place, value in enumerate(values)}
    return _FINITE_VALUES[name]


def histogram_of(ratios: list[float], nonfinite: int) -> dict[str, int]:
    bounds = [0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, math.inf]
    counts = dict.fromkeys([*LABELS, "nonfinite"], 0)
    for ratio in ratios:
        counts[LABELS[next(i for i, bound in enumerate(bounds) if ratio <= bound)]] += 1
    return {**counts, "nonfinite": nonfinite}


# --- arrays of any bits, close to each other or not --------------------------------------------------------------


def words_of(name: str) -> int:
    """How many words a dtype has."""
    if name == "bool":
        return 2
    if name in SMALL_INTEGERS or name.startswith(("float4", "float6")):
        return int(2 ** int(next(filter(str.isdigit, name))))
    return int(2 ** (8 * dtype_of(name).itemsize))


def array_of_words(words: list[int], name: str) -> Any:
    dtype = dtype_of(name)
    data = b"".join(word.to_bytes(dtype.itemsize, "little") for word in words)
    return np.frombuffer(data, dtype)


def special_words(name: str) -> list[int]:
    """The ends of a built-in float and what lies beyond them; of any other dtype its least and greatest words."""
    dtype = dtype_of(name)
    if dtype.kind == "c":
        parts = special_words(f"float{4 * dtype.itemsize}")
        return [(high << (4 * dtype.itemsize)) | low for high in parts for low in parts]
    if name not in ("float16", "float32", "float64"):
        return [0, words_of(name) - 1]
    limits = np.finfo(dtype)
    ends = [0.0, 1.0, limits.max, limits.max / 2, limits.tiny, limits.smallest_subnormal, math.inf, math.nan]
    values = np.array([*ends, *(-end for end in ends)], dtype)
    return [int(word) for word in values.view(f"u{dtype.itemsize}")]


@st.composite
def pairs(draw: Callable[..., Any], name: str) -> tuple[Any, Any]:
    count = words_of(name)
    size = draw(st.integers(0, 9))
    any_word = st.one_of(st.integers(0, count - 1), st.sampled_from(special_words(name)))
    golden = draw(st.lists(any_word, min_size=size, max_size=size))
    actual = []
    for word in golden:
        near = st.integers(-3, 3).map(lambda step, word=word: (word + step) % count)
        flipped = st.just(word ^ (count >> 1))
        actual.append(draw(st.one_of(st.just(word), near, flipped, any_word)))
    return array_of_words(golden, name), array_of_words(actual, name)


tolerances = st.sampled_from([0.0, 1e-12, 1e-6, 0.25, 1.0])


def assert_agrees_with_the_oracle(golden: Any, actual: Any, rtol: float, atol: float) -> None:
    found = compare_arrays(golden, actual, rtol=rtol, atol=atol)
    elements = [measure(g, a, rtol, atol) for g, a in zip(golden, actual, strict=True)]
    finite = [element for element in elements if not element.nonfinite]
    exact = golden.dtype.kind != "c"
    if not exact:  # a hypot may be off by an ULP, so a ratio on a bound may fall on either side
        bounds = (1e-3, 1e-2, 1e-1, 1, 10, 100)
        assume(not any(math.isclose(e.ratio, bound, rel_tol=1e-9) for e in finite for bound in bounds))

    def same(mine: float, theirs: float) -> bool:
        theirs = min(theirs, LARGEST)
        return math.isclose(mine, theirs, rel_tol=4e-16 if exact else 1e-14, abs_tol=5e-324)

    assert found.size == golden.size
    assert found.bit_equal == sum(g.tobytes() == a.tobytes() for g, a in zip(golden, actual, strict=True))
    assert found.nonfinite == len(elements) - len(finite)
    assert found.mismatched == sum(element.ratio > 1 for element in elements)
    assert same(found.violation_ratio, max((element.ratio for element in elements), default=0.0))
    assert same(found.max_abs, max((element.delta for element in finite), default=0.0))
    assert same(found.max_rel, max((element.relative for element in finite), default=0.0))
    assert found.max_ulp == float(max((element.ulp for element in finite), default=0))
    assert found.histogram == histogram_of([element.ratio for element in finite], found.nonfinite)
    assert_worst_is(found, elements, same)


def assert_worst_is(found: Statistics, elements: list[Element], same: Callable[[float, float], bool]) -> None:
    largest = max((element.ratio for element in elements), default=0.0)
    if largest == 0:
        assert found.worst is None
        return
    assert found.worst is not None
    (place,) = found.worst.index
    if found.nonfinite:
        assert place == next(i for i, element in enumerate(elements) if element.nonfinite)
    else:
        assert same(min(elements[place].ratio, LARGEST), largest)


@pytest.mark.parametrize("name", FLOATS)
@given(data=st.data(), rtol=tolerances, atol=tolerances)
def test_floats_agree_with_the_oracle(name: str, data: st.DataObject, rtol: float, atol: float) -> None:
    golden, actual = data.draw(pairs(name))
    assert_agrees_with_the_oracle(golden, actual, rtol, atol)


@pytest.mark.parametrize("name", COMPLEX)
@given(data=st.data(), rtol=tolerances, atol=tolerances)
def test_complex_numbers_agree_with_the_oracle(name: str, data: st.DataObject, rtol: float, atol: float) -> None:
    golden, actual = data.draw(pairs(name))
    assert_agrees_with_the_oracle(golden, actual, rtol, atol)


@pytest.mark.parametrize("name", [*BUILTIN_INTEGERS, *SMALL_INTEGERS])
@given(data=st.data(), rtol=tolerances, atol=tolerances)
def test_integers_agree_with_the_oracle(name: str, data: st.DataObject, rtol: float, atol: float) -> None:
    golden, actual = data.draw(pairs(name))
    assert_agrees_with_the_oracle(golden, actual, rtol, atol)


# --- what a person would try first -----------------------------------------------------------------------------


def test_equal_arrays_have_not_moved() -> None:
    found = compare([1.5, -0.0, math.nan, math.inf], [1.5, -0.0, math.nan, math.inf])
    assert (found.size, found.bit_equal, found.mismatched, found.nonfinite) == (4, 4, 0, 0)
    assert (found.violation_ratio, found.max_abs, found.max_rel, found.max_ulp) == (0, 0, 0, 0)
    assert found.worst is None
    assert found.histogram == {**dict.fromkeys(LABELS, 0), "0": 4, "nonfinite": 0}


def test_the_worst_element_is_named_with_its_values_and_its_allowance() -> None:
    found = compare([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.5, 3.0], [4.0, 5.0, 7.0]], rtol=0.1)
    assert found.worst is not None
    assert found.worst.index == (0, 1)
    assert (found.worst.golden, found.worst.actual) == (2.0, 2.5)
    assert found.worst.allowed == pytest.approx(0.2)
    assert found.violation_ratio == pytest.approx(2.5)
    assert (found.mismatched, found.bit_equal) == (2, 4)
    assert (found.max_abs, found.max_rel) == (1.0, 0.25)


def test_the_first_of_equally_bad_elements_is_the_worst() -> None:
    found = compare([1, 1, 1, 1], [1, 2, 2, 2], rtol=0.5, block=2)
    assert found.worst is not None
    assert found.worst.index == (1,)


@pytest.mark.parametrize("size", [0, 1])
def test_scalars_and_empty_arrays(size: int) -> None:
    shape = () if size else (3, 0)
    found = compare_arrays(np.zeros(shape), np.ones(shape), rtol=0.5, atol=0.5)
    assert (found.size, found.mismatched) == (size, size)
    assert (found.worst.index if found.worst else None) == (() if size else None)
    assert sum(found.histogram.values()) == size


def test_no_implicit_absolute_tolerance() -> None:
    found = compare([1e-9], [5e-9], rtol=1e-5)
    assert found.mismatched == 1
    assert found.max_rel == pytest.approx(4.0)


def test_unsigned_integers_do_not_wrap() -> None:
    for golden, actual in ((10, 9), (9, 10)):
        found = compare([golden], [actual], "uint8", atol=1)
        assert (found.max_abs, found.max_ulp, found.violation_ratio, found.mismatched) == (1, 1, 1, 0)


def test_one_nan_spoils_no_other_number() -> None:
    found = compare([1.0, 2.0, 3.0], [1.5, math.nan, 3.0], atol=1.0)
    assert (found.nonfinite, found.mismatched, found.violation_ratio) == (1, 1, LARGEST)
    assert (found.max_abs, found.max_rel, found.bit_equal) == (0.5, 0.5, 1)
    assert found.worst is not None
    assert (found.worst.index, found.worst.golden, found.worst.actual) == ((1,), 2.0, "nan")


def test_a_nan_meets_any_nan_but_not_with_the_same_bits() -> None:
    words = np.array([0x7FC00000, 0xFFC00001], np.uint32)
    found = compare_arrays(words[:1].view(np.float32), words[1:].view(np.float32), rtol=0, atol=0)
    assert (found.nonfinite, found.mismatched, found.bit_equal, found.worst) == (0, 0, 0, None)


def test_zeros_of_either_sign_are_equal_but_not_bit_equal() -> None:
    found = compare([0.0], [-0.0])
    assert (found.mismatched, found.bit_equal, found.max_ulp, found.max_rel) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("golden", "actual", "nonfinite"),
    [
        (math.inf, math.inf, 0),
        (-math.inf, -math.inf, 0),
        (math.inf, -math.inf, 1),
        (math.inf, LARGEST, 1),
        (0.0, math.inf, 1),
        (math.nan, math.inf, 1),
        (math.nan, 0.0, 1),
    ],
)
def test_infinity_meets_only_itself(golden: float, actual: float, nonfinite: int) -> None:
    found = compare([golden], [actual], "float64", rtol=1.0, atol=1.0)
    assert (found.nonfinite, found.mismatched) == (nonfinite, nonfinite)
    assert found.violation_ratio == (LARGEST if nonfinite else 0)
    assert (found.max_abs, found.max_rel, found.max_ulp) == (0, 0, 0)


def test_a_nonfinite_mismatch_is_worse_than_an_infinite_ratio() -> None:
    found = compare([0.0, 1.0, 1.0], [1.0, 1.0, math.inf], block=1)
    assert found.worst is not None
    assert (found.worst.index, found.worst.actual) == ((2,), "inf")


def test_complex_numbers_agree_in_each_component() -> None:
    golden = np.array([complex(math.nan, 1), complex(1, math.inf), complex(math.nan, 1)], np.complex64)
    actual = np.array([complex(math.nan, 2), complex(1, math.inf), complex(1, math.nan)], np.complex64)
    found = compare_arrays(golden, actual, rtol=0, atol=2)
    assert (found.nonfinite, found.mismatched, found.max_abs) == (1, 1, 1.0)
    assert found.worst is not None
    assert (found.worst.index, found.worst.golden, found.worst.actual) == ((2,), "nan+1j", "1+nanj")


def test_a_complex_difference_is_a_modulus() -> None:
    found = compare([3 + 4j], [6 + 8j], "complex64", rtol=0.5)
    assert (found.max_abs, found.max_rel, found.violation_ratio) == (5.0, 1.0, 2.0)
    assert found.worst is not None
    assert (found.worst.golden, found.worst.actual, found.worst.allowed) == ("3+4j", "6+8j", 2.5)


# --- the ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_from_the_largest_to_the_least_number(name: str) -> None:
    largest = float(np.finfo(name).max)
    found = compare([largest], [-largest], name, rtol=1.0)
    assert (found.violation_ratio, found.max_rel, found.mismatched) == (2.0, 2.0, 1)
    assert found.max_abs == min(2 * largest, LARGEST)
    assert found.max_ulp == float(2 * ordinal(np.array(largest, name)[()], 8 * np.dtype(name).itemsize))


def test_a_difference_that_overflows_does_not_hide_a_small_one() -> None:
    found = compare([LARGEST, 1.0], [-LARGEST, 1.5], "float64", rtol=4.0)
    assert found.mismatched == 0
    assert found.histogram["<=1"] == 2
    assert found.violation_ratio == 0.5


def test_a_complex_modulus_that_overflows_still_has_a_tolerance() -> None:
    golden = complex(LARGEST, LARGEST)
    found = compare([golden, 1], [golden * (1 - 5e-7), 1.25], "complex128", rtol=1e-7)
    assert found.violation_ratio == pytest.approx(0.25 / 1e-7)
    assert found.histogram["<=10"] == 1


@pytest.mark.parametrize(
    ("name", "golden", "actual"),
    [("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1), ("int8", -128, 127), ("int32", 2**31 - 1, -(2**31))],
)
def test_integers_from_end_to_end(name: str, golden: int, actual: int) -> None:
    found = compare([golden], [actual], name)
    assert found.max_abs == found.max_ulp == float(abs(actual - golden))
    assert found.worst is not None
    assert (found.worst.golden, found.worst.actual) == (golden, actual)


def test_neighbours_among_great_integers_differ_by_one() -> None:
    found = compare([2**62, -(2**63)], [2**62 + 1, -(2**63)], "int64")
    assert (found.max_abs, found.mismatched, found.bit_equal) == (1, 1, 1)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("start", [0.0, 1.0, -1.0, 1.9999])
@pytest.mark.parametrize("steps", [1, 7])
def test_ulps_count_steps_to_the_next_value(name: str, start: float, steps: int) -> None:
    dtype = dtype_of(name)
    golden = actual = np.array([start], dtype)
    for _ in range(steps):
        actual = np.nextafter(actual, np.array([-9.0], dtype))
    assert compare_arrays(golden, actual, rtol=0, atol=0).max_ulp == steps


def test_subnormal_differences_are_small_numbers() -> None:
    found = compare([1e-40], [0.0])
    assert found.max_abs == pytest.approx(1e-40, rel=1e-5)
    assert (found.max_rel, found.mismatched) == (1.0, 1)
    assert compare([1e-40], [0.0], atol=1e-38).mismatched == 0


def test_a_number_against_zero_is_infinitely_far_in_relative_terms() -> None:
    found = compare([0.0, 2.0], [1e-3, 2.0], atol=1e-3)
    assert (found.max_rel, found.mismatched) == (LARGEST, 1)


def test_prng_key_words_are_compared_as_integers() -> None:
    found = compare([0xFFFFFFFF, 7], [0, 7], "uint32")
    assert (found.max_abs, found.mismatched, found.bit_equal) == (0xFFFFFFFF, 1, 1)


@pytest.mark.parametrize(
    ("name", "value", "told"), [("bool", True, True), ("int4", -7, -7), ("bfloat16", 0.1, 0.10009765625)]
)
def test_worst_values_are_plain_json_numbers(name: str, value: Any, told: Any) -> None:
    found = compare([0], [value], name)
    assert found.worst is not None
    assert found.worst.actual == told
    assert type(found.worst.actual) is type(told)


# --- memory and layout -------------------------------------------------------------------------------------------


def moved_pair(dtype: str, size: int = 23) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    golden = (rng.standard_normal(size) * 10).astype(dtype)
    actual = golden.copy()
    actual[::3] = (actual[::3] * 3).astype(dtype)
    if golden.dtype.kind in "fc":
        actual[5], golden[11], golden[12], actual[12] = math.nan, math.inf, math.nan, math.nan
    return golden, actual


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "uint64"])
@pytest.mark.parametrize("block", range(1, 8))
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_no_result_depends_on_the_block(dtype: str, block: int) -> None:
    golden, actual = moved_pair(dtype)
    assert compare_arrays(golden, actual, rtol=0.5, atol=0.1, block=block) == compare_arrays(
        golden, actual, rtol=0.5, atol=0.1
    )


def test_layout_and_byte_order_do_not_matter() -> None:
    golden, actual = (array[:20].reshape(4, 5) for array in moved_pair("float32"))
    expected = compare_arrays(golden, actual, rtol=0.1, atol=0)
    layouts: list[Callable[[Any], Any]] = [
        np.asfortranarray,
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: array[::-1][::-1],
        lambda array: array.astype(">f4"),
    ]
    for layout in layouts:
        assert compare_arrays(layout(golden), layout(actual), rtol=0.1, atol=0, block=3) == expected
    assert compare_arrays(np.asfortranarray(golden), actual, rtol=0.1, atol=0) == expected


def test_read_only_arrays_are_compared_and_left_as_they_are() -> None:
    golden, actual = moved_pair("float64")
    before = golden.tobytes(), actual.tobytes()
    golden.flags.writeable = actual.flags.writeable = False
    assert compare_arrays(golden, actual, rtol=0.1, atol=0).mismatched > 0
    assert (golden.tobytes(), actual.tobytes()) == before


def test_memory_stays_flat_on_memory_maps(tmp_path: Path) -> None:
    size = 2**24  # 64 MiB each
    golden = np.memmap(tmp_path / "golden", np.float32, "w+", shape=(size,))
    actual = np.memmap(tmp_path / "actual", np.float32, "w+", shape=(size,))
    golden[:] = 1
    actual[:] = 1.5
    actual[size // 2] = math.nan
    tracemalloc.start()
    found = compare_arrays(golden, actual, rtol=0, atol=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.nonfinite, found.max_abs) == (1, 0.5)
    assert peak < 24 * 2**20


# --- what it refuses -------------------------------------------------------------------------------------------


def test_unequal_dtypes_and_shapes_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="dtype float32 and float64"):
        compare_arrays(np.zeros(2, np.float32), np.zeros(2), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"shape \(2,\) and \(2, 1\)"):
        compare_arrays(np.zeros(2), np.zeros((2, 1)), rtol=0, atol=0)


@pytest.mark.parametrize(
    "tolerance", [{"rtol": -1, "atol": 0}, {"rtol": 0, "atol": math.nan}, {"rtol": math.inf, "atol": 0}]
)
def test_a_tolerance_is_finite_and_not_negative(tolerance: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="finite and >= 0"):
        compare_arrays(np.zeros(2), np.zeros(2), **tolerance)


@pytest.mark.parametrize("dtype", ["V2", "U3", "O", "M8[s]"])
def test_what_is_not_a_number_is_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match="cannot compare arrays of dtype"):
        compare_arrays(np.zeros(2, dtype), np.zeros(2, dtype), rtol=0, atol=0)
