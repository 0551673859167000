"""A part of a registry file against its pydantic model: what is right of it, and every fault in the user's words."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isclass
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from jaxcheck.errors import Fault
from jaxcheck.registry.forms import ALTERNATIVES, FAULT, Block
from jaxcheck.registry.words import did_you_mean, label, plain, show
from jaxcheck.registry.yaml_source import Keys, Source

B = TypeVar("B", bound=Block)

_KEY_MARK = "[key]"  # pydantic's way to say that a mapping's key is wrong, not its value
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
}


@dataclass(frozen=True)
class Validated(Generic[B]):
    """What could be validated; `faulty` names the keys that were left out for it."""

    block: B | None
    faults: tuple[Fault, ...] = ()
    faulty: frozenset[str] = frozenset()


def validate(
    model: type[B], data: Any, source: Source, path: Keys, stand_ins: Mapping[str, Any] = MappingProxyType({})
) -> Validated[B]:
    """Validate `data`, which stands at `path` of the file. Keys with faults are left out and the rest validated
    again, with `stand_ins` for those that the model requires, so that later checks see as much as possible.
    """
    try:
        return Validated(model.model_validate(data))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    faults = tuple(_fault(model, one, data, source, path) for one in errors)
    if not isinstance(data, dict):
        return Validated(None, faults)
    faulty = frozenset(str(one["loc"][0]) for one in errors)
    rest = {key: value for key, value in data.items() if key not in faulty}
    return Validated(model.model_validate({**stand_ins, **rest}), faults, faulty)


def _fault(model: type[Block], error: Any, data: Any, source: Source, path: Keys) -> Fault:
    inner = _path(error["loc"], data)
    if error["type"] == "missing":
        where, name = (*path, *inner[:-1]), str(inner[-1])
        return source.key(where).fault(f"{label(*where)}{name} is missing")
    if error["type"] == "extra_forbidden":
        hint = did_you_mean(str(inner[-1]), valid_keys(model, inner[:-1]))
        around = label(*path, *inner[:-1])
        return source.key((*path, *inner)).fault(f"{around}unknown key {show(inner[-1])}", hint)
    message, hint = _words(error)
    at_key = error["loc"][-1:] == (_KEY_MARK,)
    place = (source.key if at_key else source.value)((*path, *inner))
    return place.fault(f"{label(*path, *inner)}{message}", hint)


def _path(loc: Keys, data: Any) -> Keys:
    """The keys of an error's location, without pydantic's names for alternatives and for keys."""
    path: list[str | int] = []
    for step in loc:
        is_child = (isinstance(data, dict) and step in data) or (isinstance(data, list) and isinstance(step, int))
        if is_child:
            data = data[step]
        elif step in ALTERNATIVES or step == _KEY_MARK:
            continue
        path.append(step)
    return tuple(path)


def _words(error: Any) -> tuple[str, str | None]:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    shown = show(given)
    if kind == FAULT:
        return context["message"], context["hint"]
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {shown}", _type_hint(_EXPECTED[kind], given)
    if kind == "literal_error":
        valid = re.findall(r"'([^']*)'", context["expected"])
        return f"must be {context['expected']}, not {shown}", did_you_mean(str(given), valid) if valid else None
    if kind == "too_short":
        return "must not be empty", None
    return f"{_lowered(error['msg'])}, not {shown}", None


def _type_hint(expected: str, given: Any) -> str | None:
    if expected == "text" and isinstance(given, bool | int | float):
        return f'quote it: "{show(given)}"'
    return f"write [{plain(given)}]" if expected == "a list" and isinstance(given, str) else None


def _lowered(message: str) -> str:
    """pydantic's `Input should be ...`, in our words."""
    return message.replace("Input should be", "must be").replace("a finite number", "finite")


def valid_keys(model: type[Block], path: Keys) -> list[str]:
    """The keys that the block at `path` of the model may have."""
    annotations: list[Any] = [model]
    for step in path:
        annotations = [inner for around in annotations for inner in _inside(around, step)]
    return [name for block in annotations if _is_block(block) for name in block.model_fields]


def _is_block(annotation: Any) -> bool:
    return isclass(annotation) and issubclass(annotation, Block)


def _inside(annotation: Any, step: str | int) -> list[Any]:
    if _is_block(annotation):
        field = annotation.model_fields.get(str(step))
        return _alternatives(field.annotation) if field else []
    return _alternatives(get_args(annotation)[-1]) if get_origin(annotation) is dict else []


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [inner for one in get_args(annotation) for inner in _alternatives(one)]
    return [annotation]
