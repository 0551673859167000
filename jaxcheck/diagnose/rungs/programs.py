"""The program as a whole: the traced one, what it is lowered to, and the one that the golden keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from jaxcheck.diagnose import sentences
from jaxcheck.diagnose.inquiry import Inquiry, Window
from jaxcheck.diagnose.rungs.row import Row, ok, skipped, told
from jaxcheck.gate.programs import Program
from jaxcheck.goldens.leaf import Leaf, Tree
from jaxcheck.registry.model import DERIVED_MODES
from jaxcheck.results.diagnosis import DiagnosedStep


def program(inquiry: Inquiry) -> Iterator[Row]:
    rung = "program"
    if inquiry.question.of_versions:
        yield _program_of_versions(inquiry)
    elif inquiry.question.against == "golden":
        yield _program_of_golden(inquiry)
    elif isinstance(inquiry.program, Program):
        yield ok(rung, f"one program of {len(inquiry.program.equations):,} equations")
    else:
        yield skipped(rung, f"it cannot be read: {inquiry.program}")


def _program_of_versions(inquiry: Inquiry) -> Row:
    difference = inquiry.programs
    if isinstance(difference, str):
        return skipped("program", difference)
    if not difference:
        return ok("program", "the same equations, lowered to the same operations")
    words = "; ".join(difference.lines(3))
    sentence = f"The traced program is another in {sentences.version(inquiry.ends)}: {words}"
    return Row("program", "differs", words, told("program", "program", sentence), decides=False)


def _program_of_golden(inquiry: Inquiry) -> Row:
    """The golden's own program, run here at the golden's inputs: whose outputs does it give?"""
    golden = inquiry.ends.golden
    if inquiry.mode in DERIVED_MODES or inquiry.mode in ("vmap", "sharded"):
        return skipped("program", f"a golden keeps the program of the plain call, not of {inquiry.mode}")
    gives, reason = golden_program_gives(inquiry)
    if gives is None:
        return skipped("program", f"the golden's program tells nothing here: {reason}")
    changed = "" if golden is None or golden.hash == inquiry.recipe.case_hash(inquiry.case) else "; the recipe changed"
    if gives != "old":
        gave = {"new": "gives what the kernel gives now", "both": "gives both", "neither": "gives neither"}[gives]
        return ok("program", f"the golden's own program {gave}: the kernel's code did not move it{changed}")
    windows = [] if isinstance(inquiry.windows, str) else inquiry.windows
    apart = _windows_words(windows)
    step = _step_of(windows[0]) if windows else None
    words = "the golden's own program still gives the golden here, the kernel no longer does" + changed
    found = f"{words}{': ' + apart if apart else ''}"
    sentence = "The program is another than when the golden was blessed, and that alone moved it"
    sentence += f": at {sentences.where(step)}: {apart}" if step else ""
    return Row("program", "differs", found, told("program", "program", sentence, step), decides=False)


def golden_program_gives(inquiry: Inquiry) -> tuple[Literal["old", "new", "both", "neither"] | None, str]:
    """Whose outputs the golden's program gives here, as far as it matters; None, and why, where it cannot be told."""
    ends, replayed = inquiry.ends, inquiry.replayed
    if isinstance(replayed, str):
        return None, replayed
    if ends.expected is None or ends.actual is None:
        return None, "there are no outputs"
    near: list[bool] = []
    for tree in (ends.expected, ends.actual):
        if len(replayed.leaves) != len(tree.leaves):
            return None, "it has another number of outputs"
        named = Tree(tree.structure, tuple(map(_named, replayed.leaves, tree.leaves)))
        still = inquiry.still(tree, named)
        near.append(not isinstance(still, str) and not still[0])
    if all(near):
        return "both", ""
    if not any(near):
        return "neither", ""
    return ("old" if near[0] else "new"), ""


def _named(program: Leaf, output: Leaf) -> Leaf:
    """A program's outputs have neither paths nor weak types, and typed keys travel as their words."""
    if output.impl is not None:
        return replace(output, words=program.words) if program.words.shape == output.words.shape else program
    return replace(program, path=output.path, weak_type=output.weak_type)


def _windows_words(windows: list[Window]) -> str:
    """`old operations | new operations`, shortened."""
    said = [f"{_short(one.old)} | {_short(one.new)}" for one in windows]
    return "; ".join(said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else "")


def _short(operations: list[dict[str, Any]]) -> str:
    texts = [str(one["operation"]).removeprefix("stablehlo.").partition(" :")[0][:60] for one in operations[:3]]
    return (", ".join(texts) + (" …" if len(operations) > 3 else "")) or "nothing"


def _step_of(window: Window) -> DiagnosedStep:
    """The first operation that is another, as the equation that it was made of."""
    first = next(iter([*window.new, *window.old]))
    place = {name: first[name] for name in ("scope", "file", "line")}
    return DiagnosedStep(n=0, primitive=first["primitive"] or first["operation"].partition(" ")[0], **place)
