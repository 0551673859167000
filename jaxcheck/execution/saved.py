"""A run in a folder, with all that it produced: what one machine leaves for another to compare with.

    run.json               the report
    goldens/RECIPE.npz     what each case was given, its contract's outputs, and its exported program
    outputs/RECIPE.npz     the outputs of every check, what they are held to, the truth and the noise floors
    manifest.json          sha256 of each of these files; written last, so that a folder without it is not a saved run

Everything in it is data: nothing is executed but a program that the gate replays, from a file whose digest matches.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxcheck.errors import GoldenError, UsageError
from jaxcheck.execution.judge import Outcome
from jaxcheck.execution.verdicts import loosened
from jaxcheck.files import hold, short, sweep
from jaxcheck.goldens.archive import Archive, write_archive
from jaxcheck.goldens.golden import Golden, GoldenCase
from jaxcheck.goldens.leaf import Tree, check_tree_meta, json_field
from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.model import OutputRule, Recipe, Tolerance
from jaxcheck.registry.tolerance import output_rule
from jaxcheck.results import Run

SCHEMA = 1
RUN, MANIFEST, GOLDENS, OUTPUTS = "run.json", "manifest.json", "goldens", "outputs"
TRUTH = "-"  # where a mode stands otherwise
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Rules:
    """What the leaves of a saved case are held to, by path: as Recipe answers, without the registry."""

    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    positions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: Recipe, trees: Sequence[Tree], backend: str) -> Rules:
        """The rules of a recipe for the leaves of these outputs."""
        tolerances, outputs, positions = {}, {}, {}
        for leaf in (leaf for tree in trees for leaf in tree.leaves):
            rule = output_rule(recipe, leaf.path)
            if rule is not None:
                outputs[leaf.path] = OutputRule(None, rule.comparator, rule.nonfinite, rule.parameters)
            if (tolerance := recipe.tolerance(leaf.path, leaf.dtype, backend)) is not None:
                tolerances[leaf.path] = tolerance
            positions[leaf.path] = str(recipe.locate("outputs", leaf.path))
        return cls(tolerances, outputs, positions)

    def tolerance(self, path: str, dtype: str, backend: str) -> Tolerance | None:
        """The tolerance of the leaf at `path`, or None where nobody set one."""
        return self.tolerances.get(path)

    def locate(self, *keys: str) -> str:
        """Where the registry speaks of the leaf that is the second key, or of anything else."""
        return self.positions.get(keys[1] if len(keys) > 1 else "", "the registry")

    def meta(self) -> dict[str, Any]:
        return {
            path: {
                "tolerance": asdict(self.tolerances[path]) if path in self.tolerances else None,
                "comparator": self.outputs[path].comparator if path in self.outputs else "allclose",
                "parameters": dict(self.outputs[path].parameters) if path in self.outputs else {},
                "position": position,
            }
            for path, position in self.positions.items()
        }

    @classmethod
    def parse(cls, meta: Mapping[str, Any]) -> Rules:
        """What `meta` gave; ValueError or TypeError says what is wrong with it."""
        tolerances, outputs, positions = {}, {}, {}
        for path, said in meta.items():
            held = json_field(said, "tolerance", dict | None)
            if held is not None:
                tolerances[path] = Tolerance(float(held["rtol"]), float(held["atol"]), str(held["source"]))
            parameters = json_field(said, "parameters", dict)
            outputs[path] = OutputRule(None, json_field(said, "comparator", str), None, parameters)
            positions[path] = json_field(said, "position", str)
        return cls(tolerances, outputs, positions)


@dataclass(frozen=True)
class SavedCase:
    """What a run produced for one case, by mode, and what it is to be judged by.

    `floors` are the parts of each leaf's noise floor; `loosened` says which tolerances are wider than when the golden
    was blessed, and `raised` what a mode raised instead of giving outputs (`TypeError: text`).
    """

    outputs: Mapping[str, Tree]
    rules: Rules = field(default_factory=Rules)
    truth: Tree | None = None
    floors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    loosened: tuple[str, ...] = ()
    raised: Mapping[str, str] = field(default_factory=dict)

    @property
    def extra(self) -> dict[str, Any]:
        """As a golden's case has it."""
        return {"floor": self.floors}


