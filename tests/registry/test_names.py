"""Dotted names looked up in source text, without importing anything."""

from __future__ import annotations

import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from jaxcheck.registry.load import load_registry
from jaxcheck.registry.names import check_names

KERNELS = """
import functools, jax
import jax.numpy as jnp
from functools import partial
from jax import jit as compiled

def plain(init, target, /, *, steps=3): ...
def flexible(x, **more): ...
def variadic(*values, axis): ...
@compiled
def jitted(x, y): ...
@partial(jax.jit, static_argnames=("n",))
def partly(x, n): ...
@functools.partial(jax.jit, donate_argnums=0)
def donated(x): ...
@jax.jit(static_argnames="n")
def configured(x, n): ...
@functools.wraps(plain)
def wrapped(x): ...
@partial(jax.jit, None)
def odd(x): ...
@(lambda f: f)
def strange(x): ...
class Model: ...
alias = plain
if True:
    def conditional(x): ...
def twice(x): ...
def twice(x, y): ...
def declares():
    global made_later
    made_later = plain
try:
    import missing_module
except ImportError as failure:
    pass
match failure_kind := 1:
    case [first, *rest]: pass
    case {"a": inner, **others}: pass
    case int() as number: pass
async def waiting(x): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose modules would shout if they were imported."""
    monkeypatch.chdir(tmp_path)
    write("kernels.py", KERNELS + "\nraise AssertionError('imported')\n")
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def faults(recipe: str, cases: str = "{s: {}}") -> list[str]:
    """The faults of one recipe, which begins in line 4; their places shortened to LINE:COLUMN."""
    text = f"version: 1\ndefaults: {{tolerance: {{rtol: 0, atol: 0}}}}\nrecipes:\n  r: {{{recipe}, cases: {cases}}}\n"
    Path("recipes.yaml").write_text(text)
    found = check_names(load_registry(Path("recipes.yaml")))
    return [str(fault).removeprefix("recipes.yaml:") for fault in found]


def of_kernel(name: str, args: str = "{}") -> list[str]:
    return faults(f"kernel: '{name}'", f"{{s: {{args: {args}}}}}")


@pytest.mark.parametrize(
    "name",
    [
        *("plain", "flexible", "variadic", "jitted", "partly", "donated", "configured", "wrapped", "odd", "strange"),
        *("Model", "alias", "conditional", "twice", "made_later", "missing_module", "failure", "failure_kind"),
        *("first", "rest", "inner", "others", "number", "waiting", "jnp", "compiled", "jax"),
    ],
)
def test_a_name_that_the_module_may_have_is_no_fault(folder: Path, name: str) -> None:
    assert [fault for fault in of_kernel(f"kernels:{name}") if "has no" in fault] == []


def test_a_name_that_the_module_lacks_is_a_fault_at_its_place(folder: Path) -> None:
    assert of_kernel("kernels:plian") == ["4:15: r: the module kernels has no plian (did you mean kernels:plain?)"]
    assert of_kernel("kernels:zzz") == [f"4:15: r: the module kernels has no zzz (looked in {folder}/kernels.py)"]


def test_every_dotted_name_is_looked_up(folder: Path) -> None:
    found = faults("kernel: 'a:f', reference: 'b:f', properties: ['kernels:plain', 'c:f'], inputs: 'd:f'", "{}")

    assert [fault.split(" (")[0] for fault in found] == [
        "4:15: r: there is no module a",
        "4:33: r: there is no module b",
        "4:70: r: there is no module c",
        "4:86: r: there is no module d",
    ]


def test_a_misspelt_module_has_a_hint(folder: Path) -> None:
    write("package/__init__.py", "")
    write("package/inner.py", "def f(): ...\n")

    assert of_kernel("kernls:plain") == ["4:15: r: there is no module kernls (did you mean kernels?)"]
    assert of_kernel("package.iner:f") == ["4:15: r: there is no module package.iner (did you mean package.inner?)"]
    assert of_kernel("qqqq:f") == [f"4:15: r: there is no module qqqq (looked in {folder} and in sys.path)"]
    assert of_kernel("kernels.inner:f") == [
        f"4:15: r: there is no module kernels.inner (looked in {folder}/kernels.py)"
    ]
    assert of_kernel("qqqq.inner:f") == [f"4:15: r: there is no module qqqq (looked in {folder} and in sys.path)"]


def test_packages_with_and_without_init_are_walked(folder: Path) -> None:
    write("package/__init__.py", "")
    write("package/inner.py", "def f(x): ...\n")
    write("plain/folder/module.py", "def f(x): ...\n")

    assert of_kernel("package.inner:f", "{x: 1}") == []
    assert of_kernel("package:inner") == []
    assert of_kernel("plain.folder.module:f", "{y: 1, x: 1}") == [
        "4:59: r::s: the kernel plain.folder.module:f has no argument 'y' (valid: x)"
    ]
    assert of_kernel("plain:f") == [f"4:15: r: the module plain has no f (looked in {folder}/plain)"]


def test_a_module_beside_the_registry_wins_over_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("project/kernels.py", "def plain(other): ...\n")
    write(
        "project/recipes.yaml",
        "version: 1\nrecipes: {r: {kernel: 'kernels:plain', tolerance: {rtol: 0, atol: 0},\n"
        "  cases: {s: {args: {other: 1}}}}}\n",
    )

    assert check_names(load_registry(Path("project/recipes.yaml"))) == []


