"""The pure parts of environments: requirement strings, a resolver's words, pip's settings, what is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jaxcheck.errors import Unavailable, UsageError
from jaxcheck.gate.environments import Installation, Wanted, changes
from jaxcheck.gate.environments.frozen import Package, extras_in_force, read_origin
from jaxcheck.gate.environments.installers import Pip, choose_installer, constraints_in_the_way
from jaxcheck.gate.environments.plan import make_plan
from jaxcheck.gate.environments.reasons import reason_of
from jaxcheck.gate.environments.requests import fingerprint, parse_request
from jaxcheck.gate.environments.settings import choices, pip_files, pip_settings, pips_default, uv_options, uv_tables
from tests.gate.packages import base_of, make_wheel, plain

# Requirement strings


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("jax==0.12.0.1", "jax", "jax==0.12.0.1"),
        ("ML_dtypes >= 0.5", "ml-dtypes", "ML_dtypes>=0.5"),
        ("jax[cuda13]<0.13,>=0.12", "jax", "jax[cuda13]<0.13,>=0.12"),
        ("thing @ https://host/thing-1.0.zip", "thing", "thing @ https://host/thing-1.0.zip"),
    ],
)
def test_requirements(text: str, name: str, line: str) -> None:
    request = parse_request(text)
    assert (request.name, request.line, request.text) == (name, line, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jax=0.12", "'jax=0.12' is not a requirement"),
        ("", "'' is not a requirement"),
        ("https://host/thing-1.0.zip", "is not a requirement"),
        ("./no/such.whl", "there is no such file or folder"),
        ("jaxcheck==1", "run by this jaxcheck"),
    ],
)
def test_what_is_no_requirement(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")) as caught:
        parse_request(text)
    assert caught.value.hint


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, "some-thing", "1.0")
    monkeypatch.chdir(tmp_path)
    for text in (str(wheel), wheel.name, f"./{wheel.name}"):
        request = parse_request(text)
        assert (request.name, request.line) == ("some-thing", f"some-thing @ {wheel.as_uri()}")
    (tmp_path / "odd.whl").write_text("")
    with pytest.raises(UsageError, match="Invalid wheel filename"):
        parse_request("odd.whl")
    with pytest.raises(UsageError, match=r"no pyproject\.toml there names a project"):
        parse_request("./")


def test_fingerprints(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("1")
    first = fingerprint(tmp_path)
    for derived in ("build", ".git", "__pycache__", "x.egg-info"):
        (tmp_path / derived).mkdir()
        (tmp_path / derived / "file").write_text("")
    assert fingerprint(tmp_path) == first
    (tmp_path / "module.py").write_text("12")
    assert fingerprint(tmp_path) != first


# What a resolver said

UV_CONFLICT = """error: No solution found when resolving dependencies
  cause: Because jax>=0.12.0.1 depends on numpy>=2.2 and you require jax==0.12.0.1, we can conclude that you require numpy>=2.2.
         And because you require numpy==1.26.4, we can conclude that your requirements are unsatisfiable.
"""  # noqa: E501 - as uv prints it
UV_OLD = """  \u00d7 No solution found when resolving dependencies:
  \u2570\u2500\u25b6 Because the current Python version (3.11.7) does not satisfy Python>=3.12
      and jax==0.12.0.1 depends on Python>=3.12, we can conclude that
      jax==0.12.0.1 cannot be used.
      And because you require jax==0.12.0.1, we can conclude that your
      requirements are unsatisfiable.
