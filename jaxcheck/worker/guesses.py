"""Cases for a function that nobody has written any for: shapes that it says or that it traces with, and what it does
with zeros, with one element, and with a shape that is wrong."""

from __future__ import annotations

import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxcheck.worker.inputs import Arguments, from_registry
from jaxcheck.worker.kernels import bind, describe, parameters_of

SECONDS = 20.0
MOST_TRIALS = 400
MOST_MIXTURES = 20_000
SIZES = (4, 3, 5, 2, 6, 7)  # of dimensions that have a name: all different, so that a mix-up shows
DTYPES = {"float": "float32", "f32": "float32", "int": "int32", "bf16": "bfloat16", "bool": "bool"}
_KNOWN = "float64|float32|float16|bfloat16|int64|int32|int16|int8|uint8|uint32|bool"
_SAID = re.compile(rf"\b({_KNOWN}|f32|bf16)\s*\[([\w\s,]*)\]")
_SHAPED = re.compile(r"\bshapes?\s*[:=]?\s*(?:of\s*)?[(\[]([\w\s,]*)[)\]]", re.IGNORECASE)
_KIND = "Float|Float32|BFloat16|Int|Int32|Bool|Num|Real|Inexact|Shaped"  # jaxtyping's
_ANNOTATED = re.compile(rf"\b({_KIND})\w*\[[^,\"']*,\s*[\"']([^\"']*)[\"']\]")
_ABOUT = re.compile(r"\b(shapes?|dimensions?|ranks?|sizes?|axis|axes|broadcast)\b")


@dataclass(frozen=True)
class Guess:
    """One argument: an array of a dtype and shape, a PRNG key (`key`), or a static Python value."""

    dtype: str
    shape: tuple[int, ...] = ()
    static: Any = None

    @property
    def is_static(self) -> bool:
        return self.dtype == "static"

    @property
    def is_array(self) -> bool:
        return self.dtype not in ("static", "key")

    def value(self, kind: str, number: int) -> Any:
        """As a registry writes it; `number` tells arguments apart."""
        if self.is_static:
            return self.static
        if self.dtype == "key":
            return {"$key": {"seed": number}}
        shape, other = list(self.shape), {} if self.dtype in ("float32", "int32") else {"dtype": self.dtype}
        if kind == "zeros":
            return {"$zeros": {"shape": shape, "dtype": self.dtype} if self.dtype != "float32" else shape}
        if self.dtype == "bool":
            return {"$full": {"shape": shape, "value": True, "dtype": "bool"}}
        if np.issubdtype(np.dtype(self.dtype) if self.dtype != "bfloat16" else np.float32, np.integer):
            return {"$integers": {"shape": shape, "seed": number, "low": 0, "high": 3, **other}}
        if kind == "definite" and len(shape) == 2 and shape[0] == shape[1]:
            rows = [[4.0 if row == column else 1.0 for column in range(shape[1])] for row in range(shape[0])]
            return {"$array": {"value": rows, "dtype": self.dtype}}
        if kind in ("positive", "definite"):
            return {"$uniform": {"shape": shape, "seed": number, "low": 0.1, "high": 0.9, **other}}
        return {"$normal": {"shape": shape, "seed": number, **other}}

    def reshaped(self, shape: tuple[int, ...]) -> Guess:
        return Guess(self.dtype, shape)


CANDIDATES = (
    Guess("float32", (4,)),
    Guess("float32", (4, 4)),
    Guess("float32", ()),
    Guess("int32", (4,)),
    Guess("int32", ()),
    Guess("key"),
    Guess("static", static=2),
)
Guesses = Mapping[str, Guess]
KINDS = ("standard", "positive", "definite")  # numbers of both signs, between 0 and 1, positive definite matrices


