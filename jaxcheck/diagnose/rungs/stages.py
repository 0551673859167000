"""The stages of the kernel, which are the user's own scopes: each equation with the inputs that it really had."""

from __future__ import annotations

from collections.abc import Iterator

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.diagnose.scopes import GRADIENTS
from jaxcheck.diagnose.trace import WEIGHT, excess

PARTICULAR = ("forward", "loss", GRADIENTS, "update")  # stages that have a rung whether or not the kernel has them


def stage(name: str, inquiry: Inquiry) -> Iterator[Row]:
    """One of the user's scopes: every equation of it with the inputs that it really had."""
    trace = inquiry.walked
    if trace.reason:
        yield skipped(name, f"no walk: {trace.reason}")
        return
    total = trace.stages.get(name)
    if total is None:
        none = (
            "no reverse pass in this program" if name == GRADIENTS else f"the kernel has no jax.named_scope({name!r})"
        )
        yield skipped(name, none)
        return
    found = trace.origin_in(name)
    count = f"{total.equations:,} {'equation' if total.equations == 1 else 'equations'} with good inputs"
    if found is None:
        how = "the same outputs in both" if inquiry.question.of_versions else "none beyond its bound"
        worst = f" ({sentences.within(total.worst)})" if total.worst and total.local > 0 else ""
        yield ok(name, f"{count}, {how}{worst}")
        return
    if inquiry.question.of_modes:
        yield ok(
            name,
            f"{count}; {sentences.where(found)} is inexact by itself, alike in both modes: {sentences.local(found)}",
        )
        return
    overall = trace.origin
    heavy = overall is None or excess(found) >= excess(overall) / WEIGHT
    yield Row(
        name,
        "differs",
        f"{count}: {sentences.where(found)}: {sentences.local(found)}",
        told(name, "origin", sentences.origin(found, inquiry.ends), found),
        decides=heavy,
    )


def other_stages(inquiry: Inquiry) -> Iterator[Row]:
    """Labels that are the user's own."""
    for name in inquiry.walked.stages:
        if name and name not in PARTICULAR:
            yield from stage(name, inquiry)
