"""Whatever a registry, a kernel or a path says: in no format is it anything but text."""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from jaxcheck.report.formats import FORMATS, named
from jaxcheck.report.markdown import FENCE
from jaxcheck.results import Run
from jaxcheck.results.gate import Gate
from tests.report import sample

REPORTS: dict[str, Run] = {"run": sample.hostile(), "gate": sample.hostile_gate()}


def is_json(text: str, run: Run) -> None:
    assert type(run).from_json(text) == run
    assert json.loads(text)["results"][0]["id"] == sample.HOSTILE[0]


def is_xml(text: str, run: Run) -> None:
    cases = ET.fromstring(text).findall("testsuite/testcase")
    assert len(cases) == len(run.results) + 1
    tags = {"testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped"}
    assert {element.tag for element in ET.fromstring(text).iter()} <= tags | {"system-out", "system-err"}


def is_console(text: str, run: Run) -> None:
    assert "[bold red]rich[/bold red]" in text
    assert max(map(len, text.splitlines())) < 2_000  # one command may be longer than the terminal


def is_markdown(text: str, run: Run) -> None:
    """Outside of code, what could be markup is escaped; and there no line begins as one of the texts would have it."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith(FENCE):
            inside = not inside
        elif not inside:
            kept.append(re.sub(r"`[^`]*`", "", line))
    assert not inside
    rest = re.sub(r"\\.", "", "\n".join(kept))
    assert "<" not in rest
    assert "](" not in rest
    assert not re.search(r"^(::|\| a)", rest, re.MULTILINE)
    columns = {len(re.findall(r"\|", row)) for row in rest.splitlines() if row.startswith("|")}
    assert columns <= {3, 4, 9}  # as many as the tables have


def is_github(text: str, run: Run) -> None:
    command = re.compile(r"::(error|warning|notice) (file=[^:,]*,line=\d+,)?title=[^:,]*::[^\n]*")
    assert all(command.fullmatch(line) for line in text.splitlines())
    assert max(Counter(line.split(" ")[0] for line in text.splitlines()).values()) <= 10


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: set[str | None] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in ("href", "src")}


def is_html(text: str, run: Run) -> None:
    page = Page()
    page.feed(text)
    once = ("html", "head", "title", "style", "script", "body", "header", "main", "footer", "form")
    assert {tag: page.tags[tag] for tag in once} == dict.fromkeys(once, 1)
    assert not {"img", "iframe", "link", "object", "template", "textarea", "base"} & set(page.tags)
    assert not {name for name in page.attributes if name.startswith("on")} | {"style", "src"} & page.attributes
    assert page.links == {"#checks"}
    assert page.tags["details"] == len(run.results)


FORMS: dict[str, Callable[[str, Run], None]] = {
    "console": is_console,
    "json": is_json,
    "markdown": is_markdown,
    "junit": is_xml,
    "html": is_html,
    "github": is_github,
}


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_texts_are_inert(name: str, kind: str) -> None:
    run = REPORTS[kind]
    text = named(run, name)
    assert text.encode()
    seen = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")} - {"\n"}
    if name == "json":  # it holds all of it: as escapes, or, where these are characters like others, as they are
        seen = {c for c in seen if ord(c) < 0x20}
    assert seen == set()
    FORMS[name](text, run)
    assert isinstance(run, Gate) == (kind == "gate")