def guess(kernel: Callable[..., Any], root: str) -> dict[str, Any]:
    """{cases, static, modes, dtypes} of a kernel, as a registry writes them; or {unknown, reason}: its arguments that
    could not be guessed."""
    parameters = parameters_of(kernel)
    if parameters is None:
        return {"unknown": [], "reason": "it has no signature that Python can read"}
    needed = [
        p for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    said = _said(kernel, needed)
    found, reason = _first_that_works(kernel, [p.name for p in needed], said, root)
    if found is None:
        names = [p.name for p in needed]
        return {"unknown": [name for name in names if name not in said] or names, "reason": reason}
    trial = Trial(kernel, root)
    modes = ["eager", "jit"] if trial.traces(found) is None else ["eager"]
    cases, dtypes = _cases(trial, found, modes)
    if "standard" not in cases:
        return {"unknown": [p.name for p in needed], "reason": "it traces with arrays, and raises with their numbers"}
    return {"cases": cases, "static": [n for n, g in found.items() if g.is_static], "modes": modes, "dtypes": dtypes}


# What the function says itself


def _said(kernel: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Guess]:
    """Arguments whose annotation or line of the docstring tells dtype and shape; one name is one size throughout."""
    sizes: dict[str, int] = {}
    lines = (inspect.getdoc(kernel) or "").splitlines()
    found = {}
    for parameter in parameters:
        guessed = _annotated(parameter.annotation, sizes) or _documented(parameter.name, lines, sizes)
        if guessed:
            found[parameter.name] = guessed
    return found


def _annotated(annotation: Any, sizes: dict[str, int]) -> Guess | None:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") or str(annotation)
    if text in ("int", "bool", "str"):
        return {"int": Guess("static", static=2), "bool": Guess("static", static=True)}.get(text)
    if text == "float":
        return Guess("float32", ())
    dims = getattr(annotation, "dim_str", None)  # jaxtyping's own
    if isinstance(dims, str):
        return Guess(_dtype(getattr(getattr(annotation, "dtype", None), "__name__", "")), _dimensions(dims, sizes))
    match = _ANNOTATED.search(text)
    return Guess(_dtype(match[1]), _dimensions(match[2], sizes)) if match else _plainly(text, sizes)


def _documented(name: str, lines: list[str], sizes: dict[str, int]) -> Guess | None:
    before = r"\s*(?:[`*]*\w+[`*]*\s*,\s*)*[`*]*"  # `q, k: float32[4, 8]` is about both
    about = next((line for line in lines if re.match(rf"{before}{re.escape(name)}\b", line)), None)
    if about is None:
        return None
    shaped = _SHAPED.search(about)
    return _plainly(about, sizes) or (Guess("float32", _dimensions(shaped[1], sizes)) if shaped else None)


def _plainly(text: str, sizes: dict[str, int]) -> Guess | None:
    """`float32[4, n]` anywhere in a text."""
    match = _SAID.search(text)
    return Guess(_dtype(match[1]), _dimensions(match[2], sizes)) if match else None


def _dtype(word: str) -> str:
    word = word.rpartition(".")[2].lower()
    return word if re.fullmatch(_KNOWN, word) else DTYPES.get(word, "float32")


def _dimensions(text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    names = [name for name in re.split(r"[\s,]+", text) if name and not name.startswith(("*", "..."))]
    for name in names:
        if not name.isdigit():
            sizes.setdefault(name, SIZES[len(sizes) % len(SIZES)])
    return tuple(int(name) if name.isdigit() else sizes[name] for name in names)


# What it can be called with


class Trial:
    """Calls of a kernel that may fail: abstract ones, and with numbers."""

    def __init__(self, kernel: Callable[..., Any], root: str) -> None:
        self.kernel, self.root = kernel, root

    def traces(self, guesses: Guesses) -> Exception | None:
        """What tracing it raises; None where it traces."""
        statics = {name: g.static for name, g in guesses.items() if g.is_static}
        avals = {name: _abstract(g) for name, g in guesses.items() if not g.is_static}

        def call(dynamic: Mapping[str, Any]) -> Any:
            positional, keywords = bind(self.kernel, {name: {**dynamic, **statics}[name] for name in guesses})
            return self.kernel(*positional, **keywords)

        try:
            jax.eval_shape(call, avals)
        except Exception as error:  # whatever the kernel makes of arguments that were guessed
            return error
        return None

    def arguments(self, guesses: Guesses, kind: str) -> tuple[dict[str, Any], Arguments]:
        """(as the registry writes them, as arrays)"""
        written = {name: g.value(kind, number) for number, (name, g) in enumerate(guesses.items())}
        static = tuple(name for name, g in guesses.items() if g.is_static)
        return written, from_registry(written, static, self.root)

    def call(self, arguments: Arguments) -> Any:
        """The outputs with numbers: raises what the kernel raises."""
        positional, keywords = bind(self.kernel, arguments.fresh())
        return jax.block_until_ready(self.kernel(*positional, **keywords))


def _abstract(guessed: Guess) -> Any:
    if guessed.dtype == "key":
        return jax.eval_shape(lambda: jax.random.key(0))
    return jax.ShapeDtypeStruct(guessed.shape, guessed.dtype)


def _first_that_works(
    kernel: Callable[..., Any], names: list[str], said: Guesses, root: str
) -> tuple[Guesses | None, str]:
    """The first guesses that the kernel traces with, or, where it does not trace, that it runs with; else why not."""
    trial, deadline = Trial(kernel, root), time.monotonic() + SECONDS
    first: Exception | None = None
    branches = []
    told = itertools.islice(_guesses(names, said), MOST_TRIALS)
    untold = itertools.islice(_guesses(names, {}) if said else (), MOST_TRIALS)  # what is said may be out of date
    for guesses in itertools.chain(told, untold):
        error = trial.traces(guesses)
        if error is None:
            return guesses, ""
        first = first or error
        if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
            branches.append(guesses)
        if time.monotonic() > deadline:
            break
    for guesses in branches[:8]:
        try:
            trial.call(trial.arguments(guesses, "standard")[1])
        except Exception as error:
            first = first or error
            continue
        return guesses, ""
    return None, describe(first) if first else "it was not called"


def _guesses(names: list[str], said: Guesses) -> Iterator[Guesses]:
    """All arguments alike first, then every mixture, with as few static arguments as may be: static alone is no array
    program."""
    open_ = [name for name in names if name not in said]
    alike = [tuple([candidate] * len(open_)) for candidate in CANDIDATES]
    every = itertools.islice(itertools.product(CANDIDATES, repeat=len(open_)), MOST_MIXTURES)
    mixed = sorted((mixture for mixture in every if len(set(mixture)) > 1), key=_statics)
    for mixture in itertools.chain(alike[:-1] if open_ else [()], mixed):
        chosen = dict(zip(open_, mixture, strict=True))
        yield {name: said.get(name) or chosen[name] for name in names}


def _statics(mixture: Sequence[Guess]) -> int:
    return sum(guessed.is_static for guessed in mixture)


# The cases


def _cases(trial: Trial, found: Guesses, modes: list[str]) -> tuple[dict[str, Any], list[str]]:
    """(cases by name, dtypes of the outputs)"""
    kind, outputs = _kind(trial, found)
    ones = {name: g.reshaped((1,) * len(g.shape)) if g.is_array else g for name, g in found.items()}
    wanted = {"standard": (found, kind)}
    if ones != found and ("jit" not in modes or trial.traces(ones) is None):
        wanted["single"] = (ones, kind)
    if any(guessed.is_array for guessed in found.values()):
        wanted["zeros"] = (found, "zeros")
    attempts = {name: _attempt(trial, *what) for name, what in wanted.items()}
    cases = {name: attempt[0] for name, attempt in attempts.items() if attempt is not None}
    wrong = _wrong_shape(trial, found, modes)
    if wrong is not None:
        cases["invalid-shape"] = wrong
    return cases, sorted({leaf.dtype.name for leaf in jax.tree.leaves(outputs) if hasattr(leaf, "dtype")})


def _kind(trial: Trial, guesses: Guesses) -> tuple[str, Any]:
    """The first kind of numbers that gives finite outputs, else the first at all; and the outputs."""
    attempts = {kind: attempt for kind in KINDS if (attempt := _attempt(trial, guesses, kind)) is not None}
    finite = (kind for kind, attempt in attempts.items() if "nonfinite" not in attempt[0])
    kind = next(finite, next(iter(attempts), KINDS[0]))
    return kind, attempts[kind][1] if kind in attempts else None


def _attempt(trial: Trial, guesses: Guesses, kind: str) -> tuple[dict[str, Any], Any] | None:
    """(a case, its outputs) where the kernel runs."""
    written, arguments = trial.arguments(guesses, kind)
    try:
        outputs = trial.call(arguments)
    except Exception:  # a case that cannot be run is none to begin with
        return None
    finite = all(
        np.isfinite(np.asarray(leaf, np.complex128)).all() for leaf in jax.tree.leaves(outputs) if _floats(leaf)
    )
    return {"args": written, **({} if finite else {"nonfinite": "allow"})}, outputs


def _floats(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)


def _wrong_shape(trial: Trial, found: Guesses, modes: list[str]) -> dict[str, Any] | None:
    """A shape that the kernel refuses in every mode, with the exception's class, and what of its message says why."""
    for name, guessed in found.items():
        for shape in _wrong_shapes(guessed) if guessed.is_array else ():
            guesses = {**found, name: guessed.reshaped(shape)}
            written, arguments = trial.arguments(guesses, "standard")
            try:
                trial.call(arguments)
            except (TypeError, ValueError, IndexError) as error:
                traced = trial.traces(guesses) if "jit" in modes else error
                if type(traced) is type(error):
                    about = _ABOUT.search(str(error))
                    match = {"match": about[1]} if about and about[1] in str(traced) else {}
                    return {"args": written, "raises": {"type": type(error).__name__, **match}}
            except Exception:  # not what a shape is refused with
                continue
    return None


def _wrong_shapes(guessed: Guess) -> Iterator[tuple[int, ...]]:
    """One longer, an axis more, an axis less."""
    if guessed.shape:
        yield (*guessed.shape[:-1], guessed.shape[-1] + 1)
    yield (2, 3, *guessed.shape)
    if guessed.shape:
        yield guessed.shape[1:]
