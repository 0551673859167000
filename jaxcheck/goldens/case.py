"""One case of a golden, and the JSON that stands for it in the metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Array, encode_meta
from jaxcheck.goldens.leaf import Leaf, Tree, check_tree_meta, json_field
from jaxcheck.goldens.names import case_entry, leaf_entry
from jaxcheck.registry.model import GRADIENT

TREES = {"inputs": "in", "outputs": "out", "gradients": "grad", "truth": "truth"}
_PROGRAM = "program"


@dataclass(frozen=True)
class Blessing:
    """Who made a case golden, when (ISO 8601), at which commit, why, and in which environment it had run."""

    reason: str
    who: str
    when: str
    commit: str | None
    jaxcheck: str
    environment: dict[str, Any]


@dataclass(frozen=True)
class ErrorRecord:
    """The exception that a case raised: its class, the bases of that, and its message."""

    type: str
    bases: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class GoldenCase:
    """One case, complete. `outputs` is None where the case raised `error`.

    `hash` is Recipe.case_hash and `contract` the mode that the outputs are of. The paths of input leaves
    begin with the argument's name. `gradients` is `{argument: pytree}`, of the mode `grad`, or None; `tolerance` and
    `truth` name its leaves as `grad_leaves` does. `tolerance` is by path, `{"rtol", "atol", "source"}`. `program` is
    the StableHLO export, or None for `program_reason`. `statics` and `extra` are JSON, and content: when they change,
    so has the golden.
    """

    hash: str
    contract: str
    inputs: Tree
    outputs: Tree | None
    error: ErrorRecord | None
    tolerance: dict[str, dict[str, Any]]
    blessing: Blessing
    program: bytes | None = None
    program_reason: str | None = None
    truth: Tree | None = None
    gradients: Tree | None = None
    statics: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def grad_leaves(self) -> tuple[Leaf, ...]:
        """The gradients' leaves by the paths that tolerances, truth and reports know them by: `grad['w']`."""
        return self.gradients.under(GRADIENT).leaves if self.gradients else ()

    def trees(self) -> Iterator[tuple[str, Tree]]:
        """The trees that the case has, each with its part of the entries' names: `in`, `out`, `grad`, `truth`."""
        for name, part in TREES.items():
            if (tree := getattr(self, name)) is not None:
                yield part, tree

    @property
    def has_excerpts(self) -> bool:
        """Whether only an excerpt is kept of some leaf."""
        return any(leaf.excerpt is not None for _, tree in self.trees() for leaf in tree.leaves)

    def abridged(self, chosen: Callable[[str], bool]) -> GoldenCase:
        """The case with no more than excerpts of the leaves whose paths are chosen; inputs are always kept whole."""
        return replace(
            self,
            outputs=self.outputs and self.outputs.abridged(chosen),
            truth=self.truth and self.truth.abridged(chosen),
            gradients=self.gradients and self.gradients.abridged(lambda path: chosen(GRADIENT + path)),
        )

    def arrays(self, case: str) -> dict[str, Array]:
        """What an archive holds of it, by entry; GoldenError where two leaves of a tree have one path."""
        entries: dict[str, Array] = {}
        for part, tree in self.trees():
            for leaf in tree.leaves:
                entry = leaf_entry(case, part, leaf.path)
                if entry in entries:
                    hint = "give the keys of the pytree node that holds them a repr of their own"
                    raise GoldenError(f"case {case}: two leaves have the path {leaf.path}", hint)
                entries[entry] = leaf.words
        if self.program is not None:
            entries[case_entry(case, _PROGRAM)] = np.frombuffer(self.program, np.uint8)
        return entries

    def meta(self) -> dict[str, Any]:
        """What the metadata hold of it, without its blessing; GoldenError where that is not JSON."""
        facts = {
            "hash": self.hash,
            "contract": self.contract,
            "inputs": self.inputs.meta(),
            "outputs": self.outputs and self.outputs.meta(),
            "truth": self.truth and self.truth.meta(),
            "error": self.error and asdict(self.error),
            "tolerance": self.tolerance,
            "program": None if self.program is None else _fingerprint(self.program),
            "program_reason": self.program_reason,
            "statics": self.statics,
            "extra": self.extra,
        }
        if self.gradients is not None:  # absent where there are none: goldens from before keep their digests
            facts["gradients"] = self.gradients.meta()
        # Once through JSON, so that content has one digest before it is written and after it was read.
        normal: dict[str, Any] = json.loads(encode_meta(facts, "what is known of the case"))
        return normal


