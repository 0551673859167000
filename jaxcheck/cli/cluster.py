"""The options for machines of a cluster, and what they are turned into."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jaxcheck.cli.options import say

if TYPE_CHECKING:
    from jaxcheck.execution.project import Project
    from jaxcheck.execution.ray_executor import Cluster

CLUSTER = "Cluster"

Executor = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--executor",
        envvar="JAXCHECK_EXECUTOR",
        help="Where workers are kept: on this machine, or on the nodes of a Ray cluster.",
        rich_help_panel=CLUSTER,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="JAXCHECK_ADDRESS",
        metavar="HOST:PORT",
        help="The cluster's head; else RAY_ADDRESS, or the cluster that this machine is a node of.",
        rich_help_panel=CLUSTER,
    ),
]
Resource = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        metavar="NAME=N",
        help="What every worker takes of its node: A100=1, CPU=4. With --backend gpu or tpu also a device.",
        rich_help_panel=CLUSTER,
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        help="Seconds to wait for what no node has: an autoscaler may bring it.",
        rich_help_panel=CLUSTER,
    ),
]


@contextmanager
def elsewhere(
    executor: str,
    project: Project,
    address: str | None,
    backend: str | None,
    resource: list[str] | None,
    wait: float,
    wheels: Collection[Path] = (),
) -> Iterator[Cluster | None]:
    """The machines that workers are kept on, None for this one; UsageError for options that are of no use there."""
    from jaxcheck.errors import UsageError

    if executor == "local":
        for option, given in {"--address": address, "--resource": resource, "--wait": wait}.items():
            if given:
                raise UsageError(f"{option} is about a cluster", hint=f"--executor ray {option} …")
        yield None
        return
    from jaxcheck.execution import ray_executor

    with ray_executor.connected(
        project.registry,
        project.goldens,
        project.state.folder,
        address=address,
        backend=backend,
        resources=dict(map(ray_executor.parse_resource, resource or ())),
        wait=wait,
        wheels=wheels,
        say=say,
    ) as cluster:
        yield cluster
