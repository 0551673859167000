"""Names that a user chose, spelled so that any file system and any zip reader can carry them.

Every spelling is injective: two names never share a file or an entry. What is encoded is written as `%` and
two hexadecimal digits for each UTF-8 byte; a name that is too long is cut and ends in `~` and a hash of it
all.
"""

from __future__ import annotations

import hashlib
import re

STEM_BYTES = 180
ENTRY_BYTES = 1000

# A leading dot would hide the file, and would make `.` and `..` of a case's name.
_NOT_IN_STEM = re.compile(r"^\.|[^\w.-]")
# Separators, what marks an encoding, and what zip readers cut at, cannot spell or print as a new line.
_NOT_IN_CASE = re.compile(r"^\.|[/\\%~\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_IN_PATH = re.compile(_NOT_IN_CASE.pattern.removeprefix(r"^\.|"))


def file_stem(recipe: str) -> str:
    """The recipe's file name without suffix: word characters of any script, `-` and inner `.` stay."""
    return _spell(recipe, _NOT_IN_STEM, STEM_BYTES)


def case_entry(case: str, part: str) -> str:
    """The archive entry of something that belongs to a whole case: `standard/program`."""
    return f"{_spell(case, _NOT_IN_CASE, ENTRY_BYTES)}/{part}"


def leaf_entry(case: str, part: str, path: str) -> str:
    """The archive entry of a leaf: `standard/out/[0]['w']`; the root leaf's is `standard/out/.`."""
    return f"{case_entry(case, part)}/{_spell(path, _NOT_IN_PATH, ENTRY_BYTES)}"


def _spell(name: str, forbidden: re.Pattern[str], limit: int) -> str:
    spelled = forbidden.sub(_percent, name) or "%"
    if len(spelled.encode()) <= limit:
        return spelled
    digest = hashlib.sha256(_utf8(name)).hexdigest()[:32]
    return _cut(spelled, limit - len(digest) - 1) + "~" + digest


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in _utf8(match[0]))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _cut(text: str, limit: int) -> str:
    """The longest beginning of at most `limit` bytes that ends at a character."""
    return text.encode()[:limit].decode("utf-8", "ignore")
