"""The page: elements that escape, pictures of what there is, and what a real browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from jaxcheck.report.html.checks import PICTURED
from jaxcheck.report.html.elements import MOST_CHARACTERS, element, join
from jaxcheck.report.html.page import page
from jaxcheck.report.html.pictures import latencies, pictures
from jaxcheck.results import LeafResult, Run
from jaxcheck.results.gate import Concern
from tests.report import sample
from tests.report.test_gate import check as gated
from tests.report.test_gate import gate
from tests.report.test_gate import leaf as gated_leaf

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
# What a person does, in a copy of the page without its policy; what comes of it is in the title.
DRIVER = """
<script>
const form = document.getElementById("filter"), told = [];
const shown = () => document.querySelectorAll(".check:not([hidden])").length;
const wait = () => new Promise((done) => setTimeout(done, 200));
const type = (name, value) => { form.elements[name].value = value; form.dispatchEvent(new Event("input")); };
const reset = async () => { form.reset(); await wait(); };
(async () => {
  const box = form.querySelector("input[value=pass]");
  box.click(); await wait(); told.push(shown());
  await reset(); told.push(shown());
  type("recipe", [...form.elements.recipe.options].find((one) => one.text === "lgamma").value);
  await wait(); told.push(shown()); await reset();
  type("tag", [...form.elements.tag.options].find((one) => one.text === "seed").value);
  await wait(); told.push(shown()); await reset();
  type("text", "SIGSEGV rank7"); await wait(); told.push(shown(), document.getElementById("count").textContent);
  document.getElementById("open").click(); told.push(document.querySelectorAll(".check[open]:not([hidden])").length);
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  told.push(before !== getComputedStyle(document.body).backgroundColor);
  document.title = "driven " + told.join("; ");
})();
</script>
"""


def test_elements_escape_all_that_they_are_given() -> None:
    made = element(
        "p",
        "a < b",
        [element("b", '"&'), None, ["x"]],
        title='" onload="x',
        data_n=1.5,
        data_zero=0,
        hidden=True,
        id=None,
    )
    assert made.text == (
        '<p title="&quot; onload=&quot;x" data-n="1.5" data-zero="0" hidden>a &lt; b<b>&quot;&amp;</b>x</p>'
    )
    assert join("<", element("br")).text == "&lt;<br>"
    assert element("pre", "one\n\ttwo\x1b\u202e").text == "<pre>one\n    two\\x1b\\u202e</pre>"


def test_what_is_long_is_cut() -> None:
    text = element("p", "x" * (MOST_CHARACTERS + 1000)).text
    assert "... (1,000 more characters)" in text
    assert len(text) < MOST_CHARACTERS + 100


def test_the_policy_forbids_the_network_and_names_both_files() -> None:
    text = page(sample.every_status())
    policy = POLICY.search(text)
    assert policy
    said = dict(part.split(" ", 1) for part in policy[1].replace("&#x27;", "'").split("; "))
    assert said["default-src"] == said["base-uri"] == said["form-action"] == "'none'"
    for tag in ("style", "script"):
        inlined = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inlined
        digest = base64.b64encode(hashlib.sha256(inlined[1].encode()).digest()).decode()
        assert said[f"{tag}-src"] == f"'sha256-{digest}'"
    assert not re.search(r"https?:|@import|url\(", text)


def drawn(leaf: LeafResult) -> dict[str, ET.Element]:
    """{caption: picture}; each is well-formed by itself and says in words what it shows."""
    found = {}
    for one in pictures(leaf):
        figure = ET.fromstring(one.text)
        caption = figure.findtext("figcaption")
        assert caption
        found[caption] = figure
        image = figure.find("svg")
        assert image is not None
        assert image.attrib["aria-label"].startswith(f"{caption}: ")
        numbers = re.findall(r'\b(?:x|y|width|height)="(-?[\d.]+)"', one.text)
        assert all(-1 <= float(number) <= 330 for number in numbers), numbers
        assert "nan" not in one.text.lower().replace("nan/inf", "")
    return found


def test_a_matrix_has_four_pictures() -> None:
    assert list(drawn(sample.moved())) == [
        "elements by error, in tolerances",
        "error in tolerances, over rows and columns",
        "golden and actual, element by element",
        "error to the truth, relative",
    ]


def test_a_vector_has_its_error_over_position() -> None:
    figure = drawn(sample.moved(shape=(40,)))["error in tolerances, over position"]
    assert {path.attrib["class"] for path in figure.iter("path")} == {"within", "beyond", "limit", "axis"}


def test_there_is_no_picture_of_nothing() -> None:
    assert drawn(sample.leaf()) == {}
    assert drawn(sample.beyond()) == {}


@pytest.mark.parametrize("value", [0.0, 1.7e308, -1.7e308, 5e-324])
def test_extreme_numbers_have_pictures(value: float) -> None:
    for measure in ("violation ratio", "difference"):
        for rows in (((0.0, abs(value), 1.0),), ((abs(value), 0.0), (1.0, 2.0))):
            numbers = {"measure": measure, "by_position": rows, "golden": (value, -value), "actual": (-value, value)}
            errors = {"golden": abs(value), "actual": abs(value)}
            assert len(drawn(sample.moved(sample=numbers, error_to_truth=errors))) == 4


def test_latencies_share_a_scale() -> None:
    figure = ET.fromstring(latencies([("before", sample.latency()), ("after", sample.latency(max=8e-5))]).text)
    assert [text.text for text in figure.iter("text")][-2:] == ["10 us", "80 us"]
    same = sample.latency(min=1.0, p50=1.0, p90=1.0, p99=1.0, max=1.0)
    assert "nan" not in latencies([("", same)]).text


def test_what_went_wrong_comes_first_and_is_open() -> None:
    text = page(sample.every_status())
    order = re.findall(r'<section class="recipe"><h2>([^<]*)', text)
    assert order[:2] == ["mlp", "newton-sqrt"], "both failed, and the first one moved further"
    assert order[-4:] == ["new", "old one", "gpu-only", "lgamma"]
    opened = re.findall(r'class="check"( open)? data-status="(\w+)"', text)
    assert {status for is_open, status in opened if is_open} == {"fail", "error", "crash", "timeout"}
    assert {status for is_open, status in opened if not is_open} == {"pass", "missing", "stale", "skip"}


def test_a_gate_has_before_after_truth_cause_and_since() -> None:
    concern = Concern(kind="regressed", verdict="block", message="it went away from the truth", checks=("r::c[jit]",))
    text = page(gate(gated("jit", "regressed", gated_leaf("regressed")), verdict="block", concerns=(concern,)))
    columns = re.findall(r'<th scope="col">([^<]*)', text)
    assert columns[:5] == ["leaf", "moved", "before", "after", "truth"]
    assert {"cause", "since"} <= set(columns)
    for told in ("it went away from the truth", "the old program gives the old bits", "jax 1 → 2 (asked for)", "2.25"):
        assert told in text


def test_a_move_in_several_modes_is_counted_once_as_on_the_terminal() -> None:
    both = [gated(mode, "drifted", gated_leaf("drifted")) for mode in ("eager", "jit")]
    assert "1 leaf" in page(gate(*both))
    assert "2 leaves" not in page(gate(*both))


def many() -> Run:
    """A thousand checks, all of which moved."""
    leaf = sample.moved(shape=(20, 20))
    return sample.run_of(
        *(sample.check(f"r{n // 4}", f"c{n}", "jit", "fail", leaves=(leaf,), reason="moved") for n in range(1000))
    )


def test_a_thousand_checks_that_moved_are_a_page_of_a_few_megabytes() -> None:
    started = time.monotonic()
    text = page(many())
    assert time.monotonic() - started < 20
    assert text.count("<details") == 1000
    assert text.count("golden and actual, element by element</figcaption>") == PICTURED
    assert len(text) < 5_000_000


def browse(path: Path, profile: Path) -> tuple[str, str]:
    """(the page as it is after its script, what the browser's console says)."""
    if CHROMIUM is None:
        absent = pytest.fail if os.environ.get("CI") else pytest.skip
        absent("needs chromium or google-chrome (Debian's package chromium)")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")
    done = subprocess.run(
        [
            CHROMIUM,
            *options,
            "--v=0",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=8000",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "gate", "many"])
def test_a_browser_opens_it_without_a_word(kind: str, tmp_path: Path) -> None:
    """Hostile texts stay texts: nothing of theirs runs, and nothing is on the console."""
    run = {"run": sample.hostile, "gate": sample.hostile_gate, "many": many}[kind]()
    path = tmp_path / "report.html"
    path.write_text(page(run), encoding="utf-8")
    seen, console = browse(path, tmp_path / "profile")
    assert console == ""
    assert re.search(r'<html[^>]* data-script="ran"', seen)
    assert "data-evil" not in seen.split("<body", 1)[0]
    assert f">{len(run.results):,} checks</p>" in seen


@pytest.mark.slow
def test_filters_and_buttons_do_what_they_say(tmp_path: Path) -> None:
    results = sample.every_status().results
    tagged = [one.model_copy(update={"tags": ("seed", "other")}) for one in results[:2]]
    text = POLICY.sub("", page(sample.run_of(*tagged, *results[2:])))
    path = tmp_path / "driven.html"
    path.write_text(text.replace("</body>", DRIVER + "</body>"), encoding="utf-8")
    seen, console = browse(path, tmp_path / "profile")
    assert console == ""
    title = re.search(r"<title>([^<]*)", seen)
    assert title
    assert title[1] == "driven 9; 12; 2; 2; 1; 1 of 12 checks; 1; true"
