"""Files into a registry: includes, defaults, places, and where the registry is found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jaxcheck.compare.leaves import COMPARATORS
from jaxcheck.errors import Exit, RegistryError, UsageError
from jaxcheck.registry import model
from jaxcheck.registry.load import MAX_FAULTS, find_registry, load_registry
from jaxcheck.registry.model import Raises, Recipe, Registry, When

HEAD = "version: 1\ndefaults: {tolerance: {rtol: 0, atol: 0}}\n"
EXAMPLES = Path(__file__).parent / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def recipe(name: str) -> str:
    return f"  {name}: {{kernel: 'k:f', cases: {{a: {{}}}}}}\n"


def load(path: str = "recipes.yaml") -> Registry:
    return load_registry(Path(path))


def faults(path: str = "recipes.yaml") -> list[str]:
    with pytest.raises(RegistryError) as caught:
        load(path)
    return [str(fault) for fault in caught.value.faults]


def everything() -> Recipe:
    return load(str(EXAMPLES / "good" / "everything.yaml")).recipes["newton-sqrt"]


def test_every_key_arrives_in_the_recipe() -> None:
    newton = everything()

    assert newton.kernel == "kernels.while_loop:newton_sqrt"
    assert newton.description == "sqrt(2) by Newton steps,\nbounded by max_iterations\n"
    assert newton.tags == ("seed", "control-flow")
    assert newton.modes == ("eager", "jit", "disable_jit")
    assert newton.static == ("max_iterations",)
    assert newton.golden == "jit"
    assert newton.reference == "kernels.while_loop:newton_sqrt_reference"
    assert newton.properties == ("kernels.while_loop:stays_within_limit", "kernels.properties:all_finite")
    assert newton.devices == 8
    assert newton.processes == 1
    assert newton.timeout == 0.5
    assert newton.memory == 1_500_000_000
    assert newton.nonfinite
    assert newton.outputs["[3]*"].comparator == "exact"
    assert [newton.outputs[path].nonfinite for path in ("[1]", "[2]['w']", "[3]*")] == [None, True, False]


def test_mappings_of_defaults_are_merged_key_by_key() -> None:
    newton = everything()

    assert newton.config == {"enable_x64": True, "default_matmul_precision": "highest", "debug_nans": None}
    assert newton.env == {"XLA_FLAGS": "--xla_cpu_enable_fast_math=false", "OMP_NUM_THREADS": "1"}
    assert newton.resources == {"CPU": 4, "accelerator_type:A100": 0.001, "GPU": 0.5}
    assert newton.when == When({"jax": "<2", "optax": ">=0.2.6", "jaxlib": "<1"}, ">=3.11", ("cpu", "gpu"))


def test_defaults_hold_where_the_recipe_says_nothing() -> None:
    cumulative = load(str(EXAMPLES / "good" / "everything.yaml")).recipes["cumulative"]

    assert (cumulative.modes, cumulative.golden, cumulative.timeout) == (("eager", "jit"), "eager", 30)
    assert (cumulative.devices, cumulative.processes, cumulative.nonfinite) == (2, 2, False)
    assert cumulative.memory == cumulative.case("made").memory == 4 << 30
    assert cumulative.when == When({"jax": ">=0.10"}, None, ("cpu",))


def test_cases_have_their_options_or_the_recipes() -> None:
    newton = everything()
    dangerous, traced = newton.cases["dangerous"], newton.cases["traced"]

    assert (dangerous.nonfinite, dangerous.timeout, dangerous.memory) == (False, 5, 1 << 20)
    assert (traced.nonfinite, traced.timeout, traced.memory) == (True, 0.5, 1_500_000_000)
    assert traced.raises == Raises(("TypeError", "jax.errors.ConcretizationTypeError"), None, ("disable_jit",))
    assert newton.cases["wrong-shape"].raises == Raises(("TypeError",), "shape", None)
    assert newton.cases["standard"].args == {"init": 1.0, "max_iterations": 20}


def test_exceptions_may_be_bare_names_and_a_factorys_arguments_are_unknown() -> None:
    recipes = load(str(EXAMPLES / "good" / "everything.yaml")).recipes

    assert recipes["cumulative"].cases["zero"].raises == Raises(("ValueError",))
    assert recipes["cumulative"].cases["one"].raises == Raises(("ValueError", "jax.errors.JaxRuntimeError"))
    assert recipes["cumulative"].cases["zero"].args is None
    assert recipes["no-arguments"].cases["standard"].args == {}


def test_what_nobody_says_has_the_models_default(folder: Path) -> None:
    write("recipes.yaml", HEAD + "recipes:\n" + recipe("a"))
    a = load().recipes["a"]

    assert (a.modes, a.golden, a.timeout) == (("eager", "jit"), "eager", 300)
    assert (a.devices, a.processes, a.nonfinite, a.when) == (None, 1, False, When())


def test_places_are_known_for_later_faults(folder: Path) -> None:
    write(
        "recipes.yaml",
        HEAD + "recipes:\n  a:\n    kernel: k:f\n    tags: [p, q]\n    when: {jax: '>=0'}\n"
        "    cases:\n      s: {args: {x: 1, y: {w: [1]}}, raises: E}\n",
    )
    a = load().recipes["a"]

    assert str(a.position) == "recipes.yaml:4:3"
    assert str(a.locate("kernel")) == "recipes.yaml:5:13"
    assert str(a.locate("tags")) == "recipes.yaml:6:5"
    assert str(a.locate("tags", "1")) == "recipes.yaml:6:15"
    assert str(a.locate("tags", "7")) == "recipes.yaml:6:5"
    assert str(a.locate("when", "jax")) == "recipes.yaml:7:17"
    assert str(a.locate("cases", "s")) == str(a.cases["s"].position) == "recipes.yaml:9:7"
    assert str(a.locate("cases", "s", "args", "x")) == "recipes.yaml:9:18"
    assert str(a.locate("cases", "s", "raises")) == "recipes.yaml:9:46"
    assert str(a.locate("cases", "none", "args")) == "recipes.yaml:8:5"
    assert str(a.locate("tolerance")) == "recipes.yaml:4:3"
    assert () not in a.where
    assert len(a.where) == len(list(a.where)) == 14


def test_files_are_named_as_the_user_would_type_them(folder: Path) -> None:
    write("inner/recipes.yaml", "version: 2")
    os.chdir("inner")

    assert faults("recipes.yaml")[0].startswith("recipes.yaml:1:10: ")
    os.chdir("..")
    assert faults("inner/../inner/recipes.yaml")[0].startswith("inner/recipes.yaml:1:10: ")
    os.mkdir("other")
    os.chdir("other")
    assert faults("../inner/recipes.yaml")[0].startswith(f"{folder}/inner/recipes.yaml:1:10: ")


def test_included_files_are_read_in_order_each_once(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [more/*.yaml, more/a.yaml, last.yaml]\nrecipes:\n" + recipe("main"))
    write("more/b.yaml", "recipes:\n" + recipe("b"))
    write("more/a.yaml", "version: 1\ninclude: [deeper/**/*.yaml]\nrecipes:\n" + recipe("a"))
    write("more/deeper/x/y.yaml", "include: ['../../b.yaml']\nrecipes:\n" + recipe("y"))
    write("last.yaml", "version: 1\n")
    registry = load()

    assert list(registry.recipes) == ["main", "a", "y", "b"]
    assert registry.files == ("recipes.yaml", "more/a.yaml", "more/deeper/x/y.yaml", "more/b.yaml", "last.yaml")
    assert registry.root == str(folder)
    assert registry.path == "recipes.yaml"


def test_an_included_files_defaults_hold_for_its_own_recipes_only(folder: Path) -> None:
    write("recipes.yaml", HEAD.replace("{tol", "{timeout: 1, modes: [jit], golden: jit, tol") + "include: [a.yaml]\n")
    write("a.yaml", "defaults: {timeout: 2}\ninclude: [b.yaml]\nrecipes:\n" + recipe("a"))
    write("b.yaml", "recipes:\n" + recipe("b"))
    recipes = load().recipes

    assert (recipes["a"].timeout, recipes["a"].modes) == (2, ("jit",))
    assert (recipes["b"].timeout, recipes["b"].modes) == (1, ("jit",))


def test_faults_of_all_files_come_in_the_order_of_the_files(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [z.yaml, a.yaml]\nrecipes:\n  x: 1\n")
    write("a.yaml", "version: 2\nrecipes: {y: 2}\n")
    write("z.yaml", "recipes: {z: {kernel: 3, cases: {a: {}}}}\nfoo: 1\n")

    assert faults() == [
        "recipes.yaml:5:6: x: must be a mapping, not 1",
        'z.yaml:1:23: z, kernel: must be text, not 3 (quote it: "3")',
        "z.yaml:2:1: unknown key 'foo' (valid: version, include, defaults, recipes)",
        "a.yaml:1:10: version: must be 1, not 2",
        "a.yaml:2:14: y: must be a mapping, not 2",
    ]


def test_a_recipe_in_two_files_names_both_places(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [a.yaml]\nrecipes:\n" + recipe("x"))
    write("a.yaml", "recipes:\n" + recipe("x"))

    assert faults() == ["a.yaml:2:3: the recipe 'x' is given twice, first at recipes.yaml:5:3"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("none.yaml", "no file matches 'none.yaml' (searched in .)"),
        ("sub", "no file matches 'sub' (for the files in it, sub/*.yaml)"),
        ("../*.yaml", "'../*.yaml' leaves the folder of the main registry file (include files below that folder)"),
        ("/etc/*.yaml", "'/etc/*.yaml' leaves the folder of the main registry file (include files below that folder)"),
        ("sub/../../x", "'sub/../../x' leaves the folder of the main registry file (include files below that folder)"),
        ("out.yaml", "'out.yaml' leaves the folder of the main registry file (include files below that folder)"),
        ("recipes.yaml", "the files include each other: recipes.yaml includes recipes.yaml"),
        ("same.yaml", "the files include each other: recipes.yaml includes recipes.yaml"),
    ],
)
def test_an_include_that_cannot_be_followed_is_a_fault_at_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, message: str
) -> None:
    write("outside.yaml", "version: 1\n")
    write("inside/recipes.yaml", HEAD + f"include:\n  - '{pattern}'\nrecipes:\n" + recipe("x"))
    write("inside/sub/x.yaml", "version: 1\n")
    monkeypatch.chdir("inside")
    Path("out.yaml").symlink_to(folder / "outside.yaml")
    Path("same.yaml").symlink_to("recipes.yaml")

    assert len(faults()) == 1
    assert faults()[0].startswith(f"recipes.yaml:4:5: {message}")


@pytest.mark.parametrize("pattern", ["", "a\\0b", "**x"])
def test_a_pattern_that_is_none_is_a_fault(folder: Path, pattern: str) -> None:
    write("recipes.yaml", HEAD + f'include: ["{pattern}"]\n')

    assert faults()[0].startswith("recipes.yaml:3:11: ")


def test_files_that_include_each_other_are_named(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [a.yaml]\n")
    write("a.yaml", "include: [b.yaml]\n")
    write("b.yaml", "include: [a.yaml]\n")

    hint = "keep included files in a folder of their own"
    assert faults() == [f"b.yaml:1:11: the files include each other: a.yaml includes b.yaml includes a.yaml ({hint})"]


def test_includes_do_not_nest_without_bound(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [f0.yaml]\n")
    for number in range(50):
        write(f"f{number}.yaml", f"include: [f{number + 1}.yaml]\n")

    assert faults() == ["f15.yaml:1:11: files include each other more than 16 deep"]


def test_a_broken_included_file_does_not_hide_other_faults(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [a.yaml]\nrecipes: {x: 1}\n")
    write("a.yaml", "version: [\n")

    assert faults()[0] == "recipes.yaml:4:14: x: must be a mapping, not 1"
    assert faults()[1].startswith("a.yaml:2:1: not valid YAML: ")


def test_a_fault_in_the_defaults_gives_no_faults_that_follow_from_it(folder: Path) -> None:
    text = "version: 1\ndefaults: {tolerance: {float23: {rtol: 0, atol: 0}}, config: {enable_x64: yes}}\nrecipes:\n"
    write("recipes.yaml", text + "  a: {kernel: 'k:f', cases: {s: {args: {x: 3000000000}}, t: {args: {x: text}}}}\n")

    assert [fault.split(": ")[0] for fault in faults()] == [
        "recipes.yaml:2:24",
        "recipes.yaml:2:62",
        "recipes.yaml:4:72",
    ]


def test_more_faults_than_anybody_reads_are_counted(folder: Path) -> None:
    write("recipes.yaml", HEAD + "recipes:\n" + "".join(f"  r{number}: 1\n" for number in range(MAX_FAULTS + 100)))
    found = faults()

    assert len(found) == MAX_FAULTS + 1
    assert found[-1] == f"recipes.yaml:{MAX_FAULTS + 4}:10: 100 more faults from here"


def test_a_thousand_recipes_are_read_in_seconds(folder: Path) -> None:
    """Half a second on a core of 2024; the bound is for slow machines, and fails where something turns quadratic."""
    write("recipes.yaml", HEAD + "recipes:\n" + "".join(recipe(f"r{number}") for number in range(1000)))
    started = time.process_time()
    registry = load()

    assert len(registry.recipes) == 1000
    assert time.process_time() - started < 3


def test_a_very_long_word_is_cut_and_gets_no_guess(folder: Path) -> None:
    write("recipes.yaml", f"version: 1\nrecipes: {{}}\n{'k' * 300}: 1\n")
    (fault,) = faults()

    assert fault == f"recipes.yaml:3:1: unknown key '{'k' * 56}... (valid: version, include, defaults, recipes)"


def test_a_name_cannot_act_on_the_terminal(folder: Path) -> None:
    write("recipes.yaml", HEAD + 'recipes: {"\\e[31mred": {kernel: 1, cases: {a: {}}}}\n')

    assert all(fault.isprintable() for fault in faults())


@pytest.mark.parametrize("version", ["2", "true", "1.0", "'1'", "[1]"])
def test_only_version_1_is_known(folder: Path, version: str) -> None:
    write("recipes.yaml", f"version: {version}\n")
    shown = "a list" if version == "[1]" else version

    assert faults() == [f"recipes.yaml:1:10: version: must be 1, not {shown}"]


def test_the_digest_covers_every_file(folder: Path) -> None:
    write("recipes.yaml", HEAD + "include: [a.yaml]\n")
    write("a.yaml", "recipes:\n" + recipe("x"))
    first = load().digest
    again = load().digest
    write("a.yaml", "recipes:\n" + recipe("x") + "# changed\n")

    assert first == again != load().digest


def test_a_case_hash_tells_what_is_computed(folder: Path) -> None:
    write("recipes.yaml", HEAD + "recipes:\n  a: {kernel: 'k:f', tags: [x], cases: {s: {args: {x: .nan}}}}\n")
    first = load().recipes["a"].case_hash("s")
    write("recipes.yaml", HEAD + "recipes:\n\n  a: {kernel: 'k:f', timeout: 5, cases: {s: {args: {x: .nan}}}}\n")
    same = load().recipes["a"].case_hash("s")
    write("recipes.yaml", HEAD + "recipes:\n  a: {kernel: 'k:f', cases: {s: {args: {x: .inf}}}}\n")

    assert first == same != load().recipes["a"].case_hash("s")


def test_a_case_that_only_a_factory_knows_has_the_recipes_options() -> None:
    cumulative = load(str(EXAMPLES / "good" / "everything.yaml")).recipes["cumulative"]

    assert cumulative.case("made").timeout == 30
    assert cumulative.case("zero") is cumulative.cases["zero"]


def test_an_exception_is_expected_in_its_modes() -> None:
    assert Raises(("E",)).expected_in("jit")
    assert Raises(("E",), modes=("jit",)).expected_in("jit")
    assert not Raises(("E",), modes=("jit",)).expected_in("eager")


def test_the_registry_is_searched_upwards(folder: Path) -> None:
    write("recipes.yaml", HEAD)
    write("a/b/c.txt", "")
    os.mkdir("a/recipes.yaml")

    assert find_registry(folder / "a" / "b") == folder / "recipes.yaml"
    assert find_registry(Path()) == folder / "recipes.yaml"


def test_no_registry_anywhere_tells_what_to_type(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "isfile", lambda path: False)
    with pytest.raises(UsageError, match=r"no recipes\.yaml in .* or any folder above it") as caught:
        find_registry(folder)

    assert "--registry" in str(caught.value.hint)
    assert "--shipped" in str(caught.value.hint)


def test_a_registry_with_faults_is_wrong_usage(folder: Path) -> None:
    write("recipes.yaml", "version: 2\nrecipes: 1\n")
    with pytest.raises(RegistryError, match="2 faults in the registry") as caught:
        load()

    assert caught.value.exit_code is Exit.USAGE


def test_the_comparators_of_the_registry_are_those_that_exist() -> None:
    assert tuple(COMPARATORS) == model.COMPARATORS
