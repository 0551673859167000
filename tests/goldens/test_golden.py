import dataclasses
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxcheck.errors import GoldenError
from jaxcheck.goldens.archive import Archive
from jaxcheck.goldens.golden import Draft, Golden, GoldenCase
from jaxcheck.goldens.leaf import Array, Leaf, Tree
from jaxcheck.goldens.structure import count_leaves
from tests.goldens.samples import (
    arguments,
    blessing,
    case,
    raising_case,
    rewrite,
    rich_case,
    single,
    write_golden,
)
from tests.goldens.test_names import NAMES
from tests.goldens.test_structure import STRUCTURES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_golden(tmp_path / "r.npz")


def edit(path: Path, change: Any) -> Path:
    """The same file with other metadata or arrays, in a sound container."""
    with Archive(path) as file:
        meta: dict[str, Any] = json.loads(json.dumps(file.meta))
        arrays: dict[str, Array] = {name: file.read(name) for name in file.names}
    change(meta, arrays)
    return rewrite(path, meta, arrays)


def test_cases_come_back_as_they_were_written(path: Path) -> None:
    with Golden.open(path) as golden:
        assert golden.recipe == "r"
        assert golden.cases == ("raising", "standard")
        assert golden.case("raising") == raising_case()
        assert golden.case("standard", program=True) == rich_case()
        assert golden.replaced is None
        assert golden.jaxcheck
        golden.verify()


def test_entries_are_named_by_case_part_and_key_path(path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        assert sorted(file.files) == [
            "__meta__",
            "raising/in/x",
            "standard/in/x",
            "standard/out/['k']",
            "standard/out/['w']",
            "standard/program",
            "standard/truth/.",
        ]
        assert file["standard/program"].dtype == np.uint8
        assert file["standard/out/['w']"].dtype == np.uint16


def test_the_metadata_hold_what_the_arrays_cannot(path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        meta = json.loads(str(file["__meta__"]))
    said = meta["cases"]["standard"]
    assert (meta["schema"], meta["recipe"], meta["replaced"]) == (1, "r", None)
    assert said["outputs"]["structure"] == {"dict": {"k": "*", "w": "*", "z": None}}
    assert {**said["outputs"]["leaves"][1], "sha256": ""} == {
        "path": "['w']",
        "dtype": "bfloat16",
        "shape": [3],
        "weak_type": True,
        "impl": None,
        "sha256": "",
    }
    assert said["statics"] == {"n": 3, "name": "é"}
    assert meta["blessings"][said["blessing"]]["reason"] == "first"


def test_a_summary_reads_no_array(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Golden.open(path) as golden:
        monkeypatch.setattr(Archive, "read", None)
        said = golden.summary("standard")
        assert (said.hash, said.contract, said.error, said.program_reason) == ("h", "eager", None, None)
        assert said.blessing == blessing()
        assert [leaf["path"] for leaf in (said.outputs or {})["leaves"]] == ["['k']", "['w']"]
        assert said.program is not None
        assert golden.summary("raising").outputs is None


def test_a_program_is_read_only_when_asked_for(path: Path) -> None:
    with Golden.open(path) as golden:
        assert golden.case("standard").program is None
        assert golden.program("standard") == rich_case().program
        assert golden.program("raising") is None


def test_an_empty_program_and_tree_are_there_all_the_same(tmp_path: Path) -> None:
    nothing = case(inputs=Tree({"dict": {}}, ()), outputs=Tree(None, ()), program=b"", tolerance={})
    with Golden.open(write_golden(tmp_path / "r.npz", standard=nothing)) as golden:
        assert golden.case("standard", program=True) == nothing


def test_an_unknown_case_is_answered_with_those_there_are(path: Path) -> None:
    with Golden.open(path) as golden, pytest.raises(GoldenError, match="has no case 'x'; it has 'raising', 'standard'"):
        golden.summary("x")


def test_blessings_are_kept_once(tmp_path: Path) -> None:
    cases = {name: case(blessing=blessing(reason)) for name, reason in zip("abc", ("one", "two", "one"), strict=True)}
    path = write_golden(tmp_path / "r.npz", **cases)
    with Archive(path) as file:
        assert [said["reason"] for said in file.meta["blessings"]] == ["one", "two"]
    with Golden.open(path) as golden:
        assert [golden.summary(name).blessing.reason for name in golden.cases] == ["one", "two", "one"]


# ------------------------------------------------------------------------------------------- the digest


def digest_of(recipe: str = "r", **cases: GoldenCase) -> str:
    return Draft.of(recipe, cases or {"standard": rich_case()}).digest


@pytest.mark.parametrize(
    "changes",
    [
        {"hash": "other"},
        {"contract": "jit"},
        {"inputs": arguments(x=np.zeros(3, np.float32))},
        {"outputs": single(2.0)},
        {"outputs": None, "error": raising_case().error},
        {"truth": None},
        {"program": b"other"},
        {"program": None},
        {"program_reason": "why not"},
        {"statics": {"n": 4}},
        {"extra": {}},
        {"tolerance": {".": {"rtol": 1e-5, "atol": 0.0, "source": "recipes.yaml:3:5"}}},
    ],
)
def test_the_digest_changes_with_the_content(changes: dict[str, Any]) -> None:
    assert digest_of(standard=dataclasses.replace(rich_case(), **changes)) != digest_of()


def test_the_digest_changes_with_names() -> None:
    assert digest_of("other") != digest_of()
    assert digest_of(other=rich_case()) != digest_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"blessing": blessing("another reason", environment={"jax": "0.12"})},
        {"tolerance": {".": {"rtol": 1e-6, "atol": 0.0, "source": "recipes.yaml:99:5"}}},
    ],
)
def test_the_digest_does_not_change_with_provenance(changes: dict[str, Any]) -> None:
    assert digest_of(standard=dataclasses.replace(rich_case(), **changes)) == digest_of()


