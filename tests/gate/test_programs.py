"""Two traced programs side by side: what is aligned, what differs, whose lines made it, and how it reads."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from jaxcheck.gate.programs import Equation, Program, compare_programs, mix_words, operations_apart


def eq(primitive: str, shape: str = "float32[4]", **more: Any) -> Equation:
    return Equation(primitive, (shape,), **more)


def program(*equations: Equation, **operations: int) -> Program:
    return Program(equations, operations)


def test_equal_programs_do_not_differ() -> None:
    one = program(eq("mul"), eq("tanh"), add=3)
    difference = compare_programs(one, one)
    assert not difference
    assert difference.lines() == ()
    assert difference.packages == frozenset()


def test_an_equation_replaced_by_another() -> None:
    before = program(eq("tanh"), eq("mul", file="k.py", line=7, package="user"), eq("sub"), eq("add"))
    after = program(eq("tanh"), eq("one_minus_square", package="optax"), eq("add"))
    difference = compare_programs(before, after)
    (window,) = difference.windows
    assert [e.primitive for e in window.old] == ["mul", "sub"]
    assert [e.primitive for e in window.new] == ["one_minus_square"]
    assert difference.packages == {"user", "optax"}
    assert difference.lines() == ("k.py:7: mul float32[4], sub float32[4] | one_minus_square float32[4]",)


def test_what_is_gone_and_what_is_new() -> None:
    assert compare_programs(program(eq("tanh"), eq("neg")), program(eq("tanh"))).lines() == (
        "neg float32[4] | nothing",
    )
    assert compare_programs(program(), program(eq("neg"))).lines() == ("nothing | neg float32[4]",)


def test_source_lines_that_moved_are_no_difference() -> None:
    here, there = (program(eq("exp", file=f, line=n)) for f, n in (("a.py", 3), ("b.py", 90)))
    assert not compare_programs(here, there)


def test_shape_scope_and_body_are_part_of_what_an_equation_is() -> None:
    base = eq("exp", scope="jvp(loss)", path="scan")
    for other in (replace(base, outputs=("float16[4]",)), replace(base, scope="loss"), replace(base, path="")):
        assert len(compare_programs(program(base), program(other)).windows) == 1


def test_parameters_that_differ() -> None:
    one, other = (eq("reduce_sum", params={"axes": axes}, package="user") for axes in ("(0,)", "(1,)"))
    difference = compare_programs(program(one), program(other))
    assert not difference.windows
    assert difference.lines() == ("reduce_sum float32[4]: axes (0,) | (1,)",)
    assert difference.packages == {"user"}


def test_parameters_that_only_one_release_knows_or_that_compute_nothing() -> None:
    one = eq("scan", params={"length": "3", "num_carry": "1", "unroll": "1"})
    other = eq("scan", params={"length": "3", "ft_in": "x", "unroll": "2"})
    assert not compare_programs(program(one), program(other))


def test_an_equation_that_is_lowered_to_other_operations() -> None:
    one, other = eq("lgamma", lowered={"chlo.lgamma": 1}), eq("lgamma", lowered={"stablehlo.add": 66})
    before, after = Program((one,), {"chlo.lgamma": 1}), Program((other,), {"stablehlo.add": 66})
    difference = compare_programs(before, after)
    assert difference
    assert difference.operations == {"chlo.lgamma": (1, 0), "stablehlo.add": (0, 66)}
    assert difference.lines() == ("lgamma float32[4]: lowered to other operations: chlo.lgamma 1 -> 0, add 0 -> 66",)


def test_operations_of_the_whole_program_alone() -> None:
    difference = compare_programs(program(eq("exp"), add=1), program(eq("exp"), add=2))
    assert difference
    assert difference.lines() == ("StableHLO operations: add 1 -> 2",)


def test_the_same_difference_is_told_once_and_the_rest_is_counted() -> None:
    pairs = [(eq("sub", f"float32[{i}]"), eq("add", f"float32[{i}]")) for i in range(12)]
    same = [(eq("neg"), eq("abs"))] * 2
    keep = eq("tanh")
    before = program(*(e for pair in [*same, *pairs] for e in (keep, pair[0])))
    after = program(*(e for pair in [*same, *pairs] for e in (keep, pair[1])))
    lines = compare_programs(before, after).lines(4)
    assert lines[0] == "neg float32[4] | abs float32[4] (x2)"
    assert len(lines) == 5
    assert lines[-1] == "and 9 more differences"


def test_operation_mixes() -> None:
    assert operations_apart({"a": 1, "b": 2}, {"a": 1, "c": 1}) == {"b": (2, 0), "c": (0, 1)}
    many = {f"stablehlo.op{i}": (0, i + 1) for i in range(9)}
    assert mix_words(many).startswith("op8 0 -> 9, op7 0 -> 8")
    assert mix_words(many).endswith("and 3 more")


def test_a_program_from_a_worker_s_reply() -> None:
    row = {
        "primitive": "exp",
        "inputs": ["float32[]"],
        "outputs": ["float32[]"],
        "params": {"accuracy": "None"},
        "scope": "",
        "path": "",
        "file": "k.py",
        "line": 3,
        "function": "f",
        "package": "user",
        "lowered": {"stablehlo.exponential": 1},
    }
    read = Program.of({"equations": [row], "operations": {"stablehlo.exponential": 1}})
    assert read.equations[0].place == "k.py:3"
    assert not compare_programs(read, read)


def test_long_programs_are_compared_in_bounded_time() -> None:
    """Thousands of equations that look the same, with nothing in common in the middle."""
    middle = [eq("mul"), eq("add")] * 2500
    other = [eq("add"), eq("neg"), eq("mul")] * 2000
    ends = [eq("tanh"), eq("exp")]
    start = time.perf_counter()
    difference = compare_programs(program(*ends, *middle, *ends), program(*ends, *other, *ends))
    assert time.perf_counter() - start < 20
    assert len(difference.windows) == 1
    assert len(difference.lines()) == 1
