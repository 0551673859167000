"""Workers on the nodes of a Ray cluster. Ray places their keepers and carries what is said; nothing else imports it.

A session here is one with a worker that a `Keeper` holds on a node. Where the node is lost, the check that ran there is
asked once more elsewhere, and whoever asked does not notice; where that node is lost too, the check has crashed.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxcheck.errors import Unavailable, UsageError, WorkerError
from jaxcheck.execution.keeper import READ, WRITTEN, Answer, Keeper, Started, put
from jaxcheck.execution.nodes import Stay
from jaxcheck.execution.parcel import Parcel, pack
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.session import START_SECONDS, DidNotStart, Interrupted, NoPlace, Session
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import Registry
from jaxcheck.registry.select import check_id
from jaxcheck.results import Environment

TICK = 1.0
CONNECT_SECONDS = 5.0
GRACE_SECONDS = 300.0  # beyond a check's own limit, for files on their way: then its node counts as lost
TOLD_AFTER = 10.0
INSTALL_SECONDS = 3600  # CUDA's libraries are gigabytes
LACKING_HINT = "ray status; or wait for a node that an autoscaler brings: --wait SECONDS"
BUSY = "those that have what is needed are busy, or make an environment"
CHARACTERS = 300
CHECKS = ("check", "check_together")
STARTS = 3  # that may fail in a row before a worker is given up
DEFAULTS = {"CPU": 1.0}
OPTIONS_OF = {"uv": "uv_pip_install_options", "pip": "pip_install_options"}
SENT = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"  # where the archive is, in what Ray is to install
OF_BACKENDS = {"gpu": "GPU", "cuda": "GPU", "rocm": "GPU", "tpu": "TPU"}
# What a worker here would inherit, and what makes numbers.
CARRIED = ("JAX_", "XLA_", "LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE")
NOT_CARRIED = frozenset({"JAX_COMPILATION_CACHE_DIR"})


class Lost(Exception):
    """A keeper that does not answer any more, in words."""


@contextmanager
def connected(
    registry: Registry,
    goldens: GoldenStore,
    state: Path,
    *,
    address: str | None = None,
    backend: str | None = None,
    resources: Mapping[str, float] | None = None,
    wait: float = 0.0,
    wheels: Collection[Path] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Cluster]:
    """The cluster at `address`, else at $RAY_ADDRESS, else the one that this machine is a node of.

    Every worker takes the `resources`, besides those that its recipes ask for. What no node has is waited for, for so
    many seconds: an autoscaler may bring it. `wheels` are there for environments to install. Unavailable where there is
    no Ray, or no such cluster.
    """
    ray = _ray()
    with tempfile.TemporaryDirectory(prefix="jaxcheck-") as folder, _quiet():
        parcel = pack(registry, goldens, state, Path(folder) / "parcel.zip", wheels)
        _connect(ray, address or os.environ.get("RAY_ADDRESS") or "auto", parcel)
        try:
            cluster = Cluster(ray, parcel, {**default_resources(backend), **(resources or {})}, wait, say)
            if not wait and (lacking := cluster.lacking(Needs())):
                raise NoPlace(lacking, hint=LACKING_HINT)
            yield cluster
        finally:
            ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray tells of lost nodes on standard output, which is the report's."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def default_resources(backend: str | None) -> dict[str, float]:
    """A core, and a device of the backend."""
    device = OF_BACKENDS.get(backend or "")
    return {**DEFAULTS, **({device: 1.0} if device else {})}


def parse_resource(text: str) -> tuple[str, float]:
    """`A100=1`; UsageError for anything else."""
    name, _, amount = text.partition("=")
    try:
        if name and float(amount) > 0:
            return name, float(amount)
    except ValueError:
        pass
    raise UsageError(f"--resource {text}: that is no resource and its amount", hint="--resource A100=1")


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise Unavailable(f"--executor ray needs Ray: {error}", hint="pip install 'jaxcheck[ray]'") from None


def _connect(ray: Any, address: str, parcel: Parcel) -> None:
    hint = "start a cluster (ray start --head), or name one: --address HOST:6379"
    _refuse_unreachable(address, hint)
    environment = {"working_dir": str(parcel.file), "env_vars": carried(os.environ)}
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # as a job it would have another working_dir
    try:
        ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level="ERROR")
    except (Exception, SystemExit) as error:  # it raises many kinds, and exits where the head does not answer
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Unavailable(f"no Ray cluster at {address}: {reason}", hint=hint) from None


def _refuse_unreachable(address: str, hint: str) -> None:
    """Ray itself waits two minutes for a head that is not there."""
    if "://" in address or address == "local":
        raise Unavailable(
            f"{address}: jaxcheck has to run on a machine of the cluster",
            hint="ray job submit --working-dir . -- jaxcheck run --executor ray",
        )
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise Unavailable(f"no Ray cluster at {address}: {error}", hint=hint) from None


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a worker here would inherit and that make numbers."""
    return {name: value for name, value in environ.items() if name.startswith(CARRIED) and name not in NOT_CARRIED}


