"""Holds a Ray cluster for a test, in a session of its own: a head without cores, and nodes of one core each.

Says its address; then, for each number on its input, brings so many nodes to life and says so. Ends with its input.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

STORE = 80 << 20  # bytes: about the least that Ray takes


class Nodes:
    def __init__(self, folder: str) -> None:
        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "temp_dir": folder}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self._special: Any = None

    def hold(self, nodes: int) -> None:
        """At least so many; one of them says that it has an accelerator."""
        for node in list(self.cluster.worker_nodes):
            if node.all_processes["raylet"][0].process.poll() is not None:
                self.cluster.remove_node(node, allow_graceful=False)
        while len(self.cluster.worker_nodes) < nodes:
            known = self._special in self.cluster.worker_nodes
            special = {} if known else {"num_gpus": 1, "resources": {"A100": 1}}
            node = self.cluster.add_node(wait=False, num_cpus=1, object_store_memory=STORE, **special)
            self._special = self._special if known else node
        self.cluster.wait_for_nodes()


def main() -> None:
    nodes = Nodes(sys.argv[1])
    print("address", nodes.cluster.address, flush=True)
    for line in sys.stdin:
        nodes.hold(int(line))
        print("held", line.strip(), flush=True)
    nodes.cluster.shutdown()


if __name__ == "__main__":
    main()
