"""Whatever is in a file, reading it ends in a registry or in faults with places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jaxcheck.errors import Fault, RegistryError
from jaxcheck.registry import yaml_source
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.names import check_names
from jaxcheck.registry.schema import CaseBlock, DefaultsBlock, OutputBlock, RaisesBlock, RecipeBlock, WhenBlock

EXAMPLES = [path.read_text("utf-8") for path in sorted((Path(__file__).parent / "examples").glob("*/*.yaml"))]
LOADERS = [loader for loader in ("CSafeLoader", "SafeLoader") if hasattr(yaml, loader)]
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


LINE_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # of YAML 1.1, which PyYAML parses


def faults_of(path: Path) -> list[Fault]:
    """What loading finds, and where it finds nothing, what looking up the names does."""
    try:
        return check_names(load_registry(path))
    except RegistryError as error:
        return list(error.faults)


def assert_read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    lines = len(LINE_BREAKS.findall(content.decode("utf-8", "replace"))) + 2  # to libyaml, an end is a line break
    for fault in faults_of(path):
        assert 1 <= fault.line <= lines
        assert fault.column >= 1
        assert fault.message.isprintable()
        assert str(fault).encode()


@pytest.mark.parametrize("loader", LOADERS)
@ONE_FOLDER
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(content=b"\xff")
@example(content=b"%YAML 9.9\n---\n")
@example(content=b"a: \x00")
@example(content=b"? ? ? :")
@example(content=b"\xef\xbb\xbf")
@example(content=b"!<tag:yaml.org,2002:int> a: 1")
def test_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str, content: bytes) -> None:
    monkeypatch.setattr(yaml_source, "LOADER", getattr(yaml, loader))
    assert_read(tmp_path / "recipes.yaml", content)


@pytest.mark.parametrize("loader", LOADERS)
@ONE_FOLDER
@given(text=st.text(alphabet="ab01.~-?:,[]{}&*!|>'\"%@`#\n\t \\<$éx", max_size=60))
def test_any_text_of_yamls_own_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str, text: str) -> None:
    monkeypatch.setattr(yaml_source, "LOADER", getattr(yaml, loader))
    assert_read(tmp_path / "recipes.yaml", f"version: 1\nrecipes:\n  a: {text}".encode())


@ONE_FOLDER
@given(data=st.data())
def test_any_damage_to_an_example(tmp_path: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    put = data.draw(st.text(alphabet="ab01.~-:,[]{}&*'\"\n $", max_size=5))
    assert_read(tmp_path / "recipes.yaml", (text[:start] + put + text[end:]).encode())


KEYS = st.sampled_from(
    sorted(
        {"version", "include", "defaults", "recipes", "rtol", "atol", "float32", "s", "x", "$zeros", "[0]", "*", "gpu"}
        | {key for block in (DefaultsBlock, RecipeBlock, CaseBlock) for key in block.model_fields}
        | {key for block in (OutputBlock, RaisesBlock, WhenBlock) for key in block.model_fields}
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["k:f", "eager", "jit", "allow", "exact", ">=1", "float32", "cpu"])
    | st.text(max_size=4)
)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@ONE_FOLDER
@given(head=st.dictionaries(KEYS, TREES, max_size=3), recipe=TREES, case=TREES)
def test_any_tree_of_known_words(tmp_path: Path, head: dict[str, Any], recipe: Any, case: Any) -> None:
    blocks = {"r": {"kernel": "k:f", "cases": {"s": case}}, "q": recipe}
    if isinstance(recipe, dict):
        blocks["p"] = {"kernel": "k:f", "cases": {"s": {"args": recipe}}, **recipe}
    content = yaml.dump({"version": 1, "recipes": blocks, **head}, allow_unicode=True, Dumper=yaml.SafeDumper)
    assert_read(tmp_path / "recipes.yaml", content.encode("utf-8", "surrogatepass"))
