"""Pictures of one leaf, where people would rather look than read: SVG, made of nothing but what the report holds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby

from jaxcheck.report import words
from jaxcheck.report.html.elements import Child, Markup, element
from jaxcheck.report.lines import duration
from jaxcheck.results import ErrorToTruth, Latency, LeafResult, Sample

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 320, 170, 44, 14, 24
WITHIN = ("0", "<=1e-3", "<=1e-2", "<=1e-1", "<=1")
# Upper bounds of the classes of a heat map, in tolerances; where there is none, in parts of the largest.
CLASSES = (1e-2, 1e-1, 1.0, 10.0, 100.0, math.inf)
PARTS = (1e-4, 1e-3, 1e-2, 1e-1, 0.5, 1.0)
LEGEND = ("≤ 0.01", "≤ 0.1", "≤ 1", "≤ 10", "≤ 100", "> 100")
PARTS_LEGEND = ("≤ 1e-4", "≤ 1e-3", "≤ 0.01", "≤ 0.1", "≤ 0.5", "≤ 1")


def pictures(leaf: LeafResult) -> Iterator[Markup]:
    """Those that there are data for; none of a leaf that did not move."""
    if not leaf.moved:
        return
    if sum(leaf.histogram.values()) > 1:
        yield _histogram(leaf.histogram)
    sample = leaf.sample
    if sample and sample.by_position:
        yield _heat_map(sample) if len(sample.by_position) > 1 else _line(sample, leaf)
    if sample and len(sample.golden) > 1:
        yield _scatter(sample)
    if leaf.error_to_truth:
        yield _errors(leaf.error_to_truth, leaf.eps)


def _figure(caption: str, label: str, *drawn: Child, height: int = HEIGHT) -> Markup:
    """`label` is what the picture says, for those who do not see it."""
    image = element("svg", *drawn, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=f"{caption}: {label}")
    return element("figure", image, element("figcaption", caption))


def _text(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return element("text", text, x=round(x, 1), y=round(y, 1), text_anchor=anchor)


def _path(points: str, class_: str) -> Markup:
    return element("path", d=points, class_=class_)


def _rect(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    numbers = {"x": round(x, 1), "y": round(y, 1), "width": round(width, 1), "height": round(height, 1)}
    return element("rect", **numbers, class_=class_)


def _histogram(classes: dict[str, int]) -> Markup:
    """How many elements are how far from the golden, in tolerances; heights are logarithmic, one is still seen."""
    most = math.log1p(max(classes.values()))
    step = (WIDTH - 8) / len(classes)
    bars: list[Markup] = []
    for number, (label, count) in enumerate(classes.items()):
        middle = 4 + step * (number + 0.5)
        tall = (HEIGHT - TOP - BOTTOM - 6) * math.log1p(count) / most
        kind = "within" if label in WITHIN else "beyond"
        if count:
            bars.append(_rect(middle - step * 0.4, HEIGHT - BOTTOM - tall, step * 0.8, tall, kind))
            bars.append(_text(middle, HEIGHT - BOTTOM - tall - 3, _short(count)))
        bars.append(_text(middle, HEIGHT - 10, label.replace("<=", "≤").replace("nonfinite", "NaN/inf")))
    said = ", ".join(f"{count:,} {label}" for label, count in classes.items() if count)
    return _figure("elements by error, in tolerances", said, bars)


def _short(count: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            return f"{count / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{count:,}"


def _measure(sample: Sample) -> str:
    return "error in tolerances" if sample.measure == "violation ratio" else "difference"


def _line(sample: Sample, leaf: LeafResult) -> Markup:
    """The largest error over the position; logarithmic, from the smallest that is not 0."""
    (values,) = sample.by_position
    known = [value for value in values if 0 < value < words.INFINITE] or [1.0]
    low, high = min(known), max(known)
    if sample.measure == "violation ratio":
        low, high = min(low, 0.1), max(high, 10.0)
    scale = _Log(low, high)
    step = (WIDTH - LEFT - 8) / len(values)
    bottom = HEIGHT - BOTTOM
    drawn: list[Markup] = [*_ticks(scale)]
    for kind in ("within", "beyond"):
        bars = ""
        for number, value in enumerate(values):
            beyond = value > 1 or sample.measure == "difference"
            if value and beyond == (kind == "beyond"):
                bars += f"M{LEFT + step * (number + 0.1):.1f} {bottom}V{scale(value):.1f}h{step * 0.8:.1f}V{bottom}z"
        if bars:
            drawn.append(_path(bars, kind))
    if sample.measure == "violation ratio":
        drawn.append(_path(f"M{LEFT} {scale(1.0):.1f}H{WIDTH - 8}", "limit"))
    drawn.append(_path(f"M{LEFT} {bottom}H{WIDTH - 8}", "axis"))
    drawn += [_text(LEFT, HEIGHT - 8, "0", "start"), _text(WIDTH - 8, HEIGHT - 8, f"{leaf.size - 1:,}", "end")]
    largest = max(range(len(values)), key=values.__getitem__)
    said = f"largest {words.measure(values[largest])}, in bin {largest + 1} of {len(values)}"
    return _figure(f"{_measure(sample)}, over position", said, drawn)


class _Log:
    """Numbers to heights; what is 0 or infinite lies at an end."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = math.log10(low), math.log10(max(high, low * 10))
        self.bottom, self.top = HEIGHT - BOTTOM, TOP

    def __call__(self, value: float) -> float:
        at = (math.log10(value) - self.low) / (self.high - self.low) if value > 0 else 0.0
        return self.bottom - (self.bottom - self.top) * min(max(at, 0.02), 1.0)