def test_a_written_golden_has_the_digest_of_its_draft(path: Path) -> None:
    assert Golden.open(path).digest == digest_of(standard=rich_case(), raising=raising_case())


def test_keys_that_json_sorts_otherwise_do_not_change_the_digest(tmp_path: Path) -> None:
    odd = case(extra={"floor": {1: "a", 10: "b", 2: "c"}}, statics={"t": (1, 2)})
    path = write_golden(tmp_path / "r.npz", standard=odd)
    with Golden.open(path) as golden:
        assert golden.digest == digest_of(standard=odd)
        assert golden.digest == digest_of(standard=golden.case("standard"))


# ------------------------------------------------------------------------------------------- any content


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    structure = draw(STRUCTURES)
    count = count_leaves(structure)
    paths = draw(st.lists(NAMES, min_size=count, max_size=count, unique=True))
    return Tree(structure, tuple(Leaf.of(path, np.float32(number)) for number, path in enumerate(paths)))


@settings(max_examples=60, deadline=None)
@given(recipe=NAMES, cases=st.dictionaries(NAMES, st.tuples(trees(), trees()), max_size=2))
def test_hostile_names_and_any_trees_come_back(
    recipe: str, cases: dict[str, tuple[Tree, Tree]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = {name: case(inputs=inputs, outputs=outputs) for name, (inputs, outputs) in cases.items()}
    path = tmp_path_factory.getbasetemp() / "any.npz"
    Draft.of(recipe, wanted).write(path)
    with Golden.open(path) as golden:
        assert golden.recipe == recipe
        assert {name: golden.case(name) for name in golden.cases} == wanted
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name] is not None for name in file.files)


def test_names_of_five_thousand_characters(tmp_path: Path) -> None:
    long = "数/'\"\n" * 1000
    leaves = tuple(Leaf.of(f"['{long}{end}']", np.float32(number)) for number, end in enumerate("ab"))
    wanted = case(outputs=Tree({"dict": {long + "a": "*", long + "b": "*"}}, leaves))
    path = write_golden(tmp_path / "r.npz", **{long: wanted})
    with Golden.open(path) as golden:
        assert golden.case(long) == wanted


def test_two_leaves_of_one_path_are_refused(tmp_path: Path) -> None:
    twice = Tree({"list": ["*", "*"]}, (Leaf.of("[0]", 1.0), Leaf.of("[0]", 2.0)))
    with pytest.raises(GoldenError, match=r"case standard: two leaves have the path \[0\]") as caught:
        write_golden(tmp_path / "r.npz", standard=case(outputs=twice))
    assert "repr" in str(caught.value.hint)


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="what is known of the case cannot be written as JSON"):
        write_golden(tmp_path / "r.npz", standard=case(extra={"floor": float("nan")}))


# ------------------------------------------------------------------------------------------- damage


def of_case(**changes: Any) -> Any:
    return lambda meta, _: meta["cases"]["standard"].update(changes)


def of_meta(**changes: Any) -> Any:
    return lambda meta, _: meta.update(changes)


