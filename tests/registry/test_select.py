"""Names, globs, tags, keywords, modes and the last failures: which checks are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcheck.errors import UsageError
from jaxcheck.registry.load import load_registry
from jaxcheck.registry.model import Registry
from jaxcheck.registry.select import Selection, check_id, selected_recipes, unmatched_cases, wants

REGISTRY = """\
version: 1
defaults: {tolerance: {rtol: 0, atol: 0}}
recipes:
  newton: {kernel: "k:f", tags: [seed, loop], cases: {standard: {}, zeros: {}}}
  newton-batch: {kernel: "k:f", tags: [seed], modes: [eager], cases: {standard: {}, Single: {}}}
  made: {kernel: "k:f", tags: [loop], modes: [eager, jit, disable_jit], inputs: "k:g", cases: {listed: {}}}
  ньютон: {kernel: "k:f", cases: {нули: {}}}
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    path = tmp_path_factory.mktemp("select") / "recipes.yaml"
    path.write_text(REGISTRY)
    return load_registry(path)


MADE_CASES = ("listed", "made-up")


def checks(registry: Registry, selection: Selection) -> list[str]:
    """The ids that a run would check, with the cases that the factory would make."""
    return [
        check_id(recipe.name, case, mode)
        for recipe in selected_recipes(registry, selection)
        for case in (MADE_CASES if recipe.inputs else recipe.cases)
        for mode in recipe.modes
        if wants(selection, recipe, case, mode)
    ]


NEWTON = [f"newton::{case}[{mode}]" for case in ("standard", "zeros") for mode in ("eager", "jit")]
BATCH = ["newton-batch::standard[eager]", "newton-batch::Single[eager]"]
MADE = [f"made::{case}[{mode}]" for case in MADE_CASES for mode in ("eager", "jit", "disable_jit")]
CYRILLIC = ["ньютон::нули[eager]", "ньютон::нули[jit]"]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), NEWTON + BATCH + MADE + CYRILLIC),
        (Selection(names=("newton",)), NEWTON),
        (Selection(names=("newton*",)), NEWTON + BATCH),
        (Selection(names=("newton-?atch",)), BATCH),
        (Selection(names=("*::standard",)), [*NEWTON[:2], BATCH[0]]),
        (Selection(names=("newton::zeros",)), NEWTON[2:]),
        (Selection(names=("newton::zeros[jit]",)), [NEWTON[3]]),
        (Selection(names=("newton::*[*t]",)), [NEWTON[1], NEWTON[3]]),
        (Selection(names=("newton::zeros", "newton-batch")), NEWTON[2:] + BATCH),
        (Selection(names=("made::made-up",)), MADE[3:]),
        (Selection(names=("ньютон::нули[jit]",)), [CYRILLIC[1]]),
        (Selection(tags=("seed",)), NEWTON + BATCH),
        (Selection(tags=("seed", "loop")), NEWTON + BATCH + MADE),
        (Selection(names=("newton*",), tags=("loop",)), NEWTON),
        (Selection(modes=("disable_jit",)), [MADE[2], MADE[5]]),
        (Selection(modes=("jit", "disable_jit"), names=("newton",)), [NEWTON[1], NEWTON[3]]),
        (Selection(keyword="zeros"), NEWTON[2:]),
        (Selection(keyword="SINGLE or НУЛИ"), [BATCH[1], *CYRILLIC]),
        (Selection(keyword="newton and not batch and jit"), [NEWTON[1], NEWTON[3]]),
        (Selection(keyword="not (newton or made or ньютон)"), []),
        (Selection(keyword="not not zeros"), NEWTON[2:]),
        (Selection(keyword="zeros or single and batch"), [*NEWTON[2:], BATCH[1]]),
        (Selection(keyword="(zeros or single) and batch"), [BATCH[1]]),
        (Selection(keyword="::zeros[jit]"), [NEWTON[3]]),
        (Selection(keyword="  "), NEWTON + BATCH + MADE + CYRILLIC),
        (Selection(last_failed_ids=(NEWTON[0], MADE[3], "gone::a[jit]")), [NEWTON[0], MADE[3]]),
        (Selection(last_failed_ids=("made::*[jit]", "newton::*[eager]")), [NEWTON[0], NEWTON[2], MADE[1], MADE[4]]),
        (Selection(last_failed_ids=frozenset()), []),
        (Selection(names=("newton::standard[jit]",), modes=("eager",)), []),
        (Selection(names=("made",), last_failed_ids=(NEWTON[0],)), []),
        (Selection(names=("made",), tags=("seed",)), []),
    ],
)
def test_a_selection_means_these_checks(registry: Registry, selection: Selection, expected: list[str]) -> None:
    assert checks(registry, selection) == expected


