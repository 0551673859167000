"""How a registry says what compares a leaf: a comparator's name, or a block of its parameters.

The function of that name, in jaxcheck/compare, says what they do.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Strict, Tag, WithJsonSchema, model_validator

from jaxcheck.registry.forms import Axis, Block, LeafPath, Number, Text, fault, known, mapping_or_text
from jaxcheck.registry.model import COMPARATORS
from jaxcheck.registry.words import show


def _one_leaf(path: str) -> str:
    if "*" in path:
        raise fault(f"{show(path)} must name one leaf", "without *")
    return path


def _input_path(path: str) -> str:
    if not re.match(r"[^\W\d]\w*", path):
        raise fault(f"{show(path)} does not begin with the name of an argument", "for example x or params['w']")
    return path


OneLeaf = Annotated[LeafPath, AfterValidator(_one_leaf)]
InputPath = Annotated[Text, AfterValidator(_input_path)]


class PlainBlock(Block):
    """A comparator without parameters."""


class UlpBlock(Block):
    """At most so many representable values apart; below `floor` times the largest element, those of that size."""

    max_ulp: Annotated[int, Strict(), Field(ge=0)]
    floor: Annotated[Number, Field(ge=0, le=1)] = 0.0


class EighBlock(Block):
    """Eigenvectors up to sign and rotation in a cluster; `values` are their eigenvalues, `matrix` is the input."""

    values: OneLeaf
    matrix: InputPath | None = None


class SvdBlock(Block):
    """Singular vectors up to a common sign and rotation in a cluster; `matrix` is the input."""

    u: OneLeaf
    s: OneLeaf
    vh: OneLeaf
    matrix: InputPath | None = None


class QrBlock(Block):
    """An orthogonal and a triangular factor up to signs; `matrix` is the input."""

    q: OneLeaf
    r: OneLeaf
    matrix: InputPath | None = None


class TopkBlock(Block):
    """Indices into the input `operand`, or of the output `values`, which may differ where elements tie."""

    operand: InputPath | None = None
    values: OneLeaf | None = None
    axis: Axis = -1

    @model_validator(mode="after")
    def _has_elements(self) -> TopkBlock:
        if self.operand is None and self.values is None:
            raise fault("needs the elements that the indices stand for", "operand: an input, or values: an output leaf")
        return self


class PermutationBlock(Block):
    """The golden's values in any order, or each of 0 to n-1 once."""

    of: Literal["values", "range"] = "values"
    axis: Axis = -1


class KlBlock(Block):
    """Distributions along an axis whose Kullback-Leibler divergence from the golden's is at most `max_kl` nats."""

    max_kl: Annotated[Number, Field(gt=0)]
    of: Literal["logits", "probabilities"]
    axis: Axis = -1


class ComparatorBlock(Block):
    """One comparator with its parameters."""

    allclose: PlainBlock | None = None
    exact: PlainBlock | None = None
    ulp: UlpBlock | None = None
    eigh: EighBlock | None = None
    svd: SvdBlock | None = None
    qr: QrBlock | None = None
    topk: TopkBlock | None = None
    permutation: PermutationBlock | None = None
    kl: KlBlock | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ComparatorBlock:
        if len(self.model_fields_set) != 1:
            said = " and ".join(name for name in COMPARATORS if name in self.model_fields_set) or "none"
            raise fault(f"must name one comparator, not {said}", "for example ulp: {max_ulp: 4}")
        return self


# What a comparator cannot do without, in the words of a hint; the others may stand as a bare name.
_NEEDED = {
    "ulp": "max_ulp: 4",
    "eigh": "values: \"['w']\"",
    "svd": 'u: "[0]", s: "[1]", vh: "[2]"',
    "qr": 'q: "[0]", r: "[1]"',
    "topk": "operand: x",
    "kl": "max_kl: 1e-6, of: logits",
}


def _bare(word: str) -> str:
    if word in _NEEDED:
        raise fault(f"the comparator {word} needs parameters", f"for example {{{word}: {{{_NEEDED[word]}}}}}")
    return word


BareComparator = Annotated[
    Text,
    known(COMPARATORS, "a comparator"),
    AfterValidator(_bare),
    WithJsonSchema({"type": "string", "enum": [name for name in COMPARATORS if name not in _NEEDED]}),
]
Comparator = Annotated[
    Annotated[BareComparator, Tag("(text)")] | Annotated[ComparatorBlock, Tag("(mapping)")],
    Discriminator(mapping_or_text),
]


def comparator_of(said: str | ComparatorBlock) -> tuple[str, dict[str, Any]]:
    """(name, parameters with their defaults)."""
    if isinstance(said, str):
        return said, {}
    (name,) = said.model_fields_set
    return name, getattr(said, name).model_dump(exclude_none=True)
