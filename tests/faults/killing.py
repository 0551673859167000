"""Kills processes at moments that a test chooses: see `moments/sitecustomize.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MOMENTS = Path(__file__).parent / "moments"


def killed_at(folder: Path, **plan: Any) -> dict[str, str]:
    """Variables for the environment of a command; `folder` is made, and takes what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    search = [str(MOMENTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"KILL_FOLDER": str(folder), "PYTHONPATH": os.pathsep.join(search)}


def messages(folder: Path) -> list[str]:
    """The messages that workers got, in their order: `check RECIPE MODE`."""
    return (folder / "messages").read_text().splitlines()


def changes(folder: Path) -> list[str]:
    """The changes of files that the command made: `os.rename PATH`."""
    path = folder / "changes"
    return path.read_text().splitlines() if path.exists() else []
