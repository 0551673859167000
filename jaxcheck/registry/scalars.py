"""What a YAML scalar means: the core schema of YAML 1.2, and nothing of YAML 1.1 (`on`, `1_000`, dates are text)."""

from __future__ import annotations

import math
import re
from typing import Any

from jaxcheck.registry.words import show

CORE = "tag:yaml.org,2002:"
MAX_DIGITS = 400

_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NUMBER_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "seq": list, "map": dict}


def tagged(tag: str, text: str) -> Any:
    """The value of a scalar with a tag; ValueError for another tag than the core schema's, or one that does not fit."""
    wanted = _TYPES.get(tag.removeprefix(CORE)) if tag.startswith(CORE) else None
    if wanted is None:
        raise ValueError(f"unknown tag {show(tag)}")
    if wanted is str:
        return text
    data = resolve(text)
    if wanted is float and type(data) is int:
        return float(data)
    if type(data) is not wanted:
        raise ValueError(f"the tag !!{tag.removeprefix(CORE)} does not fit {show(text)}")
    return data


def resolve(text: str) -> Any:
    """The value of a plain scalar; ValueError for a number that float64 cannot hold."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return _float(text)
    if _INFINITY.fullmatch(text):
        return -math.inf if text[0] == "-" else math.inf
    return math.nan if _NAN.fullmatch(text) else text


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{show(text)} is beyond the range of float64; infinity is written .inf")
    if number == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise ValueError(f"{show(text)} is too small for float64")
    return number
