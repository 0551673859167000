"""Writes docs/reference/*.md: what commands, registries and reports know, as the code has it.

`--check` writes nothing, and ends with 1 where a page is not what it would be.
"""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

from jaxcheck.cli.main import app
from jaxcheck.errors import Exit
from jaxcheck.execution.bless import BRAKES
from jaxcheck.gate.standing import Predicate
from jaxcheck.gate.verdict import ALLOWABLE, BLOCKING
from jaxcheck.registry.json_schema import MEANING, json_schema
from jaxcheck.registry.model import COMPARATORS, MODES, Contract
from jaxcheck.registry.operators import OPERATORS
from jaxcheck.report.formats import FORMATS, SUFFIXES
from jaxcheck.results import CauseKind, CheckVerdict, Finding, LeafResult, Run, Status
from jaxcheck.results.bisection import Bisection
from jaxcheck.results.diagnosis import Diagnosis, DiagnosisKind
from jaxcheck.results.gate import Gate, GateVerdict

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference"
NOTICE = "<!-- Written by scripts/docs from the code: edit that. -->"
Schema = Mapping[str, Any]
VALUES = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a page is out of date")
    check = parser.parse_args().check
    old = {name: text for name, text in pages().items() if _text(FOLDER / name) != text}
    for name, text in old.items():
        print(f"docs/reference/{name}: {'out of date, run scripts/docs' if check else 'written'}")
        if not check:
            (FOLDER / name).write_text(text)
    return int(check and bool(old))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def pages() -> dict[str, str]:
    """Every page of the reference by its file's name."""
    made: dict[str, Callable[[], Iterator[str]]] = {
        "commands.md": commands,
        "registry.md": registry,
        "words.md": words,
        "json.md": reports,
    }
    return {name: "\n\n".join([NOTICE, *lines()]) + "\n" for name, lines in made.items()}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def code(values: Sequence[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def anchored(name: str, known: Mapping[str, str]) -> str:
    """A link to a section of the same page; `known` are their headings by the definition's name."""
    heading = known[name]
    return f"[{heading}](#{heading.lower().replace(' ', '-').replace('`', '').replace('$', '')})"


# Commands


def commands() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    yield "# Commands"
    yield "`jaxcheck COMMAND --help` says the same. An option that stands for several values is given several times."
    for name, command in group.commands.items():
        yield f"## `jaxcheck {name}`"
        yield command.help.replace("\b\n", "")
        if command.epilog:
            yield command.epilog
        hints = get_type_hints(command.callback)
        arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
        yield f"    jaxcheck {' '.join([name, '[OPTIONS]', *arguments])}"
        rows = [
            _option(parameter, hints[parameter.name])
            for parameter in command.params
            if parameter.param_type_name == "option" and parameter.name in hints and not parameter.hidden
        ]
        if rows:
            yield table(("option", "default", "meaning"), rows)


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option(parameter: Any, hint: Any) -> tuple[str, str, str]:
    names = code([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag or parameter.count else parameter.metavar or _value(hint)
    variable = f" Variable: `{parameter.envvar}`." if parameter.envvar else ""
    required = " Required." if parameter.required else ""
    several = " May be repeated." if parameter.multiple else ""
    said = f"{parameter.help}{required}{several}{variable}".replace("\\[", "[")
    return f"{names} {value}".strip(), _default(parameter), said


def _default(parameter: Any) -> str:
    """Nothing where an option is off or empty."""
    default = parameter.default
    if default is None or default is False or parameter.count:
        return ""
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{default}`"


def _value(hint: Any) -> str:
    """The word for an option's value: TEXT, N, or the choices."""
    if get_origin(hint) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType, list):
        return next(_value(part) for part in get_args(hint) if part is not type(None))
    return VALUES[hint]


# Registry


TITLES = {
    "RegistryBlock": "The file",
    "DefaultsBlock": "Defaults",
    "RecipeBlock": "A recipe",
    "CaseBlock": "A case",
    "Uniform": "A tolerance",
    "BackendBlock": "A backend",
    "OutputBlock": "An output",
    "RaisesBlock": "An expected exception",
    "WhenBlock": "A condition",
    "VmapBlock": "The mode vmap",
    "GradBlock": "The mode grad",
    "ShardedBlock": "The mode sharded",
    "ComparatorBlock": "Comparators",
    "Value": "Argument values",
}


def registry() -> Iterator[str]:
    schema = json_schema()
    definitions = schema["$defs"]
    yield "# Registry keys"
    yield "What the keys mean together: [registry.md](../registry.md). `jaxcheck schema` prints this for an editor."
    for name, title in TITLES.items():
        yield f"## {title}"
        if name == "ComparatorBlock":
            yield from _comparators(definitions)
        elif name == "Value":
            yield from _operators()
        else:
            yield from _section(schema if name == "RegistryBlock" else definitions[name], TITLES)


def _section(definition: Schema, known: Mapping[str, str]) -> Iterator[str]:
    if "description" in definition:
        yield str(definition["description"])
    required = definition.get("required", ())
    rows = [
        (f"`{key}`", form(value, known), _given(key, value, required), value.get("description", ""))
        for key, value in definition["properties"].items()
    ]
    meant = any(row[3] for row in rows)
    yield table(
        ("key", "value", "default", "meaning")[: 4 if meant else 3], [row if meant else row[:3] for row in rows]
    )


def _given(key: str, value: Schema, required: Sequence[str]) -> str:
    if key in required:
        return "required"
    default = value.get("default")
    return "" if default in (None, [], {}, "") or isinstance(default, dict) else f"`{_said(default)}`"


def _said(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def form(value: Schema, known: Mapping[str, str]) -> str:
    """What a value may be, in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return anchored(name, known) if name in known else name
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{'null' if choice is None else choice}`" for choice in value["enum"])
    for key in ("anyOf", "oneOf"):
        if key in value:
            return " or ".join(dict.fromkeys(form(part, known) for part in value[key]))
    return _plain(value, known)


def _plain(value: Schema, known: Mapping[str, str]) -> str:
    kind = value.get("type")
    if kind == "array":
        items = value.get("items")
        return f"list of {form(items, known)}" if items else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        names = "dtype" if "enum" in value.get("propertyNames", {}) else "name"
        return f"{{{names}: {form(inner, known)}}}" if isinstance(inner, Mapping) else "mapping"
    if isinstance(kind, list):
        return " or ".join(kind)
    return f"{kind or 'any'}{_bounds(value)}"


def _bounds(value: Schema) -> str:
    low, above, high = value.get("minimum"), value.get("exclusiveMinimum"), value.get("maximum")
    said = [f">= {low}" for _ in [0] if low is not None]
    said += [f"> {above}" for _ in [0] if above is not None]
    said += [f"<= {high}" for _ in [0] if high is not None]
    return f" {', '.join(said)}" if said else ""


def _comparators(definitions: Mapping[str, Schema]) -> Iterator[str]:
    rows = []
    for name in COMPARATORS:
        block = definitions[definitions["ComparatorBlock"]["properties"][name]["$ref"].rpartition("/")[2]]
        parameters = [
            f"`{key}`: {form(value, TITLES)}{_bracket(_given(key, value, block.get('required', ())))}"
            for key, value in block.get("properties", {}).items()
        ]
        meaning = {"allclose": "The tolerance, element by element.", "exact": "The same bits."}.get(name)
        rows.append((f"`{name}`", "; ".join(parameters), meaning or str(block["description"])))
    yield table(("comparator", "parameters", "what has to hold"), rows)


def _bracket(text: str) -> str:
    return f" ({text})" if text else ""


def _operators() -> Iterator[str]:
    yield (
        "A number, truth value or (nested) list is an array, a mapping a dict pytree, unless its only key is one of "
        "these."
    )
    rows = []
    for name, meaning in MEANING.items():
        operator = OPERATORS.get(name)
        parameters = (
            [f"`{key}`" + ("" if key in operator.required() else " (optional)") for key in operator.parameters]
            if operator
            else []
        )
        bare = f"; or {operator.bare} alone" if operator and operator.bare else ""
        rows.append((f"`{name}`", ", ".join(parameters) + bare, meaning))
    yield table(("operator", "parameters", "what it makes"), rows)


# Words


def words() -> Iterator[str]:
    yield "# Words"
    yield "Every word that jaxcheck says in a report, or takes, and where it is explained."
    leaf = get_args(get_args(LeafResult.model_fields["verdict"].annotation)[0])
    rows = [
        ("statuses of a check", code([status.value for status in Status]), "[running](../running.md#statuses)"),
        ("verdicts of a leaf", code(leaf), "[truth](../truth.md#verdicts)"),
        ("verdicts of a check in a gate", code(get_args(CheckVerdict)), "[gate](../gate.md#verdicts)"),
        ("verdicts of a gate", code(get_args(GateVerdict)), "[gate](../gate.md#verdicts)"),
        ("what blocks in a gate", code(BLOCKING), "[gate](../gate.md#verdicts)"),
        ("what asks for a review, and `gate --allow` lets pass", code(ALLOWABLE), "[gate](../gate.md#verdicts)"),
        ("causes", code(get_args(CauseKind)), "[gate](../gate.md#who-moved-it)"),
        ("predicates of `bisect`", code(get_args(Predicate)), "[gate](../gate.md#bisect)"),
        ("kinds of a diagnosis", code(get_args(DiagnosisKind)), "[diagnose](../diagnose.md#options)"),
        ("modes", code(MODES), "[registry](../registry.md#modes)"),
        ("what a golden holds", code(get_args(Contract)), "[registry](../registry.md#a-recipe)"),
        ("comparators", code(COMPARATORS), "[registry](../registry.md#single-leaves)"),
        ("kinds of findings", code(get_args(Finding.model_fields["kind"].annotation)), "[json](json.md#finding)"),
        ("formats of reports", code(list(FORMATS)), "[reports](../reports.md)"),
        ("suffixes of report files", code(list(SUFFIXES)), "[reports](../reports.md)"),
    ]
    yield table(("what", "words", "explained in"), rows)
    yield "## Exit codes"
    yield table(("code", "name"), [(str(int(code)), code.name.lower().replace("_", " ")) for code in Exit])
    yield "What each means: [running](../running.md#exit-codes); what it means for one command is in that one's help."
    yield "## Brakes of a blessing"
    yield table(("`--allow`", "held back because"), [(f"`{kind}`", why) for kind, why in BRAKES.items()])


# JSON


def reports() -> Iterator[str]:
    yield "# JSON reports"
    yield (
        "Numbers stay numbers: an infinite ratio is the largest float64. Values of arrays that JSON has no number for "
        "are text: `nan`, `inf`, `1+2j`. What is not known is null. More: [reports.md](../reports.md#json)."
    )
    whole: tuple[type[BaseModel], ...] = (Run, Gate, Bisection, Diagnosis)
    schemas = {model.__name__: model.model_json_schema(by_alias=True) for model in whole}
    parts = {
        name: part for schema in schemas.values() for name, part in schema["$defs"].items() if "properties" in part
    }
    titles = {name: name for name in [*schemas, *parts]}
    for name, definition in {**schemas, **parts}.items():
        yield f"## {name}"
        yield from _keys(
            definition, titles, Run.model_json_schema(by_alias=True)["properties"] if name == "Gate" else ()
        )


def _keys(definition: Schema, titles: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    """What may be absent is null there; that is said once, not in every row."""
    yield str(definition.get("description", ""))
    if known:
        yield "All keys of a [Run](#run), and:"
    own = {key: value for key, value in definition["properties"].items() if key not in known}
    yield table(("key", "value"), [(f"`{key}`", form(_not_null(value), titles)) for key, value in own.items()])


def _not_null(value: Schema) -> Schema:
    parts = [part for part in value.get("anyOf", ()) if part != {"type": "null"}]
    inner = parts[0] if len(parts) == 1 else value
    return {"enum": [status.value for status in Status]} if inner.get("$ref") == "#/$defs/Status" else inner


if __name__ == "__main__":
    sys.exit(main())