def _ticks(scale: _Log) -> Iterator[Markup]:
    """At powers of ten, some three of them."""
    first, last = math.ceil(scale.low), math.floor(scale.high)
    every = max(1, math.ceil((last - first) / 3))
    for power in range(first, last + 1, every):
        yield _text(LEFT - 4, scale(10.0**power) + 3, f"{10.0**power:g}", "end")


def _heat_map(sample: Sample) -> Markup:
    """The largest error over the position, rows downwards; one path for each class of colour."""
    rows = sample.by_position
    down, across = len(rows), len(rows[0])
    tall = HEIGHT - 18
    cell = min((WIDTH - 90) / across, tall / down)
    finite = [value for row in rows for value in row if value < words.INFINITE]
    bounds: tuple[float, ...] = CLASSES
    if sample.measure == "difference":
        largest = max(finite, default=1.0) or 1.0
        bounds = (*(part * largest for part in PARTS[:-1]), math.inf)
    cells = [_cells(rows, kind, bounds) for kind in range(len(bounds))]
    coloured = [_path(points, f"heat-{kind}") for kind, points in enumerate(cells) if points]
    drawn: list[Markup] = [_rect(0, 0, cell * across, cell * down, "heat-none")]
    drawn.append(element("g", coloured, transform=f"scale({cell:.2f})"))
    legend = PARTS_LEGEND if sample.measure == "difference" else LEGEND
    for kind, label in enumerate(("0", *legend)):
        y = 8 + kind * 20
        drawn.append(_rect(WIDTH - 74, y, 14, 14, f"heat-{kind - 1}" if kind else "heat-none"))
        drawn.append(_text(WIDTH - 54, y + 11, label, "start"))
    unit = "in parts of the largest" if sample.measure == "difference" else "in tolerances"
    beyond = sum(value > 1 for row in rows for value in row)
    said = f"{beyond} of {down * across} bins beyond 1" if sample.measure != "difference" else unit
    return _figure(f"error {unit}, over rows and columns", said, drawn)


def _cells(rows: Sequence[Sequence[float]], kind: int, bounds: Sequence[float]) -> str:
    """A path around the cells of one class, neighbours in a row as one; what is 0 is in none."""
    path = ""
    for y, row in enumerate(rows):
        x = 0
        for same, run in groupby(bisect_left(bounds, value) == kind and value > 0 for value in row):
            length = len(list(run))
            if same:
                path += f"M{x} {y}h{length}v1h-{length}z"
            x += length
    return path