"""
UV_OFFLINE = """error: Request failed after 3 retries in 5.5s
  cause: Failed to fetch: http://127.0.0.1:9/jax/
  cause: error sending request for url (http://127.0.0.1:9/jax/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
PIP_PYTHON = """ERROR: Ignored the following versions that require a different python version: 0.11.0 Requires-Python \
>=3.12; 0.12.0.1 Requires-Python >=3.12
ERROR: Could not find a version that satisfies the requirement jax==0.12.0.1 (from versions: 0.10.1, 0.10.2)
ERROR: No matching distribution found for jax==0.12.0.1
"""
PIP_CONFLICT = """ERROR: Cannot install jax==0.12.0.1 and numpy==1.26.4 because these have conflicting dependencies.

The conflict is caused by:
    The user requested numpy==1.26.4
    jax 0.12.0.1 depends on numpy>=2.2

To fix this you could try to:
1. loosen the range of package versions you've specified

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io
"""
PIP_OFFLINE = """WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by \
'NewConnectionError('<pip object>: Failed to establish a new connection: [Errno 111] Connection refused')': /jax/
ERROR: Could not find a version that satisfies the requirement jax (from versions: none)
ERROR: No matching distribution found for jax
"""


@pytest.mark.parametrize(
    ("output", "first", "last", "hint"),
    [
        (
            UV_CONFLICT,
            "Because jax>=0.12.0.1 depends on numpy>=2.2",
            "And because you require numpy==1.26.4",
            "versions",
        ),
        (UV_OLD, "Because the current Python version (3.11.7)", "And because you require jax", "--python 3.12"),
        (UV_OFFLINE, "Failed to fetch: http://127.0.0.1:9/jax/", "Connection refused", "the connection"),
        (PIP_PYTHON, "No matching distribution", "which asks for another Python: 0.12.0.1", "--python 3.12"),
        (
            PIP_PYTHON.replace("jax==0.12.0.1", "jax==99"),
            "No matching",
            "the newest that there are: 0.10.1",
            "a version",
        ),
        (
            PIP_CONFLICT,
            "The user requested numpy==1.26.4",
            "jax 0.12.0.1 depends on numpy",
            "versions that go together",
        ),
        (PIP_OFFLINE, "No matching distribution", "Failed to establish a new connection", "the connection"),
        ("", "it said nothing", "it said nothing", "the other installer"),
    ],
)
def test_reasons(output: str, first: str, last: str, hint: str) -> None:
    reason = reason_of(output)
    assert len(reason.lines) <= 2
    assert reason.lines[0].startswith(first)
    assert reason.lines[-1].startswith(last)
    assert reason.hint.startswith(hint)


def test_a_reason_is_short_and_keeps_no_secret() -> None:
    reason = reason_of("error: Failed to fetch: https://me:secret@host/simple/\n  cause: " + "very " * 200)
    assert "secret" not in str(reason)
    assert "https://host/simple/" in str(reason)
    assert all(len(line) <= 320 for line in reason.lines)


def test_constraints_in_the_way() -> None:
    pins = {"beta": "1.0", "eps": "1.0", "ml-dtypes": "0.1"}
    by_constraint = "    alpha 2.0 depends on beta>=2\n    The user requested (constraint) beta==1.0\n"
    assert constraints_in_the_way(by_constraint, pins) == {"beta"}
    by_dependant = "    The user requested alpha==2.0\n    eps 1.0 depends on alpha<2\n"
    assert constraints_in_the_way(by_dependant, pins) == {"eps"}
    assert constraints_in_the_way("ERROR: No matching distribution found for ml_dtypes==0.1\n", pins) == {"ml-dtypes"}
    assert constraints_in_the_way("    The user requested alpha==2.0\n", pins) == set()


# pip's settings


def test_pip_settings_by_their_order(tmp_path: Path) -> None:
    weak, strong, broken = tmp_path / "weak", tmp_path / "strong", tmp_path / "broken"
    weak.write_text("[global]\nindex-url = http://weak\nfind_links = a\n  b\n[install]\npre = true\n")
    strong.write_text("[global]\nindex-url = http://strong\ntimeout = 3\n")
    broken.write_text("no section\n")
    found = pip_settings({"PIP_CERT": "c.pem", "PIP_NO_BINARY": ""}, [weak, strong, broken, tmp_path / "none"])
    assert found == {"index-url": "http://strong", "find-links": "a\nb", "pre": "true", "cert": "c.pem"}
    assert pip_settings({"PIP_INDEX_URL": "http://set"}, [strong])["index-url"] == "http://set"
    assert pip_files({"PIP_CONFIG_FILE": "/dev/null"}) == []
    assert pip_files({"PIP_CONFIG_FILE": "/mine", "HOME": "/home/me"})[-1] == Path("/mine")
    assert Path("/home/me/.config/pip/pip.conf") in pip_files({"HOME": "/home/me"})


def test_uv_is_told_what_pip_is_told(tmp_path: Path) -> None:
    (tmp_path / "limits.txt").write_text("")
    pip = {
        "extra-index-url": f"http://extra file://{tmp_path}/gone",
        "find-links": f"{tmp_path} {tmp_path}/gone",
        "constraint": f"{tmp_path}/limits.txt {tmp_path}/gone.txt",
        "trusted-host": "extra",
        "cert": "c.pem",
    }
    told = uv_options(pip, {}, False)
    assert told.fetch == (
        *("--index", pips_default(), "--default-index", "http://extra"),
        *("--index-strategy", "unsafe-best-match", "--find-links", str(tmp_path), "--allow-insecure-host", "extra"),
    )
    assert told.resolve == ("--constraints", f"{tmp_path}/limits.txt")
    assert told.environment == (("SSL_CERT_FILE", "c.pem"),)
    assert uv_options({"index-url": "http://main", "no-index": "true"}, {}, False).fetch == (
        *("--default-index", "http://main"),
        "--no-index",
    )


def test_uvs_own_settings_go_first(tmp_path: Path) -> None:
    pip = {"index-url": "http://main", "constraint": str(tmp_path), "cert": "c.pem"}
    own = {"UV_DEFAULT_INDEX": "http://uv", "UV_CONSTRAINT": "mine.txt", "SSL_CERT_FILE": "own.pem"}
    assert uv_options(pip, own, False) == uv_options({}, {}, False)
    assert uv_options(pip, {}, True).fetch == ()
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nconstraint-dependencies = ["a<2"]\n')
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    where = {"XDG_CONFIG_HOME": str(tmp_path / "none")}
    assert {"constraint-dependencies": ["a<2"]} in uv_tables(where, inner)
    assert uv_tables({"UV_NO_CONFIG": "1"}, inner) == []


def test_a_constraint_files_content_matters(tmp_path: Path) -> None:
    file = tmp_path / "limits.txt"
    file.write_text("a<2")
    before = choices({}, {"constraint": str(file)}, [])
    file.write_text("a<3")
    assert choices({}, {"constraint": str(file)}, []) != before
    assert choices({"UV_PRERELEASE": "allow"}, {}, []) != choices({}, {}, [])
    assert choices({"UV_CACHE_DIR": "x"}, {}, []) == choices({}, {}, [])


def test_choosing_the_installer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_installer({"JAXCHECK_INSTALLER": "pip"}) == Pip()
    with pytest.raises(UsageError, match="JAXCHECK_INSTALLER=conda: there is no such installer"):
        choose_installer({"JAXCHECK_INSTALLER": "conda"})
    monkeypatch.setattr("jaxcheck.gate.environments.installers.find_uv", lambda: None)
    assert choose_installer({}) == Pip()
    with pytest.raises(Unavailable, match="there is no uv here") as caught:
        choose_installer({"JAXCHECK_INSTALLER": "uv"})
    assert "jaxcheck[gate]" in str(caught.value.hint)


# What is installed

JAX = Package(
    "jax",
    "1.0",
    None,
    (
        "jaxlib<=1.0",
        'jaxlib==1.0; extra == "minimum-jaxlib"',
        'jax-cuda12-plugin[with-cuda]==1.0; extra == "cuda"',
        'jax-cuda12-plugin[with-cuda]==1.0; extra == "cuda12"',
        'jax-cuda12-plugin==1.0; extra == "cuda12-local"',
        'xprof; extra == "xprof"',
    ),
    ("minimum-jaxlib", "cuda", "cuda12", "cuda12-local", "xprof"),
)
PLUGIN = Package("jax-cuda12-plugin", "1.0", None, ('nvidia-cublas; extra == "with-cuda"',), ("with-cuda",))


@pytest.mark.parametrize(
    ("packages", "extras"),
    [
        ([], set()),
        ([PLUGIN], {"cuda12-local"}),
        ([PLUGIN, Package("nvidia-cublas", "1.0")], {"cuda12", "cuda12-local"}),
        ([Package("jax-cuda12-plugin", "0.9")], set()),
    ],
)
def test_extras_in_force(packages: list[Package], extras: set[str]) -> None:
    installed = {package.name: package for package in [JAX, Package("jaxlib", "1.0"), *packages]}
    assert extras_in_force(JAX, installed) == extras


def test_origins(tmp_path: Path) -> None:
    said: list[str] = []
    git = '{"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "sub"}'
    origin = read_origin("a", git, said)
    assert origin is not None
    assert (origin.line, origin.source) == ("a @ git+https://host/a.git@abc#subdirectory=sub", True)
    archive = read_origin("a", '{"url": "https://host/a-1-py3-none-any.whl", "archive_info": {}}', said)
    assert archive is not None
    assert (archive.line, archive.source) == ("a @ https://host/a-1-py3-none-any.whl", False)
    assert said == []
    assert read_origin("a", "{", said) is None
    assert "cannot be read" in said[0]


def test_changes_name_python_and_what_came_and_went() -> None:
    before = Installation("a", "p", {"a": "1", "b": "1", "same": "1"}, None, False, "3.12.1")
    after = Installation("b", "q", {"a": "2", "c": "1", "same": "1"}, None, False, "3.13.0")
    found = [(one.name, one.before, one.after, one.asked) for one in changes(before, after, ["A>=2", "python"])]
    assert found == [
        ("a", "1", "2", True),
        ("python", "3.12.1", "3.13.0", True),
        ("b", "1", None, False),
        ("c", None, "1", False),
    ]


def test_labels() -> None:
    assert Wanted().label == "current environment"
    assert Wanted(("jax==1", "optax"), "3.13").label == "jax==1, optax, Python 3.13"
    assert Wanted(interpreter="/opt/python").label == "/opt/python"


def test_a_plan_keeps_all_but_what_was_asked() -> None:
    base = base_of(sys.executable, *plain("jax==1", "jaxlib==1", "optax==1"))
    plan = make_plan(base, (parse_request("optax>=2"),))
    assert plan.lines == ("optax>=2", "jax", "jaxlib")
    assert plan.pins == {"jax": "1", "jaxlib": "1"}
    assert make_plan(base, (parse_request("jax==2"),)).pins == {"optax": "1"}
