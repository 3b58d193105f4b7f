"""Charts as SVG, without a plotting library: lines with bands, and labelled points; as PNG where matplotlib is."""

from __future__ import annotations

import hashlib
import io
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 220, 40, 55
_TAG = 0.03  # of an axis, which the number of a point takes
# Distinct for most forms of colour blindness (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_LONGEST_STEM = 60  # characters: at most 240 bytes of UTF-8, where file systems take 255 with an ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line: points (x, y), the ends of its band at each (or none), and whether it is dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] = ()
    dashed: bool = False
    colour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its label, its ends, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def position(self, value: float) -> float:
        """The position of a value along the axis, 0 at `low` and 1 at `high`."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        if self.logarithmic:
            return [10.0**power for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        step = 10.0 ** math.floor(math.log10(self.high - self.low))
        step = next(step * part for part in (0.1, 0.2, 0.5, 1.0) if (self.high - self.low) / (step * part) <= 10)  # noqa: PLR2004
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def axis_of(label: str, values: Sequence[float], *, logarithmic: bool = False) -> Axis:
    """An axis that holds all values."""
    if not values or (logarithmic and min(values) <= 0):
        raise UsageError(f"nothing to draw along {label!r}: {'no values' if not values else 'a value is not above 0'}")
    low, high = min(values), max(values)
    if logarithmic:
        bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return Axis(label=label, low=10.0**bottom, high=10.0 ** max(top, bottom + 1), logarithmic=True)
    room = (high - low) * 0.05 or max(abs(high), 1.0) * 0.05
    return Axis(label=label, low=low - room, high=high + room)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of lines, or of named points (name, x above 0 on a logarithmic axis, y)."""

    title: str
    across: str
    up: str
    series: Sequence[Series] = ()
    points: Sequence[tuple[str, float, float]] = ()

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """The axes across and up, which hold all that is drawn."""
        points = [point for line in self.series for point in line.points] + [(px, py) for _, px, py in self.points]
        ends = [end for line in self.series for band in line.band for end in band]
        across = axis_of(self.across, [px for px, _ in points], logarithmic=bool(self.points))
        return across, axis_of(self.up, [*(py for _, py in points), *ends])

    def tags(self) -> list[tuple[float, float, str]]:
        """The numbers beside points: those that would be written over each other are one tag, as in "3, 7"."""
        x, y = self.axes
        found: list[tuple[float, float, list[str]]] = []
        for number, (_, px, py) in enumerate(self.points, start=1):
            for nx, ny, numbers in found:
                if max(abs(x.position(px) - x.position(nx)), abs(y.position(py) - y.position(ny))) < _TAG:
                    numbers.append(str(number))
                    break
            else:
                found.append((px, py, [str(number)]))
        return [(px, py, ", ".join(numbers)) for px, py, numbers in found]

    def svg(self) -> str:
        """The chart as SVG."""
        x, y = self.axes
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        grid = []
        for tick in x.ticks():
            px = LEFT + (right - LEFT) * x.position(tick)
            grid.append(
                f'<line x1="{px:.1f}" y1="{TOP}" x2="{px:.1f}" y2="{bottom}" stroke="#ddd"/>'
                f'<text x="{px:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:,.12g}</text>'
            )
        for tick in y.ticks():
            py = TOP + (bottom - TOP) * (1 - y.position(tick))
            grid.append(
                f'<line x1="{LEFT}" y1="{py:.1f}" x2="{right}" y2="{py:.1f}" stroke="#ddd"/>'
                f'<text x="{LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{round(tick, 10):g}</text>'
            )
        middle, height = (LEFT + right) / 2, (TOP + bottom) / 2
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
            '<g font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            f'<text x="{LEFT}" y="{TOP - 16}" font-size="14">{escape(self.title)}</text>',
            *grid,
            f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}" fill="none" stroke="#444"/>',
            f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(x.label)}</text>',
            f'<text transform="translate(18 {height}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>',
            *self._drawn(x, y),
            "</g>",
            "</svg>",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _drawn(self, x: Axis, y: Axis) -> Iterator[str]:
        """Lines with their bands and names; points with their tags and names."""
        beside = WIDTH - RIGHT + 15
        for number, line in enumerate(self.series):
            colour = COLOURS[line.colour % len(COLOURS)]
            dash = ' stroke-dasharray="6 4"' if line.dashed else ""
            stroke = f'stroke="{colour}" stroke-width="2"{dash}'
            if line.band:
                upper = [(px, high) for (px, _), (_, high) in zip(line.points, line.band, strict=True)]
                lower = [(px, low) for (px, _), (low, _) in zip(line.points, line.band, strict=True)]
                edge = _path([*upper, *reversed(lower)], x, y)
                yield f'<polygon points="{edge}" fill="{colour}" fill-opacity="0.12"/>'
            yield f'<polyline points="{_path(line.points, x, y)}" fill="none" {stroke}/>'
            height = TOP + 12 + 20 * number
            yield (
                f'<line x1="{beside}" y1="{height}" x2="{beside + 26}" y2="{height}" {stroke}/>'
                f'<text x="{beside + 32}" y="{height + 4}">{escape(line.name)}</text>'
            )
        for number, (name, px, py) in enumerate(self.points, start=1):
            left, top = _path([(px, py)], x, y).split(",")
            colour = COLOURS[(number - 1) % len(COLOURS)]
            height = TOP + 12 + min(20, (HEIGHT - TOP - 20) // len(self.points)) * (number - 1)
            yield (
                f'<circle cx="{left}" cy="{top}" r="5" fill="{colour}"><title>{escape(name)}</title></circle>'
                f'<text x="{beside}" y="{height + 4}" fill="{colour}">{number} {escape(name)}</text>'
            )
        for px, py, tag in self.tags():
            left, top = _path([(px, py)], x, y).split(",")
            yield f'<text x="{left}" y="{top}" dx="7" dy="-5" font-size="11">{tag}</text>'

    def png(self) -> bytes | None:
        """The chart as PNG; None without matplotlib."""
        try:
            library: Any = import_module("matplotlib.figure")  # optional
        except ImportError:
            return None
        figure = library.Figure(figsize=(7.6, 4.6), dpi=200, layout="constrained")
        axes = figure.add_subplot()
        for line in self.series:
            colour, (xs, ys) = COLOURS[line.colour % len(COLOURS)], zip(*line.points, strict=True)
            axes.plot(xs, ys, "--" if line.dashed else "-", color=colour, label=_plain(line.name))
            if line.band:
                axes.fill_between(xs, *zip(*line.band, strict=True), color=colour, alpha=0.12, linewidth=0)
        for number, (name, x, y) in enumerate(self.points, start=1):
            axes.scatter([x], [y], color=COLOURS[(number - 1) % len(COLOURS)], label=_plain(f"{number} {name}"))
        if self.points:
            for x, y, tag in self.tags():
                axes.annotate(tag, (x, y), xytext=(5, 5), textcoords="offset points", fontsize=8)
            axes.set_xscale("log")
        axes.set_title(_plain(self.title), loc="left", fontsize=10)
        axes.set_xlabel(_plain(self.across))
        axes.set_ylabel(_plain(self.up))
        axes.grid(color="#ddd")
        figure.legend(loc="outside right upper", fontsize=8)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", metadata={"Software": None})
        return stream.getvalue()


def _path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return " ".join(f"{LEFT + wide * x.position(px):.1f},{TOP + tall * (1 - y.position(py)):.1f}" for px, py in points)


def file_stems(names: Sequence[str]) -> dict[str, str]:
    """Distinct, readable names for files, without an ending, and the same in every run.

    A name with other characters than letters, digits, `_` and `-`, or equal to another but for case, gets its digest.
    """
    composed = {name: unicodedata.normalize("NFC", name) for name in names}
    folded = Counter(text.casefold() for text in composed.values())
    stems = {}
    for name, text in composed.items():
        stem = re.sub(r"[^\w-]+", "_", text)[:_LONGEST_STEM]
        if stem != name or folded[text.casefold()] > 1:
            stem += f"-{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
        stems[name] = stem
    return stems


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formulas."""
    return text.replace("$", r"\$")