@pytest.mark.parametrize(
    ("selection", "message", "hint"),
    [
        (Selection(names=("newtn",)), "no recipe matches 'newtn'", "did you mean newton?"),
        (Selection(names=("x*",)), "no recipe matches 'x*'", "valid: newton, newton-batch, made, ньютон"),
        (Selection(names=("newton", "x")), "no recipe matches 'x'", "valid: newton, newton-batch, made, ньютон"),
        (
            Selection(names=("newton::zero",)),
            "'newton::zero': no case matches 'zero'",
            "did you mean zeros?",
        ),
        (Selection(names=("newton::zeros[jot]",)), "'newton::zeros[jot]': no mode matches 'jot'", "did you mean jit?"),
        (
            Selection(names=("newton-batch::*[jit]",)),
            "'newton-batch::*[jit]': no mode matches 'jit'",
            "valid: eager",
        ),
        (
            Selection(names=("made::any[vmap]",)),
            "'made::any[vmap]': no mode matches 'vmap'",
            "valid: eager, jit, disable_jit",
        ),
        (Selection(names=("newton[jit]",)), "'newton[jit]' is not the name of a recipe or a check", "write RECIPE, "),
        (Selection(names=("",)), "'' is not the name of a recipe or a check", "write RECIPE, "),
        (Selection(names=("newton::zeros[jit",)), "'newton::zeros[jit' is not the name", "write RECIPE, "),
        (Selection(tags=("sed",)), "unknown tag 'sed'", "did you mean seed?"),
        (Selection(modes=("pmap",)), "unknown mode 'pmap'", "did you mean vmap?"),
        (Selection(keyword="a and"), "-k 'a and', column 6: expected a word, not, or (, found the end", None),
        (Selection(keyword="or a"), "-k 'or a', column 1: expected a word, not, or (, found or", None),
        (Selection(keyword="a b"), "-k 'a b', column 3: expected and, or, or the end, found b", None),
        (Selection(keyword="(a or b"), "-k '(a or b', column 8: expected ), found the end", None),
        (Selection(keyword="a)"), "-k 'a)', column 2: expected and, or, or the end, found )", None),
        (Selection(keyword="()"), "-k '()', column 2: expected a word, not, or (, found )", None),
        (Selection(keyword="(" * 5000), "-k: more than 100 words and parentheses", "name checks instead"),
        (Selection(keyword="not " * 5000), "-k: more than 100 words and parentheses", "name checks instead"),
    ],
    ids=repr,
)
def test_what_cannot_be_meant_is_wrong_usage(
    registry: Registry, selection: Selection, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        selected_recipes(registry, selection)

    assert str(caught.value).startswith(message)
    assert (caught.value.hint or "").startswith(hint or "")


def test_an_empty_registry_says_so() -> None:
    empty = Registry("recipes.yaml", ".", "", {})
    with pytest.raises(UsageError) as name:
        selected_recipes(empty, Selection(names=("x",)))
    with pytest.raises(UsageError) as tag:
        selected_recipes(empty, Selection(tags=("x",)))

    assert (name.value.hint, tag.value.hint) == ("the registry has no recipes", "no recipe has a tag")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("made::made-up",), []),
        (("made::made*",), []),
        (("made::other",), ["made::other"]),
        (("made::x*[jit]", "made", "newton::zeros"), ["made::x*[jit]"]),
        (("*::other",), []),
        ((), []),
    ],
)
def test_patterns_that_a_factory_does_not_fulfil_are_told_once_its_cases_are_known(
    registry: Registry, names: tuple[str, ...], expected: list[str]
) -> None:
    assert unmatched_cases(Selection(names=names), registry.recipes["made"], MADE_CASES) == expected


@given(text=st.text(alphabet="ab ()ornt*?[]:", max_size=20))
def test_any_text_is_a_selection_or_wrong_usage(registry: Registry, text: str) -> None:
    for selection in (Selection(names=(text,)), Selection(keyword=text), Selection(tags=(text,))):
        refused = ""
        try:
            found = checks(registry, selection)
        except UsageError as error:
            found, refused = [], str(error)
        assert set(found) <= set(NEWTON + BATCH + MADE + CYRILLIC)
        assert refused.isprintable()


@given(st.lists(st.sampled_from(["newton", "zeros", "jit", "not", "and", "or", "(", ")"]), max_size=9))
def test_a_keyword_expression_means_what_python_makes_of_it(registry: Registry, tokens: list[str]) -> None:
    text = " ".join(tokens)
    identity = check_id("newton", "zeros", "eager")
    words = {word: str(word in identity) for word in ("newton", "zeros", "jit")}
    try:
        expected = bool(eval(" ".join(words.get(token, token) for token in tokens)))  # noqa: S307 - Python itself is the reference
    except (SyntaxError, TypeError):
        expected = None
    if expected is None or "()" in "".join(tokens):
        return
    assert wants(Selection(keyword=text), registry.recipes["newton"], "zeros", "eager") == expected
