"""A check that several processes run together. The worker starts them, watches over them and ends them: for whoever
talks to it they are one, wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxcheck.execution.process import Death, exit_reason
from jaxcheck.execution.session import START_SECONDS, Session
from jaxcheck.registry.model import Recipe

LATE_SECONDS = 10.0  # in which the worker tells who was late, before it counts as late itself


def in_processes(recipe: Recipe, mode: str) -> bool:
    return mode == "sharded" and recipe.processes > 1


def checked(
    session: Session, recipe: Recipe, request: Mapping[str, Any], timeout: float, *limits: Any
) -> dict[str, Any] | Death:
    """The reply to a request for a check, in one process or several; these are started first, in a time of its own."""
    if not in_processes(recipe, request["mode"]):
        return session.request(request, timeout, *limits)
    reply = session.request({"op": "assemble", "recipe": recipe.name}, START_SECONDS)
    if isinstance(reply, Death) or "outcome" in reply:
        return _ended(reply)
    session.output()  # how they found one another
    request = {**request, "op": "check_together", "limit": timeout}
    return _ended(session.request(request, timeout + LATE_SECONDS, *limits))


def _ended(reply: dict[str, Any] | Death) -> dict[str, Any] | Death:
    """A death in words, where one of the processes died or was late; the worker itself lives."""
    if isinstance(reply, Death) or reply["outcome"] not in ("crash", "timeout"):
        return reply
    ends = [f"process_index {number}: {exit_reason(code)}" for number, code in reply.get("codes", {}).items()]
    return Death(reply["outcome"], "; ".join([*filter(None, [reply["reason"]]), *ends]))