@pytest.mark.parametrize(
    ("kernel", "args", "expected"),
    [
        ("plain", "{init: 1, target: 2}", []),
        ("plain", "{init: 1, target: 2, steps: 3}", []),
        ("plain", "{int: 1, target: 2}", ["has no argument 'int' (did you mean init?)", "needs the argument 'init'"]),
        ("flexible", "{x: 1, anything: 2}", []),
        ("flexible", "{anything: 2}", ["needs the argument 'x'"]),
        ("variadic", "{axis: 1}", []),
        ("variadic", "{values: 1}", ["has no argument 'values'", "needs the argument 'axis'"]),
        ("jitted", "{x: 1}", ["needs the argument 'y'"]),
        ("partly", "{x: 1, m: 1}", ["needs the argument 'n'", "has no argument 'm'"]),
        ("donated", "{y: 1}", ["has no argument 'y'", "needs the argument 'x'"]),
        ("configured", "{x: 1}", ["needs the argument 'n'"]),
        ("wrapped", "{q: 1}", []),
        ("odd", "{q: 1}", []),
        ("strange", "{q: 1}", []),
        ("Model", "{q: 1}", []),
        ("alias", "{q: 1}", []),
        ("conditional", "{q: 1}", []),
        ("twice", "{q: 1}", []),
        ("waiting", "{q: 1}", []),
    ],
)
def test_arguments_are_checked_where_the_text_decides_them(
    folder: Path, kernel: str, args: str, expected: list[str]
) -> None:
    found = of_kernel(f"kernels:{kernel}", args)

    assert len(found) == len(expected)
    assert all(any(text in fault for fault in found) for text in expected)


def test_arguments_have_their_places(folder: Path) -> None:
    found = faults("kernel: kernels:jitted", "{s: {args: {x: 1, z: 2}}, t: {}}")

    assert found == [
        "4:43: r::s: the kernel kernels:jitted needs the argument 'y' (arguments: x, y)",
        "4:56: r::s: the kernel kernels:jitted has no argument 'z' (valid: x, y)",
        "4:64: r::t: the kernel kernels:jitted needs the argument 'x' (arguments: x, y)",
        "4:64: r::t: the kernel kernels:jitted needs the argument 'y' (arguments: x, y)",
    ]


def test_static_names_of_a_factory_recipe_are_checked(folder: Path) -> None:
    found = faults("kernel: kernels:plain, static: [step, init], inputs: kernels:declares", "{s: {}}")

    said = "4:39: r: the kernel kernels:plain has no argument 'step' that could be static (did you mean steps?)"
    assert found == [said]


@pytest.mark.parametrize(
    "text",
    [
        "from math import *\n",
        "globals()['f'] = 1\n",
        "def __getattr__(name): ...\n",
        "import sys\nsys.modules[__name__] = object()\n",
        "exec('def f(): ...')\n",
        "def broken(:\n",
        "x = 1\0",
        "# coding: nonsense\n",
        "(" * 300 + ")" * 300,
    ],
)
def test_a_module_whose_text_does_not_say_all_is_left_to_the_worker(folder: Path, text: str) -> None:
    write("dynamic.py", text)

    assert of_kernel("dynamic:f", "{x: 1}") == []
    assert of_kernel("dynamic.inner:f", "{x: 1}") == []


def test_a_module_in_another_encoding_is_left_to_the_worker(folder: Path) -> None:
    Path("latin.py").write_bytes(b"x = '\xff'\n")

    assert of_kernel("latin:f") == []


def test_a_source_that_warns_is_parsed_in_silence(folder: Path) -> None:
    write("warns.py", "def f(x): return '\\d' is 1\n")

    assert of_kernel("warns:f", "{x: 1}") == []


@pytest.mark.parametrize("name", ["sys:f", "math:f", "os.path:join", "_imp.x:f", "zipped:f", "zipped.inner:f"])
def test_a_module_without_text_is_left_to_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with zipfile.ZipFile("archive.zip", "w") as archive:
        archive.writestr("zipped.py", "def other(): ...\n")
    monkeypatch.syspath_prepend("archive.zip")

    assert of_kernel(name) == []


def test_finders_of_editable_installs_are_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: object, target: object = None) -> ModuleSpec | None:
            return ModuleSpec(name, None) if name == "edited" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder, object()])

    assert of_kernel("edited:f") == []
    assert of_kernel("edited.inner:f") == []
    assert "there is no module editd" in of_kernel("editd:f")[0]


def test_a_module_that_cannot_be_read_is_left_to_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    write("secret.py", "def g(): ...\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)

    assert of_kernel("secret:f") == []


def test_an_empty_entry_of_the_path_is_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/nowhere", *sys.path])

    assert of_kernel("kernels:plain", "{init: 1, target: 1}") == []


def test_nothing_is_imported(folder: Path) -> None:
    before = set(sys.modules)
    of_kernel("kernels:plain", "{init: 1, target: 1}")
    of_kernel("jax.numpy:sin", "{x: 1}")

    assert not {name.partition(".")[0] for name in set(sys.modules) - before} & {"kernels", "jax", "jaxlib"}