class Saving:
    """A saved run while it is written: beside its folder, which appears when all is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._beside = f".{short(self.folder.name)}.jaxcheck-"
        self._old = self.folder.with_name(f"{self._beside}old")
        if self.folder.exists() and not is_replaceable(self.folder):
            raise UsageError(
                f"{folder} exists and is not a saved run: nothing there is overwritten",
                hint="give a new folder: --save FOLDER",
            )
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._tidy()
            self._staging = Path(tempfile.mkdtemp(prefix=self._beside, dir=self.folder.parent))
            self._handle = os.open(self._staging, os.O_RDONLY)
            hold(self._handle)
            for name in (GOLDENS, OUTPUTS):
                (self._staging / name).mkdir()
        except OSError as error:
            raise UsageError(f"cannot save to {folder}: {error.strerror}", hint="--save FOLDER") from error
        self.goldens = GoldenStore(self._staging / GOLDENS)

    def _tidy(self) -> None:
        """After runs that were killed: what one had replaced comes back if nothing had taken its place yet, and what
        they wrote to goes. A folder with anything else in it is not theirs."""
        if self._old.is_dir() and not self.folder.exists():
            os.replace(self._old, self.folder)
        written = self.folder.parent.glob(f"{glob.escape(self._beside)}*")
        ours = {GOLDENS, OUTPUTS, RUN, MANIFEST}
        sweep(path for path in written if path.is_dir() and {file.name for file in path.iterdir()} <= ours)

    def keep(self, recipe: Recipe, cases: Mapping[str, SavedCase], goldens: Mapping[str, GoldenCase]) -> None:
        """Writes what one recipe gave."""
        if goldens:
            self.goldens.save(recipe.name, goldens)
        arrays: dict[str, Any] = {}
        metas: dict[str, Any] = {}
        for name, case in cases.items():
            trees = {**case.outputs, "": case.truth} if case.truth is not None else dict(case.outputs)
            for mode, tree in trees.items():
                assert tree is not None
                arrays |= {_entry(len(metas), mode, index): leaf.words for index, leaf in enumerate(tree.leaves)}
            metas[name] = {
                "outputs": {mode: tree.meta() for mode, tree in case.outputs.items()},
                "truth": case.truth and case.truth.meta(),
                "floors": {path: dict(parts) for path, parts in case.floors.items()},
                "rules": case.rules.meta(),
                "loosened": list(case.loosened),
                "raised": dict(case.raised),
            }
        meta = {"schema": SCHEMA, "recipe": recipe.name, "cases": metas, "order": list(cases)}
        write_archive(self._outputs.path(recipe.name), arrays, meta, durable=False)

    @property
    def _outputs(self) -> GoldenStore:
        return GoldenStore(self._staging / OUTPUTS)

    def finish(self, run: Run) -> SavedRun:
        """Everything is there: the folder appears, in the place of a saved run that was there before."""
        (self._staging / RUN).write_text(run.to_json(), encoding="utf-8")
        files = sorted(path for path in self._staging.rglob("*") if path.is_file())
        digests = {path.relative_to(self._staging).as_posix(): file_sha256(path) for path in files}
        text = json.dumps({"schema": SCHEMA, "files": digests}, indent=1, sort_keys=True)
        (self._staging / MANIFEST).write_text(text + "\n", encoding="utf-8")
        if self.folder.exists():
            shutil.rmtree(self._old, ignore_errors=True)
            os.replace(self.folder, self._old)
            os.replace(self._staging, self.folder)
            shutil.rmtree(self._old, ignore_errors=True)
        else:
            os.replace(self._staging, self.folder)
        return SavedRun.open(self.folder)

    def abandon(self) -> None:
        """Nothing of it stays; safe to call after `finish`."""
        shutil.rmtree(self._staging, ignore_errors=True)
        os.close(self._handle)


def _entry(case: int, mode: str, index: int) -> str:
    return f"{case}/{mode or TRUTH}/{index}"


def is_replaceable(folder: Path) -> bool:
    """An empty folder, or one with a saved run."""
    return folder.is_dir() and ((folder / MANIFEST).is_file() or not any(folder.iterdir()))


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class SavedRun:
    """A saved run, read. Every file is checked against the manifest when it is first opened."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> SavedRun:
        """The saved run in `folder`; UsageError where it is none, is not complete, or is of another schema."""
        path = Path(folder)
        hint = f"jaxcheck run --save {folder}"
        try:
            manifest = json.loads((path / MANIFEST).read_bytes())
            schema, files = json_field(manifest, "schema", int), json_field(manifest, "files", dict)
        except FileNotFoundError:
            what = "no such folder" if not path.exists() else "it has no manifest.json, which is written last"
            raise UsageError(f"{folder} is not a saved run: {what}", hint) from None
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{folder} is not a saved run: {MANIFEST}: {error}", hint) from error
        if schema != SCHEMA:
            raise UsageError(f"{folder} is a saved run of schema {schema}; this jaxcheck reads schema {SCHEMA}", hint)
        return cls(path, {str(name): str(digest) for name, digest in files.items()})

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder, self._files = folder, files
        self._checked: set[str] = set()

    @cached_property
    def run(self) -> Run:
        path = self._verified(RUN)
        try:
            return Run.from_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise self._bad(RUN, str(error).splitlines()[0]) from error

    def golden_path(self, recipe: str) -> Path | None:
        """The file with the inputs and programs of a recipe, its digest checked; None where the run has none."""
        path = GoldenStore(self.folder / GOLDENS).path(recipe)
        name = path.relative_to(self.folder).as_posix()
        return self._verified(name) if name in self._files else None

    def golden(self, recipe: str) -> Golden | None:
        """Inputs, contract's outputs and programs of a recipe; the caller closes it."""
        path = self.golden_path(recipe)
        try:
            return None if path is None else Golden.open(path)
        except GoldenError as error:
            raise self._bad(path.name if path else recipe, str(error)) from error

    def cases(self, recipe: str) -> dict[str, SavedCase]:
        """What the run produced for a recipe, by case; nothing where none of its cases could be run."""
        path = GoldenStore(self.folder / OUTPUTS).path(recipe)
        name = path.relative_to(self.folder).as_posix()
        if name not in self._files:
            return {}
        try:
            with Archive(self._verified(name)) as archive:
                return dict(_read_cases(archive))
        except (GoldenError, ValueError, TypeError, KeyError) as error:
            raise self._bad(name, str(error)) from error

    def _verified(self, name: str) -> Path:
        path = self.folder / name
        if name not in self._checked:
            try:
                digest = file_sha256(path)
            except OSError as error:
                raise self._bad(name, error.strerror or "it cannot be read") from error
            if digest != self._files.get(name):
                raise self._bad(name, "it does not match the digest in manifest.json")
            self._checked.add(name)
        return path

    def _bad(self, name: str, why: str) -> UsageError:
        return UsageError(
            f"the saved run {self.folder} is damaged: {name}: {why}", f"jaxcheck run --save {self.folder}"
        )


