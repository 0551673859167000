"""`jaxcheck schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write it to a file instead of stdout.", show_default=False)
]


def schema(output: Output = None) -> None:
    """Print the JSON Schema of a registry: editors complete and check `recipes.yaml` by it.

    Example: `jaxcheck schema -o recipes.schema.json`, and as the registry's first line
    `# yaml-language-server: $schema=recipes.schema.json`.
    """
    import json

    from jaxcheck.registry.json_schema import json_schema

    text = json.dumps(json_schema(), indent=1)
    if output is None:
        print(text)
        return
    from jaxcheck.report.formats import write_text

    write_text(text, output)
