"""The golden of a recipe: what each case was given and gave, and who made that the golden, when and why.

Entries are `<case>/in/<path>`, `<case>/out/<path>`, `<case>/grad/<path>`, `<case>/truth/<path>` and `<case>/program`
(uint8).
Everything else stands in the metadata:

    schema, recipe
    jaxcheck     the version that wrote the file
    replaced     digest of the golden that this one took the place of, or null
    blessings    [{reason, who, when, commit, jaxcheck, environment}, ...]; cases refer to them by index
    cases        {NAME: {hash, contract, blessing, inputs, outputs, truth, error, tolerance, program,
                 program_reason, statics, extra}}, and `gradients` where there are any; a tree is {structure,
                 leaves: [{path, dtype, shape, weak_type, impl, sha256}, ...]}, a program {size, sha256}

A leaf of which only an excerpt is kept has `excerpt` as well: {starts, length, sha256}, and its entry is one array of
these blocks. A golden with such leaves has schema 2; all others have schema 1, as ever.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jaxcheck
from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive, Array, encode_meta, write_archive
from jaxcheck.goldens.case import (
    Blessing,
    CaseSummary,
    ErrorRecord,
    GoldenCase,
    content_digest,
    parse_blessing,
    parse_case,
    program_entry,
)
from jaxcheck.goldens.damage import bless_hint, damaged, listing
from jaxcheck.goldens.leaf import Tree, json_field

__all__ = ["SCHEMA", "Blessing", "CaseSummary", "Draft", "ErrorRecord", "Golden", "GoldenCase"]

SCHEMA = 1
SCHEMA_OF_EXCERPTS = 2


class Golden:
    """A golden file: metadata are checked at once, arrays and programs by digest when they are asked for.

    `recipe` is the recipe's name and `cases` those of its cases, sorted; `replaced` is the digest of the
    golden that this one took the place of, and `jaxcheck` the version that wrote it.
    """

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Golden:
        """The golden at `path`; GoldenError says what is wrong with it and what to type next."""
        return cls(Archive(path))

    def __init__(self, archive: Archive) -> None:
        self.path = archive.path
        self._archive = archive
        self.schema = _checked_schema(archive)
        try:
            self.recipe: str = json_field(archive.meta, "recipe", str)
            self.jaxcheck: str = json_field(archive.meta, "jaxcheck", str)
            self.replaced: str | None = json_field(archive.meta, "replaced", str | None)
            blessings = [parse_blessing(meta) for meta in json_field(archive.meta, "blessings", list)]
            cases = json_field(archive.meta, "cases", dict)
            self._summaries = {name: parse_case(meta, blessings) for name, meta in cases.items()}
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(self.path, f"is damaged: its metadata say what no golden says: {error}") from error
        self.cases = tuple(self._summaries)
        archive.expect(entry for name, summary in self._summaries.items() for entry in summary.entries(name))

    def __enter__(self) -> Golden:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what was read from it stays valid."""
        self._archive.close()

    @cached_property
    def digest(self) -> str:
        """sha256 over the content: all that is not provenance."""
        digests = {name: summary.digest for name, summary in self._summaries.items()}
        return _digest(self.schema, self.recipe, digests)

    def summary(self, case: str) -> CaseSummary:
        """What the metadata say of a case; no array is read."""
        if case not in self._summaries:
            raise GoldenError(
                f"{self.path} has no case {case!r}; it has {listing(self.cases)}",
                f"jaxcheck bless {self.recipe} --reason '...'",
            )
        return self._summaries[case]

    def case(self, name: str, program: bool = False) -> GoldenCase:
        """A case with its arrays, which are views of the file, and with its program only if asked for."""
        said = self.summary(name)
        return GoldenCase(
            hash=said.hash,
            contract=said.contract,
            inputs=self.inputs(name),
            outputs=self._tree(name, "outputs", said.outputs) if said.outputs else None,
            error=said.error,
            tolerance=said.tolerance,
            blessing=said.blessing,
            program=self.program(name) if program else None,
            program_reason=said.program_reason,
            truth=self._tree(name, "truth", said.truth) if said.truth else None,
            gradients=self._tree(name, "gradients", said.gradients) if said.gradients else None,
            statics=said.statics,
            extra=said.extra,
        )

    def inputs(self, case: str) -> Tree:
        """The inputs of a case alone: nothing else of it is read."""
        return self._tree(case, "inputs", self.summary(case).inputs)

    def program(self, case: str) -> bytes | None:
        """The StableHLO export of a case, or None. It is executable: ask for it only in order to run it."""
        said = self.summary(case)
        if said.program is None:
            return None
        program = self._archive.read(program_entry(case)).tobytes()
        if not said.check_program(program):
            raise damaged(self.path, f"is damaged: the program of case {case!r} does not match its digest")
        return program

    def verify(self) -> None:
        """Read everything; GoldenError where an array or a program does not match its digest."""
        for name in self.cases:
            self.case(name, program=True)

    def _tree(self, case: str, tree: str, meta: dict[str, Any]) -> Tree:
        words = [self._archive.read(entry, checked=False) for entry in self.summary(case).leaf_entries(case, tree)]
        try:
            return Tree.restore(meta, words)
        except GoldenError as error:
            what = f"cannot be trusted: {tree} of case {case!r}: {error}"
            raise damaged(self.path, what, error.hint) from error