def _read_cases(archive: Archive) -> Iterator[tuple[str, SavedCase]]:
    metas = json_field(archive.meta, "cases", dict)
    for number, name in enumerate(json_field(archive.meta, "order", list)):
        meta = metas[name]
        truth = json_field(meta, "truth", dict | None)
        outputs = json_field(meta, "outputs", dict)
        yield (
            name,
            SavedCase(
                outputs={mode: _read_tree(archive, number, mode, tree) for mode, tree in outputs.items()},
                rules=Rules.parse(json_field(meta, "rules", dict)),
                truth=None if truth is None else _read_tree(archive, number, "", truth),
                floors=json_field(meta, "floors", dict),
                loosened=tuple(map(str, json_field(meta, "loosened", list))),
                raised=json_field(meta, "raised", dict),
            ),
        )


def _read_tree(archive: Archive, case: int, mode: str, meta: Any) -> Tree:
    checked = check_tree_meta(meta)
    words = [archive.read(_entry(case, mode, index), checked=False) for index in range(len(checked["leaves"]))]
    return Tree.restore(checked, words)


def saved_case(recipe: Recipe, outcomes: Sequence[Outcome], golden: GoldenCase | None, backend: str) -> SavedCase:
    """What one case's outcomes leave, with what its golden knows of the truth."""
    outputs = {outcome.mode: outcome.outputs for outcome in outcomes if outcome.outputs is not None}
    errors = {outcome.mode: outcome.reply["error"] for outcome in outcomes if "error" in outcome.reply}
    rules = Rules.of(recipe, list(outputs.values()), backend)
    return SavedCase(
        outputs=outputs,
        rules=rules,
        truth=golden.truth if golden else None,
        floors=golden.extra.get("floor", {}) if golden else {},
        loosened=tuple(loosened(golden.tolerance, rules.tolerances)) if golden else (),
        raised={mode: f"{error['type']}: {error['message']}" for mode, error in errors.items()},
    )
