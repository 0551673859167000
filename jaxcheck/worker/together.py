"""The mode `sharded` in several processes: the same check in each of them, and one reply made of theirs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jaxcheck.goldens.exchange import read_tree
from jaxcheck.goldens.leaf import Tree
from jaxcheck.worker import internals
from jaxcheck.worker.group import START_SECONDS, EndedError, Group, Reply, started
from jaxcheck.worker.repeated import difference

UNITED = ("findings", "notes", "warnings", "mutated", "violations", "left")  # what any of the processes tells


class Together:
    """The processes of this worker: started when they are first needed, and kept for what needs as many."""

    def __init__(self) -> None:
        self.start: Mapping[str, Any] = {}
        self._group: Group | None = None

    def assemble(self, recipe: Mapping[str, Any]) -> Reply:
        """Makes sure that the recipe's processes run and know it; else the outcome of its check, and why."""
        if reason := _impossible():
            return {"outcome": "skip", "reason": reason}
        size = recipe["options"]["sharded"]["processes"]
        if self._group is not None and (self._group.size != size or not self._group.lives()):
            self._group.end()
            self._group = None
        try:
            self._group = self._group or started(size, self.start)
            return _prepare(self._group, recipe)
        except EndedError as error:
            self._group = None
            reason = ": ".join([f"{size} processes did not start together", *filter(None, [str(error)])])
            return {"outcome": "crash", "reason": reason, "codes": error.codes}

    def check(self, request: Mapping[str, Any], limit: float) -> Reply:
        """The check in each of them. After a death or a time-out none is left, and `assemble` starts them anew."""
        assert self._group is not None
        try:
            return merged(self._group.ask(_requests(request, self._group.size), limit))
        except EndedError as error:
            self._group = None
            return _ended(error)


def _impossible() -> str:
    """Why no processes can be started together here, or nothing."""
    if jax.default_backend() != "cpu":
        return f"several processes run on the CPU only; this is {jax.default_backend()}"
    if not internals.has_cpu_collectives():
        return f"jax {jax.__version__} has no collective operations between CPU processes here"
    return ""


def _prepare(group: Group, recipe: Mapping[str, Any]) -> Reply:
    """Makes the processes know the recipe; the outcome where one cannot. What it says besides is asked only once."""
    name = recipe["name"]
    if group.known.get(name) == recipe:
        return {}
    options = recipe["options"]["sharded"]
    all_devices = {"sharded": {**options, "devices": options["devices"] * group.size}}
    first = {**recipe, "options": {**recipe["options"], **all_devices}}
    others = {**first, "reference": None, "properties": [], "compares_inputs": False}
    requests = [{"op": "prepare", "recipe": others if number else first} for number in range(group.size)]
    for number, reply in enumerate(group.ask(requests, START_SECONDS)):
        broken = [text for case, _, text in reply["faults"] if case is None]
        if broken:
            return {"outcome": "crash", "reason": f"process_index {number}: {'; '.join(broken)}"}
    group.known[name] = recipe
    return {}


def _requests(request: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """The same check for each, with folders of their own."""
    folders = [os.path.join(request["folder"], f"process-{number}") for number in range(size)]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    return [{**request, "op": "check", "folder": folder} for folder in folders]


def _ended(error: EndedError) -> Reply:
    """The reply where not all of them answered: what one of them raised, if the others waited for it in vain."""
    raised = {number: reply for number, reply in error.replies.items() if reply.get("outcome") == "raised"}
    if error.kind == "timeout" and raised:
        number, reply = next(iter(raised.items()))
        finding = {"kind": "processes", "message": f"process_index {number} raises alone; {error}"}
        return {**_placed(reply, [number]), "findings": [*reply["findings"], finding]}
    return {"outcome": error.kind, "reason": str(error), "codes": error.codes}


def merged(replies: Sequence[Reply]) -> Reply:
    """One reply: that of the first process, or of the first that raised, with what any of them found."""
    raised = [number for number, reply in enumerate(replies) if reply["outcome"] != "value"]
    first = _placed(replies[raised[0]], raised if len(raised) < len(replies) else []) if raised else replies[0]
    united = {name: _united([reply.get(name, []) for reply in replies]) for name in UNITED}
    united["findings"] += _differences(replies)
    changes = {name: change for reply in replies for name, change in reply.get("changes", {}).items()}
    return {**first, **united, "changes": changes}


def _placed(reply: Reply, numbers: Sequence[int]) -> Reply:
    """The reply, its error in the processes that raised it, where not all did."""
    if not numbers:
        return reply
    where = f"{reply['error'].get('where') or 'its call'} in process_index {', '.join(map(str, numbers))}"
    return {**reply, "error": {**reply["error"], "where": where}}


def _united(lists: Sequence[Sequence[Any]]) -> list[Any]:
    found: list[Any] = []
    for said in lists:
        found += [one for one in said if one not in found]
    return found


def _differences(replies: Sequence[Reply]) -> list[dict[str, str]]:
    """One finding for each process that does not give what the first one gives."""
    expected, *others = map(_came_out, replies)
    texts = [(number, difference(expected, other)) for number, other in enumerate(others, 1)]
    return [
        {"kind": "processes", "message": f"process_index {number} differs from process_index 0: {text}"}
        for number, text in texts
        if text
    ]


def _came_out(reply: Reply) -> Tree | str:
    return read_tree(reply["outputs"])[0] if "outputs" in reply else str(reply["error"]["type"])
