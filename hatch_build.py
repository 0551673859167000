"""Puts the shipped recipes and their goldens into the wheel, as jaxcheck/shipped/."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = ("recipes.yaml", "goldens")
OPTIONAL = ("recipes",)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own examples leave it bare
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # a checkout is read where it lies; a copy would only grow stale
        root = Path(self.root)
        for name in (*SHIPPED, *(name for name in OPTIONAL if (root / name).exists())):
            build_data["force_include"][str(root / name)] = f"jaxcheck/shipped/{name}"
