"""A run on the machines of a cluster: who answered what, and in which of them the numbers were made otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jaxcheck.execution.shards import SAME_EVERYWHERE
from jaxcheck.results import CheckResult, Environment, Node

TELLING = (*SAME_EVERYWHERE, "cpu", "cpu_features")  # what makes numbers, of machines that are meant to be alike


@dataclass
class Stay:
    """A worker's time on a node: the checks that it answered there, and how the node was lost, where it was."""

    node: str
    environment: Environment | None = None
    checks: list[str] = field(default_factory=list)
    lost: str = ""


def nodes_of(stays: Iterable[Stay], environment: Environment | None) -> tuple[Node, ...]:
    """Each node once, by name. Its environment is the plainest that a worker had there; `environment` is the run's."""
    by_name: dict[str, list[Stay]] = {}
    for stay in stays:
        by_name.setdefault(stay.node, []).append(stay)
    return tuple(_node(name, by_name[name], environment) for name in sorted(by_name))


def _node(name: str, stays: Sequence[Stay], environment: Environment | None) -> Node:
    known = [stay.environment for stay in stays if stay.environment]
    own = min(known, key=lambda one: (one.x64, one.device_count, len(one.config)), default=None)
    return Node(
        name=name,
        checks=len({check for stay in stays for check in stay.checks}),
        environment=own,
        differs=_differences(environment, own) if environment and own else {},
        lost="; ".join(dict.fromkeys(stay.lost for stay in stays if stay.lost)),
    )


def _differences(environment: Environment, other: Environment) -> dict[str, str]:
    """What makes numbers in `other` and is not as in `environment`."""
    pairs = {name: (getattr(environment, name), getattr(other, name)) for name in TELLING}
    return {name: str(theirs) for name, (mine, theirs) in pairs.items() if mine != theirs}


def told_apart(results: Iterable[CheckResult], stays: Iterable[Stay], nodes: Iterable[Node]) -> list[CheckResult]:
    """The results; those from nodes unlike the run's own environment have the node and what differs as conditions."""
    others = {node.name: {"node": node.name, **node.differs} for node in nodes if node.differs}
    where = {check: others[stay.node] for stay in stays if stay.node in others for check in stay.checks}
    return [
        result.model_copy(update={"conditions": {**result.conditions, **where[result.id]}})
        if result.id in where
        else result
        for result in results
    ]