DAMAGE = {
    "recipe": (of_meta(recipe=None), "recipe is 'None'"),
    "replaced": (of_meta(replaced=3), "replaced is '3'"),
    "cases": (of_meta(cases=[]), "cases is '[]'"),
    "no blessings": (lambda meta, _: meta.pop("blessings"), "blessings is missing"),
    "blessing": (of_meta(blessings=[{}]), "reason is missing"),
    "case": (lambda meta, _: meta["cases"].update(standard=3), "blessing is missing from 3"),
    "index": (of_case(blessing=1), "blessing 1 is none of the 1 there are"),
    "negative index": (of_case(blessing=-1), "blessing -1 is none of the 1 there are"),
    "hash": (of_case(hash=None), "hash is 'None'"),
    "no inputs": (of_case(inputs=None), "inputs is 'None'"),
    "outputs": (of_case(outputs={"structure": "*", "leaves": []}), "0 leaves do not fit a structure of 1"),
    "structure": (of_case(outputs={"structure": {"set": []}, "leaves": []}), "is no node of a structure"),
    "pairs": (of_case(outputs={"structure": {"dict": [7]}, "leaves": []}), "metadata say what no golden says: "),
    "error": (of_case(error={"type": "E"}), "bases is missing"),
    "tolerance": (of_case(tolerance={".": {"rtol": "1"}}), "rtol is '1'"),
    "program": (of_case(program={"size": 1}), "sha256 is missing"),
    "extra entry": (
        lambda _, arrays: arrays.update({"standard/out/more": np.ones(1)}),
        "holds entries that its metadata does not list: 'standard/out/more'",
    ),
    "absent entry": (
        lambda _, arrays: arrays.pop("standard/truth/."),
        "lacks entries that its metadata lists: 'standard/truth/.'",
    ),
    "no schema": (lambda meta, _: meta.pop("schema"), "is no golden: its metadata have no schema number"),
    "schema": (of_meta(schema=True), "is no golden: its metadata have no schema number"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_metadata_that_no_golden_has(kind: str, path: Path) -> None:
    change, message = DAMAGE[kind]
    edit(path, change)
    with pytest.raises(GoldenError) as caught:
        Golden.open(path)
    assert str(caught.value).startswith(f"{path} ")
    assert message in str(caught.value)
    assert caught.value.hint == f"git checkout -- {path}, or delete it and jaxcheck bless r --reason '...'"


def test_a_structure_too_deep_to_be_followed(path: Path) -> None:
    deep: Any = None
    for _ in range(200):
        deep = {"list": [deep]}
    edit(path, of_case(outputs={"structure": deep, "leaves": []}))
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        with pytest.raises(GoldenError, match=r"is damaged: .*recursion"):
            Golden.open(path)
    finally:
        sys.setrecursionlimit(usual)


def test_a_newer_schema_asks_for_a_newer_jaxcheck(path: Path) -> None:
    edit(path, of_meta(schema=3))
    with pytest.raises(GoldenError, match=r"has schema 3, of a newer jaxcheck; jaxcheck .* reads schema 2") as caught:
        Golden.open(path)
    assert caught.value.hint == "python -m pip install -U jaxcheck"


def test_an_older_schema_asks_for_a_new_blessing(path: Path) -> None:
    edit(path, of_meta(schema=0))
    with pytest.raises(GoldenError, match=r"has schema 0, of an older jaxcheck; jaxcheck .* reads schema 2") as caught:
        Golden.open(path)
    assert caught.value.hint == "delete it and jaxcheck bless r --reason '...'"


def replaced(entry: str, array: Array) -> Any:
    return lambda _, arrays: arrays.update({entry: array})


def test_an_altered_array_is_refused_and_other_cases_are_still_read(path: Path) -> None:
    edit(path, replaced("standard/out/['w']", np.zeros(3, np.uint16)))
    with Golden.open(path) as golden:
        assert golden.case("raising") == raising_case()
        with pytest.raises(
            GoldenError, match=r"outputs of case 'standard': leaf \['w'\] does not match its digest"
        ) as caught:
            golden.case("standard")
        assert caught.value.hint == f"git checkout -- {path}, or delete it and jaxcheck bless r --reason '...'"
        with pytest.raises(GoldenError, match="does not match its digest"):
            golden.verify()


def test_an_altered_program_is_refused_when_it_is_asked_for(path: Path) -> None:
    edit(path, replaced("standard/program", np.zeros(9, np.uint8)))
    with Golden.open(path) as golden:
        assert golden.case("standard").program is None
        with pytest.raises(GoldenError, match="the program of case 'standard' does not match its digest"):
            golden.program("standard")


def test_a_dtype_that_this_ml_dtypes_does_not_have(path: Path) -> None:
    def rename(meta: dict[str, Any], _: Any) -> None:
        meta["cases"]["standard"]["outputs"]["leaves"][1]["dtype"] = "float5_e1m3"

    edit(path, rename)
    with (
        Golden.open(path) as golden,
        pytest.raises(GoldenError, match="has dtype float5_e1m3, which neither") as caught,
    ):
        golden.case("standard")
    assert caught.value.hint == "python -m pip install -U ml_dtypes"