class Cluster:
    """The nodes, as a place for workers; with an environment of Ray's, or as they are."""

    def __init__(
        self,
        ray: Any,
        parcel: Parcel,
        resources: Mapping[str, float],
        wait: float,
        say: Callable[[str], None],
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        self.ray, self.parcel, self.wait, self.say = ray, parcel, wait, say
        self._resources, self._environment = dict(resources), dict(environment or {})
        self.keepers = ray.remote(max_restarts=0, max_task_retries=0)(Keeper)

    def with_packages(self, installer: str, lines: Sequence[str], options: Sequence[str]) -> Cluster:
        """The same nodes, on which Ray has `uv` or `pip` install these lines over what is there."""
        said = {"packages": list(lines), OPTIONS_OF[installer]: list(options)}
        environment = {installer: said, "config": {"setup_timeout_seconds": INSTALL_SECONDS}}
        return Cluster(self.ray, self.parcel, self._resources, self.wait, self.say, environment)

    def packages(self) -> tuple[str, dict[str, str]]:
        """Python's version on a node, and those of all packages there."""
        session = NodeSession(self, Launch(), Needs())
        try:
            return session.packages()
        finally:
            session.close()

    def session(self, launch: Launch, needs: Needs) -> Session:
        return NodeSession(self, launch, needs)

    def room(self, needs: Needs) -> int:
        wanted = self.wanted(needs)
        return max(1, sum(_times(node["Resources"], wanted) for node in self.nodes()))

    def wanted(self, needs: Needs) -> dict[str, float]:
        """All that a worker takes of its node; what a recipe says counts before what the run says."""
        return {**self._resources, **dict(needs.resources)}

    def nodes(self) -> list[dict[str, Any]]:
        """Those that are alive, as Ray describes them."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def name(self, identity: str) -> str:
        """A node's address; where several have the same, with the beginning of its identity."""
        known = {node["NodeID"]: node["NodeManagerAddress"] for node in self.ray.nodes()}
        address = known.get(identity, identity)
        alone = list(known.values()).count(address) == 1
        return str(address) if alone else f"{address}/{identity[:8]}"

    def keeper(self, launch: Launch, needs: Needs, avoided: Sequence[str]) -> Any:
        """Asks for a keeper; Ray starts it where there is room, and not on the avoided nodes while there are others."""
        wanted = self.wanted(needs)
        fit = [node["NodeID"] for node in self.nodes() if _times(node["Resources"], wanted)]
        gone = [identity for identity in avoided if identity in fit]
        options: dict[str, Any] = _as_options(wanted)
        if self._environment:
            options["runtime_env"] = self._environment
        if gone and len(gone) < len(fit):
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(gone)})"}
        here = self.parcel.places, os.getcwd(), _sent_along(launch), needs
        return self.keepers.options(**options).remote(*here)

    def lacking(self, needs: Needs) -> str:
        """In words, what no node has; nothing where one has it all."""
        wanted, nodes = self.wanted(needs), self.nodes()
        if any(_times(node["Resources"], wanted) for node in nodes):
            return ""
        alone = {
            name: amount
            for name, amount in wanted.items()
            if not any(_times(node["Resources"], {name: amount}) for node in nodes)
        }
        told = ", ".join(f"{name} {amount:g}" for name, amount in (alone or wanted).items())
        return f"no node of the cluster has {told}; {_in_words(nodes)}"


