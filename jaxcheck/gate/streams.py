"""Whether the random streams are the same on both sides: if the raw bits are not, every draw is another."""

from __future__ import annotations

from collections.abc import Mapping

from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.session import open_session

TIMEOUT = 120.0


def fingerprints_of(launch: Launch) -> dict[str, str]:
    """What the workers of one side draw; nothing where they do not tell."""
    session = open_session(launch, Needs())
    try:
        session.start()
        reply = session.request({"op": "streams"}, TIMEOUT)
    finally:
        session.close()
    return {} if isinstance(reply, Death) else {str(name): str(digest) for name, digest in reply["streams"].items()}


def streams_apart(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """In words, which streams moved; nothing where all are the same."""
    moved = [name for name in before if name in after and before[name] != after[name]]
    if not moved:
        return ""
    if "raw bits" in moved:
        return "the PRNG's raw bits are others for the same key: every random draw is another"
    return f"the PRNG's raw bits are the same, and {', '.join(moved)} give other numbers from them"
