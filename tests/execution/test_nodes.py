"""Who answered what in a cluster, and which of its machines make numbers otherwise."""

from __future__ import annotations

from jaxcheck.execution.nodes import Stay, nodes_of, told_apart
from jaxcheck.report.words import NODES_SHOWN, node_facts
from jaxcheck.results import Node
from tests.report import sample

HERE = sample.environment(config={}, device_count=1)
THERE = sample.environment(config={}, device_count=1, jax="0.12.0", device_kind="TPU v4")


def test_a_node_is_named_once_with_its_plainest_environment() -> None:
    odd = sample.environment(x64=True, device_count=8)
    stays = [Stay("b", odd, ["one"]), Stay("a", THERE, ["two"]), Stay("b", HERE, ["three"], lost="its node has died")]
    first, second = nodes_of(stays, HERE)
    assert (first.name, first.checks, first.environment) == ("a", 1, THERE)
    assert (second.name, second.checks, second.environment) == ("b", 2, HERE)
    assert (first.lost, second.lost) == ("", "its node has died")


def test_a_node_without_a_worker_has_no_environment() -> None:
    (node,) = nodes_of([Stay("a", lost="its node has died")], HERE)
    assert node == Node(name="a", lost="its node has died")


def test_what_makes_numbers_otherwise_is_told_of_nodes_and_of_their_checks() -> None:
    stays = [Stay("a", THERE, ["r::x[jit]"]), Stay("b", HERE, ["r::x[eager]"])]
    nodes = nodes_of(stays, HERE)
    assert [node.differs for node in nodes] == [{"device_kind": "TPU v4", "jax": "0.12.0"}, {}]
    results = [sample.check("r", "x", mode, "pass", conditions={"devices": "8"}) for mode in ("eager", "jit")]
    here, there = told_apart(results, stays, nodes)
    assert here == results[0]
    assert there.conditions == {"devices": "8", "node": "a", "device_kind": "TPU v4", "jax": "0.12.0"}


def test_reports_name_every_node_and_first_those_to_be_looked_at() -> None:
    nodes = tuple(Node(name=f"n{number}", checks=number) for number in range(NODES_SHOWN))
    odd = (Node(name="x", checks=1, differs={"jax": "0.12.0"}), Node(name="y", lost="its node has died"))
    facts = node_facts(sample.run_of(nodes=(*nodes, *odd)))
    assert list(facts.items())[:3] == [
        ("node x", "1 check; it differs: jax 0.12.0"),
        ("node y", "0 checks; lost: its node has died"),
        ("node n0", "0 checks"),
    ]
    assert facts["more nodes"].startswith("2, ")
    assert node_facts(sample.run_of()) == {}
