"""The same program, run otherwise: batched, sharded, on another backend."""

from __future__ import annotations

from collections.abc import Iterator

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.execution.run import not_verified
from jaxcheck.results import Status


def of_mode(name: str, inquiry: Inquiry) -> Iterator[Row]:
    """A mode that the recipe may have: its own check, which holds it against the single call."""
    result = inquiry.ends.results.get(name)
    if result is None or name not in inquiry.recipe.modes:
        yield skipped(name, f"the recipe is not run in mode {name}")
        return
    if result.status is Status.SKIP:
        yield skipped(name, result.reason)
        return
    faults = [finding.message for finding in result.findings if finding.kind in ("modes", "sharding", "processes")]
    if not faults:
        yield ok(name, "agrees with the plain call")
        return
    words = sentences.listed(faults, 2)
    mine = inquiry.mode == name
    yield Row(name, "differs", words, told(name, "mode", f"Only {name} differs: {words}") if mine else None)


def backend(inquiry: Inquiry) -> Iterator[Row]:
    rung = "backend"
    before, now = inquiry.environments
    if before is not None and now is not None and before.backend != now.backend:
        words = f"the golden was made on {before.backend}, this is {now.backend}"
        yield Row(rung, "differs", words, told(rung, "environment", words[0].upper() + words[1:]), decides=False)
        return
    others = [name for name, why in not_verified(now, []).items() if why.startswith("present")]
    here = now.backend if now else "this backend"
    yield skipped(rung, f"only {here} was run" + (f"; also here: {', '.join(others)}" if others else ""))