@dataclass(frozen=True)
class CaseSummary:
    """What the metadata say of a case. Trees are as Tree.meta gives them, `program` is `{"size", "sha256"}`.

    `digest` covers the case's content: all but its blessing and where its tolerances came from.
    """

    hash: str
    contract: str
    inputs: dict[str, Any]
    outputs: dict[str, Any] | None
    truth: dict[str, Any] | None
    gradients: dict[str, Any] | None
    error: ErrorRecord | None
    tolerance: dict[str, dict[str, Any]]
    blessing: Blessing
    program: dict[str, Any] | None
    program_reason: str | None
    statics: dict[str, Any]
    extra: dict[str, Any]
    digest: str

    def leaf_entries(self, case: str, tree: str) -> list[str]:
        """The archive's entries of a tree (`inputs`, `outputs`, `gradients`, `truth`), in the order of its leaves."""
        meta = getattr(self, tree)
        return [leaf_entry(case, TREES[tree], leaf["path"]) for leaf in meta["leaves"]] if meta else []

    def entries(self, case: str) -> list[str]:
        """All of the archive's entries of the case."""
        leaves = [entry for tree in TREES for entry in self.leaf_entries(case, tree)]
        return leaves if self.program is None else [*leaves, program_entry(case)]

    def check_program(self, program: bytes) -> bool:
        """Whether these are the bytes of the case's program."""
        return self.program == _fingerprint(program)


def program_entry(case: str) -> str:
    return case_entry(case, _PROGRAM)


def content_digest(meta: Mapping[str, Any]) -> str:
    """sha256 over what GoldenCase.meta gives, apart from where the tolerances came from."""
    numbers = {
        path: {name: value for name, value in tolerance.items() if name != "source"}
        for path, tolerance in meta["tolerance"].items()
    }
    content = {name: value for name, value in meta.items() if name != "blessing"} | {"tolerance": numbers}
    return hashlib.sha256(encode_meta(content).encode()).hexdigest()


def parse_case(meta: Any, blessings: Sequence[Blessing]) -> CaseSummary:
    """The case that the metadata describe; ValueError or TypeError says what is wrong with them."""
    blessing = json_field(meta, "blessing", int)
    if blessing not in range(len(blessings)):
        raise ValueError(f"blessing {blessing} is none of the {len(blessings)} there are")
    return CaseSummary(
        hash=json_field(meta, "hash", str),
        contract=json_field(meta, "contract", str),
        inputs=check_tree_meta(json_field(meta, "inputs", dict)),
        outputs=_parse_tree(meta, "outputs"),
        truth=_parse_tree(meta, "truth"),
        gradients=_parse_tree(meta, "gradients") if "gradients" in meta else None,
        error=_parse_error(json_field(meta, "error", dict | None)),
        tolerance=_parse_tolerance(json_field(meta, "tolerance", dict)),
        blessing=blessings[blessing],
        program=_parse_program(json_field(meta, "program", dict | None)),
        program_reason=json_field(meta, "program_reason", str | None),
        statics=json_field(meta, "statics", dict),
        extra=json_field(meta, "extra", dict),
        digest=content_digest(meta),
    )


def parse_blessing(meta: Any) -> Blessing:
    """The blessing that the metadata describe; ValueError says what is wrong with them."""
    return Blessing(
        reason=json_field(meta, "reason", str),
        who=json_field(meta, "who", str),
        when=json_field(meta, "when", str),
        commit=json_field(meta, "commit", str | None),
        jaxcheck=json_field(meta, "jaxcheck", str),
        environment=json_field(meta, "environment", dict),
    )


def _parse_tree(meta: Any, name: str) -> dict[str, Any] | None:
    tree = json_field(meta, name, dict | None)
    return None if tree is None else check_tree_meta(tree)


def _parse_error(meta: Any) -> ErrorRecord | None:
    if meta is None:
        return None
    bases = tuple(str(base) for base in json_field(meta, "bases", list))
    return ErrorRecord(json_field(meta, "type", str), bases, json_field(meta, "message", str))


def _parse_tolerance(meta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    for tolerance in meta.values():
        json_field(tolerance, "rtol", int | float)
        json_field(tolerance, "atol", int | float)
        json_field(tolerance, "source", str)
    return meta


def _parse_program(meta: Any) -> dict[str, Any] | None:
    if meta is None:
        return None
    return {"size": json_field(meta, "size", int), "sha256": json_field(meta, "sha256", str)}


def _fingerprint(program: bytes) -> dict[str, Any]:
    return {"size": len(program), "sha256": hashlib.sha256(program).hexdigest()}
