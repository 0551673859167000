import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.goldens.names import ENTRY_BYTES, STEM_BYTES, case_entry, file_stem, leaf_entry

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=300)
TRICKY_TEXT = st.text(st.sampled_from("a./\\%~@\0\n ᚠé\ud800E"), max_size=300)
NAMES = ANY_TEXT | TRICKY_TEXT


@pytest.mark.parametrize(
    ("recipe", "stem"),
    [
        ("newton-sqrt", "newton-sqrt"),
        ("layer_norm.v2", "layer_norm.v2"),
        ("größe-数", "größe-数"),
        (".hidden", "%2Ehidden"),
        ("..", "%2E."),
        ("", "%"),
        ("a/b", "a%2Fb"),
        ("a@gpu", "a%40gpu"),
        ("50%", "50%25"),
        ("a\0b c", "a%00b%20c"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_file_stem(recipe: str, stem: str) -> None:
    assert file_stem(recipe) == stem


@given(NAMES)
def test_a_file_stem_fits_every_file_system(recipe: str) -> None:
    stem = file_stem(recipe)
    assert 0 < len(stem.encode()) <= STEM_BYTES
    assert not re.search(r"[/@\0\\\n ]", stem)
    assert not stem.startswith(".")


@given(NAMES, NAMES)
def test_two_recipes_never_share_a_file(first: str, second: str) -> None:
    assert (file_stem(first) == file_stem(second)) == (first == second)


def test_long_names_are_cut_at_a_character_and_told_apart_by_a_hash() -> None:
    long, longer = "数" * 5000, "数" * 5001
    stem = file_stem(long)
    assert re.fullmatch("数+~[0-9a-f]{32}", stem)
    assert STEM_BYTES - 3 < len(stem.encode()) <= STEM_BYTES
    assert stem != file_stem(longer)
    assert file_stem(stem) != stem, "no recipe may be named as another one's cut name is spelled"


def test_entries_read_as_the_key_paths_do() -> None:
    assert leaf_entry("standard", "out", "[0]['w'].mean") == "standard/out/[0]['w'].mean"
    assert leaf_entry("standard", "out", ".") == "standard/out/."
    assert case_entry("a case: größe", "program") == "a case: größe/program"


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_leaves_never_share_an_entry(case: str, path: str, other_case: str, other_path: str) -> None:
    same = (case, path) == (other_case, other_path)
    assert (leaf_entry(case, "in", path) == leaf_entry(other_case, "in", other_path)) == same


@given(NAMES, NAMES)
def test_an_entry_stays_inside_of_its_archive(case: str, path: str) -> None:
    parts = (leaf_entry(case, "in", path) + ".npy").split("/")
    assert len(parts) == 3
    assert parts[0] not in ("", ".", "..")
    assert len(parts[0].encode()) <= ENTRY_BYTES
    assert not re.search(r"[\\\x00-\x1f\x7f]", "".join(parts))