def _scatter(sample: Sample) -> Markup:
    """Golden across, actual upwards: what did not move lies on the diagonal."""
    low, high = min(sample.golden + sample.actual), max(sample.golden + sample.actual)
    span = (high / 2 - low / 2) * 2 or abs(high) or 1.0
    side, bottom = HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM
    points = ""
    for old, new in zip(sample.golden, sample.actual, strict=True):
        x, y = (min(max(value / span - low / span, 0.0), 1.0) for value in (old, new))
        points += f"M{LEFT + side * x:.0f} {bottom - side * y:.0f}h0"
    drawn = [
        _rect(LEFT, TOP, side, side, "frame"),
        _path(f"M{LEFT} {bottom}l{side} -{side}", "limit"),
        _path(points, "points"),
        _text(LEFT, HEIGHT - 10, words.measure(low), "start"),
        _text(LEFT + side, HEIGHT - 10, words.measure(high)),
        _text(LEFT - 4, bottom, words.measure(low), "end"),
        _text(LEFT - 4, TOP + 8, words.measure(high), "end"),
        _text(LEFT + side + 8, bottom, "golden →", "start"),
        _text(LEFT + side + 8, TOP + 8, "↑ actual", "start"),
    ]
    said = f"{len(sample.golden)} elements between {words.measure(low)} and {words.measure(high)}"
    return _figure("golden and actual, element by element", said, drawn)


def _errors(errors: ErrorToTruth, eps: float | None) -> Markup:
    """Two bars, logarithmic: how far from the truth it was and is, and the dtype's own precision."""
    found = [errors.golden, errors.actual]
    known = [value for value in (*found, eps or 0.0) if 0 < value < words.INFINITE] or [1.0]
    low, high = math.log10(min(known)) - 1, math.log10(max(known))
    wide = WIDTH - LEFT - 76

    def length(value: float) -> float:
        return wide * (min(max((math.log10(value) - low) / (high - low), 0.01), 1.0) if value else 0.005)

    drawn: list[Markup] = []
    for number, (name, value) in enumerate(zip(("golden", "actual"), found, strict=True)):
        y = 12 + number * 30
        kind = "beyond" if number and errors.actual > errors.golden else "within"
        drawn += [_text(LEFT - 4, y + 14, name, "end"), _rect(LEFT, y, length(value), 20, kind)]
        drawn.append(_text(WIDTH - 8, y + 14, words.measure(value), "end"))
    if eps:
        x = LEFT + length(eps)
        drawn += [_path(f"M{x:.1f} 6V74", "limit"), _text(x, 86, f"eps {eps:.2g}")]
    said = f"golden {words.measure(errors.golden)}, actual {words.measure(errors.actual)}"
    return _figure("error to the truth, relative", said, drawn, height=92)


def latencies(named: Sequence[tuple[str, Latency]]) -> Markup:
    """Of each distribution a box from the median to p90 with a line from the fastest to the slowest call."""
    fastest, slowest = min(one.min for _, one in named), max(one.max for _, one in named)
    wide = WIDTH - LEFT - 12

    def at(seconds: float) -> float:
        return LEFT + wide * ((seconds - fastest) / (slowest - fastest) if slowest > fastest else 0.5)

    drawn: list[Markup] = []
    for number, (name, one) in enumerate(named):
        y = 8 + number * 34
        drawn += [
            _text(LEFT - 4, y + 14, name, "end"),
            _path(f"M{at(one.min):.1f} {y + 10}H{at(one.max):.1f}", "axis"),
            _rect(at(one.p50), y + 1, max(at(one.p90) - at(one.p50), 1.5), 18, "within"),
            _path(f"M{at(one.p50):.1f} {y - 2}v24M{at(one.p99):.1f} {y + 4}v12", "median"),
        ]
    end = 8 + len(named) * 34 + 10
    drawn += [_text(LEFT, end, duration(fastest), "start"), _text(WIDTH - 12, end, duration(slowest), "end")]
    said = "; ".join(f"{name} median {duration(one.p50)}, p90 {duration(one.p90)}" for name, one in named)
    return _figure("seconds a call: fastest, median to p90, p99, slowest", said, drawn, height=end + 8)
