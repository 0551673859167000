"""Every code block of the docs is run or at least read by what it is written for, and every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator

from jaxcheck.cli.main import app
from jaxcheck.registry.json_schema import json_schema
from jaxcheck.registry.yaml_source import source_of
from tests.project.documents import DOCUMENTS, ROOT, Block, blocks, commands

BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]
# Blocks that nothing runs: of a language, in a document, and why.
NOT_RUN = {
    ("text", "README.md"): "what the example above prints: test_readme.py compares it",
    ("text", "docs/gate.md"): "reports of an upgrade, which takes a network and minutes",
    ("text", "docs/diagnose.md"): "reports of faults that the reader does not have",
    ("text", "docs/goldens.md"): "a line of .gitattributes: jaxcheck init writes it",
    ("", "docs/gate.md"): "an error of the resolver, which needs a network",
    ("python", "docs/diagnose.md"): "shows where labels go; model() is the reader's",
    ("console", "docs/gate.md"): "the environments of somebody's machine",
}
WALKED = ("docs/tutorial.md", "docs/recipes.md", "docs/python.md")  # test_walks.py runs them
GROUP: Any = typer.main.get_command(app)


def of(*languages: str) -> Any:
    chosen = [block for block in BLOCKS if block.language in languages]
    return pytest.mark.parametrize("block", chosen, ids=[block.name for block in chosen])


def test_every_block_is_of_a_language_that_is_checked_or_has_a_reason() -> None:
    checked = ("sh", "console", "yaml")
    loose = {(block.language, block.document) for block in BLOCKS if block.language not in checked}
    walked = {(language, document) for language, document in loose if language == "python" and document in WALKED}
    assert loose - walked == set(NOT_RUN) - {("console", "docs/gate.md")}
    consoles = {block.document for block in BLOCKS if block.language == "console"}
    assert consoles - set(WALKED) == {document for language, document in NOT_RUN if language == "console"}


@of("python")
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.name, "exec")


@of("sh", "console")
def test_commands_are_ones_that_jaxcheck_takes(block: Block) -> None:
    typed = [line for line in commands(block) if re.match(r"(scripts/)?jaxcheck\b", line)]
    for line in typed:
        takes(line)


def takes(line: str) -> None:
    """Fails where the real program would say that it is used wrongly. Nothing is run."""
    _, verb, *arguments = shlex.split(re.split(r"\|\||;|>|<", line)[0], comments=True)
    try:
        GROUP.commands[verb].make_context(verb, arguments)
    except Exception as error:
        raise AssertionError(f"{line}: {error}") from error


def test_a_command_that_jaxcheck_does_not_take_is_found() -> None:
    for line in ("jaxcheck run --no-such-option", "jaxcheck bisect --good 0.11.2", "jaxcheck nothing"):
        with pytest.raises((AssertionError, KeyError)):
            takes(line)


@of("yaml")
def test_yaml_is_what_it_is_for(block: Block) -> None:
    if all(line.startswith("#") for line in block.text.splitlines()):
        return
    source = source_of(block.text, block.name)
    assert source.faults == ()
    data = source.data
    if isinstance(data, list) or "jobs" in data:
        is_a_workflow(data)
    else:
        is_a_registry({"recipes": {"part": data}} if "outputs" in data else data)


def is_a_registry(data: dict[str, Any]) -> None:
    """A part of a recipe may be shown without its kernel."""
    data["recipes"] = {name: {"kernel": "a:b", **recipe} for name, recipe in data.get("recipes", {}).items()}
    errors = [error.message for error in Draft202012Validator(json_schema()).iter_errors(data)]
    assert errors == []


def is_a_workflow(data: Any) -> None:
    """Jobs of steps that use an action or run a command; the commands of jaxcheck are ones that it takes."""
    jobs = [{"steps": data, "runs-on": ""}] if isinstance(data, list) else list(data["jobs"].values())
    for job in jobs:
        assert "runs-on" in job
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            for line in re.sub(r"\$\{\{.*?\}\}", "1", step.get("run", "")).splitlines():
                if line.startswith("jaxcheck"):
                    takes(line)


# Links


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_links_lead_somewhere(path: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if ":" not in name and (not target.exists() or (anchor and anchor not in anchors(target))):
            lost.append(link)
    assert lost == []


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs/README.md").read_text()
    named = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", index)}
    assert {path for path in DOCUMENTS if path.parent != ROOT} - named == {ROOT / "docs/README.md"}