def _sent_along(launch: Launch) -> Launch:
    own = tuple(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return replace(launch, elsewhere=None, paths=(*launch.paths, *map(os.path.abspath, own)))


def _times(has: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """How many times a node has what is wanted."""
    return int(min((has.get(name, 0.0) + 1e-9) // amount for name, amount in wanted.items()))


def _as_options(wanted: Mapping[str, float]) -> dict[str, Any]:
    options = {"num_cpus": wanted["CPU"], "num_gpus": wanted.get("GPU", 0)}
    named = {name: amount for name, amount in wanted.items() if name not in ("CPU", "GPU", "memory")}
    memory = {"memory": wanted["memory"]} if "memory" in wanted else {}
    return {**options, **memory, "resources": named}


def _in_words(nodes: Sequence[Mapping[str, Any]]) -> str:
    """`2 nodes have CPU, GPU, A100`."""
    names = {name for node in nodes for name in node["Resources"] if not name.startswith(("node:", "object_store"))}
    return f"{len(nodes)} node{'s have' if len(nodes) != 1 else ' has'} {', '.join(sorted(names))}"


class NodeSession(Session):
    """A session with a worker on a node, wherever there is room for it."""

    def __init__(self, cluster: Cluster, launch: Launch, needs: Needs) -> None:
        super().__init__(launch, needs)
        self._cluster = cluster
        self._keeper: Any = None
        self._identity = ""
        self._keepers = 0
        self._seen = (0, 0)  # which of its keepers, and which worker of that
        self._prepared: dict[str, list[Mapping[str, Any]]] = {}
        self._told: set[str] = set()
        self._known: dict[str, tuple[int, int]] = {}
        self._output = ["", ""]
        self._avoided: list[str] = []

    def start(self) -> None:
        before = self._seen
        self._begin()
        self.generation += self._seen != before

    def request(self, message: Mapping[str, Any], timeout: float, memory: int | None = None) -> dict[str, Any] | Death:
        if self._keeper is None:
            raise Interrupted
        lost: list[str] = []
        while True:
            try:
                reply = self._prepared_again(message, timeout) or self._asked(message, timeout, memory)
                break
            except Lost as error:
                lost.append(f"{self.stays[-1].node} ({error})")
                self._forget(str(error))
            if len(lost) > 1:
                return Death("crash", f"its node was lost twice: {lost[0]}, then {lost[1]}")
            self._cluster.say(f"node {lost[0]} was lost: what ran there is run again elsewhere")
            try:
                self._begin()
            except Unavailable as error:
                return Death("crash", f"its node was lost: {lost[0]}; {error}")
        if message["op"] in CHECKS:
            self.stays[-1].checks.append(check_id(message["recipe"], message["case"], message["mode"]))
        if not isinstance(reply, Death):
            self.littered |= bool(reply.get("left"))
            self._remember(message)
        return reply

    def _remember(self, message: Mapping[str, Any]) -> None:
        """What makes a worker know a recipe, for one that has to take the place of this one."""
        if message["op"] == "prepare":
            name = message["recipe"]["name"]
            self._prepared[name] = [message]
            self._told.add(name)
        elif message["op"] == "assemble":
            self._prepared[message["recipe"]].append(message)

    def packages(self) -> tuple[str, dict[str, str]]:
        """Python's version and those of all packages, where the worker is to be."""
        self._settle()
        found: tuple[str, dict[str, str]] = self._answer(self._keeper.packages.remote(), GRACE_SECONDS)
        return found

    def output(self) -> tuple[str, str]:
        told, self._output = self._output, ["", ""]
        return told[0], told[1]

    def tidy(self) -> None:
        if self.littered and self._keeper is not None:
            self.littered = False
            with suppress(Lost):  # then all of it ended
                self._answer(self._keeper.tidy.remote(), GRACE_SECONDS)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            keeper = self._keeper
        if keeper is not None:
            self._kill(keeper)

    def close(self) -> None:
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with suppress(Exception):  # it is gone, or will be
                self._cluster.ray.get(keeper.close.remote(), timeout=CONNECT_SECONDS)
            self._kill(keeper)

    def _begin(self) -> None:
        """A worker that runs, on a node of its own choosing; Unavailable where there is none."""
        for attempt in range(STARTS):
            try:
                if self._keeper is None:
                    self._settle()
                started: Started = self._answer(self._keeper.start.remote(), START_SECONDS + GRACE_SECONDS)
                break
            except Lost as error:
                if self._identity:
                    self._cluster.say(f"node {self.stays[-1].node} ({error}) was lost")
                self._forget(str(error))
                if attempt == STARTS - 1:
                    raise Unavailable(
                        f"no worker could be started in the cluster: {error}", hint="ray status"
                    ) from None
        if started.unavailable:
            kind = DidNotStart if started.died else Unavailable
            raise kind(f"node {self.stays[-1].node}: {started.unavailable}", hint=started.hint)
        if self._seen != (seen := (self._keepers, started.generation)):
            self._seen = seen
            self._told.clear()
            self.environment = self.stays[-1].environment = Environment.model_validate(started.environment)
            self.backends = list(started.backends)

    def _settle(self) -> None:
        """Waits for a keeper: as long as the nodes that could hold it are busy, but not for what no node has."""
        cluster, clock = self._cluster, Patience(self._cluster, self._needs)
        clock.look()
        with self._lock:
            if self._stopped:
                raise Interrupted
            self._keeper = cluster.keeper(self._launch, self._needs, self._avoided)
            self._keepers += 1
        place = self._keeper.node.remote()
        while not cluster.ray.wait([place], timeout=TICK)[0]:
            if self._stopped:
                raise Interrupted
            clock.look()
        self._identity = self._answer(place, GRACE_SECONDS)
        self.stays.append(Stay(cluster.name(self._identity)))

    def _asked(self, message: Mapping[str, Any], timeout: float, memory: int | None = None) -> dict[str, Any] | Death:
        """One request to the worker, with the files that it names; what it wrote is here afterwards."""
        files = {}
        for path in (message[key] for key in READ if isinstance(message.get(key), str)):
            status = os.stat(path)
            if self._known.get(path) != (seen := (status.st_mtime_ns, status.st_size)):
                self._known[path] = seen
                files[path] = Path(path).read_bytes()
        asked = self._keeper.request.remote(message, timeout, files, memory)
        answer: Answer = self._answer(asked, timeout + GRACE_SECONDS)
        self.programs.update(answer.programs)
        self._output = [before + now for before, now in zip(self._output, answer.output, strict=True)]
        for name, content in answer.files.items():
            if not Path(os.path.normpath(name)).is_relative_to(message[WRITTEN]):
                raise WorkerError(f"node {self.stays[-1].node} sent a file that nobody asked for: {name}")
            put(Path(name), content)
        return answer.death or dict(answer.reply)

    def _prepared_again(self, message: Mapping[str, Any], timeout: float) -> Death | None:
        """Makes a new worker know the recipe that the one on the lost node knew; how it died of it, where it did."""
        name = message.get("recipe")
        if not isinstance(name, str) or name in self._told or name not in self._prepared:
            return None
        for said in self._prepared[name]:
            reply = self._asked(said, max(timeout, START_SECONDS))
            if isinstance(reply, Death):
                return reply
        self._told.add(name)
        return None

    def _answer(self, reference: Any, limit: float) -> Any:
        """What a keeper answers; Lost where it does not."""
        ray, deadline = self._cluster.ray, time.monotonic() + limit
        while not ray.wait([reference], timeout=TICK)[0]:
            if self._stopped:
                raise Interrupted
            if time.monotonic() > deadline:
                raise Lost(f"no answer within {limit:g} s")
        try:
            return ray.get(reference)
        except ray.exceptions.RuntimeEnvSetupError as error:
            raise Unavailable(f"the environment cannot be had on a node: {error}", hint="ray logs") from None
        except ray.exceptions.RayError as error:
            if self._stopped:
                raise Interrupted from None
            raise Lost(in_a_line(error)) from None

    def _forget(self, reason: str) -> None:
        """The keeper, and the node that it was on."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if self._identity:
            self.stays[-1].lost = reason
            self._avoided.append(self._identity)
            self._identity = ""
        self._known.clear()
        if keeper is not None:
            self._kill(keeper)

    def _kill(self, keeper: Any) -> None:
        with suppress(Exception):  # it is dead already
            self._cluster.ray.kill(keeper)


class Patience:
    """How long a keeper is waited for."""

    def __init__(self, cluster: Cluster, needs: Needs) -> None:
        self._cluster, self._needs = cluster, needs
        self._began = time.monotonic()
        self._lacking_since: float | None = None
        self._told = False

    def look(self) -> None:
        """Unavailable where no node has what is needed, and none came in time; says once that all are busy."""
        now, lacking = time.monotonic(), self._cluster.lacking(self._needs)
        if not lacking:
            self._lacking_since = None
        elif self._lacking_since is None:
            self._lacking_since = now
        if lacking and now - (self._lacking_since or now) >= self._cluster.wait:
            raise NoPlace(lacking, hint=LACKING_HINT)
        if not self._told and now - self._began > TOLD_AFTER:
            self._told = True
            self._cluster.say(f"waiting for a node: {lacking or BUSY}")


def in_a_line(error: Exception) -> str:
    """What Ray says of a loss, without identities and advice: the line that tells why, else the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"because|\w(Error|Exception): |[Kk]illed|OOM|exited", line)]
    found = (telling or lines or [type(error).__name__])[0]
    found = found.removeprefix("The actor is dead because ")
    return re.split(r"\.? (?:Node Id|Worker exit type|Some common causes)\b", found)[0][:CHARACTERS]
