from __future__ import annotations

from pathlib import Path

import pytest

from jaxcheck.gate.environments.installers import CHOICE, find_uv
from tests.gate.packages import Said, make_index

INSTALLERS = (
    pytest.param("uv", marks=pytest.mark.skipif(find_uv() is None, reason="there is no uv here")),
    pytest.param("pip", marks=pytest.mark.long),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small packages, the only place where pip looks; uv has it from pip's settings."""
    folder = make_index(tmp_path / "index")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture(params=INSTALLERS)
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(CHOICE, request.param)
    return str(request.param)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> str:
    """Whatever is chosen here by itself: uv, where there is one."""
    monkeypatch.delenv(CHOICE, raising=False)
    return "uv" if find_uv() else "pip"


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