@dataclass(frozen=True)
class Draft:
    """A golden that is not written yet. `digest` is the one that it will have as a Golden."""

    meta: dict[str, Any]
    arrays: dict[str, Array]
    digest: str

    @classmethod
    def of(cls, recipe: str, cases: Mapping[str, GoldenCase]) -> Draft:
        """The golden of a recipe; GoldenError where the cases hold what a golden cannot."""
        metas = {name: case.meta() for name, case in sorted(cases.items())}
        digests = {name: content_digest(meta) for name, meta in metas.items()}
        blessings: list[dict[str, Any]] = []
        for name, meta in metas.items():
            blessing = asdict(cases[name].blessing)
            if blessing not in blessings:
                blessings.append(blessing)
            meta["blessing"] = blessings.index(blessing)
        arrays = {entry: array for name, case in cases.items() for entry, array in case.arrays(name).items()}
        schema = SCHEMA_OF_EXCERPTS if any(case.has_excerpts for case in cases.values()) else SCHEMA
        facts = {"schema": schema, "recipe": recipe, "jaxcheck": jaxcheck.__version__}
        return cls(facts | {"blessings": blessings, "cases": metas}, arrays, _digest(schema, recipe, digests))

    def write(self, path: Path, replaced: str | None = None) -> None:
        """Put it in the place of what is at `path`, atomically; `replaced` is the digest of that."""
        write_archive(path, self.arrays, self.meta | {"replaced": replaced})


def _digest(schema: int, recipe: str, cases: Mapping[str, str]) -> str:
    content = {"schema": schema, "recipe": recipe, "cases": dict(cases)}
    return hashlib.sha256(encode_meta(content).encode()).hexdigest()


def _checked_schema(archive: Archive) -> int:
    schema = archive.meta.get("schema")
    if type(schema) is not int:
        raise damaged(archive.path, "is no golden: its metadata have no schema number")
    here = f"jaxcheck {jaxcheck.__version__} reads schema {SCHEMA_OF_EXCERPTS}"
    if schema > SCHEMA_OF_EXCERPTS:
        hint = "python -m pip install -U jaxcheck"
        raise GoldenError(f"{archive.path} has schema {schema}, of a newer jaxcheck; {here}", hint)
    if schema < SCHEMA:
        hint = f"delete it and {bless_hint(archive.path)}"
        raise GoldenError(f"{archive.path} has schema {schema}, of an older jaxcheck; {here}", hint)
    return schema
